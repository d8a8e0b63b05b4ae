"""Accuracy of the taggers: CRF and perceptron beside python-crfsuite, on real corpora.

    python benchmarks/accuracy.py --data DIR [--corpora ewt-upos wnut17] [--dev-only] [--out DIR]

Two tables are printed, and written with the machine, commit and versions to
benchmarks/results/accuracy.md and accuracy.json:

    goals    the targets of the project, and whether this run meets them
    scores   every contestant on every corpus, with 95 % intervals and a paired test

Conditions:

- tagloom runs with its defaults and the preset of the task, and uses only the training file.
- python-crfsuite gets the features of its tutorial, and for each corpus the best of its settings
  below, chosen on the development set. No setting of tagloom is chosen here.
- The measure is token accuracy, or for spans micro F1 as in conlleval. p is the probability of a
  difference from the peer at least this large by chance, if the two were equally good (paired,
  approximate randomisation over sentences).
- Times are CPU seconds of this process on one thread, from sentences to a trained model, including
  feature extraction.

`--dev-only` does not read the test files; use it to choose settings.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

os.environ.update(OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", OMP_NUM_THREADS="1")

import pycrfsuite

import tagloom as tl

RESULTS = Path(__file__).parent / "results"
ROOT = Path(__file__).parent.parent
PARTS = ("train", "dev", "test")

Labels = list[list[str]]


# ---- corpora ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """A corpus in DIR/folder/{train,dev,test}.suffix, and the labels to learn from it."""

    name: str
    folder: str
    suffix: str
    label: str
    features: str  # the preset
    measure: str  # "accuracy" or "f1"
    columns: tuple[str, ...] | None = None  # names of the columns, if the format has none
    pos: str | None = None  # column with parts of speech that the taggers may use

    def path(self, data: Path, part: str) -> Path:
        return data / self.folder / f"{part}.{self.suffix}"

    def read(self, data: Path, part: str) -> tl.Corpus:
        return tl.read(self.path(data, part), label=self.label, columns=self.columns)


NER = ("form", "ner")
CHUNKS = ("form", "upos", "pos", "chunk")
TASKS = (
    Task("ewt-upos", "ud-english-ewt", "conllu", "upos", "pos", "accuracy"),
    Task("ewt-xpos", "ud-english-ewt", "conllu", "xpos", "pos", "accuracy"),
    Task("estonian-upos", "ud-estonian-ewt", "conllu", "upos", "pos", "accuracy"),
    Task("gum-chunks", "gum-chunking", "tsv", "chunk", "chunk-pos", "f1", CHUNKS, pos="pos"),
    Task("uner-ewt", "uner-english-ewt-ner", "tsv", "ner", "ner", "f1", NER),
    Task("wnut17", "wnut17-ner", "tsv", "ner", "ner", "f1", NER),
    Task("ncbi-disease", "ncbi-disease-ner", "tsv", "ner", "ner", "f1", NER),
)


# ---- contestants -----------------------------------------------------------------------


class Tagloom:
    """One of our taggers, with its defaults."""

    def __init__(self, name: str, tagger: str) -> None:
        self.name, self.tagger = name, tagger
        self.settings = "defaults"

    def fit(self, task: Task, train: tl.Corpus) -> None:
        self.model = getattr(tl, self.tagger)(features=task.features, n_threads=1).fit(train)

    def predict(self, corpus: tl.Corpus) -> Labels:
        return [list(row) for row in self.model.predict(corpus)]


class Crfsuite:
    """python-crfsuite with one of its settings; unseen transitions are allowed."""

    name = "python-crfsuite"

    def __init__(self, settings: str, algorithm: str, **parameters: float) -> None:
        self.settings, self.algorithm = settings, algorithm
        self.parameters = parameters | {"feature.possible_transitions": True}

    def fit(self, task: Task, train: tl.Corpus) -> None:
        self.pos = task.pos
        trainer = pycrfsuite.Trainer(self.algorithm, verbose=False)
        trainer.set_params(self.parameters)
        for sentence in train:
            trainer.append(sentence_features(sentence, self.pos), sentence.labels)
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "model.crfsuite")
            trainer.train(path)
            self.content = Path(path).read_bytes()
        self.model = pycrfsuite.Tagger()
        self.model.open_inmemory(self.content)  # does not copy: the bytes must stay alive

    def predict(self, corpus: tl.Corpus) -> Labels:
        return [self.model.tag(sentence_features(sentence, self.pos)) for sentence in corpus]


def our_contestants() -> list[Tagloom]:
    return [
        Tagloom("tagloom CRF", "CRF"),
        Tagloom("tagloom perceptron", "StructuredPerceptron"),
    ]


def peer_contestants() -> list[Crfsuite]:
    return [
        Crfsuite("lbfgs, c2=0.1", "lbfgs", c1=0.0, c2=0.1, max_iterations=100),
        Crfsuite("lbfgs, c2=1", "lbfgs", c1=0.0, c2=1.0, max_iterations=100),
        Crfsuite("l1, c1=0.1, c2=0.01", "lbfgs", c1=0.1, c2=0.01, max_iterations=100),
        Crfsuite("l1, c1=1, c2=0.01", "lbfgs", c1=1.0, c2=0.01, max_iterations=100),
        Crfsuite("ap, 10 epochs", "ap", max_iterations=10),
        Crfsuite("ap, 30 epochs", "ap", max_iterations=30),
    ]


def best_settings(report: Path, corpus: str) -> str | None:
    """Return the settings of the peer that an earlier run chose for a corpus."""
    for result in json.loads(report.read_text(encoding="utf-8"))["results"]:
        if result["corpus"] == corpus:
            settings: str = result["contestants"][-1]["settings"]
            return settings
    return None


def sentence_features(sentence: tl.Sentence, pos: str | None) -> pycrfsuite.ItemSequence:
    """Return the features of CRFsuite's tutorial, with parts of speech if given."""
    words = sentence.tokens
    tags = sentence.columns[pos] if pos else None
    return pycrfsuite.ItemSequence([word_features(words, tags, t) for t in range(len(words))])


def word_features(words: Sequence[str], tags: Sequence[str] | None, t: int) -> dict[str, Any]:
    word = words[t]
    features: dict[str, Any] = {
        "bias": 1.0,
        "lower": word.lower(),
        "suffix3": word[-3:],
        "suffix2": word[-2:],
        "isupper": word.isupper(),
        "istitle": word.istitle(),
        "isdigit": word.isdigit(),
    }
    if tags:
        features |= {"pos": tags[t], "pos2": tags[t][:2]}
    for at, outside in ((t - 1, "BOS"), (t + 1, "EOS")):
        if not 0 <= at < len(words):
            features[outside] = True
            continue
        near, side = words[at], f"{at - t:+d}:"
        features |= {
            side + "lower": near.lower(),
            side + "istitle": near.istitle(),
            side + "isupper": near.isupper(),
        }
        if tags:
            features |= {side + "pos": tags[at], side + "pos2": tags[at][:2]}
    return features


# ---- measuring -------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """A trained contestant and its predictions for the other parts of the corpus."""

    contestant: Tagloom | Crfsuite
    seconds: float  # to train, CPU
    predicted: dict[str, Labels]  # by part


def train_and_predict(
    contestant: Tagloom | Crfsuite, task: Task, corpora: dict[str, tl.Corpus]
) -> Run:
    start = time.process_time()
    contestant.fit(task, corpora["train"])
    seconds = time.process_time() - start
    predicted = {
        part: contestant.predict(corpus) for part, corpus in corpora.items() if part != "train"
    }
    return Run(contestant, seconds, predicted)


def measure(task: Task, data: Path, dev_only: bool, peers: Sequence[Crfsuite]) -> dict[str, Any]:
    """Train all contestants on a corpus; the peer's best setting on dev counts."""
    corpora = {part: task.read(data, part) for part in PARTS if not (dev_only and part == "test")}
    ours = [train_and_predict(one, task, corpora) for one in our_contestants()]
    theirs = [train_and_predict(one, task, corpora) for one in peers]
    gold = {part: corpus.labels for part, corpus in corpora.items()}

    spans = task.measure == "f1"

    def record(run: Run) -> dict[str, Any]:
        found: dict[str, Any] = {
            "contestant": run.contestant.name,
            "settings": run.contestant.settings,
            "seconds": run.seconds,
        }
        for part in run.predicted:
            evaluation = tl.evaluate(
                corpora[part], run.predicted[part], spans=spans, train=corpora["train"]
            )
            found[part] = {
                "score": getattr(evaluation, task.measure),
                "interval": list(evaluation.intervals[task.measure]),
                "accuracy_unknown": evaluation.accuracy_unknown,
            }
        return found

    tried = [record(run) for run in theirs]
    at = max(range(len(tried)), key=lambda i: tried[i]["dev"]["score"])
    contestants = [record(run) for run in ours]
    for run, found in zip(ours, contestants, strict=True):
        for part in run.predicted:
            pair = (run.predicted[part], theirs[at].predicted[part])
            found[part]["p_value"] = tl.compare(gold[part], *pair, spans=spans).p_value
    return {
        "corpus": task.name,
        "measure": task.measure,
        "features": task.features,
        "sentences": {part: len(corpus) for part, corpus in corpora.items()},
        "tokens": {part: corpus.n_tokens for part, corpus in corpora.items()},
        "labels": len({y for row in gold["train"] for y in row}),
        "contestants": [*contestants, tried[at]],
        "peer_settings": tried,
    }


# ---- goals -----------------------------------------------------------------------------


def find_goals(results: Sequence[dict[str, Any]], part: str) -> list[dict[str, Any]]:
    """Return the goals, in points or seconds, for the measured corpora."""
    goals = []

    def goal(what: str, value: float, target: float, *, at_most: bool = False) -> None:
        met = value <= target if at_most else value >= target
        goals.append({"goal": what, "value": value, "target": target, "met": met})

    for result in results:
        name = result["corpus"]
        crf, perceptron, peer = result["contestants"]
        points = [100 * one[part]["score"] for one in (crf, perceptron, peer)]
        if name in ("ewt-upos", "ewt-xpos"):
            target = {"ewt-upos": 95.0, "ewt-xpos": 94.6}[name]
            goal(f"{name}: accuracy of the CRF, {part}", points[0], target)
            goal(f"{name}: fit of the CRF, seconds", crf["seconds"], 15, at_most=True)
            below = points[0] - points[1]
            goal(f"{name}: perceptron below the CRF, points", below, 0.2, at_most=True)
        goal(f"{name}: CRF above python-crfsuite, points", points[0] - points[2], 0)
    return goals


# ---- tables ----------------------------------------------------------------------------


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Align the columns of a Markdown table, the first to the left."""
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]

    def join(cells: Sequence[str]) -> str:
        first, *rest = zip(cells, widths, strict=True)
        return "| " + " | ".join([first[0].ljust(first[1]), *(c.rjust(w) for c, w in rest)]) + " |"

    rule = ["-" * widths[0], *("-" * (w - 1) + ":" for w in widths[1:])]
    return "\n".join(join(line) for line in [header, rule, *lines])


def percent(found: dict[str, Any]) -> str:
    low, high = found["interval"]
    return f"{100 * found['score']:.2f} ({100 * low:.1f}–{100 * high:.1f})"


def score_rows(results: Sequence[dict[str, Any]], parts: Sequence[str]) -> Iterable[list[str]]:
    for result in results:
        for one in result["contestants"]:
            p = one[parts[-1]].get("p_value")
            yield [
                result["corpus"],
                result["measure"],
                f"{one['contestant']}, {one['settings']}",
                *(percent(one[part]) for part in parts),
                "" if p is None else f"{p:.4f}",
                f"{one['seconds']:.1f} s",
            ]


def write_report(report: dict[str, Any]) -> str:
    parts = ["dev"] if report["dev_only"] else ["dev", "test"]
    machine, versions = report["machine"], report["versions"]
    goals = [
        [g["goal"], f"{g['value']:.2f}", f"{g['target']:g}", "yes" if g["met"] else "NO"]
        for g in report["goals"]
    ]
    header = ["corpus", "measure", "tagger", *parts, "p", "fit"]
    lines = [
        "# Accuracy",
        "",
        f"`{report['command']}`, {report['date']}, commit {report['commit']}, "
        f"{report['seconds']:.0f} s",
        "",
        f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}; "
        + ", ".join(f"{name} {version}" for name, version in versions.items()),
        "",
        f"## Goals ({parts[-1]})",
        "",
        table(["goal", "found", "target", "met"], goals),
        "",
        "## Scores",
        "",
        "Percent, with 95 % bootstrap intervals; p of a paired randomisation test against "
        f"python-crfsuite on {parts[-1]}; CPU seconds to train on one thread, features included.",
        "",
        table(header, list(score_rows(report["results"], parts))),
        "",
    ]
    skipped = [f"- {name}: {reason}" for name, reason in report["skipped"].items()]
    if skipped:
        lines += ["Not measured:", "", *skipped, ""]
    return "\n".join(lines)


def describe_command(given: Sequence[str], data: Path) -> str:
    """Return the command, with DIR for the folder of the corpora, which differs by machine."""
    words = ["DIR" if Path(word) == Path(data) else word for word in given]
    return shlex.join(["python", "benchmarks/accuracy.py", *words])


def describe_machine() -> dict[str, Any]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": names[0] if names else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def describe_versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    return found | {
        name: importlib.metadata.version(name) for name in ("numpy", "tagloom", "python-crfsuite")
    }


def describe_commit() -> str:
    """Return the commit, marked as dirty if tracked files differ from it."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "unknown: no git"
    return run.stdout.strip() or "unknown: no repository"


# ---- command line ----------------------------------------------------------------------


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=os.environ.get("TAGLOOM_DATA"),
        help="folder of the corpora; by default $TAGLOOM_DATA",
    )
    names = [task.name for task in TASKS]
    parser.add_argument("--corpora", nargs="+", choices=names, default=names)
    parser.add_argument("--dev-only", action="store_true", help="leave the test files unread")
    parser.add_argument("--quick", action="store_true", help="only two settings of the peer")
    parser.add_argument(
        "--settings",
        type=Path,
        metavar="FILE",
        help="accuracy.json of a former run: of the peer, only the settings that were best there",
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for accuracy.json, .md")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = parse_arguments(given)
    if options.data is None:
        print("No corpora: pass --data DIR or set TAGLOOM_DATA. Nothing was measured.")
        return
    begun = time.perf_counter()
    results, skipped = [], {}
    for task in TASKS:
        if task.name not in options.corpora:
            continue
        missing = [p for part in PARTS if not (p := task.path(options.data, part)).exists()]
        if missing:
            skipped[task.name] = f"no {missing[0]}"
            continue
        peers = peer_contestants()[-2:] if options.quick else peer_contestants()
        if options.settings is not None:
            best = best_settings(options.settings, task.name)
            peers = [peer for peer in peers if peer.settings == best] or peers
        results.append(measure(task, options.data, options.dev_only, peers))
        print(f"{task.name} measured", file=sys.stderr)
    if not results:
        print(f"No corpora in {options.data}. Nothing was measured.")
        print("\n".join(f"- {name}: {reason}" for name, reason in skipped.items()))
        return
    report = {
        "command": describe_command(given, options.data),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": describe_commit(),
        "machine": describe_machine(),
        "versions": describe_versions(),
        "dev_only": options.dev_only,
        "seconds": time.perf_counter() - begun,
        "goals": find_goals(results, "dev" if options.dev_only else "test"),
        "results": results,
        "skipped": skipped,
    }
    text = write_report(report)
    print(text)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "accuracy.json"
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    (options.out / "accuracy.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
