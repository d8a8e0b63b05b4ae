"""Train n-gram language models: from a text file, a sentence per line, to an ARPA file. Modified
Kneser-Ney smoothing, one thread. KenLM's `lmplz` takes part if the program is in PATH, and its time
is that of the program. nltk counts from lists in memory and writes no file; it smooths while it
scores, so that its time is that of counting alone.
"""

import shutil
import subprocess
from pathlib import Path

from harness import Bench, Contestant, Goal, Job

TRAIN = {order: f"order {order}" for order in (2, 3, 5)}


def text(bench: Bench) -> Path:
    """Return the training text; a blank inside a token becomes `_`, as KenLM splits at blanks."""

    def write(path: Path) -> None:
        rows = ([token.replace(" ", "_") for token in tokens] for tokens in bench.train.tokens)
        path.write_text("".join(" ".join(row) + "\n" for row in rows), encoding="utf-8")

    return bench.artefact("lm-train.txt", write)


def tagloom(bench: Bench) -> None:
    import tagloom as tl

    path = str(text(bench))
    for order, what in TRAIN.items():
        target = bench.folder / "tagloom.arpa"

        def train(order: int = order, target: Path = target) -> tl.NGramModel:
            model = tl.NGramModel(order, n_threads=1).fit_files(path)
            model.to_arpa(target)
            return model

        model = bench.time(what, train, bench.train.n_tokens, "tokens", least=1.0)
        bench.value(f"n-grams, {what}", sum(model.ngram_counts_))


def lmplz(bench: Bench) -> None:
    path, n = text(bench), bench.train.n_tokens
    for order, what in TRAIN.items():
        target = bench.folder / "lmplz.arpa"
        command = [str(shutil.which("lmplz")), "-o", str(order), "-S", "20%"]
        command += ["--text", str(path), "--arpa", str(target), "--discount_fallback"]
        bench.command(what, command, n, "tokens", times=2, stderr=subprocess.DEVNULL)


def nltk(bench: Bench) -> None:
    from nltk.lm import WittenBellInterpolated
    from nltk.lm.preprocessing import padded_everygram_pipeline

    def train() -> WittenBellInterpolated:
        model = WittenBellInterpolated(3)
        model.fit(*padded_everygram_pipeline(3, bench.train.tokens))
        return model

    bench.time(TRAIN[3], train, bench.train.n_tokens, "tokens")


JOB = Job(
    "Train n-gram models",
    [
        Contestant("tagloom", tagloom),
        Contestant("lmplz", lmplz, needs="lmplz"),
        Contestant("nltk", nltk, needs="nltk"),
    ],
    [
        Goal(
            f"CPU time beside lmplz, {what}",
            lambda found, what=what: found.cpu("tagloom", what) / found.cpu("lmplz", what),
            at_most=1.5,
        )
        for what in TRAIN.values()
    ],
)
