"""Segment models beside chains: SemiCRF and CRF on the same span corpora.

    python benchmarks/segments.py --data DIR [--corpora uner wnut ncbi gum] [--folds 3] [--out DIR]
    python benchmarks/segments.py --trellis

For each corpus the CRF with its defaults, the SemiCRF with its defaults, and the SemiCRF with a
lexicon that is built from the names of the training data. The measure is span F1 as in conlleval;
times are CPU seconds of this process on one thread, from sentences to a trained model. With
`--folds`, the scores are those of cross-validation on the training file, and the test file is not
read: this is how the defaults were chosen. Otherwise training is on train, scores are on test.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.update(OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", OMP_NUM_THREADS="1")

import tagloom as tl
from tagloom.features import SEGMENT_PRESETS, Lexicon, SegmentTemplates

RESULTS = Path(__file__).parent / "results"
CORPORA = {
    "uner": ("uner-english-ewt-ner", "ner"),
    "wnut": ("wnut17-ner", "ner"),
    "ncbi": ("ncbi-disease-ner", "ner"),
    "gum": ("gum-chunking", "chunk"),
}


def names_lexicon(X: list[list[str]], y: list[list[str]]) -> Lexicon:
    """Build a lexicon from the spans of sentences; training leaves out those of a sentence."""
    phrases = (
        (" ".join(tokens[span.start : span.end]), span.type)
        for tokens, labels in zip(X, y, strict=True)
        for span in tl.labels.to_spans(labels)
    )
    return Lexicon.counted(phrases, ignore_case=True)


def semicrf(features: str, lexicon: Lexicon | None = None, **options: Any) -> tl.SemiCRF:
    """Make the SemiCRF, with a lexicon if there is one."""
    templates = SEGMENT_PRESETS["phrases"]
    segments: Any = "phrases"
    if lexicon is not None:
        segments = SegmentTemplates([*templates, "lexicon(names)"], lexicons={"names": lexicon})
    return tl.SemiCRF(features=features, segments=segments, n_threads=1, **options)


def contestants(features: str) -> dict[str, Callable[[Any, Any], Any]]:
    """Return the models by name: functions from training data to an unfitted tagger."""
    return {
        "CRF": lambda X, y: tl.CRF(features=features, n_threads=1),
        "SemiCRF": lambda X, y: semicrf(features),
        "SemiCRF + lexicon": lambda X, y: semicrf(features, names_lexicon(X, y)),
    }


def splits(folder: Path, folds: int) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Yield (X, y) to train on and (X, y) to score."""
    train = tl.read(folder / "train.tsv")
    X, y = [list(s) for s in train], [s.labels for s in train]
    if not folds:
        test = tl.read(folder / "test.tsv")
        yield X, y, [list(s) for s in test], [s.labels for s in test]
        return
    for k in range(folds):
        # Blocks of neighbours: sentences of one document share their names.
        held = [i * folds // len(X) == k for i in range(len(X))]
        yield tuple(  # type: ignore[misc]
            [row for row, is_held in zip(rows, held, strict=True) if is_held == want]
            for want in (False, True)
            for rows in (X, y)
        )


def measure(
    folder: Path, features: str, folds: int, chosen: list[str] | None
) -> list[dict[str, Any]]:
    """Train and score every contestant."""
    rows = []
    for name, make in contestants(features).items():
        if chosen is not None and name not in chosen:
            continue
        f1, seconds, tagging = [], 0.0, 0.0
        for X, y, X_test, y_test in splits(folder, folds):
            began = time.process_time()
            tagger = make(X, y).fit(X, y)
            seconds += time.process_time() - began
            began = time.process_time()
            predicted = tagger.predict(X_test, n_threads=1)
            tagging += time.process_time() - began
            f1.append(tl.evaluate(y_test, predicted, spans=True, n_bootstrap=0).f1)
        score = sum(f1) / len(f1)
        rows.append({"model": name, "f1": score, "train_s": seconds, "tag_s": tagging})
        print(
            f"  {name:20} F1 {100 * score:6.2f}   train {seconds:6.2f} s   tag {tagging:5.2f} s",
            flush=True,
        )
    return rows


def cpu_time(work: Callable[[], Any], least: float = 0.5) -> float:
    """Return the CPU time of one call, the best of three rounds."""
    work()
    best = float("inf")
    for _ in range(3):
        began, n = time.process_time(), 0
        while time.process_time() - began < least / 3 or n == 0:
            work()
            n += 1
        best = min(best, (time.process_time() - began) / n)
    return best


def measure_trellis(N: int = 1, T: int = 20, L: int = 10, Y: int = 20) -> None:
    """Print CPU times of segmentations beside torch-struct: T positions, lengths to L, Y labels."""
    import numpy as np
    import torch
    import torch_struct

    class SemiMarkov(torch_struct.SemiMarkovCRF):
        arg_constraints = {}  # noqa: RUF012  # torch asks for it, torch-struct 0.5 lacks it

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((N, T, L, Y)).astype(np.float32)
    for length in range(2, L + 1):  # no segment runs over the end
        scores[:, T - length + 1 :, length - 1] = -np.inf
    trans = rng.standard_normal((Y, Y)).astype(np.float32)
    # The peer's potentials: edge[n, k, to, from], a segment of k positions from n; the first
    # segment follows one label.
    edge = np.full((N, T, L + 1, Y, Y), -1e5, dtype=np.float32)
    edge[:, :, 1:] = np.maximum(scores, -1e5)[..., None]
    edge[:, 1:, 1:] += trans.T
    edge[:, 0, :, :, 1:] = -1e5
    potentials = torch.tensor(edge)
    lengths = torch.full((N,), T + 1)
    flat, offsets = scores.reshape(N * T, L, Y), np.arange(N + 1) * T
    batch = tl.SegmentTrellis(flat, trans, offsets=offsets, n_threads=1)

    def peer() -> Any:
        return SemiMarkov(potentials.clone().requires_grad_(), lengths=lengths)

    assert np.allclose(batch.log_partition(), peer().partition.detach().numpy(), rtol=1e-3)
    for name, ours, theirs in (
        ("log_partition", batch.log_partition, lambda: peer().partition),
        ("marginals", batch.marginals, lambda: peer().marginals),
        ("viterbi", batch.viterbi, lambda: peer().argmax),
    ):
        a, b = cpu_time(ours), cpu_time(theirs)
        print(
            f"{name}: tagloom {1e3 * a:.3f} ms, torch-struct {1e3 * b:.1f} ms, {b / a:.0f}x",
            flush=True,
        )


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default=os.environ.get("TAGLOOM_DATA"), help="folder of corpora")
    parser.add_argument("--corpora", nargs="+", default=list(CORPORA), choices=CORPORA)
    parser.add_argument("--models", nargs="+", default=None, help="some of them only")
    parser.add_argument("--folds", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--trellis", action="store_true", help="beside torch-struct")
    arguments = parser.parse_args()
    if arguments.trellis:
        measure_trellis()
        return
    if not arguments.data:
        raise SystemExit("Pass --data DIR, or set TAGLOOM_DATA to the folder of the corpora.")
    result = {"folds": arguments.folds, "machine": platform.machine(), "corpora": {}}
    for name in arguments.corpora:
        folder, features = CORPORA[name]
        print(name, flush=True)
        result["corpora"][name] = measure(
            Path(arguments.data) / folder, features, arguments.folds, arguments.models
        )
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "segments.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
