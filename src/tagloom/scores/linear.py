"""The linear scorer: weights of features, summed into the arrays of a trellis.

    emit[t, y]         = Σ_{a active at t} value · weight(a, y)
    edge[t, y_prev, y] = Σ_{edge attributes a active at t} value · weight(a, y_prev, y)

Labels may share the weights of sub-tags; see `tagloom.scores.subtags`.

A `LinearScores` never changes, so threads can share it without locks; changing weights makes a new
one. Learning the weights is left to ``training``.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from tagloom import _native, checks, features, storage, trellis
from tagloom.errors import ModelFileError
from tagloom.features import Encoded, FeatureExtractor, Templates
from tagloom.features.templates import call_native
from tagloom.numeric import np
from tagloom.records import Record, replace
from tagloom.scores.decoders import Decoder, ItemDecoder, WordDecoder
from tagloom.scores.parts import Part, Parts
from tagloom.scores.subtags import Subtags
from tagloom.storage import File
from tagloom.storage.stored import ArrayField, Stored

if TYPE_CHECKING:
    import numpy.typing as npt

    from tagloom.trellis import StateSpace
    from tagloom.trellis.pruning import Pruning

    Float32 = npt.NDArray[np.float32]
    Float64 = npt.NDArray[np.float64]


class Scored(NamedTuple):
    """The scores of a batch of N sentences with T tokens in all."""

    offsets: npt.NDArray[np.int64]  # [N + 1]
    emit: Float32  # [T, Y]
    edge: Float32 | None  # [T, Y, Y]


class _Scorers(NamedTuple):
    templates: Templates
    node: _native.Scorer
    edge: _native.Scorer | None


class Rows(Record):
    """The weights of A attributes, each a sparse row over K outputs.

    Attributes
    ----------
    ptr : ndarray of int64, shape (A + 1,)
        The weights of attribute a are ``weights[ptr[a]:ptr[a + 1]]``.
    cols : ndarray of uint16, shape (W,)
        The output of each weight: y, or Y + s for a sub-tag; y_prev·Y + y for edge attributes.
    weights : ndarray of float32, shape (W,)
    """

    ptr: ArrayField = ArrayField()
    cols: ArrayField = ArrayField("<u2")
    weights: ArrayField = ArrayField("<f4")

    @property
    def n_attributes(self) -> int:
        """A, the number of attributes."""
        return len(self.ptr) - 1

    @property
    def native(self) -> tuple[Any, Any, Any]:
        """The three arrays for native code."""
        ptr, cols, weights = (ArrayField.native(self, x) for x in ("ptr", "cols", "weights"))
        return ptr, cols, weights

    @cached_property
    def attributes(self) -> npt.NDArray[np.int64]:
        """The attribute that each weight belongs to [W]."""
        return np.repeat(np.arange(self.n_attributes), np.diff(self.ptr))

    def count(self, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Count the chosen weights [W] of each attribute [A]."""
        before = np.zeros(len(chosen) + 1, np.int64 if len(chosen) >> 31 else np.int32)
        np.cumsum(chosen, out=before[1:])  # chosen weights before each one
        counts: npt.NDArray[np.int64] = np.diff(before[self.ptr]).astype(np.int64)
        return counts

    def keep(self, kept: npt.NDArray[np.bool_]) -> tuple[Rows, npt.NDArray[np.bool_]]:
        """Drop weights, and the attributes that are left with none.

        Parameters
        ----------
        kept : ndarray of bool, shape (W,)

        Returns
        -------
        rows : Rows
        attributes : ndarray of bool, shape (A,)
            Whether each attribute is left.
        """
        left = self.count(kept)  # [A]
        ptr = np.concatenate([[0], np.cumsum(left[left > 0])])
        return Rows(ptr.astype(np.int64), self.cols[kept], self.weights[kept]), left > 0

    def narrowed(self) -> Rows:
        """Round the weights to 16 bits."""
        limit = float(np.finfo(np.float16).max)
        narrow = np.clip(self.weights, -limit, limit).astype(np.float16)
        return Rows(self.ptr, self.cols, narrow.astype(np.float32))


class Names:
    """The names of attributes as one bytes object, decoded on access.

    Parameters
    ----------
    blob : bytes
        All names in UTF-8, one after another.
    offsets : ndarray of int64, shape (A + 1,)
    """

    def __init__(self, blob: bytes, offsets: npt.NDArray[np.int64]) -> None:
        self.blob, self.offsets = blob, offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, a: int) -> str:
        return self.blob[self.offsets[a] : self.offsets[a + 1]].decode("utf-8", "replace")

    def __iter__(self) -> Iterator[str]:
        return (self[a] for a in range(len(self)))

    def keep(self, kept: npt.NDArray[np.bool_]) -> Names:
        """Drop names."""
        if kept.all():
            return self
        lengths = np.diff(self.offsets)
        letters = np.frombuffer(self.blob, dtype=np.uint8)[np.repeat(kept, lengths)]
        offsets = np.concatenate([[0], np.cumsum(lengths[kept])]).astype(np.int64)
        return Names(letters.tobytes(), offsets)


class PackedNames(Names):
    """Names as a file stores them, compressed; unpacked at first use."""

    def __init__(self, packed: Stored, n: int) -> None:
        self._stored, self._n = packed, n

    @property
    def packed(self) -> npt.NDArray[np.uint8]:
        """The compressed bytes."""
        return self._stored.array

    def __len__(self) -> int:
        return self._n

    @cached_property
    def _unpacked(self) -> tuple[bytes, npt.NDArray[np.int64]]:
        return storage.unpack_bytes(self.packed, count=self._n, where="the names")

    @property
    def blob(self) -> bytes:  # type: ignore[override]
        """All names in UTF-8, one after another."""
        return self._unpacked[0]

    @property
    def offsets(self) -> npt.NDArray[np.int64]:  # type: ignore[override]
        """Where each name begins and ends [A + 1]."""
        return self._unpacked[1]


class IndexField:
    """A field of a record: an index, or its keys in a file, which become an index at first use.

    The scores of templates need the keys alone, so a program that only tags makes no index.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, whole: Any, owner: type | None = None) -> _native.Index:
        if whole is None:
            raise AttributeError(self._name)  # record: the field has no default
        index = whole.__dict__[self._name]
        if isinstance(index, Stored):
            index = whole.__dict__[self._name] = _native.Index.from_keys(index.view)
        return index  # type: ignore[no-any-return]

    def __set__(self, whole: Any, value: _native.Index | Stored) -> None:
        whole.__dict__[self._name] = value

    @staticmethod
    def native(whole: Any, name: str) -> Any:
        """Return the index or its keys, for a `_native.Scorer`."""
        value = whole.__dict__[name]
        return value.view if isinstance(value, Stored) else value


class OptionalIndexField(IndexField):
    """The same for an index that may be absent: None by default."""

    def __get__(self, whole: Any, owner: type | None = None) -> Any:
        return None if whole is None else super().__get__(whole, owner)

    def __set__(self, whole: Any, value: _native.Index | Stored | None) -> None:
        whole.__dict__[self._name] = value


class LinearScores(Record):
    """Features and their weights.

    Attributes
    ----------
    labels : tuple of str
        The Y labels.
    extractor : FeatureExtractor
        Extracts the attributes of sentences.
    rows : Rows
        The weights of (attribute, y).
    names : Names
        The attributes as people read them.
    index : Index
        The number of each attribute.
    trans : ndarray, shape (Y, Y)
        The weights of y_prev → y.
    start, stop : ndarray, shape (Y,)
    edge_index, edge_rows, edge_names
        The same for edge templates, weights of (attribute, y_prev, y); None without edge templates.
    states : StateSpace or None
        The label histories that transitions depend on; None: the previous label.
    tied : ndarray, shape (K,), or None
        The weights that the state space ties to its transitions.
    is_narrow : bool
        Whether files hold the weights in 16 bits.
    subtags : Subtags or None
        The sub-tags of labels, which have weights of attributes, too.
    """

    labels: tuple[str, ...]
    extractor: FeatureExtractor
    rows: Rows
    names: Names
    index: IndexField = IndexField()
    trans: ArrayField = ArrayField()
    start: ArrayField = ArrayField()
    stop: ArrayField = ArrayField()
    edge_index: OptionalIndexField = OptionalIndexField()
    edge_rows: Rows | None = None
    edge_names: Names | None = None
    states: StateSpace | None = None
    tied: Float64 | None = None
    is_narrow: bool = False
    subtags: Subtags | None = None

    @property
    def dense_transitions(self) -> _native.Dense:
        """The weights of transitions, starts and stops for native code, in first order.

        In 32 bits, as in a trellis of such scores, so that results have the same bits.
        """
        parts = [ArrayField.native(self, name) for name in ("trans", "start", "stop")]
        return _native.Dense(len(self.labels), 1, *map(_narrowed, parts))

    @property
    def outputs(self) -> tuple[str, ...]:
        """What attributes have weights for: the labels, then the sub-tags."""
        return self.labels if self.subtags is None else (*self.labels, *self.subtags.names)

    @property
    def has_edges(self) -> bool:
        """Whether there are edge attributes."""
        return self.edge_rows is not None

    @property
    def n_weights(self) -> int:
        """Number of stored weights."""
        edges = 0 if self.edge_rows is None else len(self.edge_rows.weights)
        transitions = self.trans.size + self.start.size + self.stop.size
        transitions += 0 if self.tied is None else self.tied.size
        return len(self.rows.weights) + edges + transitions

    def score(self, sentences: Any, n_threads: int) -> Scored:
        """Score every label at every token, and every transition where there are edge templates.

        Parameters
        ----------
        sentences : sequence of sentences
            In the forms that the extractor takes.
        n_threads : int

        Returns
        -------
        Scored
        """
        if self._scorers is None:
            encoded = self.extractor.encode(sentences, self.index, self.edge_index)
            return self.score_encoded(encoded, n_threads)
        columns, numbers = self._scorers.templates.columns(sentences)
        offsets, emit = call_native(self._scorers.node.emit, columns, numbers, n_threads)
        if self.subtags is not None:
            emit = self.subtags.native.spread(emit, n_threads)
        edge = None
        if self._scorers.edge is not None:
            _, edge = call_native(self._scorers.edge.edge, columns, numbers, n_threads)
        return Scored(offsets, emit, edge)

    def decoder(
        self,
        transitions: _native.Dense,
        normaliser: _native.LocalNormaliser | None = None,
        pruning: Pruning | None = None,
        trigrams: _native.TrigramScores | None = None,
    ) -> Decoder | None:
        """Make the native decoder from sentences to labels.

        Parameters
        ----------
        transitions : _native.Dense
            Scores of transitions, starts and stops; −inf if forbidden.
        normaliser : _native.LocalNormaliser, optional
            Turns the scores into log probabilities of a local model.
        pruning : Pruning, optional
            Decode over candidate labels; see `Trellis.prune`.
        trigrams : _native.TrigramScores, optional
            Their weights, over candidates.

        Returns
        -------
        Decoder or None
            None if the features are neither templates nor items, or labels have sub-tags and are
            not pruned.
        """
        if self.subtags is not None and pruning is None:
            return None
        labels: dict[str, Any] = {"pruning": pruning, "trigrams": trigrams, "subtags": self.subtags}
        if self._scorers is not None:
            templates, node, edge = self._scorers
            return WordDecoder(
                templates,
                node,
                transitions,
                self.labels,
                edges=edge,
                normaliser=normaliser,
                **labels,
            )
        from tagloom.features.items import ItemExtractor  # here, for a quick start

        if not isinstance(self.extractor, ItemExtractor) or self.edge_rows is not None:
            return None
        rows, _ = self._native_rows
        return ItemDecoder(
            self.extractor,
            self.index,
            rows,
            transitions,
            self.labels,
            normaliser=normaliser,
            **labels,
        )

    def score_encoded(self, encoded: Encoded, n_threads: int) -> Scored:
        """Score sentences whose attributes are already numbered."""
        Y = len(self.labels)
        node, edge_rows = self._native_rows
        emit = node.score(encoded.indptr, encoded.ids, encoded.values, n_threads)
        if self.subtags is not None:
            emit = self.subtags.native.spread(emit, n_threads)
        edge = None
        if (
            edge_rows is not None
            and encoded.edge_indptr is not None
            and encoded.edge_ids is not None
        ):
            edge = edge_rows.score(
                encoded.edge_indptr, encoded.edge_ids, encoded.edge_values, n_threads
            ).reshape(-1, Y, Y)
        return Scored(encoded.offsets, emit, edge)

    def score_rows(
        self, indptr: npt.NDArray[np.int64], ids: npt.NDArray[np.int32], n_threads: int
    ) -> Float32:
        """Sum the weights of lists of attributes by output [n, K]: ids[indptr[i]:indptr[i + 1]]."""
        return self._native_rows[0].score(indptr, ids, None, n_threads)

    @cached_property
    def _native_rows(self) -> tuple[_native.WeightRows, _native.WeightRows | None]:
        """The weights as native objects, which check them once."""
        Y, rows, edges = len(self.labels), self.rows, self.edge_rows
        node = _native.WeightRows(*rows.native, len(self.outputs))
        if edges is None:
            return node, None
        return node, _native.WeightRows(*edges.native, Y * Y)

    @cached_property
    def _scorers(self) -> _Scorers | None:
        """The native scorers from strings to scores, for templates."""
        if not isinstance(self.extractor, Templates):
            return None
        Y, rows, edges = len(self.labels), self.rows, self.edge_rows
        make = self.extractor.scorer
        index, edge_index = (IndexField.native(self, name) for name in ("index", "edge_index"))
        node = make(index, *rows.native, len(self.outputs))
        edge = None
        # Files may have weights of edges without a template that gives such attributes.
        if edges is not None and edge_index is not None and self.extractor.has_edges:
            edge = make(edge_index, *edges.native, Y * Y, edges=True)
        return _Scorers(self.extractor, node, edge)

    # ---- fewer weights ---------------------------------------------------------------------

    def keep(self, kept: npt.NDArray[np.bool_]) -> LinearScores:
        """Drop weights of (attribute, y) [W], and the attributes that are left with none."""
        rows, left = self.rows.keep(kept)
        return replace(self, rows=rows, index=self.index.keep(left), names=self.names.keep(left))

    def keep_edges(self, kept: npt.NDArray[np.bool_]) -> LinearScores:
        """Drop weights of edge attributes, and the attributes that are left with none."""
        if self.edge_rows is None or self.edge_index is None or self.edge_names is None:
            return self
        rows, left = self.edge_rows.keep(kept)
        return replace(
            self,
            edge_rows=rows,
            edge_index=self.edge_index.keep(left),
            edge_names=self.edge_names.keep(left),
        )

    def without_zeros(self, least: float = 0.0) -> LinearScores:
        """Drop weights of edges that are zero, and other weights that are zero or below ``least``.

        If ``least`` is 0, rows that are mostly full stay full, for speed.
        """
        if least > 0:
            slim = self.keep(np.abs(self.rows.weights) >= least)
        else:
            K = len(self.outputs)
            lengths, is_used = np.diff(self.rows.ptr), self.rows.weights != 0  # [A], [W]
            dense = (lengths == K) & (2 * self.rows.count(is_used) >= K)
            slim = self.keep(is_used | np.repeat(dense, lengths))
        if slim.edge_rows is None:
            return slim
        return slim.keep_edges(slim.edge_rows.weights != 0)

    def narrowed(self) -> LinearScores:
        """Round the weights of attributes to 16 bits."""
        return replace(
            self,
            rows=self.rows.narrowed(),
            edge_rows=None if self.edge_rows is None else self.edge_rows.narrowed(),
            is_narrow=True,
        )

    # ---- looking inside --------------------------------------------------------------------

    @staticmethod
    def named(
        rows: Rows, names: Names, chosen: npt.NDArray[np.bool_], pattern: str | None
    ) -> Iterator[tuple[str, int, float]]:
        """List (attribute, output, weight) of the chosen weights [W] that are not zero."""
        if pattern is not None:
            import fnmatch  # here, for a quick start

            match = re.compile(fnmatch.translate(pattern)).match
            fits = np.fromiter((match(name) is not None for name in names), bool, len(names))
            chosen = chosen & fits[rows.attributes]
        for i in np.flatnonzero(chosen & (rows.weights != 0)).tolist():
            yield names[rows.attributes[i]], int(rows.cols[i]), float(rows.weights[i])

    def parts(self, sentence: Any) -> Parts:
        """Name the terms of the scores of one sentence: attributes with their weights.

        Parameters
        ----------
        sentence : sentence
            In a form that the extractor takes.

        Returns
        -------
        Parts
            Of ``emit[t, y] + edge[t, y_prev, y]``.
        """
        encoded = self.extractor.encode([sentence], self.index, self.edge_index)
        Y, edge_rows, edge_names = len(self.labels), self.edge_rows, self.edge_names
        indptr, ids = encoded.edge_indptr, encoded.edge_ids

        def of_transition(t: int, y_prev: int | None, y: int) -> Iterator[Part]:
            nodes = encoded.indptr, encoded.ids, encoded.values
            yield from _weighed(self.rows, self.names, *nodes, t, y, 1)
            if self.subtags is not None:
                for s in self.subtags.of_label(y):
                    for part in _weighed(self.rows, self.names, *nodes, t, Y + s, 1):
                        yield part._replace(name=f"{part.name} → {self.subtags.names[s]}")
            if y_prev is None or edge_rows is None or edge_names is None:
                return
            if indptr is not None and ids is not None:
                edges = indptr, ids, encoded.edge_values
                yield from _weighed(edge_rows, edge_names, *edges, t, y_prev * Y + y, 2)

        return of_transition

    # ---- files -----------------------------------------------------------------------------

    def to_file(self, n_threads: int = 1) -> File:
        """Return the scores as a header of plain data and arrays; see docs/format.md.

        Parameters
        ----------
        n_threads : int
            Number of threads that compress the names.
        """
        import unicodedata  # here, for a quick start

        header = {
            "labels": list(self.labels),
            "features": self.extractor.to_dict(),
            "unicode": unicodedata.unidata_version,
        }
        if self.subtags is not None:
            header["subtags"] = self.subtags.separator
        arrays = {"trans": self.trans, "start": self.start, "stop": self.stop}
        if self.states is not None:
            header["states"] = self.states.to_dict()
            arrays["tied"] = np.empty(0) if self.tied is None else self.tied
        dtype = np.float16 if self.is_narrow else np.float32
        nodes = _part_to_file(self.index, self.rows, self.names, dtype, n_threads)
        file = File(header, arrays) | nodes
        if self.edge_rows is not None and self.edge_index is not None and self.edge_names:
            edges = self.edge_index, self.edge_rows, self.edge_names
            file |= _part_to_file(*edges, dtype, n_threads).prefixed("edge_")
        return file

    @classmethod
    def from_file(cls, file: File, function: Any) -> LinearScores:
        """Make scores from the result of `to_file`, which is not trusted.

        Raises
        ------
        ModelFileError, ValueError, KeyError
            If its parts do not fit together.
        """
        header, arrays = file.header, file.arrays
        labels = checks.label_names(header["labels"])
        if not labels:
            raise ModelFileError(where="labels", expected="at least one label", found="none")
        Y = len(labels)
        extractor = features.from_dict(header["features"], function=function)
        subtags = None
        separator = header.get("subtags")
        if separator is not None:
            if not isinstance(separator, str) or not separator:
                raise ModelFileError(
                    where="subtags", expected="a separator", found=checks.show(separator)
                )
            subtags = Subtags.split(labels, separator)
        index, rows, names = _part_from_file(file, "", Y + (0 if subtags is None else len(subtags)))
        edge_index, edge_rows, edge_names = None, None, None
        if "edge_lengths" in arrays:
            if isinstance(extractor, Templates) and not extractor.has_edges:
                raise ModelFileError(
                    where="features",
                    expected="edge templates, since there are edge weights",
                    found="none",
                )
            edge_index, edge_rows, edge_names = _part_from_file(file, "edge_", Y * Y)
        states, tied = None, None
        if header.get("states") is not None:
            states, tied = _states_from_file(header["states"], arrays, tuple(labels))
        scores = cls(
            tuple(labels),
            extractor,
            rows,
            names,
            index,
            check_scores(file, "trans", (Y, Y)),
            check_scores(file, "start", (Y,)),
            check_scores(file, "stop", (Y,)),
            edge_index,
            edge_rows,
            edge_names,
            states,
            tied,
            is_narrow=file.stored("weights").code == "F16",
            subtags=subtags,
        )
        if scores._scorers is None:  # both native forms check the arrays and the keys
            _ = scores._native_rows, scores.index, scores.edge_index
        return scores


def _states_from_file(
    data: Any, arrays: Mapping[str, npt.NDArray[Any]], labels: tuple[str, ...]
) -> tuple[StateSpace, Float64]:
    """Make the state space of a file, after checking that its size fits the weights."""
    Y, order = len(labels), data.get("order")
    if order is not None:
        if type(order) is not int or not 2 <= order <= 16:
            raise ModelFileError(
                where="states", expected="an order from 2 to 16", found=checks.show(order)
            )
        K = sum(Y**n for n in range(3, order + 2))
        if arrays["tied"].shape != (K,):
            raise ModelFileError(
                where="tied",
                expected=f"{K} weights for order {order}",
                found=f"shape {arrays['tied'].shape}",
            )
    states = trellis.StateSpace.from_dict(data)
    if states.labels != labels:
        raise ModelFileError(
            where="states", expected="the labels of the model", found=checks.show(states.labels)
        )
    return states, log_scores(arrays, "tied", (states.n_weights,)).astype(np.float64)


def _weighed(
    rows: Rows,
    names: Names,
    indptr: npt.NDArray[np.int64],
    ids: npt.NDArray[np.int32],
    values: Float32 | None,
    t: int,
    col: int,
    n_labels: int,
) -> Iterator[Part]:
    """List the weighted attributes of token t for one output."""
    for i in range(int(indptr[t]), int(indptr[t + 1])):
        a = int(ids[i])
        row = slice(int(rows.ptr[a]), int(rows.ptr[a + 1]))
        for weight in rows.weights[row][rows.cols[row] == col].tolist():
            yield Part(names[a], weight if values is None else float(values[i]) * weight, n_labels)


def _part_to_file(
    index: _native.Index, rows: Rows, names: Names, dtype: npt.DTypeLike, n_threads: int
) -> File:
    """Return node or edge weights for a file, columns in the smallest type that fits."""
    narrow = np.uint8 if rows.cols.max(initial=0) < 256 else rows.cols.dtype
    arrays: dict[str, npt.NDArray[Any]] = {
        "keys": index.keys(),
        "lengths": np.diff(rows.ptr).astype(np.uint32),
        "cols": rows.cols.astype(narrow),
        "weights": rows.weights.astype(dtype, copy=False),
        "names": names.packed
        if isinstance(names, PackedNames)
        else storage.pack_bytes(names.blob, names.offsets, n_threads=n_threads),
    }
    # The weights are most of a file, and every value is harmless.
    return File({}, arrays, frozenset({"weights"}))


def _part_from_file(file: File, prefix: str, K: int) -> tuple[Stored, Rows, Names]:
    lengths, cols = file.stored(f"{prefix}lengths"), file.stored(f"{prefix}cols")
    if len(lengths.shape) != 1 or not lengths.code.startswith("U"):
        raise _unfit(lengths, f"{prefix}lengths", "sizes, in one dimension")
    A = lengths.shape[0]
    numbers = lengths.view if lengths.code == "U32" else lengths.array.astype(np.uint32)
    pointers = memoryview(_native.row_pointers(numbers))
    ptr = Stored("I64", (A + 1,), pointers)
    W = ptr.view[-1]
    if not cols.code.startswith("U") or cols.shape != (W,) or _exceeds(cols, K):
        raise _unfit(cols, f"{prefix}cols", f"{W} numbers below {K}")
    weights = check_scores(file, f"{prefix}weights", (W,))
    keys = file.stored(f"{prefix}keys")
    if keys.shape != (A,) or keys.code != "U64":
        raise _unfit(keys, f"{prefix}keys", f"{A} keys")
    return keys, Rows(ptr, cols, weights), PackedNames(file.stored(f"{prefix}names"), A)


def _exceeds(cols: Stored, K: int) -> bool:
    """Whether a column is not below K."""
    if cols.code == "U8":
        return bool(cols.data.tobytes().translate(None, bytes(range(min(K, 256)))))
    return bool(cols.array.max(initial=0) >= K)


def check_scores(file: File, name: str, shape: tuple[int, ...]) -> Stored:
    """Return an array of a file after checking its shape, and that it has no NaN or +inf.

    Raises
    ------
    ModelFileError
    """
    stored = file.stored(name)
    if stored.shape != shape or not stored.code.startswith("F"):
        raise _unfit(stored, name, f"floats of shape {shape}")
    numbers = stored.array.astype(np.float32) if stored.code == "F16" else stored.view
    if not _native.are_scores(numbers):  # −inf forbids
        raise ModelFileError(where=name, expected="finite numbers or −inf", found="NaN or +inf")
    return stored


def log_scores(
    arrays: Mapping[str, npt.NDArray[Any]], name: str, shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    """Return an array of a file after checking its shape, and that it has no NaN or +inf.

    Raises
    ------
    ModelFileError
    """
    return check_scores(File({}, arrays), name, shape).array


def _narrowed(part: Any) -> Any:
    """Return numbers in 32 bits, without NumPy if they are in a memoryview."""
    if isinstance(part, memoryview):
        return array("f", part)
    with np.errstate(over="ignore"):  # to inf, as array("f") does
        return part.astype(np.float32)


def _unfit(stored: Stored, name: str, expected: str) -> ModelFileError:
    found = f"{stored.array.dtype} {stored.shape}"
    return ModelFileError(where=name, expected=expected, found=found)
