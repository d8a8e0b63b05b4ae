"""Parts of speech from words alone: hidden Markov models that see no labels, scored against gold.

    python benchmarks/induction.py --data DIR [--quick] [--parts clusters beam dictionary]

The words are the training sentences of English EWT, and scores are those of the same tokens, which
is usual for induction. States are compared with UPOS (17 states) and with XPOS (45 states) by
many-to-one accuracy, one-to-one accuracy and V-measure, in percent. Figures are means over seeds
(five, in a quick run one); no run is chosen by gold labels. Gibbs sampling and the log-linear model
run as long as their defaults say: 500 sweeps, 200 iterations. The objective of the last step, the
means of which are comparable for one algorithm and number of states, is that of the learner.

Dictionary: a tag dictionary lists the labels of each word. *transductive*: every label ever seen
with the word in the same data, as in the literature. *split half*: the dictionary comes from one
half of the labels, the scores are those of the other half, where words without an entry may have
every label; the most frequent label of each word, from the same half, is the baseline.

Seconds are CPU time of `fit` on one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

os.environ.update(OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", OMP_NUM_THREADS="1")

import tagloom as tl

RESULTS = Path(__file__).parent / "results"
EWT = Path("ud-english-ewt") / "train.conllu"
PARTS = ("clusters", "beam", "dictionary")
GIVEN = {"alpha": 0.1, "beta": 0.01}

Rows = list[list[str]]
# (states or dictionary, algorithm) -> least scores, and most seconds
GOALS: dict[tuple[Any, Any], dict[str, float]] = {
    (17, "Gibbs, α 0.1, β 0.01"): {"many-to-one": 59, "one-to-one": 46, "V": 45, "seconds": 6},
    (45, "Gibbs, α 0.1, β 0.01"): {"many-to-one": 59, "V": 51, "seconds": 9},
    (17, "log-linear"): {"V": 47},
    (45, "log-linear"): {"many-to-one": 62, "V": 57},
    ("transductive", "EM, 30 iterations"): {"accuracy": 85.0, "seconds": 0.6},
}


def algorithms(n_states: int) -> dict[str, Callable[[], dict[str, Any]]]:
    """Return the parameters of HMM for each contestant; made when they are needed."""
    return {
        "Gibbs, α 0.1, β 0.01": lambda: {"algorithm": tl.learners.Gibbs(**GIVEN)},
        "Gibbs, α, β sampled": lambda: {"algorithm": tl.learners.Gibbs()},
        "EM": lambda: {"algorithm": tl.learners.EM(100 if n_states < 40 else 80)},
        "VB": lambda: {
            "algorithm": tl.learners.VB(100 if n_states < 40 else 60),
            "emissions": tl.emissions.Categorical(prior=0.01),
            "prior": 0.1,
        },
        "log-linear": lambda: {
            "algorithm": tl.learners.Gradient(),
            "emissions": tl.emissions.LogLinear(),
        },
    }


def fit(words: Rows, **parameters: Any) -> tuple[Any, float]:
    began = time.process_time()
    hmm = tl.HMM(**parameters, n_threads=1).fit(words)
    return hmm, time.process_time() - began


def cluster_scores(gold: Rows, predicted: Any) -> dict[str, float]:
    found = tl.evaluate_clusters(gold, predicted)
    return {
        "many-to-one": 100 * found.many_to_one,
        "one-to-one": 100 * found.one_to_one,
        "V": 100 * found.v_measure,
    }


def average(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: mean(run[name] for run in runs) for name in runs[0]}


def measure_clusters(
    words: Rows, gold: dict[int, Rows], seeds: int, only: Sequence[str]
) -> list[dict[str, Any]]:
    rows = []
    for n_states, labels in gold.items():
        for name, make in algorithms(n_states).items():
            if only and name not in only:
                continue
            try:
                parameters = make()
            except AttributeError as error:  # this tagloom does not have it
                print(f"{name} is not measured: {error}", file=sys.stderr)
                continue
            runs = []
            for seed in range(seeds):
                hmm, seconds = fit(words, n_states=n_states, random_state=seed, **parameters)
                runs.append(cluster_scores(labels, hmm.predict(words)) | {"seconds": seconds})
                runs[-1]["objective"] = hmm.history_[-1].objective
                print(n_states, name, seed, runs[-1], file=sys.stderr, flush=True)
            rows.append({"states": n_states, "algorithm": name, "seeds": len(runs)} | average(runs))
    return rows


def measure_beam(words: Rows, gold: Rows, sweeps: int) -> list[dict[str, Any]]:
    algorithm = tl.learners.Beam(sweeps)
    hmm, seconds = fit(words, n_states="infinite", algorithm=algorithm, random_state=0)
    row = {"states": len(hmm.labels_), "algorithm": f"beam, {sweeps} sweeps", "seeds": 1}
    print("states by sweep:", hmm.training_["n_states"], file=sys.stderr)
    return [row | cluster_scores(gold, hmm.predict(words)) | {"seconds": seconds}]


# ---- dictionaries ------------------------------------------------------------------------


def count_tags(words: Rows, gold: Rows) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for sentence, labels in zip(words, gold, strict=True):
        for word, label in zip(sentence, labels, strict=True):
            counts[word][label] += 1
    return counts


def accuracy(gold: Rows, predicted: Any) -> float:
    pairs = [
        (a, b)
        for row, other in zip(gold, predicted, strict=True)
        for a, b in zip(row, other, strict=True)
    ]
    return 100 * sum(a == b for a, b in pairs) / len(pairs)


def measure_dictionary(words: Rows, gold: Rows) -> list[dict[str, Any]]:
    labels = sorted({label for row in gold for label in row})
    rows = []
    halves = {
        "transductive": ((words, gold), (words, gold)),
        "split half": ((words[::2], gold[::2]), (words[1::2], gold[1::2])),
    }
    for setting, (source, target) in halves.items():
        counts = count_tags(*source)
        entries = {word: sorted(tags) for word, tags in counts.items()}
        most_common = Counter(label for row in source[1] for label in row).most_common(1)[0][0]
        baseline = [
            [counts[w].most_common(1)[0][0] if w in counts else most_common for w in sentence]
            for sentence in target[0]
        ]
        learners = {
            "EM, 30 iterations": tl.learners.EM(30),
            "Gibbs, 200 sweeps": tl.learners.Gibbs(200, **GIVEN, average=50),
        }
        for name, algorithm in learners.items():
            hmm, seconds = fit(
                target[0],
                labels=labels,
                constraints=tl.TagDictionary(entries=entries),
                algorithm=algorithm,
                random_state=0,
            )
            score = accuracy(target[1], hmm.predict(target[0]))
            rows.append({"dictionary": setting, "learner": name, "accuracy": score})
            rows[-1]["seconds"] = seconds
        score = accuracy(target[1], baseline)
        name = "most frequent label, with its counts"
        rows.append({"dictionary": setting, "learner": name, "accuracy": score, "seconds": 0.0})
    return rows


# ---- the report --------------------------------------------------------------------------


def table(rows: Sequence[dict[str, Any]]) -> str:
    names = list(rows[0])
    cells = [
        [f"{row[n]:.1f}" if isinstance(row[n], float) else str(row[n]) for n in names]
        for row in rows
    ]
    lines = [names, ["---"] * len(names), *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def judge(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Compare the means with the goals of the project."""
    lines = []
    for row in rows:
        key = row.get("states", row.get("dictionary")), row.get("algorithm", row.get("learner"))
        for name, goal in GOALS.get(key, {}).items():
            is_met = row[name] <= goal if name == "seconds" else row[name] >= goal
            sign = "≤" if name == "seconds" else "≥"
            what = f"{key[0]} states" if "states" in row else str(key[0])
            measured = f"{name} {row[name]:.1f}, goal {sign} {goal}"
            lines.append(f"- {what}, {key[1]}: {measured}: {'met' if is_met else 'NOT met'}")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("TAGLOOM_DATA"))
    parser.add_argument("--quick", action="store_true", help="one seed, 50 sweeps of beam")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--only", nargs="+", default=[], help="names of algorithms")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="folder for induction.md and induction.json")
    options = parser.parse_args(arguments)
    if options.data is None or not (Path(options.data) / EWT).exists():
        print(f"No {EWT} in --data (or $TAGLOOM_DATA). Nothing was measured.")
        return
    path = Path(options.data) / EWT
    upos, xpos = (tl.read(path, label=label) for label in ("upos", "xpos"))
    words = [list(sentence.tokens) for sentence in upos]
    gold = {17: upos.labels, 45: xpos.labels}
    seeds = 1 if options.quick else options.seeds
    report: dict[str, list[dict[str, Any]]] = {}
    if "clusters" in options.parts:
        report["clusters"] = measure_clusters(words, gold, seeds, options.only)
    if "beam" in options.parts:
        report["infinite HMM"] = measure_beam(words, gold[45], 50 if options.quick else 300)
    if "dictionary" in options.parts:
        report["dictionary, UPOS"] = measure_dictionary(words, gold[17])
    parts = [f"## {name}\n\n{table(rows)}" for name, rows in report.items() if rows]
    goals = judge([row for rows in report.values() for row in rows])
    text = "\n\n".join(["# Induction of parts of speech", *parts, "\n".join(goals)]).strip() + "\n"
    print(text)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "induction.md").write_text(text, encoding="utf-8")
        data = json.dumps(report, indent=1, ensure_ascii=False)
        (options.out / "induction.json").write_text(data + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
