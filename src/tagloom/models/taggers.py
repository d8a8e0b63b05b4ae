"""The interface of every tagger: a model implements `fit` and `score_sentences`.

A model scores the labels of a sentence, and a trellis computes the rest. Best labels,
probabilities, n-best lists, samples, spans, entropies and explanations are therefore implemented
here, once for all models. Files are in `files`, the fitted state in `fitted`, calibration in
`calibration`.
"""

from __future__ import annotations

import bisect
import itertools
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from tagloom import _native, checks, evaluation, labels, notebooks, trellis
from tagloom.checks import ALL_THREADS
from tagloom.errors import NotFittedError, ParameterError
from tagloom.models.capabilities import Capability
from tagloom.models.constraints import check_known, known_mask
from tagloom.models.data import as_weights, gold_labels, token_names
from tagloom.models.files import Model
from tagloom.models.fitted import Fitted
from tagloom.notebooks import Rows
from tagloom.numeric import np
from tagloom.parameters import attribute
from tagloom.records import replace
from tagloom.scores.parts import Part, Parts, tempered
from tagloom.storage import File

if TYPE_CHECKING:
    import numpy.typing as npt

    from tagloom.models.explanations import Explanation
    from tagloom.models.texts import TaggedSentence
    from tagloom.models.tokenizers import Tokenizer
    from tagloom.trellis import Structure, Trellis

# Number of scores of a batch: few enough to stay in the cache from stage to stage.
_BATCH_SCORES = 1 << 19
_TOKENIZER = "tokenizer_"  # prefix of the arrays of a tokenizer in the file of a tagger


class Labelling(NamedTuple):
    """The labels of a sentence, with their probability.

    Attributes
    ----------
    labels : list of str
    prob : float
        Probability of these labels given the sentence.
    score : float
        Score of the path, unnormalised.
    """

    labels: list[str]
    prob: float
    score: float


class PredictedSpan(NamedTuple):
    """A span of tokens, with its probability.

    Attributes
    ----------
    type : str
    start, end : int
        Its first token, and the token after its last.
    prob : float
        Probability that the labels have exactly this span, of this type.
    """

    type: str
    start: int
    end: int
    prob: float


class Labellings(list[list[str]]):
    """A list of lists of labels; NumPy converts it to a one-dimensional array of lists."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if dtype is not None and np.dtype(dtype) != np.dtype(object):
            raise ValueError(f"lists of labels convert to an array of objects, not of {dtype}")
        array = np.empty(len(self), dtype=object)
        for i, labelling in enumerate(self):
            array[i] = labelling
        return array


class Tagger(Model):
    """Base of all taggers.

    Constructors only store their arguments; names of learned attributes end in ``_``.

    Examples
    --------
    >>> import tagloom as tl
    >>> X = [["they", "can", "fish"], ["fish", "can", "swim"], ["they", "fish"]]
    >>> tagger = tl.CRF(features="words").fit(X, [["N", "V", "V"], ["N", "V", "V"], ["N", "V"]])
    >>> isinstance(tagger, tl.Tagger), tagger.labels_.tolist()
    (True, ['N', 'V'])
    >>> tagger.predict_nbest([["they", "swim"]], n=2)[0][0].labels
    ['N', 'V']
    >>> tagger.trellis([["they", "swim"]])[0].viterbi().path
    array([0, 1], dtype=int32)
    """

    family = "tagger"
    #: Whether `predict` may use the native decoder of the fitted state, which finds the same labels
    #: as `score_sentences`. A class that overrides only `score_sentences` does not use it.
    decodes_natively: ClassVar[bool] = False

    _fitted: Fitted = attribute(init=False)  # everything that training produced; absent before
    _tokenizer: Tokenizer | None = attribute(default=None, init=False)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "score_sentences" in cls.__dict__ and "decodes_natively" not in cls.__dict__:
            cls.decodes_natively = False

    # ---- what a model implements -----------------------------------------------------------

    @abstractmethod
    def fit(self, X: Any, y: Any = None) -> Tagger:
        """Learn from labelled sentences."""

    @abstractmethod
    def score_sentences(self, sentences: Sequence[Any], n_threads: int | None) -> Structure:
        """Score sentences: a batch with one sequence for each, at temperature 1.

        Usually a `Trellis`. Any other `Structure` whose analyses are label ids will do, except for
        `predict_spans` and `explain`, which need the transitions of a trellis.

        Parameters
        ----------
        sentences : sequence of sentences
            Checked to be a sequence; which tokens are valid depends on the features.
        n_threads : int or None
            None uses all cores.
        """

    def score_parts(self, sentence: Any, trellis: Trellis) -> Parts:
        """Name the terms of ``emit[t, y] + edge[t, y_prev, y]``, for `explain`.

        By default each of the two is one term. The caller names transitions, start, stop and n-gram
        weights, for all models.
        """
        emit, edge = trellis.emit, trellis.edge

        def of_transition(t: int, y_prev: int | None, y: int) -> Iterator[Part]:
            yield Part("token", float(emit[t, y]))
            if edge is not None and y_prev is not None:
                yield Part("edge", float(edge[t, y_prev, y]), 2)

        return of_transition

    # ---- what follows from it --------------------------------------------------------------

    @property
    def labels_(self) -> npt.NDArray[Any]:
        """The labels, in the order of every array [Y].

        A tagger that stores its weights in attributes assigns ``labels_`` last in ``fit``. This
        starts a new fitted state, with temperature 1.
        """
        if not self.is_fitted:
            raise NotFittedError(f"This {type(self).__name__} has no labels_. Call fit() first.")
        return self._fitted.labels

    @labels_.setter
    def labels_(self, names: Any) -> None:
        self._fitted = Fitted(Fitted.label_array(names))

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The labels, under the name that scikit-learn looks for."""
        return self.labels_

    @property
    def takes_open_labels(self) -> bool:
        """Whether training labels may be None, unknown, or sets, one of several."""
        return self.can(Capability.OPEN_LABELS)

    @property
    def reads_only_tokens(self) -> bool:
        """Whether predictions depend on nothing of a sentence but its tokens."""
        return False

    def trellis(self, X: Any, *, known: Any = None, n_threads: int | None = None) -> Any:
        """Score sentences and return their trellis, from which all other results follow.

        Parameters
        ----------
        X : sequence of sentences
        known : sequence, optional
            Known labels, one entry per sentence: None, or a list that gives for each token None,
            its label, or a set of allowed labels.
        n_threads : int, optional
            All cores by default.

        Returns
        -------
        Trellis
            A batch with one sequence per sentence; another `Structure` if the tagger uses one.
        """
        self._check_fitted("trellis")
        checks.threads(n_threads)
        return self._calibrated(self._sentences(X), known, n_threads)

    def predict(self, X: Any, *, known: Any = None, n_threads: int | None = None) -> Labellings:
        """Find the best labels of each sentence.

        Parameters
        ----------
        X : sequence of sentences
        known : sequence, optional
            Known labels, one entry per sentence: None, or a list that gives for each token None,
            its label, or a set of allowed labels.
        n_threads : int, optional
            All cores by default; the result does not depend on it.

        Returns
        -------
        list of list of str
            NumPy converts it to a one-dimensional array of lists, which scikit-learn needs.
        """
        self._check_fitted("predict")
        checks.threads(n_threads)
        decoder = self._fitted.decoder if known is None and self.decodes_natively else None
        threads = n_threads or getattr(self, "n_threads", None) or ALL_THREADS
        few = None if decoder is None else decoder.decode_few(X, threads)
        if few is not None:
            return Labellings(few)
        result = Labellings()
        for sentences, known_piece in self._pieces(X, known, n_threads):
            best = None if decoder is None else decoder.decode(sentences, threads)
            if best is None:  # labels do not depend on the temperature
                best = self._best_labels(self._scored(sentences, known_piece, n_threads))
            result += best
        return result

    def predict_one(
        self, sentence: Any, *, known: Any = None, n_threads: int | None = None
    ) -> list[str]:
        """Find the best labels of one sentence.

        Parameters
        ----------
        sentence : list of str, Sentence, or list of features
        known : list, optional
            Known labels: for each token None, its label, or a set of allowed labels.
        n_threads : int, optional

        Returns
        -------
        list of str

        Examples
        --------
        >>> import tagloom as tl
        >>> tagger = tl.CRF("words").fit([["they", "can", "fish"]], [["N", "V", "V"]])
        >>> tagger.predict_one(["they", "fish"])
        ['N', 'V']
        """
        known = None if known is None else [known]
        return self.predict([sentence], known=known, n_threads=n_threads)[0]

    def _best_labels(self, scored: Structure) -> list[list[str]]:
        best_path, _ = scored.viterbi()
        return _native.label_lists(best_path, scored.offsets, self._label_list)

    def predict_marginals(
        self, X: Any, *, as_dict: bool = False, known: Any = None, n_threads: int | None = None
    ) -> list[Any]:
        """Compute the probability of each label at each token.

        Parameters
        ----------
        X : sequence of sentences
        as_dict : bool
            Whether to return dicts from label to probability, as CRFsuite does.
        known : sequence, optional
            Known labels, one entry per sentence: None, or a list that gives for each token None,
            its label, or a set of allowed labels.
        n_threads : int, optional

        Returns
        -------
        list of ndarray, each of shape (T_i, Y)
            Columns in the order of ``labels_``.
        """
        self._check_fitted("predict_marginals")
        checks.threads(n_threads)
        decoder = self._fitted.decoder if known is None and self.decodes_natively else None
        few = None
        if decoder is not None and self.temperature_ == 1:
            few = decoder.marginals_of_few(X)
        result: list[Any] = [] if few is None else few
        if few is None:
            for batch in self._batches(X, known, n_threads):
                result += batch.split(batch.marginals())
        if not as_dict:
            return result
        names = self._label_list
        return [[dict(zip(names, probs, strict=True)) for probs in g.tolist()] for g in result]

    def predict_with_probs(
        self, X: Any, *, known: Any = None, n_threads: int | None = None
    ) -> tuple[Labellings, list[list[float]]]:
        """Find the best labels of each sentence and the probability of each of these labels.

        The labels are those of `predict`, the probabilities those of `predict_marginals`, but
        sentences are scored once, and for most models without arrays in between.

        Parameters
        ----------
        X : sequence of sentences
        known : sequence, optional
            Known labels, one entry per sentence: None, or a list that gives for each token None,
            its label, or a set of allowed labels.
        n_threads : int, optional

        Returns
        -------
        labels : list of list of str
        probs : list of list of float
            ``probs[i][t]`` = Pr(y_t = labels[i][t] | sentence i).

        Examples
        --------
        >>> import tagloom as tl
        >>> X = [["they", "can", "fish"], ["fish", "can", "swim"], ["they", "fish"]]
        >>> tagger = tl.HMM().fit(X, [["N", "V", "V"], ["N", "V", "V"], ["N", "V"]])
        >>> labels, probs = tagger.predict_with_probs([["they", "swim"]])
        >>> labels[0], [round(p, 2) for p in probs[0]]
        (['N', 'V'], [1.0, 1.0])
        """
        self._check_fitted("predict_with_probs")
        checks.threads(n_threads)
        decoder = self._fitted.decoder if known is None and self.decodes_natively else None
        threads = n_threads or getattr(self, "n_threads", None) or ALL_THREADS
        labellings = Labellings()
        probs: list[list[float]] = []
        for sentences, known_piece in self._pieces(X, known, n_threads):
            both = None
            if decoder is not None:
                both = decoder.decode_with_probs(sentences, self.temperature_, threads)
            if both is None:
                both = self._best_with_probs(self._scored(sentences, known_piece, n_threads))
            labellings += both[0]
            probs += both[1]
        return labellings, probs

    def _best_with_probs(self, scored: Structure) -> tuple[list[list[str]], list[list[float]]]:
        best_path, _ = scored.viterbi()
        gamma = self._tempered(scored).marginals()  # [T, Y]
        flat = gamma[np.arange(len(best_path)), best_path].tolist()
        bounds = scored.offsets.tolist()
        probs = [flat[start:end] for start, end in itertools.pairwise(bounds)]
        return _native.label_lists(best_path, scored.offsets, self._label_list), probs

    def predict_nbest(
        self, X: Any, n: int, *, known: Any = None, n_threads: int | None = None
    ) -> Rows[list[Labelling]]:
        """Find the n best labellings of each sentence, the best first.

        Parameters
        ----------
        X : sequence of sentences
        n : int
        known : sequence, optional
            Known labels, one entry per sentence: None, or a list that gives for each token None,
            its label, or a set of allowed labels.
        n_threads : int, optional

        Returns
        -------
        list of list of Labelling
            Labels, probability and score; fewer than n if a sentence has fewer labellings.
            ``to_frame()`` makes a data frame of it.
        """
        self._check_fitted("predict_nbest")
        names = np.array(self._label_list, dtype=object)
        return Rows(
            [
                Labelling(names[path].tolist(), float(prob), float(score))
                for path, score, prob in zip(*best, strict=True)
            ]
            for batch in self._batches(X, known, n_threads)
            for best in batch.nbest(n, on_infeasible="raise")
        )

    def predict_spans(
        self,
        X: Any,
        threshold: float | None = None,
        *,
        scheme: str | None = None,
        known: Any = None,
        n_threads: int | None = None,
    ) -> Rows[list[PredictedSpan]]:
        """Find spans, each with the probability that the labels contain exactly this span.

        The probability is the sum over all labellings that contain a span of this type, start and
        end. It is exact, in every scheme.

        Parameters
        ----------
        X : sequence of sentences
        threshold : float, optional
            A probability above 0: return every span of at least this probability, of any length,
            even if the best labelling does not contain it. A high threshold gives precision, a low
            one recall. With a threshold up to 0.5 spans may overlap; such spans exclude each other,
            so their probabilities sum to at most 1. By default, return the spans of the best
            labelling.
        scheme : str, optional
            The scheme by which labels are read as spans, strictly: ``bio``, ``iob1``, ``io``,
            ``bioes`` or ``bilou``. By default the scheme that constrains the tagger; without one,
            labels are read as by conlleval. See `tagloom.labels.to_spans`.
        known : sequence, optional
            Known labels, one entry per sentence: None, or a list that gives for each token None,
            its label, or a set of allowed labels.
        n_threads : int, optional

        Returns
        -------
        list of list of PredictedSpan
            For each sentence its spans, sorted by start, end and type. ``to_frame()`` makes a
            data frame of it.

        Raises
        ------
        SchemeError
            If the labels do not mark spans, such as parts of speech.
        ParameterError
            If the threshold is out of range.

        Examples
        --------
        >>> import tagloom as tl
        >>> X = [["Ada", "Lovelace", "wrote"], ["Ada", "met", "Lovelace"], ["he", "wrote", "Ada"]]
        >>> y = [["B-PER", "I-PER", "O"], ["B-PER", "O", "B-PER"], ["O", "O", "B-PER"]]
        >>> tagger = tl.HMM().fit(X, y)
        >>> [[(s.type, s.start, s.end) for s in row] for row in tagger.predict_spans(X[:1])]
        [[('PER', 0, 2)]]
        >>> [(s.start, s.end, round(s.prob, 2)) for s in tagger.predict_spans(X[:1], 0.05)[0]]
        [(0, 1, 0.07), (0, 2, 0.93), (1, 2, 0.07)]
        """
        from tagloom.trellis import runs

        self._check_fitted("predict_spans")
        if threshold is not None:
            threshold = checks.number(threshold, "threshold", above=0, most=1)
        scheme = getattr(self, "scheme_", None) if scheme is None else scheme
        types, rules = labels.span_rules(self._label_list, scheme)
        result: Rows[list[PredictedSpan]] = Rows()
        for piece in self._pieces(X, known, n_threads):
            scored = self._scored(*piece, n_threads)
            batch = _as_trellis(self._tempered(scored), "predict_spans")
            if threshold is None:
                best = [labels.to_spans(path, scheme) for path in self._best_labels(scored)]
                places = [[(s.start, s.end, types.index(s.type)) for s in spans] for spans in best]
                probs = runs.run_probs(batch, rules, places)
                result += [
                    [PredictedSpan(*span, prob) for span, prob in zip(*both, strict=True)]
                    for both in zip(best, probs, strict=True)
                ]
                continue
            likely: list[list[PredictedSpan]] = [[] for _ in range(len(batch))]
            for run in runs.find_runs(batch, rules, threshold):
                likely[run.sequence].append(
                    PredictedSpan(types[run.kind], run.start, run.end, run.prob)
                )
            result += likely
        return result

    def sample(
        self,
        X: Any,
        n: int = 1,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
        *,
        known: Any = None,
    ) -> list[list[list[str]]]:
        """Draw labellings of each sentence from their distribution.

        Parameters
        ----------
        X : sequence of sentences
        n : int
            Number of labellings per sentence.
        random_state : int, Generator, RandomState or None
        known : sequence, optional
            Known labels, one entry per sentence: None, or a list that gives for each token None,
            its label, or a set of allowed labels.

        Returns
        -------
        list of list of list of str
            For each sentence, n lists of labels.
        """
        self._check_fitted("sample")
        trellis = self._calibrated(self._sentences(X), known, None)
        paths = trellis.sample(n, random_state)  # [n, T]
        draws = [_native.label_lists(path, trellis.offsets, self._label_list) for path in paths]
        return [list(drawn) for drawn in zip(*draws, strict=True)] or [
            [] for _ in range(len(trellis))
        ]

    def entropy(self, X: Any, *, known: Any = None) -> npt.NDArray[np.float64]:
        """Compute the entropy of the labellings of each sentence, in nats.

        It is 0 if the tagger is certain, and larger the less certain it is.

        Parameters
        ----------
        X : sequence of sentences
        known : sequence, optional
            Known labels, one entry per sentence: None, or a list that gives for each token None,
            its label, or a set of allowed labels.

        Returns
        -------
        ndarray of float64, shape (N,)
        """
        self._check_fitted("entropy")
        parts = [batch.entropy() for batch in self._batches(X, known, None)]
        return np.concatenate(parts) if parts else np.empty(0)

    def explain(
        self, sentence: Any, *, known: Any = None, positions: Sequence[int] | None = None
    ) -> Explanation:
        """Explain for each token why it has its label and not another one.

        The rival of a token is the best path that has another label there. Every term in which the
        rival differs from the best path is listed by name: attributes with their weights,
        transitions, start and stop. The terms sum to the difference of the two path scores
        (`Trellis.path_score`), to within 1e-12 of the sum of the absolute weights. If a model sums
        its scores in float32, the rounding error, about 1e-6 of that sum, is the term ``rounding``.

        The time is quadratic in the length of the sentence, and linear for each position.

        Parameters
        ----------
        sentence : sentence
            One sentence, in any form that `predict` takes a list of.
        known : list, optional
            Known labels of the sentence: for each token None, its label, or a set of allowed
            labels. The best path and its rivals are restricted to them.
        positions : sequence of int, optional
            The tokens to explain, counted from 0; all by default.

        Returns
        -------
        Explanation
            A sequence of one `Decision` per token. It prints as tables; ``to_html()`` returns
            HTML, ``to_dict()`` plain data for JSON.

        Raises
        ------
        InfeasibleError
            If the sentence has no possible labels.
        ParameterError
            If a position is not in the sentence.

        Examples
        --------
        >>> import tagloom as tl
        >>> hmm = tl.HMM.from_probs(
        ...     ["N", "V"], ["can", "fish"],
        ...     start=[0.5, 0.5], trans=[[0.2, 0.8], [0.6, 0.4]], emit=[[0.1, 0.9], [0.7, 0.3]],
        ... )
        >>> explanation = hmm.explain(["can", "fish"])
        >>> explanation
        <Explanation: can/V fish/N>
        >>> print(explanation)
        token  label    prob  runner-up    prob     by
        can    V      0.9167  N          0.0833  +2.76
        fish   N      0.7857  V          0.2143  +1.50
        <BLANKLINE>
        can: V, not N, by +2.757
              by  what        best path  runner-up  at
          +1.946  word=can    V          N          can
          +1.099  word=fish   N          V          fish
          -0.288  transition  V → N      N → V      fish
        <BLANKLINE>
        fish: N, not V, by +1.504
              by  what        best path  runner-up  at
          +1.099  word=fish   N          V          fish
          +0.405  transition  V → N      V → V      fish
        >>> decision = explanation[1]
        >>> abs(sum(reason.value for reason in decision.reasons) - decision.margin) < 1e-12
        True
        """
        from tagloom.models import explanations

        self._check_fitted("explain")
        sentences = self._sentences([sentence])
        scored = self._scored(sentences, None if known is None else [known], None)[0]
        trellis = _as_trellis(scored, "explain")
        path = trellis.viterbi().path
        parts = tempered(self.score_parts(sentences[0], trellis), self.temperature_)
        trellis = _as_trellis(self._tempered(trellis), "explain")
        tokens = token_names(sentences[0])
        if positions is not None:
            positions = [checks.count(t, "positions") for t in positions]
            if any(t >= len(path) for t in positions):
                raise ParameterError(
                    parameter="positions",
                    expected=f"numbers below {len(path)}, the number of tokens",
                    found=checks.show(positions),
                )
        return explanations.explain(tokens, trellis, path, parts, self._label_list, positions)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Compute the share of tokens that are labelled correctly.

        Parameters
        ----------
        X : sequence of sentences
            A `Corpus` contains the labels.
        y : sequence of list of str, optional
        sample_weight : sequence of float, optional
            The weight of each sentence.

        Returns
        -------
        float
            Between 0 and 1; 0 without tokens.
        """
        self._check_fitted("score")
        sentences = self._sentences(X)
        gold = gold_labels(sentences, X, y)
        predicted = self.predict(sentences)
        weights = as_weights(
            np.ones(len(sentences)) if sample_weight is None else sample_weight, len(sentences)
        )
        right = [sum(map(str.__eq__, *pair)) for pair in zip(gold, predicted, strict=True)]
        total = float(weights @ np.array([len(path) for path in gold], dtype=float))
        return float(weights @ np.array(right, dtype=float)) / total if total else 0.0

    # ---- raw text --------------------------------------------------------------------------

    @property
    def tokenizer_(self) -> Tokenizer:
        """The tokenizer of this tagger; ``Tokenizer()``, which cuts by rules, if it has none."""
        if self._tokenizer is not None:
            return self._tokenizer
        from tagloom.models.tokenizers import RULES

        return RULES

    def with_tokenizer(self, tokenizer: Tokenizer | str) -> Self:
        """Return a copy that splits raw text by a tokenizer, which is saved with it.

        Parameters
        ----------
        tokenizer : Tokenizer or str
            A tokenizer, or the name of a preset: ``rules``, ``whitespace`` or ``characters``.

        Returns
        -------
        Tagger

        Raises
        ------
        ParameterError
            If it is neither.

        Examples
        --------
        >>> import tagloom as tl
        >>> tagger = tl.CRF(features="words").fit([["they", "fish"]], [["N", "V"]])
        >>> tl.load(tagger.with_tokenizer("whitespace").to_bytes()).tokenizer_
        Tokenizer(preset='whitespace')
        """
        from tagloom.models.tokenizers import Tokenizer

        if isinstance(tokenizer, str):
            tokenizer = Tokenizer(tokenizer)
        if not isinstance(tokenizer, Tokenizer):
            raise ParameterError(
                parameter="tokenizer",
                expected="a Tokenizer or the name of a preset",
                found=checks.show_type(tokenizer),
            )
        tokenizer.check_parameters()
        new = self.__copy__()
        new._tokenizer = tokenizer
        return new

    def tag_text(
        self, text: str, *, probs: bool = False, n_threads: int | None = None
    ) -> list[TaggedSentence]:
        """Split a text into sentences by ``tokenizer_`` and label them.

        Parameters
        ----------
        text : str
        probs : bool
            Whether to compute the probabilities of labels and spans.
        n_threads : int, optional

        Returns
        -------
        list of TaggedSentence
            Sentences with ``tokens``, ``labels``, ``offsets`` of the tokens in the text, ``spans``
            and ``probs``.

        Raises
        ------
        SentenceError
            If the text is not a str.

        Examples
        --------
        >>> import tagloom as tl
        >>> X = [["Ada", "Lee", "wrote", "."], ["He", "saw", "Ada", "."]]
        >>> y = [["B-PER", "I-PER", "O", "O"], ["O", "O", "B-PER", "O"]]
        >>> text = "Ada wrote.  He saw Ada Lee."
        >>> for sentence in tl.CRF().fit(X, y).tag_text(text):
        ...     for span in sentence.spans:
        ...         print(span.type, span.text, text[span.start : span.end])
        PER Ada Ada
        PER Ada Lee Ada Lee
        """
        from tagloom.models import texts

        self._check_fitted("tag_text")
        return [*texts.tag(self, self.tokenizer_.stream(text), probs, n_threads)]

    # ---- calibration -----------------------------------------------------------------------

    @property
    def temperature_(self) -> float:
        """The temperature: scores are divided by it before they become probabilities.

        1 unless the tagger is calibrated; `fit` and ``compact`` reset it. See `calibrate`.
        """
        return self._fitted.temperature if self.is_fitted else 1.0

    def reliability(self, X: Any, y: Any = None, *, n_bins: int = 10) -> evaluation.Reliability:
        """Compare the probabilities of predicted labels with how many of them are correct.

        Parameters
        ----------
        X : sequence of sentences
            Labelled sentences that were not used for training. A `Corpus` contains the labels.
        y : sequence of list of str, optional
        n_bins : int
            Number of bins into which tokens are sorted by the probability of their predicted
            labels.

        Returns
        -------
        Reliability
            Its ``ece`` is the expected calibration error. It prints as a table.

        Examples
        --------
        >>> import tagloom as tl
        >>> train, dev, test = tl.datasets.load("english", label="upos")
        >>> tagger = tl.StructuredPerceptron().fit(train)
        >>> calibrated = tagger.calibrate(dev)
        >>> calibrated.reliability(test).ece < tagger.reliability(test).ece
        True
        """
        from tagloom.models import calibration

        self._check_fitted("reliability")
        return calibration.reliability(self, X, y, n_bins)

    def calibrate(self, X: Any, y: Any = None) -> Tagger:
        r"""Return a copy with calibrated probabilities; its predicted labels are the same.

        All scores are divided by one number, the temperature τ, chosen to maximise the marginal
        probabilities of the correct labels of these sentences::

            τ = argmin Σ_t −log Pr(y_t | x; scores / τ)

        Labels that the tagger does not have are ignored. τ is the attribute ``temperature_``,
        between 0.01 and a million; it is saved with the model.

        Parameters
        ----------
        X : sequence of sentences
            Labelled sentences that were not used for training; on the training data the tagger is
            too certain. A `Corpus` contains the labels.
        y : sequence of list of str, optional

        Returns
        -------
        Tagger
            A new tagger, whose marginals, n-best probabilities, samples, spans and entropies are
            calibrated.

        Raises
        ------
        LabelError
            If no label is one of the tagger's.

        Examples
        --------
        >>> import tagloom as tl
        >>> train, dev, test = tl.datasets.load("english", label="upos")
        >>> tagger = tl.StructuredPerceptron().fit(train)
        >>> calibrated = tagger.calibrate(dev)
        >>> calibrated.temperature_ > 1  # its scores are too far apart for probabilities
        True
        >>> calibrated.predict(test) == tagger.predict(test)
        True
        """
        from tagloom.models import calibration

        self._check_fitted("calibrate")
        new = self.__copy__()
        temperature = calibration.fit_temperature(self, X, y)
        new._fitted = replace(self._fitted, temperature=temperature)
        return new

    # ---- pages -----------------------------------------------------------------------------

    def studio(self, corpus: str | None = None, *, browser: bool = True, **options: Any) -> Any:
        """Open the tagger in the studio, a local page served from a thread of this process.

        Needs ``tagloom[studio]``. See docs/studio.md.

        Parameters
        ----------
        corpus : str, optional
            A file to label and correct; a practice copy of the included corpus by default.
        browser : bool
            Whether to open a browser; the result has the address, ``url``.
        **options
            ``test`` (a Corpus), ``read_only``, ``port``, and options of `tagloom.read` for the
            corpus, such as ``label``.

        Returns
        -------
        tagloom.studio.notebooks.Studio
            With ``url`` and ``close()``; also a context manager.

        Examples
        --------
        >>> import tagloom as tl
        >>> tagger = tl.CRF("words").fit([["they", "fish"]], [["N", "V"]])
        >>> with tagger.studio(browser=False) as studio:
        ...     studio.url.startswith("http://127.0.0.1:")
        True
        """
        self._check_fitted("studio")
        # The page lies above all models, so that no module of models imports it.
        return import_module("tagloom.studio.notebooks").open_studio(
            self, corpus, browser=browser, **options
        )

    def explore(self, sentence: Any) -> Any:
        """Show the trellis of a sentence in a notebook cell; a click on a node forces its label.

        The cell contains the scores, and computes best paths and probabilities itself: it works
        without a kernel and without a network, also in an exported notebook.

        Parameters
        ----------
        sentence : str or sentence
            A str is split by the tokenizer of the tagger.

        Returns
        -------
        tagloom.studio.notebooks.TrellisCell

        Raises
        ------
        ParameterError
            If a label depends on more than the one before it, or there are more than 200 tokens.

        Examples
        --------
        >>> import tagloom as tl
        >>> tagger = tl.CRF("words").fit([["they", "fish"]], [["N", "V"]])
        >>> tagger.explore("they fish")
        TrellisCell(2 tokens, 2 labels; shown in notebooks)
        """
        self._check_fitted("explore")
        return import_module("tagloom.studio.notebooks").TrellisCell(self, sentence)

    # ---- files -----------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        if not self.is_fitted:
            return notebooks.rows_html(f"{type(self).__name__}, not fitted", self.get_params())
        description = self.describe()
        shown = {
            "labels": f"{len(self.labels_)}: {checks.show(', '.join(self._label_list), 200)[1:-1]}",
            "scheme": description["scheme"] or "none",
            **{
                name: f"{value:,}"
                for name, value in description.items()
                if isinstance(value, int) and not isinstance(value, bool)
            },
            **description["training"],
        }
        return notebooks.rows_html(repr(self), {k: v for k, v in shown.items() if v is not None})

    def describe(self) -> dict[str, Any]:
        """Describe the tagger as plain data, ready for JSON.

        Returns
        -------
        dict
            As `Model.describe`, with ``labels``, ``scheme`` and ``temperature``.
        """
        return super().describe() | {
            "labels": self._label_list,
            "scheme": getattr(self, "scheme_", None),
            "temperature": self.temperature_,
        }

    def _whole_file(self) -> File:
        file = super()._whole_file()
        if self._tokenizer is not None:
            part = self._tokenizer._whole_file()
            file |= File({"tokenizer": part.header})
            file |= File({}, part.arrays, part.unverified).prefixed(_TOKENIZER)
        if self.temperature_ == 1:
            return file
        return file | File({"temperature": self.temperature_})

    @classmethod
    def _from_whole_file(cls, file: File, features: Any) -> Self:
        tagger = super()._from_whole_file(file, features)
        if "temperature" in file.header:
            from tagloom.models import calibration

            temperature = calibration.check_temperature(file.header["temperature"])
            tagger._fitted = replace(tagger._fitted, temperature=temperature)
        if "tokenizer" in file.header:
            from tagloom.models.tokenizers import Tokenizer

            part = file.part(_TOKENIZER, file.header["tokenizer"])
            tagger._tokenizer = Tokenizer._from_whole_file(part, None)
        return tagger

    # ---- helpers ---------------------------------------------------------------------------

    @property
    def _label_list(self) -> list[str]:
        self._check_fitted("labels_")
        return self._fitted.label_names

    def _sentences(self, X: Any) -> Sequence[Any]:
        """Return X as a sequence of sentences."""
        return checks.sentences(X)

    def _scores_per_token(self) -> int:
        """Number of scores per token, which limits the size of a batch."""
        return len(self._label_list)

    def _scored(self, sentences: Sequence[Any], known: Any, n_threads: int | None) -> Structure:
        """Score sentences, under known labels if there are any."""
        trellis = self.score_sentences(sentences, n_threads)
        if known is not None:
            trellis = trellis.constrain(known_mask(known, sentences, self._label_list))
        return self._pruned(trellis)

    def _pruned(self, scored: Structure) -> Structure:
        """Leave out labels that are hardly possible, in models that do; by default none."""
        return scored

    def _calibrated(self, sentences: Sequence[Any], known: Any, n_threads: int | None) -> Structure:
        """Score sentences at the temperature of this tagger."""
        return self._tempered(self._scored(sentences, known, n_threads))

    def _tempered(self, scored: Structure) -> Structure:
        return scored if self.temperature_ == 1 else scored.tempered(self.temperature_)

    def _batches(self, X: Any, known: Any, n_threads: int | None) -> Iterator[Structure]:
        """Score sentences piece by piece."""
        pieces = self._pieces(X, known, n_threads)
        return (self._calibrated(*piece, n_threads) for piece in pieces)

    def score_batches(self, sentences: Sequence[Any]) -> Iterator[Structure]:
        """Score sentences batch by batch, at temperature 1, each small enough for the cache."""
        return (self._scored(piece, None, None) for piece, _ in self._pieces(sentences, None, None))

    def _pieces(
        self, X: Any, known: Any, n_threads: int | None
    ) -> Iterator[tuple[Sequence[Any], Any]]:
        """Cut sentences and their known labels into pieces whose scores fit the cache."""
        checks.threads(n_threads)
        sentences = self._sentences(X)
        known_list = None if known is None else check_known(known, len(sentences))
        most = max(_BATCH_SCORES // self._scores_per_token(), 1)
        if n_threads is None or n_threads > 1:
            most *= 4  # enough work for all threads
        if len(sentences) == 1:
            yield sentences, known_list
            return
        ends = [*itertools.accumulate(map(len, sentences))]  # tokens, in C: sentences are many
        first = tokens = 0
        while first < len(sentences):
            last = min(bisect.bisect_left(ends, tokens + most, first), len(sentences) - 1)
            yield sentences[first : last + 1], known_list and known_list[first : last + 1]
            first, tokens = last + 1, ends[last]


def _as_trellis(scored: Structure, method: str) -> Trellis:
    """Return the structure if it is a trellis, which ``method`` needs."""
    if isinstance(scored, trellis.Trellis):
        return scored
    raise ParameterError(
        where=method,
        expected="a tagger whose score_sentences returns a Trellis",
        found=type(scored).__name__,
    )
