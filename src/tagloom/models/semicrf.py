"""Semi-Markov conditional random fields: a CRF over segments instead of labels.

The score of a segment is the sum of its tokens' scores, as in a CRF, and of the weights of segment
templates, which read the whole phrase. A row of the native objective is a token or a candidate
segment, so weights, learners, files and predictions are those of `LinearTagger`. The labels of
segments and the translation to token labels are in `trellis.segment_labels`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks, evaluation
from tagloom.errors import ModelFileError, ParameterError
from tagloom.features.segments import EncodedSegments, SegmentTemplates
from tagloom.models.capabilities import Capability
from tagloom.models.crf import CRF
from tagloom.models.data import read_dev
from tagloom.models.linear import LinearFitted
from tagloom.models.reading import TrainingData
from tagloom.models.taggers import PredictedSpan
from tagloom.notebooks import Rows
from tagloom.parameters import attribute, count, parameter
from tagloom.records import field, replace
from tagloom.storage import File
from tagloom.trellis import SegmentTrellis
from tagloom.trellis.machine import ALL_THREADS
from tagloom.trellis.segment_labels import SegmentColumns, SegmentLabels

if TYPE_CHECKING:
    from tagloom.models.layouts import Layout

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

# scheme -> letters of a single, a first, an inner and a last token
_LETTERS = {"bio": "BBII", "bioes": "SBIE", "bilou": "UBIL", "bmes": "SBME"}


@dataclass(frozen=True, eq=False)
class SegmentAlphabet:
    """The labels of segments, and the token labels by which they are written.

    Attributes
    ----------
    types : tuple of str
        Names of the S segment labels: types of spans, and token labels outside spans.
    is_span : ndarray of bool, shape (S,)
    columns : SegmentColumns
    """

    types: tuple[str, ...]
    is_span: Bool
    columns: SegmentColumns

    @classmethod
    def of_labels(cls, labels: Sequence[str], scheme: str | None) -> SegmentAlphabet:
        """Find the segment labels behind token labels; all have length 1 without a scheme."""
        number = {label: y for y, label in enumerate(labels)}
        types: list[str] = []
        rows: list[list[int]] = []
        spans: list[bool] = []
        letters = _LETTERS[scheme] if scheme else ""
        for label in labels:
            letter, dash, kind = label.partition("-")
            is_span = bool(scheme) and (letter in letters) and (dash == "-" or letter == label)
            if not is_span:
                types.append(label)
                rows.append([number[label], number[label], -1, -1])
                spans.append(False)
            elif kind not in [t for t, s in zip(types, spans, strict=True) if s]:
                names = [f"{x}{dash}{kind}" for x in letters]
                single, first, inside, last = (number.get(name, -1) for name in names)
                either = first if single < 0 else single
                types.append(kind)
                rows.append([either, single if first < 0 else first, inside, last])
                spans.append(True)
        columns = np.array(rows, dtype=np.int32).reshape(-1, 4)
        longest = np.ones(len(types), dtype=np.int32)
        return cls(tuple(types), np.array(spans), SegmentColumns(len(labels), columns, longest))

    def with_longest(self, longest: Int32) -> SegmentAlphabet:
        """Return a copy with other largest lengths."""
        columns = replace(self.columns, longest=longest)
        return replace(self, columns=columns)

    def with_strays(self) -> SegmentAlphabet:
        """Return a copy in which inner and last labels are also segments of length 1.

        They stand for token labels that break the scheme, such as I-PER after O. A sum over them
        teaches the weights of these labels where no span is, as in a `CRF` without constraints.
        """
        known = self.columns.columns
        strays = sorted(set(known[self.is_span][:, 2:].ravel().tolist()) - {-1})
        rows = [[y, y, -1, -1] for y in strays]
        ones = np.ones(len(rows), dtype=np.int32)
        columns = SegmentColumns(
            self.columns.n_labels,
            np.concatenate([known, np.array(rows, dtype=np.int32).reshape(-1, 4)]),
            np.concatenate([self.columns.longest, ones]),
        )
        types = (*self.types, *(f"label {y}" for y in strays))
        return SegmentAlphabet(types, np.append(self.is_span, ones == 0), columns)

    def segments_of(self, labels: Int32, offsets: Int64) -> tuple[Int32, Int64, Int64, Int32]:
        """Read legal token labels [T] as segments.

        Returns
        -------
        path : ndarray, shape (T,)
            The segment label where a segment begins, S inside.
        begin, length, label : ndarray, shape (n,)
        """
        S = len(self.types)
        begins = np.full(self.columns.n_labels, S, dtype=np.int32)
        for y, (single, first, _, _) in enumerate(self.columns.columns.tolist()):
            begins[[single, first]] = y
        path = begins[labels]
        begin = np.flatnonzero(path != S)
        length = np.diff(np.append(begin, len(path)))
        return path, begin, length, path[begin]

    def shape(self, **rows: Any) -> _native.SegmentShape:
        """Return the native form."""
        return _native.SegmentShape(
            self.columns.columns, self.columns.longest, self.is_span, **rows
        )


@dataclass(eq=False)
class SegmentData(TrainingData):
    """A labelled corpus, and what its segments are; the last two are set with the objective."""

    sentences: Sequence[Any] = ()
    alphabet: SegmentAlphabet | None = None
    templates: SegmentTemplates | None = None


class SegmentFitted(LinearFitted):
    """The state of a fitted `SemiCRF`: also its segment labels and templates."""

    alphabet: SegmentAlphabet = field(kw_only=True)
    templates: SegmentTemplates = field(kw_only=True)

    @cached_property
    def shape(self) -> _native.SegmentShape:
        """The segment labels for the native core."""
        return self.alphabet.shape()

    @cached_property
    def _decoder(self) -> Any:
        """The native decoder where all segments have length 1: those are labels of a chain."""
        if self.alphabet.is_span.any():
            return None
        return LinearFitted._decoder.func(self)  # type: ignore[attr-defined]


class SemiCRF(CRF):
    r"""A semi-Markov conditional random field: a `CRF` over segments.

    The probability of a segmentation s of a sentence x is ``exp(score(x, s)) / Z(x)``. The score of
    a segment is the sum of the weights of its tokens' attributes, with separate weights for its
    first, inner and last token as the scheme of the labels tells them apart, and of the weights of
    its own attributes, which read the whole phrase. Labels that mark no spans are segments of
    length 1; with such labels only, it is a `CRF`.

    Attributes
    ----------
    labels_ : ndarray of str
        The token labels.
    scores_ : LinearScores
        The attributes of tokens and segments, and their weights.
    max_lengths_ : dict
        The length of the longest segment of each type, in tokens.

    Examples
    --------
    >>> import tagloom as tl
    >>> X = [["Ada", "Lovelace", "wrote"], ["she", "met", "Ada", "Lovelace"], ["Ada", "wrote"]]
    >>> y = [["B-PER", "I-PER", "O"], ["O", "O", "B-PER", "I-PER"], ["B-PER", "O"]]
    >>> tagger = tl.SemiCRF(features="words").fit(X, y)
    >>> tagger.predict([["Ada", "Lovelace", "met", "Ada"]])
    [['B-PER', 'I-PER', 'O', 'B-PER']]
    >>> [(s.type, s.start, s.end) for s in tagger.predict_spans([["she", "met", "Ada"]])[0]]
    [('PER', 2, 3)]
    >>> tagger.max_lengths_
    {'PER': 2}
    """

    capabilities = CRF.capabilities - {Capability.OPEN_LABELS}

    segments: Any = parameter(
        default="phrases",
        type="str, list of str or SegmentTemplates",
        is_option=False,
        help="The templates of segments: a preset, or a list.",
        details='The preset is "phrases". For lexicons pass `tagloom.features.SegmentTemplates`.',
    )
    max_length: int | None = count(
        default=None,
        least=1,
        help="The length of the longest segment; by default that of each type in the data.",
        details="Longer segments of the training data are an error.",
    )
    min_segments: int = count(
        default=2,
        least=1,
        help="Leave out attributes of segments that occur in fewer spans of the training data.",
        details="""A phrase that occurs once would be learned by heart, at the expense of the
        weights of its tokens, which also apply to other phrases.""",
    )
    order = 1
    states = "auto"
    select = None
    prune = None
    subtags = None
    constrain_training = False

    decodes_natively = True
    _fitted: SegmentFitted = attribute(init=False)
    _state_type = SegmentFitted

    @property
    def max_lengths_(self) -> dict[str, int]:
        """The length of the longest segment of each type."""
        self._check_fitted("max_lengths_")
        alphabet = self._fitted.alphabet
        rows = zip(alphabet.types, alphabet.is_span, alphabet.columns.longest, strict=True)
        return {name: int(longest) for name, is_span, longest in rows if is_span}

    # ---- learning --------------------------------------------------------------------------

    def _make_templates(self) -> SegmentTemplates:
        if isinstance(self.segments, SegmentTemplates):
            return self.segments
        return SegmentTemplates(self.segments)

    takes_files = False  # the longest segments must be known

    @property
    def takes_parts(self) -> bool:
        """Whether the learner can take a corpus in parts: the longest segments must be known."""
        return False

    def _read(
        self, X: Any, y: Any, sample_weight: Any, start: Any, *, in_parts: bool = False
    ) -> TrainingData:
        data = super()._read(X, y, sample_weight, start, in_parts=in_parts)
        scheme = data.constraints.scheme
        if scheme is not None and scheme not in _LETTERS:
            raise ParameterError(
                parameter="constraints",
                expected=f"labels in one of the schemes {', '.join(_LETTERS)}",
                found=scheme,
                hint="Convert the labels, for example by tagloom.labels.convert(y, to='bio').",
            )
        if data.constraints.space is not None or data.encoded.edge_ids is not None:
            raise ParameterError(
                parameter="constraints" if data.constraints.space is not None else "features",
                expected="a scheme or a tag dictionary, and no edge templates, for segments",
                found="a state space" if data.constraints.space is not None else "edge templates",
            )
        fields = {name: getattr(data, name) for name in TrainingData.__dataclass_fields__}
        return SegmentData(**fields, sentences=checks.sentences(X))

    def _make_objective(
        self, data: TrainingData, *, pattern_only: bool = False
    ) -> tuple[_native.LinearObjective, Layout]:
        """Make the objective whose rows are tokens and candidate segments."""
        from tagloom.models.layouts import Layout

        assert isinstance(data, SegmentData)
        threads = self.n_threads or ALL_THREADS
        alphabet = SegmentAlphabet.of_labels(data.names, data.constraints.scheme)
        offsets, numbers = data.encoded.offsets, data.gold.numbers
        path, begin, length, label = alphabet.segments_of(numbers, offsets)
        longest = np.ones(len(alphabet.types), dtype=np.int32)
        np.maximum.at(longest, label, length.astype(np.int32))
        if data.start is not None and self.is_fitted:
            known = self.max_lengths_
            earlier = [known.get(name, 1) for name in alphabet.types]
            longest = np.maximum(longest, np.array(earlier, dtype=np.int32))
        if self.max_length is not None and longest.max() > self.max_length:
            raise ParameterError(
                parameter="max_length",
                expected=f"at least {longest.max()}, the longest segment of the training data",
                found=str(self.max_length),
            )
        alphabet = alphabet.with_longest(longest)
        templates = self._make_templates()
        is_span = alphabet.is_span[label]
        gold = (begin[is_span].astype(np.int64), length[is_span].astype(np.int32))
        kinds = [alphabet.types[y] for y in label[is_span].tolist()]
        own = _spans_by_sentence(*gold, kinds, offsets)
        n_token_attributes = data.index.size
        spans = templates.encode(data.sentences, data.index, *gold, grow=True, own=own)
        n_spans = np.bincount(spans.ids, minlength=data.index.size)  # of each attribute
        is_rare = (n_spans < self.min_segments) & (np.arange(len(n_spans)) >= n_token_attributes)
        rows = _encode_candidates(
            templates, data.sentences, data.index, offsets, alphabet, threads, own, is_rare
        )
        data.alphabet, data.templates = alphabet, templates

        # Rows: the tokens of a sentence, then its segments.
        T, N, n = len(numbers), len(offsets) - 1, len(rows.begin)
        of_token = np.repeat(np.arange(N), np.diff(offsets))
        of_segment = np.searchsorted(offsets, rows.begin, side="right") - 1
        before = np.concatenate([[0], np.cumsum(np.bincount(of_segment, minlength=N))])
        token_rows = np.arange(T) + before[of_token]
        segment_rows = np.arange(n) + offsets[of_segment + 1]
        places = np.concatenate([token_rows, segment_rows])  # [T + n]
        encoded = data.encoded
        lists = [(encoded.indptr, encoded.ids), (rows.indptr, rows.ids)]
        indptr, order = _interleave(lists, places)
        ids = np.concatenate([encoded.ids, rows.ids])[order]
        values = None
        if encoded.values is not None:
            ones = np.ones(len(rows.ids), dtype=np.float32)
            values = np.concatenate([encoded.values, ones])[order]

        S, R = len(alphabet.types), T + n
        gold_rows = np.full(R, -1, dtype=np.int32)  # any label: chooses no weights
        gold_rows[token_rows] = numbers
        at = {
            (b, k): y
            for b, k, y in zip(begin.tolist(), length.tolist(), label.tolist(), strict=True)
        }
        first = alphabet.columns.columns[:, 1]
        for i, key in enumerate(zip(rows.begin.tolist(), rows.length.tolist(), strict=True)):
            y = at.get(key, -1)
            if y >= 0 and alphabet.is_span[y]:
                gold_rows[segment_rows[i]] = first[y]
        begins, lengths = np.zeros(R, dtype=np.int32), np.zeros(R, dtype=np.int32)
        begins[segment_rows] = rows.begin - offsets[of_segment]
        lengths[segment_rows] = rows.length
        golds = np.full(R, S, dtype=np.int32)
        golds[token_rows] = path
        in_training = alphabet.with_strays()
        golds[golds == S] = len(in_training.types)  # inside a segment
        shape = in_training.shape(
            n_tokens=np.diff(offsets), begin=begins, length=lengths, gold=golds
        )
        extra = None if data.start is None else data.start.layout.pairs(data.names)[0]
        Y = len(data.names)
        objective = _native.LinearObjective(
            offsets + before,
            _native.Attributes(indptr, ids, data.index.size, values, extra),
            _native.Labels(gold_rows, Y, np.ones((1, Y), dtype=np.uint8), None),
            weight=data.weight,
            all_combinations=self._takes_all(data.index.size * Y),
            boundaries=self.boundaries,
            float32=self._learns_in_float32,
            segments=shape,
            threads=threads,
        )
        layout = Layout.of_objective(tuple(data.names), objective, None)
        free = objective.mask()
        if data.start is not None:
            free |= data.start.layout.carry(data.start.theta != 0, layout)
        if not data.extractor.transitions:
            free[layout.transitions_at :] = False
        objective.set_mask(free)
        return objective, layout

    def score_dev(self, dev: Any, data: TrainingData) -> Callable[[Float64], float]:
        """Return the function from weights to span F1, or accuracy, on the development data."""
        from tagloom.models.layouts import cut

        sentences, gold = read_dev(dev)
        scheme = data.constraints.scheme

        def score(theta: Float64) -> float:
            tagger = copy.copy(self)
            state = self._make_state(cut(theta, data), data.constraints, **self._extra_state(data))
            assert isinstance(state, SegmentFitted)
            tagger._fitted = state
            predicted = tagger.predict(sentences)
            if scheme is None:
                right = [
                    a == b
                    for pair in zip(gold, predicted, strict=True)
                    for a, b in zip(*pair, strict=False)
                ]
                return float(np.mean(right))
            return evaluation.evaluate(gold, predicted, scheme=scheme, spans=True, n_bootstrap=0).f1

        return score

    def _extra_state(self, data: TrainingData) -> dict[str, Any]:
        assert isinstance(data, SegmentData)
        return {"alphabet": data.alphabet, "templates": data.templates}

    # ---- predicting ------------------------------------------------------------------------

    def score_sentences(self, sentences: Sequence[Any], n_threads: int | None) -> Any:
        """Score sentences; see `Tagger.score_sentences`."""
        fitted = self._fitted
        alphabet = fitted.alphabet
        if not alphabet.is_span.any():
            return super().score_sentences(sentences, n_threads)
        threads = n_threads or self.n_threads or ALL_THREADS
        scores = fitted.scores
        scored = scores.score(sentences, threads)
        rows = _encode_candidates(
            fitted.templates, sentences, scores.index, scored.offsets, alphabet, threads
        )
        of_rows = scores.score_rows(rows.indptr, rows.ids, threads)
        shape = (len(scored.emit), alphabet.columns.max_length, len(alphabet.types))
        out = np.empty(shape, dtype=np.float32)
        _native.segment_scores(
            fitted.shape,
            scored.emit,
            scored.offsets,
            rows.begin,
            rows.length,
            of_rows,
            threads,
            out,
        )
        first = alphabet.columns.columns[:, 1]
        segments = SegmentTrellis(
            out,
            scores.trans[np.ix_(first, first)],
            scores.start[first],
            scores.stop[first],
            offsets=scored.offsets,
            n_threads=n_threads or self.n_threads,
        )
        labelled = SegmentLabels(segments, alphabet.columns, scores.labels)
        return fitted.constraints.restrict(labelled, sentences)  # type: ignore[arg-type]

    def _scores_per_token(self) -> int:
        columns = self._fitted.alphabet.columns
        return max(super()._scores_per_token(), columns.max_length * len(columns.columns))

    def predict_spans(
        self,
        X: Any,
        threshold: float | None = None,
        *,
        scheme: str | None = None,
        known: Any = None,
        n_threads: int | None = None,
    ) -> Rows[list[PredictedSpan]]:
        """Find spans, each with the probability of its segment; see `Tagger.predict_spans`."""
        self._check_fitted("predict_spans")
        alphabet = self._fitted.alphabet
        if not alphabet.is_span.any() or scheme not in (None, self.scheme_):
            return super().predict_spans(
                X, threshold, scheme=scheme, known=known, n_threads=n_threads
            )
        if threshold is not None:
            threshold = checks.number(threshold, "threshold", above=0, most=1)
        result: Rows[list[PredictedSpan]] = Rows()
        for piece in self._pieces(X, known, n_threads):
            scored: Any = self._scored(*piece, n_threads)
            trellis = self._tempered(scored).trellis  # type: ignore[attr-defined]
            marginals = trellis.marginals()  # [T, L, S]
            is_likely = np.zeros(marginals.shape, dtype=np.bool_)
            if threshold is None:
                path = scored.trellis.viterbi().path
                begin = np.flatnonzero(path != trellis.inside)
                length = np.diff(np.append(begin, len(path)))
                is_likely[begin, length - 1, path[begin]] = True
            else:
                is_likely = marginals >= threshold
            is_likely[:, :, ~alphabet.is_span] = False
            found = np.argwhere(is_likely)
            where = np.searchsorted(trellis.offsets, found[:, 0], side="right") - 1
            spans: list[list[PredictedSpan]] = [[] for _ in range(len(trellis))]
            for i, (t, k, y) in zip(where.tolist(), found.tolist(), strict=True):
                start = t - int(trellis.offsets[i])
                prob = float(marginals[t, k, y])
                spans[i].append(PredictedSpan(alphabet.types[y], start, start + k + 1, prob))
            result += [sorted(row, key=lambda s: (s.start, s.end, s.type)) for row in spans]
        return result

    # ---- files -----------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """Describe the tagger as plain data, with its segment templates and largest lengths."""
        fitted = self._fitted
        return super().describe() | {
            "segments": fitted.templates.templates,
            "max_lengths": self.max_lengths_,
        }

    def to_file(self) -> File:
        """Return the fitted state as a header of plain data and arrays."""
        file = super().to_file()
        params = dict(file.header["params"])
        if isinstance(self.segments, SegmentTemplates):  # stored below
            params.pop("segments")
        fitted = self._fitted
        header = {
            "params": params,
            "segments": fitted.templates.to_dict(),
            "longest": fitted.alphabet.columns.longest.tolist(),
        }
        return file | File(header)

    @classmethod
    def _extra_from_file(cls, file: File) -> dict[str, Any]:
        templates = SegmentTemplates.from_dict(file.header["segments"])
        longest = np.array(file.header["longest"], dtype=np.int32)
        scheme = file.header["constraints"]["scheme"]
        if scheme is not None and scheme not in _LETTERS:
            raise ModelFileError(
                where="scheme", expected=f"one of {', '.join(_LETTERS)}", found=checks.show(scheme)
            )
        alphabet = SegmentAlphabet.of_labels(checks.label_names(file.header["labels"]), scheme)
        columns = alphabet.columns.columns
        if (
            longest.shape != (len(alphabet.types),)
            or not (
                (longest >= 1)
                & (longest <= 4095)
                & ((longest < 2) | (columns[:, 3] >= 0))
                & ((longest < 3) | (columns[:, 2] >= 0))
            ).all()
        ):
            raise ModelFileError(
                where="longest",
                expected=f"{len(alphabet.types)} lengths for which there are labels",
                found=checks.show(longest.tolist()),
            )
        return {"alphabet": alphabet.with_longest(longest), "templates": templates}

    @classmethod
    def from_file(cls, file: File, *, features: Any = None) -> Self:
        """Make a tagger from the result of `to_file`; everything is checked."""
        tagger = super().from_file(file, features=features)
        if "segments" not in file.header["params"]:
            tagger.segments = tagger._fitted.templates
        return tagger


def _encode_candidates(
    templates: SegmentTemplates,
    sentences: Sequence[Any],
    index: _native.Index,
    offsets: Int64,
    alphabet: SegmentAlphabet,
    n_threads: int,
    own: Sequence[Sequence[tuple[int, int, str]]] | None = None,
    is_left_out: Bool | None = None,
) -> EncodedSegments:
    """Number the attributes of all segments that a span may be; keep those with attributes.

    ``is_left_out`` marks ids of attributes that are not counted.
    """
    of_spans = alphabet.columns.longest[alphabet.is_span]
    most = int(of_spans.max()) if len(of_spans) else 0
    T = int(offsets[-1])
    left = np.repeat(offsets[1:], np.diff(offsets)) - np.arange(T)  # [T] tokens from t on
    begin, longer = np.nonzero(np.arange(most) < left[:, None])
    length = (longer + 1).astype(np.int32)
    rows = templates.encode(
        sentences, index, begin.astype(np.int64), length, n_threads=n_threads, own=own
    )
    return (rows if is_left_out is None else rows.without(is_left_out)).nonempty()


def _spans_by_sentence(
    begin: Int64, length: Int32, kinds: Sequence[str], offsets: Int64
) -> list[list[tuple[int, int, str]]]:
    """Return the spans (start, end, type) of each sentence, from places over all tokens."""
    spans: list[list[tuple[int, int, str]]] = [[] for _ in range(len(offsets) - 1)]
    of = np.searchsorted(offsets, begin, side="right") - 1
    starts = begin - offsets[of]
    rows = zip(of.tolist(), starts.tolist(), length.tolist(), kinds, strict=True)
    for i, start, n, kind in rows:
        spans[i].append((start, start + n, kind))
    return spans


def _interleave(lists: Sequence[tuple[Int64, Int32]], places: Int64) -> tuple[Int64, Int64]:
    """Put the rows of several CSR arrays, in a row, to new places.

    Returns
    -------
    indptr : ndarray, shape (n + 1,)
    order : ndarray
        The entry of the concatenated ids at each new entry.
    """
    counts = np.concatenate([np.diff(indptr) for indptr, _ in lists])
    at, starts = 0, []
    for indptr, ids in lists:
        starts.append(indptr[:-1] + at)
        at += len(ids)
    old = np.concatenate(starts)
    by_place = np.argsort(places, kind="stable")
    sizes = counts[by_place]
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    order = np.arange(indptr[-1]) - np.repeat(indptr[:-1], sizes) + np.repeat(old[by_place], sizes)
    return indptr, order
