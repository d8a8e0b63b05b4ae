"""ARPA files: n-gram models as text, the format that all language-model tools share.

Parsing and formatting are native and go through the file piece by piece; here are the file, the
header and the errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tagloom import _native, checks
from tagloom.errors import FormatError
from tagloom.language.tables import SPECIAL, NGramTables
from tagloom.language.units import Unit
from tagloom.sequences.files import Input, Source, open_output

_READ = 1 << 20  # bytes
_WRITE = 1 << 14  # n-grams


def read(path: Source, unit: Unit) -> NGramTables:
    """Read the tables of an ARPA file.

    Parameters
    ----------
    path : str, path, "-" for stdin, or open file
    unit : Unit
        How words of the file become tokens.

    Raises
    ------
    FormatError
        If the file is damaged; names the line.
    """
    reader = _native.ArpaReader()
    file = Input(path)
    try:
        while data := file.read(_READ):
            if (fault := reader.read(data)) is not None:
                raise _error(file.name, fault)
    finally:
        file.close()
    result = reader.finish(checks.ALL_THREADS)
    if len(result) == 4:
        raise _error(file.name, result)
    arrays, vocabulary, has_unknown = result
    tables = NGramTables(arrays, vocabulary, has_unknown)
    tokens = [*SPECIAL, *(unit.from_arpa(word) for word in tables.words[len(SPECIAL) :])]
    if tokens == list(tables.words):
        return tables
    return NGramTables(arrays, _vocabulary(tokens), has_unknown)


def write(path: Source, tables: NGramTables, unit: Unit) -> None:
    """Write tables as an ARPA file.

    Parameters
    ----------
    path : str, path, "-" for stdout, or open file
    tables : NGramTables
    unit : Unit
        How tokens become words of the file.

    Raises
    ------
    FormatError
        If a token contains a blank, and the unit has no way to write it.
    """
    words = [*SPECIAL, *(unit.to_arpa(token) for token in tables.words[len(SPECIAL) :])]
    vocabulary = tables.vocabulary if words == list(tables.words) else _vocabulary(words)
    with open_output(path) as file:
        for part in _parts(tables, vocabulary):
            file.write(part)


def _parts(tables: NGramTables, vocabulary: _native.Index) -> Iterator[bytes]:
    sizes = [f"ngram {n}={size}\n" for n, size in enumerate(tables.sizes, 1)]
    yield ("\\data\\\n" + "".join(sizes)).encode()
    level = tables.arrays["level"].tolist()
    for n, (begin, end) in enumerate(pairwise(level[1:]), 1):
        yield f"\n\\{n}-grams:\n".encode()
        for at in range(begin, end, _WRITE):
            yield tables.native.format(vocabulary, at, min(at + _WRITE, end))
    yield b"\n\\end\\\n"


def _vocabulary(words: list[str]) -> _native.Index:
    import numpy as np

    encoded = [word.encode() for word in words]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return _native.make_vocabulary(b"".join(encoded), offsets)


def _error(name: str, fault: tuple[int, str, str, str]) -> FormatError:
    line, expected, found, hint = fault
    return FormatError(
        path=name, line=line, expected=expected, found=checks.show(found), hint=hint or None
    )
