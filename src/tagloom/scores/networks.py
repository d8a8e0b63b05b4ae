"""The network scorer: word types become vectors, an encoder puts them in context, a layer scores.

    x[u]       = [words[u], vectors[u], tuned[u], characters(u)]          a vector of each word type
    h[0..T-1]  = encoder(x[type[0]], …, x[type[T-1]])                     recurrent or convolutional
    emit[t, y] = output.weight[y] · h[t] + output.bias[y]

A `NetworkSpec` is the definition as plain data: it determines the name and shape of every array.
Names and layouts are those of a ``torch.nn`` module, so that training needs no conversion. This
file needs only NumPy; training is in `tagloom.neural`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks, storage
from tagloom.errors import ModelFileError, SentenceError
from tagloom.features.batches import read_tokens
from tagloom.scores.vectors import Vectors
from tagloom.storage import File

Float32 = npt.NDArray[np.float32]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Arrays = Mapping[str, npt.NDArray[Any]]

CELLS = ("lstm", "gru", "rnn")
#: Numbers of gates: the rows of ``weight_ih`` are this many times the hidden units.
GATES = {"lstm": 4, "gru": 3, "rnn": 1}
#: Character ids: nothing (beside a word), a character not seen in training, begin and end of word.
PADDING, UNKNOWN, BEGIN, END = range(4)
#: Longer words are cut in the middle.
LONGEST = 64
#: Width of the convolutions of the encoder "cnn".
WIDTH = 3


@dataclass(frozen=True)
class NetworkSpec:
    """The definition of a network.

    Attributes
    ----------
    n_labels : int
        Y.
    n_words, word_size : int
        Shape of the table of trained word vectors, ``words.weight``. Row 0 is for unknown words.
        0 without such a table.
    n_vectors, vector_size : int
        Shape of the table of given vectors, ``vectors.weight``. Row 0 is zero, for other words.
    is_tuned : bool
        Whether there is a second table ``tuned.weight`` of that shape, the vectors after training.
    characters : {None, "cnn", "lstm"}
        How a word's characters become a vector. "cnn" convolves with each of ``widths`` and takes
        the maximum over positions; "lstm" joins the final states of both directions.
    n_characters, character_size : int
        Shape of the table of characters, ``characters.table.weight``; see `PADDING` for its first
        rows.
    character_units : int
        Number of filters of each width, or of hidden units of each direction.
    widths : tuple of int
        Odd widths of the convolutions.
    encoder : {"lstm", "gru", "rnn", "cnn"}
        "cnn" is a linear layer, then ``layers`` times x + relu(convolution(x)), of width 3.
    is_bidirectional : bool
    layers, hidden : int
        Hidden units are those of one direction.

    Examples
    --------
    >>> spec = NetworkSpec(n_labels=3, n_words=10, word_size=8, hidden=4)
    >>> for name, shape in spec.shapes():
    ...     print(name, shape)
    words.weight (10, 8)
    encoder.weight_ih_l0 (16, 8)
    encoder.weight_hh_l0 (16, 4)
    encoder.bias_ih_l0 (16,)
    encoder.bias_hh_l0 (16,)
    encoder.weight_ih_l0_reverse (16, 8)
    encoder.weight_hh_l0_reverse (16, 4)
    encoder.bias_ih_l0_reverse (16,)
    encoder.bias_hh_l0_reverse (16,)
    h0 (2, 4)
    c0 (2, 4)
    output.weight (3, 8)
    output.bias (3,)
    """

    n_labels: int
    n_words: int = 0
    word_size: int = 0
    n_vectors: int = 0
    vector_size: int = 0
    is_tuned: bool = False
    characters: str | None = None
    n_characters: int = 0
    character_size: int = 0
    character_units: int = 0
    widths: tuple[int, ...] = (3, 5)
    encoder: str = "lstm"
    is_bidirectional: bool = True
    layers: int = 1
    hidden: int = 128

    @property
    def directions(self) -> int:
        """Number of directions in which the encoder reads."""
        return 2 if self.is_bidirectional and self.encoder != "cnn" else 1

    @property
    def character_output(self) -> int:
        """Size of the vector that the characters of a word become."""
        if self.characters is None:
            return 0
        return self.character_units * (2 if self.characters == "lstm" else len(self.widths))

    @property
    def input_size(self) -> int:
        """Size of the vector of a word type."""
        given = self.vector_size * (2 if self.is_tuned else 1)
        return self.word_size + given + self.character_output

    @property
    def output_size(self) -> int:
        """Size of the encoder's vector of a token."""
        return self.hidden * self.directions

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield the name and shape of each array, in the order of the forward pass."""
        if self.n_words:
            yield "words.weight", (self.n_words, self.word_size)
        if self.n_vectors:
            yield "vectors.weight", (self.n_vectors, self.vector_size)
            if self.is_tuned:
                yield "tuned.weight", (self.n_vectors, self.vector_size)
        units, size = self.character_units, self.character_size
        if self.characters is not None:
            yield "characters.table.weight", (self.n_characters, size)
        if self.characters == "cnn":
            for k, width in enumerate(self.widths):
                yield f"characters.convolutions.{k}.weight", (units, size, width)
                yield f"characters.convolutions.{k}.bias", (units,)
        elif self.characters == "lstm":
            yield from _cell_shapes("characters.lstm.", "lstm", 1, 2, size, units)
        H = self.hidden
        if self.encoder == "cnn":
            yield "encoder.input.weight", (H, self.input_size)
            yield "encoder.input.bias", (H,)
            for k in range(self.layers):
                yield f"encoder.convolutions.{k}.weight", (H, H, WIDTH)
                yield f"encoder.convolutions.{k}.bias", (H,)
        else:
            D = self.directions
            yield from _cell_shapes("encoder.", self.encoder, self.layers, D, self.input_size, H)
            yield "h0", (self.layers * D, H)
            if self.encoder == "lstm":
                yield "c0", (self.layers * D, H)
        yield "output.weight", (self.n_labels, self.output_size)
        yield "output.bias", (self.n_labels,)

    def to_dict(self) -> dict[str, Any]:
        """Return the definition as plain data."""
        return {**asdict(self), "widths": list(self.widths)}

    @classmethod
    def from_dict(cls, data: Any) -> NetworkSpec:
        """Make a definition from the result of `to_dict`, which is not trusted.

        Raises
        ------
        ModelFileError
            If a value has the wrong type or is out of range.
        """
        values = dict(data)
        for field in fields(cls):
            value = values.get(field.name, field.default)
            if field.type in ("int", "bool"):
                is_right = type(value).__name__ == field.type
                is_right = is_right and 0 <= value < 1 << 31
            elif field.name == "widths":
                is_right = isinstance(value, list) and all(
                    type(w) is int and 0 < w < 64 and w % 2 for w in value
                )
                values["widths"] = tuple(value) if is_right else ()
            else:
                choices = (None, "cnn", "lstm") if field.name == "characters" else (*CELLS, "cnn")
                is_right = value in choices
            if not is_right:
                raise ModelFileError(
                    where=f"network, {field.name}",
                    expected=f"a value of type {field.type} within its range",
                    found=checks.show(value),
                )
        return cls(**values)

    def check(self, arrays: Arrays) -> None:
        """Raise unless there is an array of floats of the right shape for each name.

        Raises
        ------
        ModelFileError
        """
        wanted = dict(self.shapes())
        if wanted.keys() != arrays.keys():
            different = sorted(wanted.keys() ^ arrays.keys())
            raise ModelFileError(
                where="network", expected="the arrays of its definition", found=f"{different[:4]}"
            )
        for name, shape in wanted.items():
            array = arrays[name]
            if array.shape != shape or array.dtype != np.float32:
                raise ModelFileError(
                    where=f"network, {name}",
                    expected=f"float32 {shape}",
                    found=f"{array.dtype} {array.shape}",
                )
            if not np.isfinite(array).all():
                raise ModelFileError(
                    where=f"network, {name}", expected="finite numbers", found="NaN or infinity"
                )


def _cell_shapes(
    prefix: str, cell: str, layers: int, directions: int, size: int, hidden: int
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the arrays of ``torch.nn.LSTM``, ``GRU`` or ``RNN``."""
    G = GATES[cell] * hidden
    for k in range(layers):
        for suffix in ("", "_reverse")[:directions]:
            end = f"_l{k}{suffix}"
            yield f"{prefix}weight_ih{end}", (G, size if k == 0 else hidden * directions)
            yield f"{prefix}weight_hh{end}", (G, hidden)
            yield f"{prefix}bias_ih{end}", (G,)
            yield f"{prefix}bias_hh{end}", (G,)


class Inputs(NamedTuple):
    """Sentences as the network reads them: N sentences, T tokens, U word types."""

    offsets: Int64  # [N + 1]
    types: Int32  # [T] the type of each token
    words: Int32  # [U] rows of words.weight
    vectors: Int32  # [U] rows of vectors.weight
    character_offsets: Int64  # [U + 1]
    characters: Int32  # [C] ids: BEGIN, the characters, END

    def select(self, sentences: Int64) -> tuple[Inputs, Int64]:
        """Return some of the sentences, and their tokens [T']; other word types are left out."""
        offsets, tokens = take_ragged(self.offsets, sentences)
        kept, types = np.unique(self.types[tokens], return_inverse=True)
        character_offsets, characters = take_ragged(self.character_offsets, kept)
        inputs = Inputs(
            offsets,
            types.astype(np.int32),
            self.words[kept],
            self.vectors[kept],
            character_offsets,
            self.characters[characters],
        )
        return inputs, tokens


def take_ragged(offsets: Int64, rows: npt.NDArray[Any]) -> tuple[Int64, Int64]:
    """Return the offsets of some rows of a ragged array, and the places of their values.

    Examples
    --------
    >>> offsets, places = take_ragged(np.array([0, 2, 3, 6]), np.array([2, 0]))
    >>> offsets.tolist(), places.tolist()
    ([0, 3, 5], [3, 4, 5, 0, 1])
    """
    lengths = offsets[rows + 1] - offsets[rows]
    taken = np.concatenate([[0], np.cumsum(lengths)])
    places = np.repeat(offsets[rows] - taken[:-1], lengths) + np.arange(taken[-1])
    return taken, places


@dataclass(frozen=True, eq=False)
class Alphabets:
    """The words and characters that a network was trained with.

    Attributes
    ----------
    words : tuple of str
        Word k has row k + 1 of ``words.weight``.
    characters : str
        Character k has row k + 4 of ``characters.table.weight``.
    vectors : Vectors or None
        Vector k has row k + 1 of ``vectors.weight``.
    """

    words: tuple[str, ...]
    characters: str
    vectors: Vectors | None = None

    @cached_property
    def _word_rows(self) -> dict[str, int]:
        return {word: k + 1 for k, word in enumerate(self.words)}

    @cached_property
    def _character_rows(self) -> dict[str, int]:
        return {character: k + END + 1 for k, character in enumerate(self.characters)}

    def encode(self, sentences: Sequence[Any]) -> Inputs:
        """Turn sentences into numbers.

        Raises
        ------
        SentenceError
            If a token is not a str.
        """
        types, offsets, table = number_types(sentences)
        find, find_character = self._word_rows.get, self._character_rows.get
        words = np.fromiter((find(word, 0) for word in table), np.int32, len(table))
        vectors = np.zeros(len(table), np.int32)
        if self.vectors is not None:
            vectors[:] = self.vectors.rows(table)
        characters: list[int] = []
        lengths = np.empty(len(table), np.int64)
        for u, word in enumerate(table):
            if len(word) > LONGEST:
                word = word[: LONGEST // 2] + word[-LONGEST // 2 :]
            characters.append(BEGIN)
            characters += [find_character(character, UNKNOWN) for character in word]
            characters.append(END)
            lengths[u] = len(word) + 2
        begins = np.concatenate([[0], np.cumsum(lengths)])
        ids = np.array(characters, dtype=np.int32)
        return Inputs(offsets, types, words, vectors, begins, ids)


def number_types(sentences: Sequence[Any]) -> tuple[Int32, Int64, dict[str, int]]:
    """Number the word types of sentences: types [T], offsets [N + 1], and the table of types.

    Raises
    ------
    SentenceError
        If a token is not a str.
    """
    table: dict[str, int] = {}
    rows = [list(row) for row in read_tokens(sentences)]
    numbered = _native.intern(rows, table)
    if numbered is not None:
        return *numbered, table
    i, t, token = next(
        (i, t, token)
        for i, row in enumerate(rows)
        for t, token in enumerate(row)
        if not isinstance(token, str)
    )
    raise SentenceError(
        where=checks.place(i, t),
        expected="a str, since a network reads words",
        found=checks.show_type(token),
    )


@dataclass(frozen=True, eq=False)
class NetworkScores:
    """A trained network that runs without torch.

    Attributes
    ----------
    spec : NetworkSpec
    alphabets : Alphabets
    arrays : dict of str to ndarray
        The arrays that ``spec.shapes()`` names, except ``vectors.weight``.
    """

    spec: NetworkSpec
    alphabets: Alphabets
    arrays: dict[str, npt.NDArray[Any]]

    def emit(self, sentences: Sequence[Any], n_threads: int) -> Float32:
        """Score every label at every token: [T, Y]."""
        return self.emit_inputs(self.alphabets.encode(sentences), n_threads)

    def emit_inputs(self, inputs: Inputs, n_threads: int) -> Float32:
        """Score tokens that are already numbered: [T, Y]."""
        emit = np.empty((len(inputs.types), self.spec.n_labels), np.float32)
        self._network.emit(
            inputs.offsets,
            inputs.types,
            inputs.words,
            inputs.vectors,
            inputs.character_offsets,
            inputs.characters,
            n_threads,
            emit,
        )
        return emit

    @cached_property
    def _network(self) -> _native.Network:
        """The network in the native core, which caches what depends on a word type alone."""
        return _native.Network(self.spec.to_dict(), self.all_arrays)

    @cached_property
    def all_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All arrays of the definition."""
        if self.alphabets.vectors is None:
            return self.arrays
        return {**self.arrays, "vectors.weight": self.alphabets.vectors.table}

    # ---- files -----------------------------------------------------------------------------

    def to_file(self) -> File:
        """Return the network as a header of plain data and arrays."""
        alphabets = self.alphabets
        file = File({"network": self.spec.to_dict()}, {**self.arrays}, frozenset(self.arrays))
        arrays = {
            "alphabet.words": storage.pack_strings(alphabets.words),
            "alphabet.characters": storage.pack_strings(alphabets.characters),
        }
        file |= File({}, arrays)
        return file if alphabets.vectors is None else file | alphabets.vectors.to_file()

    @classmethod
    def from_file(cls, file: File) -> NetworkScores:
        """Make a network from the result of `to_file`, which is not trusted.

        Raises
        ------
        ModelFileError, ValueError, KeyError
            If its parts do not fit together.
        """
        spec = NetworkSpec.from_dict(file.header["network"])
        vectors = Vectors.from_file(file) if spec.n_vectors else None
        words = storage.unpack_strings(file.arrays["alphabet.words"])
        characters = storage.unpack_strings(file.arrays["alphabet.characters"])
        sizes = (len(words) + 1, len(characters) + END + 1)
        expected = (spec.n_words or 1, spec.n_characters or END + 1)
        if sizes != expected or any(len(c) != 1 for c in characters):
            raise ModelFileError(
                where="alphabets", expected=f"tables of {expected} rows", found=f"{sizes}"
            )
        alphabets = Alphabets(tuple(words), "".join(characters), vectors)
        names = [name for name, _ in spec.shapes() if name != "vectors.weight"]
        network = cls(spec, alphabets, {name: file.arrays[name] for name in names})
        spec.check(network.all_arrays)
        return network


# ---- steps of recurrent layers ------------------------------------------------------------------


class Steps(NamedTuple):
    """Sequences sorted by length, the longest first, so that step t runs the first n[t] of them."""

    begins: Int64  # [N] first token of each sequence, in sorted order
    ends: Int64  # [N] the token after its last
    n_active: Int64  # [L] number of sequences of more than t tokens

    @classmethod
    def of(cls, offsets: Int64) -> Steps:
        """Return the steps of sequences, of which some may be empty."""
        lengths = np.diff(offsets)
        order = np.argsort(-lengths, kind="stable")
        order = order[lengths[order] > 0]
        longest = int(lengths.max(initial=0))
        n = np.searchsorted(-lengths[order], -np.arange(longest), side="left")
        return cls(offsets[:-1][order], offsets[1:][order], n)

    def tokens(self, t: int, *, is_reversed: bool) -> Int64:
        """Return the tokens that step t reads."""
        n = int(self.n_active[t])
        return self.ends[:n] - 1 - t if is_reversed else self.begins[:n] + t
