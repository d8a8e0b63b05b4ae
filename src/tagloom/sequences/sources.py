"""Corpora in many files that are read again and again, in parts that fit in memory.

A `Files` is a description of where sentences are, not the sentences: every pass reads the files
anew. Reading one file is left to `corpora`.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from tagloom import checks
from tagloom.errors import ParameterError
from tagloom.sequences.corpora import stream
from tagloom.sequences.sentences import Sentence

# More would cost more to merge than they divide the work.
_MOST_SHARDS = 1024


class Files:
    """A corpus in files, read sentence by sentence in each pass; see `files`.

    Attributes
    ----------
    paths : tuple of str
        The files, in the order in which they are read.

    Examples
    --------
    >>> import os, tempfile
    >>> import tagloom as tl
    >>> path = os.path.join(tempfile.mkdtemp(), "a.txt")
    >>> corpus = tl.Corpus([tl.Sentence(["They", "fish"], labels=["N", "V"])])
    >>> tl.write(corpus, path, format="slash")
    >>> source = tl.files(path, format="slash")
    >>> [len(sentence) for sentence in source], [len(sentence) for sentence in source]
    ([2], [2])
    """

    def __init__(self, paths: Iterable[str], options: dict[str, Any]) -> None:
        self.paths = tuple(paths)
        self._options = options

    def __repr__(self) -> str:
        shown = ", ".join(self.paths[:2]) + (", …" if len(self.paths) > 2 else "")
        return f"<Files: {checks.plural(len(self.paths), 'file')}: {shown}>"

    def __iter__(self) -> Iterator[Sentence]:
        """Read all sentences, file by file; an error names file and line."""
        for path in self.paths:
            yield from stream(path, **self._options)

    def of(self, path: str) -> Files:
        """Return one of the files as a source of its own."""
        return Files([path], self._options)

    def shards(self) -> list[Files]:
        """Divide the files into shards, parts that can be read independently.

        Each file is a shard; more than 1,024 files are grouped, neighbours together. The result
        depends on the names of the files only.

        Returns
        -------
        list of Files
        """
        n = min(len(self.paths), _MOST_SHARDS)
        ends = [len(self.paths) * s // n for s in range(n + 1)]
        return [Files(self.paths[lo:hi], self._options) for lo, hi in pairwise(ends)]

    def divide(self, n: int) -> list[Files]:
        """Divide the files into n sources, every n-th file together; some may have none.

        Parameters
        ----------
        n : int
        """
        return [Files(self.paths[s::n], self._options) for s in range(n)]

    def parts(self, tokens: int = 100_000) -> Iterator[list[Sentence]]:
        """Read the sentences in parts of a limited size, across the ends of files.

        Parameters
        ----------
        tokens : int
            A part ends with the sentence that reaches this number of tokens. A token of a part
            takes about 1 KB while a tagger learns from it.

        Yields
        ------
        list of Sentence
            Never empty.
        """
        tokens = checks.count(tokens, "tokens", least=1)
        part: list[Sentence] = []
        n = 0
        for sentence in self:
            part.append(sentence)
            n += len(sentence)
            if n >= tokens:
                yield part
                part, n = [], 0
        if part:
            yield part


def files(paths: Any, format: str | None = None, **options: Any) -> Files:
    """Describe a corpus in files that may be larger than memory.

    Parameters
    ----------
    paths : str, path, or iterable of these
        File names and shell patterns such as ``"corpus/*.conllu.gz"``, where ``**`` also matches
        folders. The files of a pattern are sorted by name.
    format : str, optional
        As in `read`.
    **options
        As in `stream`, such as ``label="upos"``.

    Returns
    -------
    Files
        It can be iterated any number of times, and in parts.

    Raises
    ------
    ParameterError
        If a pattern matches no file.

    Examples
    --------
    >>> import os, tempfile
    >>> import tagloom as tl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("a.txt", "b.txt"):
    ...         with open(os.path.join(folder, name), "w") as file:
    ...             _ = file.write("They/N fish/V" + chr(10))
    ...     corpus = tl.files(os.path.join(folder, "*.txt"), "slash")
    ...     tagger = tl.CRF("words")
    ...     for epoch in range(5):
    ...         for part in corpus.parts(tokens=2):
    ...             tagger = tagger.partial_fit(part)
    >>> tagger.predict([["They", "fish"]])
    [['N', 'V']]
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else paths
    if isinstance(paths, bytes) or not isinstance(given, Iterable):
        raise ParameterError(
            parameter="paths", expected="file names or patterns", found=checks.show(paths)
        )
    found: list[str] = []
    for pattern in given:
        name = checks.path(pattern, "paths")
        matches = [name] if os.path.exists(name) else sorted(glob.glob(name, recursive=True))
        if not matches:
            raise ParameterError(
                parameter="paths",
                expected="the name of a file, or a pattern that matches some",
                found=repr(name),
            )
        found += matches
    if not found:
        raise ParameterError(parameter="paths", expected="at least one file", found="none")
    return Files(found, {"format": format, **options})
