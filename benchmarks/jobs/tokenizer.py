"""Split raw text into tokens with their places, one thread: the ``# text`` lines of the training
part, or its tokens with blanks between them if it has none. tagloom gives arrays of places (cuts),
and sentences with tokens and places; nltk gives the places of one sentence after another, and
needs the sentences.
"""

from pathlib import Path

from harness import Bench, Contestant, Goal, Job

CUTS, SENTENCES = "places of tokens", "sentences with tokens and places"
FIRST = "places of tokens, the first time"  # pieces of text that were cut before are remembered
LEAST = 1.0  # seconds


def texts(bench: Bench) -> list[str]:
    path: Path = bench.folder / "train.conllu"
    lines = path.read_text(encoding="utf-8").splitlines()
    given = [line.removeprefix("# text = ") for line in lines if line.startswith("# text = ")]
    return given or [" ".join(row) for row in bench.train.tokens]


def tagloom(bench: Bench, preset: str) -> None:
    import tagloom as tl

    text = " ".join(texts(bench))
    tokenizer = tl.Tokenizer(preset)
    n = len(tokenizer.offsets(text))

    def cut(cutter: tl.text.Cutter) -> int:
        return sum(len(cuts.starts) for cuts in tl.text.blocks(text, cutter))

    cutter = tl.text.PRESETS[preset]()
    bench.time(FIRST, lambda: cut(cutter), n, "tokens")
    bench.time(CUTS, lambda: cut(cutter), n, "tokens", least=LEAST)
    bench.time(SENTENCES, lambda: len(tokenizer.split(text)), n, "tokens", least=LEAST)
    bench.value("tokens", n)


def nltk(bench: Bench) -> None:
    from nltk.tokenize import NLTKWordTokenizer

    tokenizer = NLTKWordTokenizer()
    rows = texts(bench)[:2000]
    n = sum(len(tokenizer.tokenize(row)) for row in rows)
    bench.time(CUTS, lambda: [*map(list, map(tokenizer.span_tokenize, rows))], n, "tokens")


JOB = Job(
    "Split raw text",
    [
        Contestant("tagloom", lambda bench: tagloom(bench, "rules")),
        Contestant("tagloom, whitespace", lambda bench: tagloom(bench, "whitespace")),
        Contestant("tagloom, characters", lambda bench: tagloom(bench, "characters")),
        Contestant("nltk", nltk, needs="nltk"),
    ],
    [
        Goal(
            "tokens per second, rules",
            lambda found: 1 / found.cpu("tagloom", CUTS),
            at_least=1e6,
            unit="tokens/s",
        ),
        Goal("beside nltk", lambda found: found.times("nltk", CUTS), at_least=5),
    ],
)
