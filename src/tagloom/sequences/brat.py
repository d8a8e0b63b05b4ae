"""brat: annotations in ``doc.ann``, which refer to characters of the text in ``doc.txt``.

Text-bound annotations become BIO labels; relations, events, attributes and notes are skipped. The
text is cut into sentences, but not inside an annotation. Writing makes both files; annotations of
other kinds are not kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tagloom import checks
from tagloom.errors import FormatError
from tagloom.sequences.documents import Places, Tokenize, documents, text_of, tokens_of
from tagloom.sequences.faults import check_lengths, placed
from tagloom.sequences.files import Input, Source, bad_byte_error, open_output
from tagloom.sequences.objects import labels_of_spans, spans_of_labels
from tagloom.sequences.sentences import Label, Sentence

_ENTITY = re.compile(r"T\d+\t(\S+) (\d+) (\d+)\t(.*)")
_PIECES = re.compile(r"T\d+\t\S+ \d+ \d+;")
_OTHER = re.compile(r"[REAMN]\d+\t|[*#]")


@dataclass
class BratLayout:
    """How the text of a file of annotations is cut, and whether they are read."""

    text_path: str
    tokenize: Tokenize | None = None
    labelled: bool = True
    format: str = "brat"
    head: bytes = b""
    tail: bytes = b""
    label_name: str | None = None
    problems: list[str] = field(default_factory=list)

    def read(self, file: Input) -> Iterator[list[Sentence]]:
        """Yield the sentences of a document, all at once."""
        text = _text_of(self.text_path, file.encoding)
        spans = []
        for lines in file.lines():
            for line, raw in lines:
                try:
                    spans += _entities(raw.decode("utf-8").rstrip("\r\n"), text)
                except FormatError as error:
                    raise placed(error, file.name, line) from None
        offsets, starts = self._cut(text)
        labels: list[Label] | None = None
        if self.labelled:
            labels, problems = labels_of_spans(text, offsets, spans)
            self.problems += [f"{file.name}: {problem}" for problem in problems]
        yield list(_sentences(text, offsets, set(starts), labels))

    def _cut(self, text: str) -> tuple[Places, list[int]]:
        """Return the places of the tokens, and where sentences start."""
        if self.tokenize is not None:
            return tokens_of(text, None, self.tokenize)
        from tagloom.text import Rules  # here, for a quick start

        cuts = Rules().cut(text)
        return cuts.spans(), cuts.starts[cuts.sentences[:-1]].tolist()


def _text_of(path: str, encoding: str) -> str:
    """Read the text of a document with its line ends, as offsets count them."""
    with open(path, "rb") as document:
        data = document.read()
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        fault = bad_byte_error(data[error.start], path, line, error.start)
        if encoding != "utf-8":
            fault.expected, fault.hint = f"text in {encoding}", "Pass the right one as {encoding}."
        raise fault from None


def _entities(row: str, text: str) -> list[tuple[int, int, str]]:
    """Return the span of a row, or none if the row is another kind of annotation."""
    if not row.strip() or _OTHER.match(row):
        return []
    if _PIECES.match(row):
        raise FormatError(
            expected="an annotation of one piece",
            found=f"a discontinuous one, {checks.show(row)}",
            hint="Labels of tokens cannot express it: remove it or make it continuous.",
        )
    match = _ENTITY.fullmatch(row)
    if match is None:
        raise FormatError(
            expected="an annotation such as T1, a tab, PER 0 3, a tab, Ann", found=checks.show(row)
        )
    begin, end = int(match[2]), int(match[3])
    if text[begin:end].split() != match[4].split():
        raise FormatError(
            expected=f"the text of characters {begin} to {end}, {checks.show(text[begin:end])}",
            found=checks.show(match[4]),
            hint="Do the two files belong together?",
        )
    return [(begin, end, match[1])]


def _sentences(
    text: str, offsets: Places, starts: set[int], labels: list[Label] | None
) -> Iterator[Sentence]:
    """Cut a document where sentences start, but not inside an annotation."""
    first = 0
    for t in range(1, len(offsets) + 1):
        if t < len(offsets):
            is_inside = labels is not None and str(labels[t]).startswith("I-")
            if is_inside or offsets[t][0] not in starts:
                continue
        tokens = [text[a:b] for a, b in offsets[first:t]]
        part = None if labels is None else labels[first:t]
        yield Sentence(tokens, part, text=text, offsets=offsets[first:t])
        first = t


def brat_layout(
    file: Input, format: str, *, tokenize: Tokenize | None = None, labelled: bool = True
) -> tuple[BratLayout, str]:
    """Find the text that belongs to a file of annotations."""
    path = os.path.splitext(file.name)[0] + ".txt"
    if not file.name.endswith(".ann") or not os.path.isfile(path):
        raise FormatError(
            path=file.name,
            expected=f"a file doc.ann with its text beside it, here {path!r}",
            found="none" if file.name.endswith(".ann") else repr(file.name),
        )
    return BratLayout(path, tokenize, labelled), f"text from {path!r}"


def write_brat(sentences: Iterable[Sentence], path: Source, encoding: str) -> None:
    """Write sentences as annotations, and their text to a file beside them.

    Texts of several documents follow each other on lines of their own.
    """
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
    if not name.endswith(".ann"):
        raise FormatError(
            parameter="path",
            expected="a name that ends in .ann, as the text goes to a .txt file beside it",
            found=checks.show(name or path),
        )
    rows: list[str] = []
    texts: list[str] = []
    begin = 0
    for i, document in enumerate(documents(sentences)):
        check_lengths(document, f"sentence {i}")
        text, places = text_of(document)
        for first, last, kind in spans_of_labels(document.labels or [], places, f"sentence {i}"):
            words = " ".join(text[first:last].split())
            rows.append(f"T{len(rows) + 1}\t{kind} {begin + first} {begin + last}\t{words}\n")
        texts.append(text)
        begin += len(text) + 1
    with open_output(os.path.splitext(name)[0] + ".txt", encoding) as out:
        out.write("\n".join(texts).encode())
    with open_output(name, encoding) as out:
        out.write("".join(rows).encode())
