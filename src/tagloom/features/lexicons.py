r"""Lexicons and word clusters: resources that templates use beside the letters of a word.

A `Lexicon` (gazetteer) is a set of phrases, with or without types. The value of a token is its
place in the longest phrase there, matched from left to right. `Clusters` map each word to a class;
Brown clusters are strings of bits, whose prefixes are coarser classes. Both are read from a file or
made from Python objects, and model files contain them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tagloom import checks
from tagloom.errors import FormatError, ParameterError

PhraseCounts = Counter[tuple[tuple[str, ...], str]]  # of (words, type)


class Lexicon:
    r"""A set of phrases, such as the names of cities, to be found in sentences.

    Parameters
    ----------
    entries : path, mapping, or iterable of str
        A file with one phrase per line, or ``phrase<TAB>type``; a mapping from phrase to type; or
        the phrases. The words of a phrase are separated by blanks. Empty lines are skipped.
    ignore_case : bool, optional
        Whether case is ignored: phrases and tokens are then compared by ``str.lower``.

    Raises
    ------
    FormatError
        If a line of the file has more than two columns.
    ParameterError
        If the lexicon is empty, or a phrase is not a str.

    Examples
    --------
    >>> from tagloom.features import Lexicon
    >>> cities = Lexicon({"New York": "US", "York": "UK", "New York City": "US"})
    >>> cities.match(["from", "New", "York", "to", "York"])
    ['', 'B-US', 'E-US', '', 'S-UK']
    >>> Lexicon(["san francisco"], ignore_case=True).match(["San", "Francisco", "Bay"])
    ['B', 'E', '']
    """

    def __init__(
        self,
        entries: str | os.PathLike[str] | Mapping[str, str] | Iterable[str],
        *,
        ignore_case: bool = False,
    ) -> None:
        self.ignore_case = ignore_case
        if isinstance(entries, str | os.PathLike):
            pairs = _read_phrases(entries)
        elif isinstance(entries, Mapping):
            pairs = list(entries.items())
        elif not isinstance(entries, Iterable):
            raise ParameterError(
                parameter="entries",
                expected="a path, a dict or phrases",
                found=checks.show_type(entries),
            )
        else:
            pairs = [(entry, "") for entry in entries]
        self._types: dict[tuple[str, ...], set[str]] = {}
        self._counts: PhraseCounts | None = None
        for phrase, kind in pairs:
            if not isinstance(phrase, str) or not isinstance(kind, str):
                raise ParameterError(
                    parameter="entries",
                    expected="phrases and types that are str",
                    found=checks.show((phrase, kind)),
                )
            words = tuple(self._fold(phrase).split())
            if words:
                self._types.setdefault(words, set()).add(kind)
        if not self._types:
            raise ParameterError(parameter="entries", expected="at least one phrase", found="none")
        # Lengths of the phrases that begin with a word, longest first. Most words begin no phrase
        # and cost one look-up.
        lengths: dict[str, set[int]] = {}
        for words in self._types:
            lengths.setdefault(words[0], set()).add(len(words))
        self._lengths = {word: sorted(sizes, reverse=True) for word, sizes in lengths.items()}

    @classmethod
    def counted(cls, phrases: Iterable[tuple[str, str]], *, ignore_case: bool = False) -> Lexicon:
        """Make a lexicon of phrases that were found in labelled sentences, such as their names.

        A tagger that is trained on the same sentences would see every name of them in the lexicon,
        and trust it more than it deserves on other text. So the phrases are counted, and in
        training a `SemiCRF` leaves out those of the tenth of the sentences that it reads:
        neighbours often belong to one document and share their names.

        Parameters
        ----------
        phrases : iterable of (phrase, type)
            One pair for each occurrence.
        ignore_case : bool, optional

        Examples
        --------
        >>> from tagloom.features import Lexicon
        >>> names = Lexicon.counted([("Ada", "PER"), ("Ada", "PER"), ("Bonn", "LOC")])
        >>> names.find(["Ada", "saw", "Bonn"])
        [(0, 1, 'PER'), (2, 3, 'LOC')]
        >>> own = names.count([("Ada", "PER"), ("Bonn", "LOC")])
        >>> names.find(["Ada", "saw", "Bonn"], without=own)
        [(0, 1, 'PER')]
        """
        pairs = list(phrases)
        self = cls([phrase for phrase, _ in pairs], ignore_case=ignore_case)
        self._counts = self.count(pairs)
        for words in self._types:
            self._types[words] = set()
        for words, kind in self._counts:
            self._types[words].add(kind)
        return self

    def count(self, phrases: Iterable[tuple[str, str]]) -> PhraseCounts:
        """Count phrases with their types, as this lexicon compares them."""
        return Counter((tuple(self._fold(phrase).split()), kind) for phrase, kind in phrases)

    @property
    def is_counted(self) -> bool:
        """Whether it was made by `counted`."""
        return self._counts is not None

    def _fold(self, text: str) -> str:
        return text.lower() if self.ignore_case else text

    def __len__(self) -> int:
        return len(self._types)

    def __repr__(self) -> str:
        return f"Lexicon({len(self)} phrase{'s' if len(self) != 1 else ''})"

    def match(self, tokens: Sequence[str]) -> list[str]:
        """Mark the place of each token in a phrase, and the type of the phrase.

        At each token the longest phrase is taken, and matching continues after it.

        Parameters
        ----------
        tokens : sequence of str

        Returns
        -------
        list of str
            ``B``, ``I``, ``E`` for the first, inner and last token of a phrase, ``S`` for a phrase
            of one token, each with ``-type`` if the phrase has one (``-A+B`` for several); the
            empty string for a token in no phrase.

        Examples
        --------
        >>> from tagloom.features import Lexicon
        >>> Lexicon(["Rio de Janeiro"]).match(["to", "Rio", "de", "Janeiro"])
        ['', 'B', 'I', 'E']
        """
        if self.ignore_case:
            tokens = [token.lower() for token in tokens]
        marked = [""] * len(tokens)
        lengths = self._lengths
        free = 0  # the first token after the last phrase
        for t, token in enumerate(tokens):
            if t < free or token not in lengths:
                continue
            for n in lengths[token]:
                kinds = self._types.get(tuple(tokens[t : t + n]))
                if kinds is not None and t + n <= len(tokens):
                    kind = "+".join(sorted(filter(None, kinds)))
                    tail = f"-{kind}" if kind else ""
                    marks = "S" if n == 1 else "B" + "I" * (n - 2) + "E"
                    marked[t : t + n] = [mark + tail for mark in marks]
                    free = t + n
                    break
        return marked

    def find(
        self, tokens: Sequence[str], without: PhraseCounts | None = None
    ) -> list[tuple[int, int, str]]:
        """List all places of phrases, also overlapping ones: (start, end, type).

        Parameters
        ----------
        tokens : sequence of str
        without : Counter, optional
            Phrases that do not count, for a lexicon made by `counted`; see `count`. A phrase that
            occurs nowhere else is not listed.

        Examples
        --------
        >>> from tagloom.features import Lexicon
        >>> Lexicon(["New York", "York"]).find(["in", "New", "York"])
        [(1, 3, ''), (2, 3, '')]
        """
        if self.ignore_case:
            tokens = [token.lower() for token in tokens]
        counts = self._counts
        found = []
        for t, token in enumerate(tokens):
            for n in self._lengths.get(token, ()):
                words = tuple(tokens[t : t + n])
                kinds = self._types.get(words) if t + n <= len(tokens) else None
                if kinds is not None and without is not None and counts is not None:
                    kinds = {k for k in kinds if counts[words, k] > without[words, k]} or None
                if kinds is not None:
                    found.append((t, t + n, "+".join(sorted(filter(None, kinds)))))
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the lexicon as plain data, which `from_dict` reads.

        Returns
        -------
        dict
        """
        entries = sorted((" ".join(words), sorted(kinds)) for words, kinds in self._types.items())
        return {"ignore_case": self.ignore_case, "entries": [list(entry) for entry in entries]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Lexicon:
        """Make a lexicon from the result of `to_dict`.

        Parameters
        ----------
        data : mapping

        Returns
        -------
        Lexicon
        """
        self = cls([phrase for phrase, _ in data["entries"]], ignore_case=bool(data["ignore_case"]))
        self._types = {tuple(phrase.split()): set(kinds) for phrase, kinds in data["entries"]}
        return self


def _read_phrases(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    pairs = []
    for line, fields in _rows(path):
        if len(fields) > 2:
            raise FormatError(
                path=str(path),
                line=line,
                expected="a phrase, or a phrase, a tab and its type",
                found=f"{len(fields)} columns",
            )
        pairs.append((fields[0], fields[1].strip() if len(fields) > 1 else ""))
    return pairs


def _rows(path: str | os.PathLike[str]) -> Iterable[tuple[int, list[str]]]:
    """Yield the lines that are not blank, split at tabs, with their numbers."""
    from tagloom.sequences.files import read_lines  # here, for a quick start

    for number, row in enumerate(read_lines(path), start=1):
        if row.strip():
            yield number, row.split("\t")


class Clusters:
    r"""Classes of words, such as Brown clusters.

    Parameters
    ----------
    entries : path or mapping of str to str
        A file, or a mapping from word to cluster. A file has the columns of Brown's program
        (``bits<TAB>word<TAB>count``), recognised by first columns of 0 and 1 only; or a word and
        its cluster, separated by a tab or a blank.

    Raises
    ------
    FormatError
        If a line has too few columns.
    ParameterError
        If the mapping is empty, or a word is not a str.

    Examples
    --------
    >>> from tagloom.features import Clusters
    >>> brown = Clusters({"cat": "0110", "dog": "0111"})
    >>> brown.get("cat", 3), brown.get("cat"), brown.get("cow")
    ('011', '0110', None)
    """

    def __init__(self, entries: str | os.PathLike[str] | Mapping[str, str]) -> None:
        if isinstance(entries, str | os.PathLike):
            entries = _read_clusters(entries)
        if not isinstance(entries, Mapping):
            raise ParameterError(
                parameter="entries",
                expected="a path or a dict from word to cluster",
                found=checks.show_type(entries),
            )
        self._table = dict(entries)
        for pair in self._table.items():
            if not all(isinstance(part, str) for part in pair):
                raise ParameterError(
                    parameter="entries",
                    expected="a dict from str to str",
                    found=checks.show(pair),
                )
        if not self._table:
            raise ParameterError(parameter="entries", expected="at least one word", found="none")

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return f"Clusters({len(self)} word{'s' if len(self) != 1 else ''})"

    def get(self, word: str, length: int = 0) -> str | None:
        """Return the cluster of a word, or the first characters of it.

        Parameters
        ----------
        word : str
        length : int, optional
            Number of characters (bits of a Brown cluster) to keep; 0 for all. A shorter cluster is
            returned whole.

        Returns
        -------
        str or None
            None for a word that has no cluster.
        """
        cluster = self._table.get(word)
        return cluster if cluster is None or not length else cluster[:length]

    def to_dict(self) -> dict[str, str]:
        """Return the clusters as plain data, word to cluster.

        Returns
        -------
        dict
        """
        return dict(self._table)

    @classmethod
    def from_dict(cls, data: Mapping[str, str]) -> Clusters:
        """Make clusters from the result of `to_dict`.

        Parameters
        ----------
        data : mapping

        Returns
        -------
        Clusters
        """
        return cls(data)


def _read_clusters(path: str | os.PathLike[str]) -> dict[str, str]:
    rows = []
    for line, fields in _rows(path):
        if len(fields) == 1:
            fields = fields[0].split()
        if len(fields) < 2:
            raise FormatError(
                path=str(path),
                line=line,
                expected="bits, word and count, or a word and its cluster",
                found="one column",
            )
        rows.append(fields)
    if rows and all(set(row[0]) <= {"0", "1"} for row in rows):
        return {row[1]: row[0] for row in rows}
    return {row[0]: row[1] for row in rows}
