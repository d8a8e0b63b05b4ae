"""The models that several jobs use: CRFs by L-BFGS, both sides with the same objective.

Without weights for the first and last label, and with weights for seen combinations only, tagloom's
objective is CRFsuite's: Σ −log Pr(y | x) + l2·‖θ‖², with c2 = l2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.children import Bench
from harness.corpora import Part
from harness.features import TEMPLATES, sent2features

L2 = 1.0
ITERATIONS = 50


def iterations(bench: Bench) -> int:
    return 10 if bench.quick else ITERATIONS


def make_crf(n_iterations: int, n_threads: int = 1, *, l1: float = 0.0, l2: float = L2) -> Any:
    import tagloom as tl

    return tl.CRF(
        TEMPLATES,
        algorithm="lbfgs",
        l1=l1,
        l2=l2,
        boundaries=False,
        constraints=None,
        max_iterations=n_iterations,
        n_threads=n_threads,
    )


def our_model(bench: Bench, column: str) -> Path:
    """Return the file of our CRF, as written by train_upos and train_xpos."""

    def make(path: Path) -> None:
        train = bench.train
        make_crf(iterations(bench)).fit(train.tokens, train.labels(column)).save(path)

    return bench.artefact(f"tagloom-{column}.model", make)


def make_trainer(train: Part, column: str, algorithm: str, **parameters: float) -> Any:
    """Return a trainer of CRFsuite to which the sentences were added."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm, verbose=False)
    trainer.set_params(parameters)
    for tokens, labels in zip(train.tokens, train.labels(column), strict=True):
        trainer.append(sent2features(tokens), labels)
    return trainer


def train_crfsuite(
    train: Part, column: str, n_iterations: int, path: Path, *, l1: float = 0.0, l2: float = L2
) -> Any:
    parameters = {"c1": l1, "c2": l2, "max_iterations": n_iterations, "epsilon": 1e-9}
    parameters |= {"delta": 1e-9}  # prevents early stopping
    trainer = make_trainer(train, column, "lbfgs", **parameters)
    trainer.train(str(path))
    return trainer


def crfsuite_model(bench: Bench, column: str) -> Path:
    """Return the file of CRFsuite's CRF, as written by train_upos and train_xpos."""

    def make(path: Path) -> None:
        train_crfsuite(bench.train, column, iterations(bench), path)

    return bench.artefact(f"crfsuite-{column}.model", make)


def open_crfsuite(path: Path) -> Any:
    import pycrfsuite

    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    return tagger


def accuracy(gold: list[list[str]], predicted: list[list[str]]) -> float:
    pairs = [pair for rows in zip(gold, predicted, strict=True) for pair in zip(*rows, strict=True)]
    return sum(a == b for a, b in pairs) / len(pairs)
