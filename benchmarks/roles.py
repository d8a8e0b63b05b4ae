"""Semantic roles on PropBank: the pipeline step by step, global training, and the sequence view.

    python benchmarks/roles.py --data DIR [--part dev] [--epochs 4] [--systems pipeline sequence]

DIR has a folder ewt-propbank with train.jsonl, dev.jsonl and test.jsonl: tokens, gold trees and
frames. Settings were chosen on dev (--part dev). Scores are those of exact spans with roles; times
are CPU seconds of this process on one thread, from sentences to a trained model, and of labelling.

The sequence view labels the words of a sentence with BIO tags, once for each predicate: a CRF over
words, tags, and the path of each word to the predicate in the tree. Its constraint, each of ARG0,
ARG1 and ARG2 at most once, is an automaton; a path that satisfies it is the best one under it, so
only the others are decoded again. It is trained and scored on verbs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.update(OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", OMP_NUM_THREADS="1")

import tagloom as tl
from tagloom.evaluation import evaluate_roles
from tagloom.models.role_data import Lemmas, encode
from tagloom.sequences import Argument, Frame, FrameSentence, read_frames

VERB = "VERB"
PARTS = ("pipeline", "rolesets", "sequence")
SYSTEMS = {
    "each candidate alone": ("local", "independent"),
    "no overlap": ("local", "no-overlap"),
    "all constraints": ("local", "constraints"),
    "global training": ("global", "constraints"),
}


def candidate_recall(labeller: tl.RoleLabeller, sentences: list[FrameSentence]) -> dict[str, float]:
    """Share of gold arguments of verbs among the candidates, before and after the filter."""
    frames = [(s, frame) for s in sentences for frame in s.frames]
    scored = labeller.scored(sentences)
    lemmas = labeller._fitted.lemmas
    indptr, start, end = encode(sentences, labeller.tags, lemmas, rolesets=False).candidates()
    found = {"all": (indptr, start, end), "kept": (scored.indptr, scored.start, scored.end)}
    result = {}
    for name, (ptr, starts, ends) in found.items():
        n_gold = n_found = n_spans = n_frames = 0
        for f, (sentence, frame) in enumerate(frames):
            if sentence.columns["upos"][frame.predicate] != VERB:
                continue
            rows = slice(int(ptr[f]), int(ptr[f + 1]))
            spans = set(zip(starts[rows].tolist(), ends[rows].tolist(), strict=True))
            n_gold += len(frame.arguments)
            n_found += sum((a.start, a.end) in spans for a in frame.arguments)
            n_spans += len(spans)
            n_frames += 1
        result[name] = n_found / n_gold
        result[f"{name}_per_frame"] = n_spans / n_frames
    return result


def with_arguments(
    sentences: list[FrameSentence], arguments: list[list[list[Argument]]]
) -> list[FrameSentence]:
    """Return sentences with predicted arguments."""
    return [
        s.with_frames(
            replace(frame, arguments=tuple(found))
            for frame, found in zip(s.frames, of_sentence, strict=True)
        )
        for s, of_sentence in zip(sentences, arguments, strict=True)
    ]


def score(
    name: str,
    gold: list[FrameSentence],
    predicted: list[FrameSentence],
    train_s: float,
    label_s: float,
) -> dict[str, Any]:
    """Print and return a row: scores of verbs and of all predicates."""
    every = evaluate_roles(gold, predicted, n_bootstrap=0)
    verbs = evaluate_roles(*(only_verbs(side) for side in (gold, predicted)))
    low, high = verbs.intervals["f1"]
    row = {
        "system": name,
        "precision": verbs.precision,
        "recall": verbs.recall,
        "f1": verbs.f1,
        "interval": [low, high],
        "illegal": verbs.n_illegal,
        "frames": verbs.n_frames,
        "f1_all": every.f1,
        "illegal_all": every.n_illegal,
        "train_s": train_s,
        "label_s": label_s,
    }
    print(
        f"{name:34} verbs P {100 * verbs.precision:.2f} R {100 * verbs.recall:.2f} "
        f"F1 {100 * verbs.f1:.2f} ({100 * low:.2f}-{100 * high:.2f}), illegal {verbs.n_illegal} of "
        f"{verbs.n_frames:,}; all F1 {100 * every.f1:.2f}, illegal {every.n_illegal}; "
        f"train {train_s:.1f} s, label {label_s:.2f} s",
        flush=True,
    )
    return row


def only_verbs(sentences: Sequence[FrameSentence]) -> list[FrameSentence]:
    """Return sentences with the frames of verbs only."""
    return [
        s.with_frames(f for f in s.frames if s.columns["upos"][f.predicate] == VERB)
        for s in sentences
    ]


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result and its CPU time."""
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


def measure_pipeline(
    train: list[FrameSentence], test: list[FrameSentence], epochs: int
) -> dict[str, Any]:
    """Train locally and globally; score every kind of inference."""
    rows: list[dict[str, Any]] = []
    labellers: dict[str, tuple[tl.RoleLabeller, float]] = {}
    for name, (training, inference) in SYSTEMS.items():
        if training not in labellers:
            labeller = tl.RoleLabeller(training=training, max_iterations=epochs, n_threads=1)
            _, seconds = timed(lambda model=labeller: model.fit(train))
            labellers[training] = labeller, seconds
        labeller, train_s = labellers[training]
        if not rows:
            recall = candidate_recall(labeller, test)
            print(
                f"candidates of verbs: recall {100 * recall['all']:.2f}, "
                f"{recall['all_per_frame']:.1f} a frame; after the filter "
                f"{100 * recall['kept']:.2f}, {recall['kept_per_frame']:.1f} a frame"
            )
        found, label_s = timed(lambda m=labeller, how=inference: m.predict(test, inference=how))
        rows.append(score(name, test, with_arguments(test, found), train_s, label_s))
    return {"candidates": recall, "rows": rows}


# ---- the sequence view ---------------------------------------------------------------------------

FEATURES = [
    "lower[-2..2]",
    "suffix(2..3)",
    "shape",
    "col(xpos)[-2..2]",
    "col(path)",
    "col(path) & col(lemma)",
    "col(path) & col(voice)",
    "col(up)",
    "col(up) & col(lemma)",
    "col(up)[-1] & col(up)",
    "col(side) & lower",
    "col(side) & col(relation)",
    "col(near)",
    "lower & col(lemma)",
]


def as_sequence(sentence: FrameSentence, frame: Frame, lemma: str) -> tuple[tl.Sentence, list[str]]:
    """Return the words with columns about a predicate, and their BIO labels."""
    T, p = len(sentence.tokens), frame.predicate
    heads, relations = sentence.heads, sentence.deprels
    chain = [p]
    while heads[chain[-1]]:
        chain.append(heads[chain[-1]] - 1)
    is_passive = any(heads[t] == p + 1 and relations[t].endswith(":pass") for t in range(T))
    paths, tops = [], []
    for t in range(T):
        up, a, top = [], t, "-"
        while a not in chain:
            up.append(relations[a])
            top = relations[a]
            a = heads[a] - 1
            if a < 0:
                break
        down = [relations[x] for x in chain[: chain.index(a)]] if a >= 0 else ["root"]
        paths.append("/".join(up[:4]) + "|" + "\\".join(down[:4]))
        tops.append(top + "|" + "\\".join(down[:4]))  # shared by the words of a subtree
    columns = {
        "xpos": sentence.columns["xpos"],
        "relation": relations,
        "path": paths,
        "up": tops,
        "lemma": [lemma] * T,
        "voice": ["passive" if is_passive else "active"] * T,
        "side": ["at" if t == p else "before" if t < p else "after" for t in range(T)],
        "near": [str(max(-5, min(5, t - p))) for t in range(T)],
    }
    labels = ["O"] * T
    for start, end, role in frame.arguments:
        labels[start:end] = ["B-" + role] + ["I-" + role] * (end - start - 1)
    return tl.Sentence(sentence.tokens, columns=columns), labels


def once(names: list[str], roles: Sequence[str]) -> tl.StateSpace:
    """Return the space of BIO paths with each of these roles at most once."""
    space = tl.StateSpace.bio(names)
    for role in roles:
        # A state is a label, and whether the role was seen.
        edges, state_labels = [], [*names, *names]
        Y = len(names)
        for seen in (0, 1):
            for a in range(Y):
                for b, name in enumerate(names):
                    if name != f"B-{role}":
                        edges.append((seen * Y + a, seen * Y + b))
                    elif not seen:
                        edges.append((a, Y + b))
        starts = [Y + b if name == f"B-{role}" else b for b, name in enumerate(names)]
        space = space & tl.StateSpace.from_edges(names, state_labels, edges, initial=starts)
    return space


def measure_sequence(
    train: list[FrameSentence], test: list[FrameSentence], epochs: int
) -> list[dict[str, Any]]:
    """Train the CRF on verbs; score it without and with the constraint."""
    lemmas = Lemmas.learn(train)

    def sequences(sentences: list[FrameSentence]) -> tuple[list[tl.Sentence], list[list[str]]]:
        pairs = [
            as_sequence(s, frame, lemmas.of(s.tokens[frame.predicate]))
            for s in only_verbs(sentences)
            for frame in s.frames
        ]
        return [x for x, _ in pairs], [y for _, y in pairs]

    X, y = sequences(train)
    tagger = tl.CRF(features=FEATURES, constraints="bio", max_iterations=epochs, n_threads=1)
    _, train_s = timed(lambda: tagger.fit(X, y))
    X_test, _ = sequences(test)
    labels, label_s = timed(lambda: tagger.predict(X_test, n_threads=1))
    labels = [list(one) for one in labels]
    rows = [score_labels("BIO, CRF", test, labels, train_s, label_s)]
    core = [role for role in ("ARG0", "ARG1", "ARG2") if f"B-{role}" in tagger.labels_]

    def constrained() -> list[list[str]]:
        space = once(tagger.labels_.tolist(), core)
        result = [list(one) for one in labels]
        for i, one in enumerate(labels):
            if any(one.count(f"B-{role}") > 1 for role in core):
                chain = tagger.trellis(X_test[i : i + 1])[0]
                parts = chain.emit, chain.trans, chain.start, chain.stop
                path = tl.Trellis(*parts, states=space).viterbi().path
                result[i] = [str(tagger.labels_[k]) for k in path]
        return result

    found, more_s = timed(constrained)
    rows.append(score_labels("BIO, CRF, core roles once", test, found, train_s, label_s + more_s))
    return rows


def score_labels(
    name: str, test: list[FrameSentence], labels: list[list[str]], train_s: float, label_s: float
) -> dict[str, Any]:
    """Score BIO labels of verbs."""
    gold = only_verbs(test)
    spans = iter(
        [[Argument(s.start, s.end, s.type) for s in tl.labels.to_spans(one)] for one in labels]
    )
    predicted = with_arguments(gold, [[next(spans) for _ in s.frames] for s in gold])
    return score(name, gold, predicted, train_s, label_s)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("TAGLOOM_DATA"))
    parser.add_argument("--part", choices=("dev", "test"), default="test")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--sentences", type=int, default=None, help="of the training file")
    parser.add_argument("--systems", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--out", type=Path, default=None, help="write roles.json to this folder")
    options = parser.parse_args(arguments)
    if options.data is None:
        print("No corpus: pass --data DIR or set TAGLOOM_DATA. Nothing was measured.")
        return
    folder = Path(options.data) / "ewt-propbank"
    train = read_frames(folder / "train.jsonl")[: options.sentences]
    test = read_frames(folder / f"{options.part}.jsonl")
    result: dict[str, Any] = {"part": options.part, "machine": platform.machine(), "rows": []}
    if "pipeline" in options.systems:
        result |= measure_pipeline(train, test, options.epochs)
    if "rolesets" in options.systems:
        labeller = tl.RoleLabeller(rolesets=True, max_iterations=options.epochs, n_threads=1)
        _, train_s = timed(lambda: labeller.fit(train))
        found, label_s = timed(lambda: labeller.predict(test))
        name = "global training, gold rolesets"
        result["rows"].append(score(name, test, with_arguments(test, found), train_s, label_s))
    if "sequence" in options.systems:
        result["rows"] += measure_sequence(train, test, options.epochs)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "roles.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
