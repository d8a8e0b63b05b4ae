"""The sentences of a run: read once by the command, and loaded by every process as plain lists.

A part is written as JSON, which both environments read equally fast. The real corpus is English EWT
in CoNLL-U; without it, a synthetic corpus is used, and every table is marked accordingly.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

PARTS = ("train", "dev", "test")
EWT = "ud-english-ewt"
SYNTHETIC = "synthetic"  # prefix of the name of such a corpus
# Tokens of the synthetic parts; "full" is the size of EWT, "tiny" is for the tests.
SIZES = {
    "full": (204_000, 25_000, 25_000),
    "quick": (51_000, 25_000, 25_000),
    "tiny": (16_000, 2_000, 2_000),
}


@dataclass(frozen=True)
class Part:
    """Sentences as lists of str, with two columns of labels."""

    tokens: list[list[str]]
    upos: list[list[str]]
    xpos: list[list[str]]

    def labels(self, column: str) -> list[list[str]]:
        return {"upos": self.upos, "xpos": self.xpos}[column]

    @cached_property
    def n_tokens(self) -> int:
        return sum(map(len, self.tokens))

    def first(self, n_sentences: int) -> Part:
        return Part(self.tokens[:n_sentences], self.upos[:n_sentences], self.xpos[:n_sentences])

    def pairs(self, column: str) -> list[list[tuple[str, str]]]:
        """Return sentences of (token, label), the form that nltk requires."""
        return [
            list(zip(*pair, strict=True))
            for pair in zip(self.tokens, self.labels(column), strict=True)
        ]


def find(given: Path | None) -> Path | None:
    """Return the folder of real corpora: given, or TAGLOOM_DATA, or beside the repository."""
    if given is not None:
        if not (given / EWT / "train.conllu").exists():
            raise SystemExit(f"--data {given}: the folder has no {EWT}/train.conllu.")
        return given
    beside = Path(__file__).parents[3] / "shared" / "data"
    for folder in (os.environ.get("TAGLOOM_DATA"), beside):
        if folder and (Path(folder) / EWT / "train.conllu").exists():
            return Path(folder)
    return None


def prepare(data: Path | None, folder: Path, size: str) -> str:
    """Write the parts into the folder of a run; return the name of the corpus."""
    if data is None:
        sizes = SIZES[size]
        # In a separate process: the process that starts the contestants should stay small.
        subprocess.run([sys.executable, __file__, str(folder), *map(str, sizes)], check=True)
        return f"{SYNTHETIC}, {sum(sizes):,} tokens"
    for part in PARTS:
        source = data / EWT / f"{part}.conllu"
        target = folder / f"{part}.conllu"
        if part == "train" and size == "quick":
            target.write_text(first_quarter(source.read_text(encoding="utf-8")), encoding="utf-8")
        else:
            target.symlink_to(source.resolve())
        save(read_conllu(target), folder, part)
    return "English EWT" + (", a quarter of its training part" if size == "quick" else "")


def first_quarter(text: str) -> str:
    """Return the first quarter of the sentences, with comments and all columns."""
    sentences = text.rstrip("\n").split("\n\n")
    return "\n\n".join(sentences[: len(sentences) // 4]) + "\n\n"


def read_conllu(path: Path) -> Part:
    """Read words, UPOS and XPOS; rows with IDs such as 3-4 and 5.1 are not words."""
    part = Part([], [], [])
    for sentence in path.read_text(encoding="utf-8").split("\n\n"):
        rows = [row.split("\t") for row in sentence.splitlines() if row and row[0] != "#"]
        words = [row for row in rows if row[0].isdigit()]
        if words:
            part.tokens.append([row[1] for row in words])
            part.upos.append([row[3] for row in words])
            part.xpos.append([row[4] for row in words])
    return part


def write_conllu(part: Part, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for columns in zip(part.tokens, part.upos, part.xpos, strict=True):
            file.write(to_conllu(*columns))


def to_conllu(tokens: list[str], upos: list[str], xpos: list[str]) -> str:
    """Return a sentence as CoNLL-U; the other columns are `_`."""
    rows = zip(tokens, upos, xpos, strict=True)
    lines = [f"{i}\t{x}\t_\t{u}\t{y}\t_\t_\t_\t_\t_\n" for i, (x, u, y) in enumerate(rows, 1)]
    return "".join(lines) + "\n"


def save(part: Part, folder: Path, name: str) -> None:
    (folder / f"{name}.json").write_text(json.dumps(asdict(part)), encoding="utf-8")


def load(folder: Path, name: str) -> Part:
    return Part(**json.loads((folder / f"{name}.json").read_text(encoding="utf-8")))


def draw(
    sizes: tuple[int, ...], n_labels: int
) -> Iterator[tuple[list[list[str]], list[list[str]]]]:
    """Yield slices of one synthetic corpus, as tokens and labels."""
    import tagloom as tl

    corpus = tl.datasets.synthetic(n_tokens=sum(sizes), n_labels=n_labels, vocabulary=20_000)
    begin = 0
    for size in sizes:
        end, n_tokens = begin, 0
        while n_tokens < size and end < len(corpus):
            n_tokens += len(corpus[end])
            end += 1
        part = corpus[begin:end]
        yield [s.tokens for s in part], [list(s.labels) for s in part]
        begin = end


def main() -> None:
    """Write a synthetic corpus: FOLDER and the number of tokens of each part."""
    folder, *given = sys.argv[1:]
    sizes = tuple(map(int, given))
    parts = list(draw(sizes, 49))  # XPOS of EWT has as many labels
    names = sorted({label for _, labels in parts for row in labels for label in row})
    coarse = {label: f"U{i % 17}" for i, label in enumerate(names)}
    for name, (tokens, labels) in zip(PARTS, parts, strict=True):
        upos = [[coarse[label] for label in row] for row in labels]
        part = Part(tokens, upos, labels)
        save(part, Path(folder), name)
        write_conllu(part, Path(folder) / f"{name}.conllu")


if __name__ == "__main__":
    main()
