"""How fast is reading? tagloom.read against pyconll on one CoNLL-U file, in one run.

    python benchmarks/reading.py [FILE.conllu]

Without a file a synthetic corpus is written and read, and the table says so. Both run in turn, on
one thread; the figures are CPU seconds of this process, the best of several runs. pyconll parses
all ten columns into objects; tagloom keeps the rows and splits the other columns when they are
asked for, so another row asks for every column of every sentence.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import tagloom as tl


def write_synthetic(folder: str) -> Path:
    path = Path(folder) / "synthetic.conllu"
    corpus = tl.datasets.synthetic(n_tokens=200_000, random_state=0)
    with path.open("w", encoding="utf-8") as file:
        for sentence in corpus:
            for i, (token, label) in enumerate(
                zip(sentence.tokens, sentence.labels, strict=True), start=1
            ):
                file.write(f"{i}\t{token}\t_\t{label}\t_\t_\t_\t_\t_\t_\n")
            file.write("\n")
    return path


def read_columns(path: Path) -> int:
    return sum(len(sentence.columns["form"]) for sentence in tl.read(path, label="upos"))


def read_pyconll(path: Path) -> int:
    import pyconll

    # A row such as "3-4" is a multiword token: its words follow.
    corpus = pyconll.load_from_file(str(path))
    return sum(not token.is_multiword() for sentence in corpus for token in sentence)


def best_of(jobs: dict[str, Callable[[], int]], repeats: int) -> dict[str, tuple[float, int]]:
    """Run the jobs in turn; return the best CPU time of each, and the tokens it read."""
    results: dict[str, tuple[float, int]] = {}
    for _ in range(repeats):
        for name, job in jobs.items():
            begun = time.process_time()
            n_tokens = job()
            seconds = time.process_time() - begun
            results[name] = min(results.get(name, (seconds, n_tokens)), (seconds, n_tokens))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.file or write_synthetic(folder)
        jobs = {
            "tagloom.read": lambda: tl.read(path, label="upos").n_tokens,
            "tagloom.read, all columns": lambda: read_columns(path),
        }
        try:
            import pyconll  # noqa: F401  only to see whether it is there
        except ImportError:
            print("pyconll is not installed: pip install pyconll")
        else:
            jobs["pyconll"] = lambda: read_pyconll(path)
        results = best_of(jobs, options.repeats)
    print(f"{path.name}{'' if options.file else ' (synthetic)'}")
    slowest = max(seconds for seconds, _ in results.values())
    for name, (seconds, n_tokens) in results.items():
        rate, ratio = n_tokens / seconds / 1e6, slowest / seconds
        print(f"{name:28} {n_tokens:9,} tokens {seconds:7.3f} s {rate:6.2f} M/s {ratio:6.1f}x")


if __name__ == "__main__":
    main()
