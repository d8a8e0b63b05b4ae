"""Expectation maximisation without labels: an iteration of Baum-Welch over the words of the
training data, 45 states, one thread, and the same with a tag dictionary, where each word has the
XPOS tags that it is ever seen with.

All contestants start from the same random model, without a stop, which hmmlearn does not have, and
maximise the likelihood. An iteration is an M-step and an E-step; that of hmmlearn is a `fit` with
one iteration. hmmlearn in log space, which takes ten times as long, gets an eighth of the
sentences; time per token is compared.
"""

from functools import partial
from typing import Any

from harness import Bench, Contestant, Goal, Job

ITERATION, DICTIONARY = "iteration", "iteration with a tag dictionary"
SINGLE, LOG = "tagloom, float32", "hmmlearn, log"
STATES = 45
LEAST = 1.0


def sentences(bench: Bench, part: int = 1) -> list[list[str]]:
    tokens: list[list[str]] = list(bench.train.tokens)
    return tokens[: 1000 if bench.quick else len(tokens) : part]


def start_values(V: int) -> tuple[Any, Any, Any]:
    import numpy as np

    rng = np.random.default_rng(0)
    trans = rng.dirichlet(np.ones(STATES), STATES)
    return rng.dirichlet(np.ones(STATES)), trans, rng.dirichlet(np.ones(V), STATES)


def tagloom(bench: Bench, dtype: str) -> None:
    import numpy as np

    import tagloom as tl
    from tagloom.scores.markov import MarkovChain

    X = sentences(bench)
    symbols = sorted({word for x in X for word in x})
    start, trans, emit = start_values(len(symbols))
    names = [str(y) for y in range(STATES)]
    emission = tl.emissions.Categorical.from_probs(names, symbols, emit, prior=1)
    data = emission.encode(X)
    problem = tl.learners.Unlabelled(
        data,
        data.offsets,
        emission,
        chain=MarkovChain.from_probs(start, (trans,), None),
        has_stop=False,
        n_threads=1,
        dtype=np.dtype(dtype),
    )
    learner = tl.learners.EM(tolerance=0).start(problem, seed=0)
    first = learner.step()
    bench.time(ITERATION, learner.step, problem.n_tokens, "tokens", least=LEAST)
    bench.value("log-likelihood after one iteration", round(first.objective, 1))
    if dtype == "float64":
        time_dictionary(bench, X)


def time_dictionary(bench: Bench, X: list[list[str]]) -> None:
    import tagloom as tl

    tags: dict[str, set[str]] = {}
    for words, row in zip(bench.train.tokens, bench.train.xpos, strict=True):
        for word, tag in zip(words, row, strict=True):
            tags.setdefault(word, set()).add(tag)
    names = sorted(set().union(*tags.values()))
    number = {name: y for y, name in enumerate(names)}
    emission = tl.emissions.Categorical().bind(names)
    data = emission.encode(X)
    lists = [sorted(number[tag] for tag in tags[word]) for x in X for word in x]
    problem = tl.learners.Unlabelled(
        data, data.offsets, emission, candidates=listed(lists), n_threads=1
    )
    learner = tl.learners.EM(tolerance=0).start(problem, seed=0)
    learner.step()
    bench.time(DICTIONARY, learner.step, problem.n_tokens, "tokens", least=LEAST)


def listed(lists: list[list[int]]) -> Any:
    import numpy as np

    import tagloom as tl

    indptr = np.cumsum([0] + [len(row) for row in lists])
    label_ids = np.array([y for row in lists for y in row], dtype=np.int32)
    return tl.learners.CandidateLabels(indptr.astype(np.int64), label_ids)


def hmmlearn(bench: Bench, implementation: str, part: int) -> None:
    import numpy as np
    from hmmlearn.hmm import CategoricalHMM

    X = sentences(bench, part)
    symbols = sorted({word for x in sentences(bench) for word in x})
    number = {word: v for v, word in enumerate(symbols)}
    joined = np.array([[number[word]] for x in X for word in x])
    lengths = [len(x) for x in X]
    model = CategoricalHMM(STATES, implementation=implementation, n_iter=1, init_params="")
    model.n_features = len(symbols)
    start, trans, emit = start_values(len(symbols))
    model.startprob_, model.transmat_, model.emissionprob_ = start, trans, emit
    model.fit(joined, lengths)
    if part == 1:
        score = model.score(joined, lengths)
        bench.value("log-likelihood after one iteration", round(score, 1))
    bench.time(ITERATION, lambda: model.fit(joined, lengths), len(joined), "tokens", least=LEAST)


def milliseconds(found: Any) -> float:
    """Time of an iteration with a tag dictionary."""
    return float(1000 * found.measure("tagloom", DICTIONARY)["cpu"]["best"])


JOB = Job(
    "Baum-Welch",
    [
        Contestant("tagloom", partial(tagloom, dtype="float64")),
        Contestant(SINGLE, partial(tagloom, dtype="float32")),
        Contestant(
            "hmmlearn", partial(hmmlearn, implementation="scaling", part=1), needs="hmmlearn"
        ),
        Contestant(LOG, partial(hmmlearn, implementation="log", part=8), needs="hmmlearn"),
    ],
    [
        Goal("iteration beside hmmlearn", lambda f: f.times("hmmlearn", ITERATION), at_least=20),
        Goal(
            "iteration in float32 beside hmmlearn",
            lambda f: f.times("hmmlearn", ITERATION, SINGLE),
            at_least=28,
        ),
        Goal(
            "iteration in float32 beside hmmlearn in log space",
            lambda f: f.times(LOG, ITERATION, SINGLE),
            at_least=250,
        ),
        Goal("iteration with a tag dictionary", milliseconds, at_most=15, unit=" ms"),
    ],
)
