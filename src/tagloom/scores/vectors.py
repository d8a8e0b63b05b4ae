"""Given word vectors: tables that were trained elsewhere, read from the usual files.

Text files of GloVe, word2vec and fastText, binary files of word2vec and fastText, and a format of
our own, which is mapped into memory. `Vectors` never changes, so threads can share it.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import checks, storage
from tagloom.errors import FormatError, ModelFileError, ParameterError
from tagloom.sequences.files import Input
from tagloom.storage import File

Float32 = npt.NDArray[np.float32]

_PREFIX = "vectors."
_FASTTEXT = struct.pack("<i", 793712314)  # the first bytes of a binary file of fastText
_LONGEST_WORD = 1 << 12  # bytes of a word of a binary file; more is another kind of file


class Vectors:
    """Vectors of words.

    A word without a vector gets that of its lower-case form, if there is one; otherwise zeros.

    Parameters
    ----------
    words : iterable of str
    matrix : array of float, shape (n, size)

    Examples
    --------
    >>> vectors = Vectors(["fish", "they"], [[1.0, 0.0], [0.5, 2.0]])
    >>> vectors["Fish"]
    array([1., 0.], dtype=float32)
    >>> "can" in vectors, len(vectors), vectors.size
    (False, 2, 2)
    """

    def __init__(self, words: Iterable[str], matrix: npt.ArrayLike) -> None:
        self.words = tuple(words)
        try:
            array = np.asarray(matrix, dtype=np.float32)
        except (TypeError, ValueError):  # rows of several lengths, or not numbers
            array = np.empty(0, np.float32)
        if array.ndim != 2 or array.shape[0] != len(self.words) or not array.size:
            raise ParameterError(
                parameter="vectors",
                expected=f"a vector for each of {len(self.words)} words, all of one size",
                found=f"shape {array.shape}" if array.size else checks.show(matrix),
            )
        if not np.isfinite(array).all():
            raise ParameterError(
                parameter="vectors", expected="finite numbers", found="NaN or infinity"
            )
        # [n + 1, size]; row 0 is the vector of all other words
        self.table = np.concatenate([np.zeros((1, array.shape[1]), np.float32), array])

    @property
    def size(self) -> int:
        """Number of components of each vector."""
        return int(self.table.shape[1])

    @cached_property
    def _rows(self) -> dict[str, int]:
        rows: dict[str, int] = {}
        for k, word in enumerate(self.words):  # the first of equal words counts
            rows.setdefault(word, k + 1)
        return rows

    def rows(self, words: Iterable[str]) -> list[int]:
        """Return the row of ``table`` for each word; 0 if it has no vector."""
        find = self._rows.get
        return [find(word) or find(word.lower(), 0) for word in words]

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return self.rows([word]) != [0]

    def __getitem__(self, word: str) -> Float32:
        vector: Float32 = self.table[self.rows([word])[0]]
        return vector

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vectors):
            return NotImplemented
        return self.words == other.words and np.array_equal(self.table, other.table)

    def __hash__(self) -> int:
        return hash((len(self), self.size))

    def __repr__(self) -> str:
        return f"Vectors({len(self)} words, size {self.size})"

    def keep(self, words: Iterable[str]) -> Vectors:
        """Return the vectors of these words only, and of their lower-case forms."""
        kept = sorted({row for row in self.rows(words) if row})
        if not kept:
            raise ParameterError(
                parameter="vectors",
                expected="a vector for at least one word of the training data",
                found="none",
            )
        return Vectors([self.words[row - 1] for row in kept], self.table[kept])

    def merged(self, other: Vectors) -> Vectors:
        """Return these vectors together with those of ``other`` for words not in here."""
        if other.size != self.size:
            raise ParameterError(
                parameter="vectors",
                expected=f"vectors of size {self.size}, as in training",
                found=f"size {other.size}",
            )
        new = [k for k, word in enumerate(other.words) if word not in self._rows]
        words = [*self.words, *(other.words[k] for k in new)]
        return Vectors(words, np.concatenate([self.table[1:], other.table[1:][new]]))

    # ---- files -----------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the vectors in our own format, which is mapped into memory when it is read."""
        file = self.to_file()
        storage.write(path, {"kind": "vectors"} | file.header, file.arrays)

    def to_file(self) -> File:
        """Return the vectors as arrays."""
        arrays = {"words": storage.pack_strings(self.words), "matrix": self.table}
        return File({}, arrays, frozenset({"matrix"})).prefixed(_PREFIX)

    @classmethod
    def from_file(cls, file: File) -> Vectors:
        """Make vectors from the result of `to_file`, which is not trusted.

        Raises
        ------
        ModelFileError, KeyError
        """
        part = file.part(_PREFIX)
        words, table = storage.unpack_strings(part.arrays["words"]), part.arrays["matrix"]
        if table.dtype != np.float32 or table.ndim != 2 or len(table) != len(words) + 1:
            raise ModelFileError(
                where="vectors",
                expected=f"float32 of {len(words) + 1} rows",
                found=f"{table.dtype} {table.shape}",
            )
        if table[0].any():
            raise ModelFileError(where="vectors", expected="zeros in row 0", found="other numbers")
        vectors = cls.__new__(cls)
        vectors.words, vectors.table = tuple(words), table
        return vectors


def read_vectors(source: Any) -> Vectors:
    """Read word vectors.

    Parameters
    ----------
    source : path, dict or Vectors
        A text file of GloVe, word2vec or fastText; a binary file of word2vec or fastText; a file
        that `Vectors.save` wrote; or a dict from word to vector. Text files may be compressed.
        From a binary file of fastText come the words of its dictionary, each with the mean of its
        own vector and those of its character n-grams.

    Returns
    -------
    Vectors

    Raises
    ------
    FormatError
        If the file is none of these; the message names the line.

    Examples
    --------
    >>> read_vectors({"they": [0.5, 2.0], "fish": [1.0, 0.0]})
    Vectors(2 words, size 2)
    """
    if isinstance(source, Vectors):
        return source
    if isinstance(source, Mapping):
        return Vectors(source.keys(), [*source.values()])
    path = checks.path(source, "vectors")
    if storage.is_model(path):
        header, arrays = storage.read(path)
        if header.get("kind") != "vectors":
            raise ModelFileError(
                where=path, expected="a file of vectors", found=f"a {header.get('kind')}"
            )
        try:
            return Vectors.from_file(File(header, arrays))
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"its contents do not fit together: {error}", where=path
            ) from error
    if _starts_with(path, _FASTTEXT):
        words, matrix = _read_fasttext(path)
        return _checked(path, words, matrix)
    file = Input(path)
    try:
        head, _ = file.peek(_LONGEST_WORD)
        first, _, rest = head.partition(b"\n")
        fields = first.split()
        has_counts = len(fields) == 2 and all(field.isdigit() for field in fields)
        size = int(fields[1]) if has_counts else max(len(fields) - 1, 1)
        if not 0 < size < 1 << 31:
            raise FormatError(
                path=path, line=1, expected="the size of the vectors", found=checks.show(size)
            )
        if has_counts and not _is_text(rest):
            words, matrix = _read_binary(path, file, int(fields[0]), size)
        else:
            words, matrix = _read_text(path, file, size, has_counts=has_counts)
    finally:
        file.close()
    if not words:
        raise FormatError(path=path, line=1, expected="a word and its vector", found="no words")
    return _checked(path, words, matrix)


def _checked(path: str, words: list[str], matrix: Float32) -> Vectors:
    try:
        return Vectors(words, matrix)
    except ParameterError:
        k = int(np.isfinite(matrix).all(axis=1).argmin())
        raise FormatError(
            path=path,
            where=f"{path}, vector {k} of {checks.show(words[k])}",
            expected="finite numbers",
            found=checks.show(matrix[k]),
        ) from None


def _is_text(rest: bytes) -> bool:
    """Whether the first vector of a file is written as text."""
    numbers = rest.partition(b"\n")[0].split()[1:5]
    try:
        return bool([float(number) for number in numbers])
    except ValueError:
        return False


def _read_text(path: str, file: Input, size: int, *, has_counts: bool) -> tuple[list[str], Float32]:
    """Read lines of a word and its numbers; the word itself may contain spaces."""
    words: list[str] = []
    rows: list[Float32] = []
    lines = (line for batch in file.lines() for line in batch)
    with np.errstate(over="ignore"):  # infinity is refused later
        for number, raw in lines:
            if (has_counts and number == 1) or not raw.strip():
                continue
            word, *numbers = raw.decode("utf-8").rstrip().rsplit(" ", size)
            try:
                row = np.array(numbers, dtype=np.float32)
            except ValueError:
                row = np.empty(0, np.float32)
            if len(row) != size:
                raise FormatError(
                    path=path,
                    line=number,
                    expected=f"a word and {checks.plural(size, 'number')}",
                    found=checks.show(raw.decode("utf-8").rstrip()),
                )
            words.append(word)
            rows.append(row)
    return words, np.array(rows, dtype=np.float32).reshape(len(rows), size)


def _read_binary(path: str, file: Input, n: int, size: int) -> tuple[list[str], Float32]:
    """Read a binary file of word2vec: each word, a space, and its float32 numbers."""
    parts: list[bytes] = []
    while part := file.read(1 << 24):
        parts.append(part)
    data = b"".join(parts)
    at = data.find(b"\n") + 1 or len(data)
    words: list[str] = []
    rows: list[Float32] = []
    for _ in range(n):
        end = data.find(b" ", at, at + _LONGEST_WORD)
        if end < 0 or end + 1 + 4 * size > len(data):
            raise FormatError(
                path=path,
                expected=f"{n} words with {checks.plural(size, 'number')} each",
                found=f"{len(words)} of them",
                hint="The file is cut off, or of another kind.",
            )
        words.append(data[at:end].lstrip(b"\n").decode("utf-8", "replace"))
        rows.append(np.frombuffer(data, "<f4", size, end + 1))
        at = end + 1 + 4 * size
    return words, np.array(rows, dtype=np.float32).reshape(len(rows), size)


# ---- fastText -----------------------------------------------------------------------------------


def _starts_with(path: str, magic: bytes) -> bool:
    """Whether an ordinary file begins with these bytes; standard input does not."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(magic)) == magic


class _Settings(NamedTuple):
    """The settings of a fastText model that its word vectors depend on."""

    size: int
    bucket: int
    least: int  # shortest and longest character n-grams; 0 for none
    most: int
    n_words: int


def _read_fasttext(path: str) -> tuple[list[str], Float32]:
    """Read a binary file of fastText: settings, dictionary, and a matrix of words and n-grams."""

    def fault(found: str, hint: str = "The file is cut off, or of another kind.") -> FormatError:
        return FormatError(path=path, expected="a model of fastText", found=found, hint=hint)

    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            version, *numbers = struct.unpack_from("<i12i", data, 4)
            size, bucket, model, least, most = (numbers[k] for k in (0, 8, 7, 9, 10))
            n_entries, n_words, _, _, n_pruned = struct.unpack_from("<3i2q", data, 64)
            words, at = [], 64 + 28
            for _ in range(n_entries):
                end = data.find(b"\0", at, at + _LONGEST_WORD)
                if end < 0:
                    raise fault("a dictionary without the end of a word")
                words.append(data[at:end])
                at = end + 1 + 9  # the count, and whether the entry is a word or a label
            at += 8 * min(max(n_pruned, 0), len(data))
            is_quantised, n_rows, n_columns = struct.unpack_from("<?2q", data, at)
        except struct.error:
            raise fault(f"{len(data)} bytes") from None
        if version not in (11, 12):
            raise fault(f"version {version}")
        if is_quantised:
            raise fault("a quantised model", "Save the vectors as text.")
        if version == 11 and model == 3:  # supervised models had no n-grams then
            most = 0
        shape_is_right = n_columns == size > 0 and 0 < n_words <= n_entries and bucket >= 0
        shape_is_right = shape_is_right and n_rows in (n_words, n_words + bucket)
        if not shape_is_right or at + 17 + 4 * n_rows * n_columns > len(data):
            raise fault(f"a matrix of {n_rows} x {n_columns} in {len(data)} bytes")
        if n_rows == n_words:
            most = 0
        matrix = np.frombuffer(data, "<f4", n_rows * n_columns, at + 17)
        settings = _Settings(size, bucket, least, most, n_words)
        try:
            result = _join_ngrams(words[:n_words], matrix.reshape(n_rows, n_columns), settings)
        finally:
            del matrix  # the file cannot be closed while an array points into it
    return [word.decode("utf-8", "replace") for word in words[:n_words]], result


def _join_ngrams(words: list[bytes], matrix: Float32, settings: _Settings) -> Float32:
    """Return the vectors of words: the mean of the rows of each word and of its n-grams."""
    result = np.empty((len(words), settings.size), np.float32)
    for k, word in enumerate(words):
        result[k] = matrix[[k, *_ngram_rows(word, settings)]].mean(axis=0)
    return result


def _ngram_rows(word: bytes, settings: _Settings) -> list[int]:
    """Return the rows of the character n-grams of a word, which are hashed (32-bit FNV-1a)."""
    if settings.most <= 0 or settings.bucket == 0 or word == b"</s>":
        return []
    text = b"<" + word + b">"
    begins = [i for i, byte in enumerate(text) if byte & 0xC0 != 0x80]  # of characters
    ends = [*begins[1:], len(text)]
    rows = []
    for first, begin in enumerate(begins):
        code, at = 2166136261, begin
        for n, end in enumerate(ends[first : first + settings.most], 1):
            for byte in text[at:end]:  # as signed bytes
                code = (code ^ (byte if byte < 128 else byte | 0xFFFFFF00)) * 16777619 & 0xFFFFFFFF
            at = end
            is_edge = n == 1 and (begin == 0 or end == len(text))
            if n >= settings.least and not is_edge:
                rows.append(settings.n_words + code % settings.bucket)
    return rows
