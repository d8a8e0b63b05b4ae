"""Accuracy and speed of the dependency parser on a treebank, and of trees beside torch-struct.

    python benchmarks/parsing.py --data DIR [--part dev] [--loss svm] [--order 2] [--epochs 10]
        [--labelling joint] [--tags predicted]
    python benchmarks/parsing.py --trees

DIR has a folder ud-english-ewt with train.conllu, dev.conllu and test.conllu. The parser is trained
on train.conllu; the epoch is chosen on dev.conllu. Tags are gold, or predicted by our CRF with its
defaults: on train.conllu by cross-fitting, each fifth by taggers of the other four, elsewhere by
taggers of all of it. With predicted tags the parser is also scored on gold tags. With --order 1 the
script counts the sentences whose heads do not form a tree if each word takes its best head alone.
Choose settings with --part dev.

``--trees`` measures 25-word sentences beside torch-struct, both in float32 on one thread, by CPU
time in one run.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tagloom as tl
from tagloom.evaluation import evaluate_trees
from tagloom.trellis.trees import crossing_arcs, has_cycle


def tag_columns(
    train: list[Any], others: Sequence[list[Any]], folds: int = 5
) -> tuple[list[Any], list[list[Any]]]:
    """Replace the tags of sentences by those of CRFs; on train by cross-fitting in blocks."""

    def tagged(learn: list[Any], sentences: Sequence[list[Any]]) -> list[list[Any]]:
        X = [list(s.tokens) for s in learn]
        columns = [
            (
                name,
                tl.CRF(n_threads=1).fit(X, [s.columns[name] for s in learn]),
            )
            for name in ("xpos", "upos")
        ]
        return [
            [
                tl.Sentence(list(s.tokens), columns={**s.columns, **dict(new)})
                for s, *rows in zip(
                    part,
                    *(tagger.predict([list(s.tokens) for s in part]) for _, tagger in columns),
                    strict=True,
                )
                for new in [list(zip(("xpos", "upos"), rows, strict=True))]
            ]
            for part in sentences
        ]

    fitted: list[Any] = []
    for k in range(folds):
        low, high = (len(train) * j // folds for j in (k, k + 1))
        fitted += tagged(train[:low] + train[high:], [train[low:high]])[0]
    return fitted, tagged(train, others)


def print_scores(test: list[Any], parses: list[Any], title: str) -> None:
    """Print UAS and LAS with intervals."""
    result = evaluate_trees(test, parses)
    scores = (
        f"{name.upper()}  {100 * getattr(result, name):.2f}  "
        f"({100 * result.intervals[name][0]:.2f}-{100 * result.intervals[name][1]:.2f})"
        for name in ("uas", "las")
    )
    print(f"{title}: {', '.join(scores)}", flush=True)


def measure_parser(
    folder: Path, part: str, loss: str, order: int, epochs: int, labelling: str, tags: str
) -> None:
    """Train, parse, and print scores, intervals and CPU times."""
    train, dev, test = (
        list(tl.read(folder / f"{x}.conllu", label="deprel")) for x in ("train", "dev", part)
    )
    gold_tags = test
    if tags == "predicted":
        began = time.process_time()
        train, (dev, test) = tag_columns(train, [dev, test])
        print(f"tagging {time.process_time() - began:.0f} s CPU")
        for name in ("xpos", "upos"):
            right = [
                a == b
                for s, g in zip(test, gold_tags, strict=True)
                for a, b in zip(s.columns[name], g.columns[name], strict=True)
            ]
            print(f"{name} {100 * np.mean(right):.2f} on {part}", flush=True)
    began = time.process_time()
    parser = tl.DependencyParser(
        loss=loss, order=order, max_iterations=epochs, labelling=labelling, n_threads=1
    ).fit(train, dev=dev)
    seconds = time.process_time() - began
    began = time.process_time()
    parses = parser.predict(test)
    rate = len(test) / (time.process_time() - began)
    print(
        f"{folder.name} {part}, loss {loss}, order {order}, labels {labelling}, tags {tags}, "
        f"epoch {parser.training_['best_iteration']}"
    )
    print_scores(test, parses, f"{tags} tags")
    if tags == "predicted":
        print_scores(test, parser.predict(gold_tags), "the same parser on gold tags")
    print(f"training {seconds:.0f} s CPU with dev scores, parsing {rate:,.0f} sentences/s\n")
    if order > 1:
        return
    trees = parser.trees(test)
    alone = [
        arcs[:, : len(arcs) + 1].argmax(axis=1).tolist()
        for arcs in trees.split(_without_own(trees.arcs, trees.offsets))
    ]
    gold = [[int(h) for h in sentence.columns["head"]] for sentence in test]
    for name, heads in (("alone", alone), ("trees", [p.heads for p in parses]), ("gold", gold)):
        right = np.mean(np.concatenate(heads) == np.concatenate(gold))
        print(
            f"{name}: UAS {100 * right:.2f}, {sum(map(has_cycle, heads))} with a cycle, "
            f"{sum(h.count(0) != 1 for h in heads)} without exactly one root, "
            f"{sum(bool(crossing_arcs(h)) for h in heads)} with crossing arcs of {len(heads)}"
        )


def _without_own(arcs: Any, offsets: Any) -> Any:
    """Forbid each word as its own head."""
    arcs = arcs.copy()
    lengths = np.diff(offsets)
    within = np.arange(len(arcs)) - np.repeat(offsets[:-1], lengths)
    arcs[np.arange(len(arcs)), within + 1] = -np.inf
    return arcs


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


def measure_trees(N: int = 32, T: int = 25) -> None:
    """Print CPU times of sums over projective trees beside torch-struct."""
    import torch
    import torch_struct

    class Dependencies(torch_struct.DependencyCRF):
        arg_constraints = {}  # noqa: RUF012  # torch asks for it, torch-struct 0.5 lacks it

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    arcs = rng.standard_normal((N, T, T + 1)).astype(np.float32)
    scores = arcs[:, :, 1:].transpose(0, 2, 1).copy()
    scores[:, np.arange(T), np.arange(T)] = arcs[:, :, 0]
    batch = tl.TreeScores(arcs.reshape(N * T, T + 1), offsets=np.arange(N + 1) * T, n_threads=1)

    def peer() -> Any:
        # torch-struct 0.5 writes into its argument, which torch allows only for a copy.
        return Dependencies(torch.tensor(scores, requires_grad=True).clone(), multiroot=False)

    assert np.allclose(batch.log_partition(), peer().partition.detach().numpy(), rtol=1e-4)
    for name, ours, theirs in (
        ("log_partition", batch.log_partition, lambda: peer().partition),
        ("marginals", batch.marginals, lambda: peer().marginals),
        ("viterbi", batch.viterbi, lambda: peer().argmax),
    ):
        a, b = cpu_time(ours), cpu_time(theirs)
        print(f"{name}: tagloom {1e3 * a:.3f} ms, torch-struct {1e3 * b:.1f} ms, {b / a:.0f}x")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The dependency parser on a treebank.")
    parser.add_argument("--data", type=Path, default=os.environ.get("TAGLOOM_DATA"))
    parser.add_argument("--part", choices=("dev", "test"), default="test")
    parser.add_argument("--loss", default="svm")
    parser.add_argument("--order", type=int, choices=(1, 2), default=2)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--labelling", choices=("second", "joint"), default="second")
    parser.add_argument("--tags", choices=("gold", "predicted"), default="gold")
    parser.add_argument("--trees", action="store_true", help="measure trees beside torch-struct")
    options = parser.parse_args(arguments)
    if options.trees:
        measure_trees()
        return
    if options.data is None:
        print("No treebank: pass --data DIR or set TAGLOOM_DATA. Nothing was measured.")
        return
    measure_parser(
        Path(options.data) / "ud-english-ewt",
        options.part,
        options.loss,
        options.order,
        options.epochs,
        options.labelling,
        options.tags,
    )


if __name__ == "__main__":
    main()
