"""Small corpora with features of the user's own: CRF beside perceptron and L-BFGS, by folds.

    python benchmarks/small.py [--data DIR] [--packages DIR] [--sets uner english] [--out DIR]

Every sentence is a list of dicts. Sets in DIR of --data are parts of the corpora that
benchmarks/accuracy.py describes, with the features of the tutorial of sklearn-crfsuite or with the
16 strings per token of harness/features.py. Persons, companies and addresses are labelled data of
probablepeople and usaddress, with their own features:

    pip install probablepeople usaddress
    pip download --no-deps --no-binary :all: -d DIR probablepeople usaddress   (and unpack both)

The English corpus is part of tagloom. Token accuracy is that of three folds, sentence i in fold
i mod 3. L-BFGS has l1 = 0.1 and l2 = 0.01, as in that tutorial. Calibration is the mean probability
of the predicted label minus the accuracy, in points, and the mean negative log-likelihood of a
token, both of the held-out folds. Seconds are CPU time of training on one thread. The results go to
benchmarks/results/small.md.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.update(OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", OMP_NUM_THREADS="1")

import numpy as np
from harness.features import sent2features

import tagloom as tl

RESULTS = Path(__file__).parent / "results"
FOLDS = 3

Pairs = list[tuple[list[str], list[str]]]  # tokens and labels of each sentence
Features = Callable[[list[str]], Any]


def tutorial(words: list[str]) -> list[dict[str, Any]]:
    """Return dicts as in the tutorial of sklearn-crfsuite."""
    rows = []
    for t, word in enumerate(words):
        row: dict[str, Any] = {"bias": 1.0, "word.lower()": word.lower(), "word[-3:]": word[-3:]}
        row |= {"word[-2:]": word[-2:], "word.isupper()": word.isupper()}
        row |= {"word.istitle()": word.istitle(), "word.isdigit()": word.isdigit()}
        for offset, edge in ((-1, "BOS"), (1, "EOS")):
            if not 0 <= t + offset < len(words):
                row[edge] = True
                continue
            other = words[t + offset]
            row[f"{offset:+}:word.lower()"] = other.lower()
            row[f"{offset:+}:word.istitle()"] = other.istitle()
            row[f"{offset:+}:word.isupper()"] = other.isupper()
        rows.append(row)
    return rows


# ---- sets ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Set:
    """Where sentences come from, which features they get, and how many are drawn."""

    title: str
    source: str  # a file of --data, a file of --packages, or "english"
    features: str  # "tutorial", "strings", or the package with tokens2features
    n_sentences: int | None = None
    label: str | None = None
    used: bool = True  # to choose the defaults
    seed: int = 1


EWT, PEOPLE = "ud-english-ewt/train.conllu", "probablepeople-*/name_data/labeled/"
SETS = {
    "persons": Set("names of persons", PEOPLE + "person_labeled.xml", "probablepeople", seed=0),
    "english": Set("English corpus", "english", "tutorial", 600, "upos"),
    "estonian": Set(
        "Estonian UPOS, 800 sentences",
        "ud-estonian-ewt/train.conllu",
        "tutorial",
        800,
        "upos",
    ),
    "chunks": Set("chunks, 500 sentences", "gum-chunking/train.tsv", "tutorial", 500),
    "upos": Set("EWT UPOS, 800 sentences", EWT, "tutorial", 800, "upos"),
    "uner": Set(
        "names in EWT (UNER), 1,000 sentences",
        "uner-english-ewt-ner/train.tsv",
        "strings",
        1000,
        seed=0,
    ),
    "addresses": Set(
        "addresses, 1,500", "usaddress-*/training/labeled.xml", "usaddress", 1500, seed=0
    ),
    "diseases": Set(
        "diseases (NCBI), 1,000 sentences", "ncbi-disease-ner/train.tsv", "tutorial", 1000
    ),
    "companies": Set(
        "names of companies",
        PEOPLE + "company_labeled.xml",
        "probablepeople",
        used=False,
        seed=0,
    ),
    "estonian-strings": Set(
        "Estonian UPOS, 400 sentences",
        "ud-estonian-ewt/train.conllu",
        "strings",
        400,
        "upos",
        used=False,
        seed=0,
    ),
    "xpos": Set("EWT XPOS, 600 sentences", EWT, "strings", 600, "xpos", used=False, seed=0),
    "wnut": Set(
        "names in WNUT, 1,000 sentences", "wnut17-ner/train.tsv", "tutorial", 1000, used=False
    ),
}


def labelled_xml(path: Path) -> Pairs:
    """Read the files of parserator: the tags of each element are labels, their text is tokens."""
    rows = []
    for element in ET.parse(path).getroot():
        pairs = [(token, tag.tag) for tag in element for token in (tag.text or "").split()]
        if pairs:
            rows.append(([token for token, _ in pairs], [label for _, label in pairs]))
    return rows


def load(one: Set, data: Path | None, packages: Path | None) -> tuple[list[Any], list[list[str]]]:
    """Return the features and labels of a set; FileNotFoundError if it is not there."""
    features: Features = {"tutorial": tutorial, "strings": sent2features}.get(one.features)
    if one.source == "english":
        pairs = sentences(tl.datasets.load("english", "train", label=one.label))
    elif features is None:
        found = sorted(packages.glob(one.source)) if packages else []
        if not found:
            raise FileNotFoundError(f"no {one.source} in --packages")
        features = importlib.import_module(one.features).tokens2features
        pairs = labelled_xml(found[-1])
    else:
        if data is None or not (data / one.source).exists():
            raise FileNotFoundError(f"no {one.source} in --data")
        pairs = sentences(tl.read(data / one.source, label=one.label))
    random.Random(one.seed).shuffle(pairs)
    pairs = pairs[: one.n_sentences]
    return [features(tokens) for tokens, _ in pairs], [labels for _, labels in pairs]


def sentences(corpus: tl.Corpus) -> Pairs:
    return [(list(x), list(y)) for x, y in zip(corpus.tokens, corpus.labels, strict=True) if x]


# ---- measures --------------------------------------------------------------------------

CONTESTANTS: dict[str, Callable[[], Any]] = {
    "CRF": lambda: tl.CRF(features=None, n_threads=1),
    "CRF, margin=0": lambda: tl.CRF(features=None, n_threads=1, margin=0),
    "perceptron": lambda: tl.StructuredPerceptron(features=None, n_threads=1),
    "L-BFGS": lambda: tl.CRF(features=None, n_threads=1, algorithm="lbfgs", l1=0.1, l2=0.01),
}


@dataclass
class Sums:
    """Sums over held-out tokens."""

    n: int = 0
    right: int = 0
    prob: float = 0.0  # of the predicted labels
    loss: float = 0.0  # -log prob of the gold labels
    seconds: float = 0.0

    @property
    def accuracy(self) -> float:
        return 100 * self.right / self.n

    @property
    def calibration(self) -> str:
        return f"{100 * self.prob / self.n - self.accuracy:+.1f}, {self.loss / self.n:.3f}"


def measure(X: list[Any], y: list[list[str]]) -> dict[str, Sums]:
    """Train and score every contestant on three folds."""
    scores = {name: Sums() for name in CONTESTANTS}
    for k in range(FOLDS):
        train = [i for i in range(len(X)) if i % FOLDS != k]
        held = range(k, len(X), FOLDS)
        for name, make in CONTESTANTS.items():
            began = time.process_time()
            tagger = make().fit([X[i] for i in train], [y[i] for i in train])
            scores[name].seconds += time.process_time() - began
            add(scores[name], tagger, [X[i] for i in held], [y[i] for i in held])
    return scores


def add(sums: Sums, tagger: Any, X: list[Any], y: list[list[str]]) -> None:
    """Add the held-out sentences X, with gold labels y."""
    predicted = tagger.predict(X, n_threads=1)
    for found, gold in zip(predicted, y, strict=True):
        sums.n += len(gold)
        sums.right += sum(a == b for a, b in zip(found, gold, strict=True))
    if not hasattr(tagger, "predict_marginals"):
        return
    place = {label: i for i, label in enumerate(tagger.labels_)}
    for probs, found, gold in zip(tagger.predict_marginals(X), predicted, y, strict=True):
        for row, ours, right in zip(probs, found, gold, strict=True):
            sums.prob += row[place[ours]]
            sums.loss -= np.log(max(row[place[right]], 1e-12) if right in place else 1e-12)


def rows(names: Sequence[str], data: Path | None, packages: Path | None) -> Iterator[list[str]]:
    """Yield a row for each set: its title, then the columns of both tables."""
    for name in names:
        one = SETS[name]
        try:
            X, y = load(one, data, packages)
        except (FileNotFoundError, ModuleNotFoundError) as error:
            print(f"{name} was skipped: {error}.", flush=True)
            continue
        scores = measure(X, y)
        better = max(scores["perceptron"].accuracy, scores["L-BFGS"].accuracy)
        yield [
            one.title,
            "yes" if one.used else "no",
            f"{scores['CRF'].n:,}",
            *(f"{scores[name].accuracy:.2f}" for name in CONTESTANTS),
            f"{scores['CRF'].accuracy - better:+.2f}",
            f"{scores['CRF'].seconds / FOLDS:.1f}",
            *(scores[name].calibration for name in ("CRF", "CRF, margin=0", "L-BFGS")),
        ]


HEAD = [
    "",
    "used to choose",
    "tokens",
    *CONTESTANTS,
    "CRF above the better",
    "seconds of CRF",
    "calibration of CRF",
    "of margin=0",
    "of L-BFGS",
]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Small corpora with features of your own.")
    parser.add_argument("--data", type=Path, default=os.environ.get("TAGLOOM_DATA"))
    parser.add_argument("--packages", type=Path)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    data = None if options.data is None else Path(options.data)
    table = [f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
    print("\n".join(table), flush=True)
    for row in rows(options.sets, data, options.packages):
        table.append(f"| {' | '.join(row)} |")
        print(table[-1], flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    text = "\n".join(["# Small corpora with features of the user's own", "", *table, ""])
    (options.out / "small.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
