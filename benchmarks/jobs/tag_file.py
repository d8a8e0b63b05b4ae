"""Tag 2.5 million tokens from file to file with `tagloom tag` and UPOS labels, on one thread,
including the start of the process and loading the model. One file has a token on each line, the
other is CoNLL-U; both repeat the corpus. Peak memory is that of the larger command. nltk's TnT has
no command and is slow, so it tags only some sentences of the test set, from list to list, without
starting and training; its time is not compared. Wapiti has a command, but is not measured: PyPI has
no wheel of it for Python 3, only bindings (`libwapiti`) as a source archive and as an egg for 2.7.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from harness import Bench, Contestant, Goal, Job, corpora
from harness.models import our_model

TAG = "file to file"


def write(bench: Bench, path: Path, n_tokens: int, form: str) -> None:
    def sentences() -> Iterator[list[str]]:
        while True:
            for part in (bench.train, bench.dev, bench.test):
                yield from part.tokens

    with path.open("w", encoding="utf-8") as file:
        left = n_tokens
        for tokens in sentences():
            tokens = tokens[:left]
            if form == "conllu":
                blank = [["_"] * len(tokens)]
                file.write(corpora.to_conllu(tokens, *blank, *blank))
            else:
                file.write("\n".join(tokens) + "\n\n")
            left -= len(tokens)
            if left == 0:
                return


def tagloom(bench: Bench) -> None:
    model = our_model(bench, "upos")
    command = [str(Path(sys.executable).parent / "tagloom"), "tag", str(model)]
    for name, form, n in [
        (TAG, "conll", 250_000 if bench.quick else 2_500_000),
        ("file to file, CoNLL-U", "conllu", 50_000 if bench.quick else 500_000),
    ]:
        source = bench.artefact(f"raw.{form}", lambda p, n=n, form=form: write(bench, p, n, form))
        target = bench.folder / f"tagged.{form}"
        options = ["-o", str(target), "--n-threads", "1", "--quiet"]
        bench.command(name, [*command, str(source), *options], n, "tokens")
        with target.open(encoding="utf-8") as file:
            # Line by line: this process must stay smaller than the command, see children.peak.
            rows = (line.split() for line in file if line.strip())
            tagged = sum(row[3 if form == "conllu" else 1] != "_" for row in rows)
        if tagged != n:
            raise AssertionError(f"{target.name} has {tagged} tagged lines, expected {n}")


def tnt(bench: Bench) -> None:
    from nltk.tag.tnt import TnT

    tagger = TnT()
    tagger.train(bench.train.pairs("upos"))
    some = bench.test.first(40 if bench.quick else 200)
    bench.time("list to list", lambda: tagger.tagdata(some.tokens), some.n_tokens, "tokens")


JOB = Job(
    "tagloom tag",
    [Contestant("tagloom", tagloom), Contestant("nltk, TnT", tnt, needs="nltk")],
    [
        Goal(
            "tokens per second",
            lambda found: 1 / found.cpu("tagloom", TAG),
            at_least=1e6,
            unit="tokens/s",
        )
    ],
    after=["train_upos"],
)
