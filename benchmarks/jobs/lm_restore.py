"""Decode with n-gram models, one thread. Restore: words of the first 700 test sentences are
replaced by gaps at random, 10, 25 and 50 % of those that the vocabulary has; a bigram model of the
training text fills all gaps of a sentence at once, exactly. The share of gaps that get their word
back. True-casing: the test text in small letters; the candidates of a word are all forms that the
training text has of it, and words that it does not have stay small. The share of right words. No
peer does either at this vocabulary.
"""

from collections import Counter, defaultdict

from harness import Bench, Contestant, Goal, Job

# % of gaps -> name, and % restored, at least
NOISE = {10: ("10 % gaps", 24.0), 25: ("25 % gaps", 21.5), 50: ("50 % gaps", 17.0)}
CASING = {2: "true-casing, order 2", 3: "true-casing, order 3"}


def restore(bench: Bench) -> None:
    import numpy as np

    import tagloom as tl

    model = tl.NGramModel(2, n_threads=1).fit(bench.train.tokens)
    vocabulary = set(model.vocabulary_)
    model.restore(["the", None])  # the automaton is made once
    bench.value("words", len(vocabulary))
    for share, (what, _) in NOISE.items():
        rng = np.random.default_rng(0)
        rows = []
        for tokens in bench.test.tokens[:700]:
            is_gap = [
                drawn < share / 100 and token in vocabulary
                for token, drawn in zip(tokens, rng.random(len(tokens)), strict=True)
            ]
            rows.append([None if gap else token for gap, token in zip(is_gap, tokens, strict=True)])
        n = sum(token is None for row in rows for token in row)
        restored = bench.time(
            what, lambda r=rows: [model.restore(row) for row in r], n, "gaps", least=1.0
        )
        triples = (
            triple
            for columns in zip(rows, bench.test.tokens[:700], restored, strict=True)
            for triple in zip(*columns, strict=True)
        )
        right = sum(gold == word for token, gold, word in triples if token is None)
        bench.value(what, round(100 * right / n, 2))


def casing(bench: Bench) -> None:
    import tagloom as tl

    forms: dict[str, Counter[str]] = defaultdict(Counter)
    for tokens in bench.train.tokens:
        for token in tokens:
            forms[token.lower()][token] += 1
    lattices = [
        [list(forms[word]) if (word := token.lower()) in forms else word for token in tokens]
        for tokens in bench.test.tokens
    ]
    for order, name in CASING.items():
        model = tl.NGramModel(order, n_threads=1).fit(bench.train.tokens)
        model.decode(["the"]).tokens  # noqa: B018  the automaton is made once
        written = bench.time(
            name,
            lambda m=model: [m.decode(lattice).tokens for lattice in lattices],
            bench.test.n_tokens,
            "tokens",
        )
        right = sum(
            a == b
            for row, gold in zip(written, bench.test.tokens, strict=True)
            for a, b in zip(row, gold, strict=True)
        )
        bench.value(name, round(100 * right / bench.test.n_tokens, 2))


def tagloom(bench: Bench) -> None:
    restore(bench)
    casing(bench)


JOB = Job(
    "Restore gaps and capitals",
    [Contestant("tagloom", tagloom)],
    [
        *(
            Goal(
                f"restored at {what}",
                lambda found, what=what: found.value("tagloom", what),
                at_least=target,
                unit="%",
            )
            for what, target in NOISE.values()
        ),
        *(
            Goal(
                f"time per gap at {what}",
                lambda found, what=what: found.cpu("tagloom", what),
                at_most=0.2e-3,
                unit="s",
            )
            for what, _ in NOISE.values()
        ),
        Goal(
            "true-casing",
            lambda found: max(found.value("tagloom", name) for name in CASING.values()),
            at_least=88.5,
            unit="%",
        ),
    ],
)
