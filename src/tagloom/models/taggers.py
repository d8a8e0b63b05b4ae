"""The face of every tagger: a model implements `fit` and `trellis`, the rest is derived here.

Whatever turns a sentence into scores, the questions that one can ask of it are those of a trellis;
so best labels, probabilities, n-best lists, samples and entropies are written once, for all models.
"""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import _native, storage
from tagloom.errors import NotFittedError, ParameterError
from tagloom.models.data import as_sentences, gold_labels
from tagloom.trellis import Trellis

# Scores of a batch are kept about this small, so that they stay in the cache between the stages.
_BATCH_SCORES = 1 << 19


class Labelling(NamedTuple):
    """One way to label a sentence.

    Attributes
    ----------
    labels : list of str
    prob : float
        Its probability among all labellings of the sentence.
    score : float
        Its unnormalised score.
    """

    labels: list[str]
    prob: float
    score: float


class Labellings(list[list[str]]):
    """A list of lists of labels that NumPy takes for a one-dimensional array of lists."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if dtype is not None and np.dtype(dtype) != np.dtype(object):
            raise ValueError(f"lists of labels make an array of objects, not of {dtype}")
        array = np.empty(len(self), dtype=object)
        for i, labels in enumerate(self):
            array[i] = labels
        return array


class Tagger(ABC):
    """Base of all taggers.

    Constructors only store their arguments; what is learnt ends in ``_``.

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

    #: Names of the models in files, filled as the classes are made.
    kinds: ClassVar[dict[str, type[Tagger]]] = {}

    labels_: npt.NDArray[Any]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not inspect.isabstract(cls):
            Tagger.kinds[cls.__name__] = cls

    # ---- what a model implements -----------------------------------------------------------

    @abstractmethod
    def fit(self, X: Any, y: Any = None) -> Tagger:
        """Learn from labelled sentences."""

    @abstractmethod
    def _trellis(self, sentences: Sequence[Any], n_threads: int | None) -> Trellis:
        """Score sentences that are known to be a sequence."""

    @abstractmethod
    def _to_file(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Describe what was learnt, as a JSON-able header and arrays."""

    @classmethod
    @abstractmethod
    def _from_file(
        cls, header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], features: Any
    ) -> Tagger:
        """Make a tagger from what `_to_file` returned, checking everything."""

    # ---- what follows from it --------------------------------------------------------------

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The labels, under the name that scikit-learn looks for."""
        return self.labels_

    @property
    def is_fitted(self) -> bool:
        """Whether there is something to predict with."""
        return hasattr(self, "labels_")

    @property
    def reads_only_tokens(self) -> bool:
        """Whether it is known to look at nothing of a sentence but its tokens."""
        return False

    def trellis(self, X: Any, *, n_threads: int | None = None) -> Trellis:
        """Score sentences: every question about their labels is a question to this trellis.

        Parameters
        ----------
        X : sequence of sentences
        n_threads : int, optional
            All cores by default.

        Returns
        -------
        Trellis
            A batch with one sequence per sentence.
        """
        self._check_fitted("trellis")
        return self._trellis(as_sentences(X), n_threads)

    def predict(self, X: Any, *, n_threads: int | None = None) -> Labellings:
        """Find the best labels of each sentence.

        Parameters
        ----------
        X : sequence of sentences
        n_threads : int, optional
            All cores by default; the result does not depend on it.

        Returns
        -------
        list of list of str
            It converts to a one-dimensional array of lists, as scikit-learn wants it.
        """
        self._check_fitted("predict")
        result = Labellings()
        for sentences in self._pieces(X, n_threads):
            result += self._decode(sentences, n_threads)
        return result

    def _decode(self, sentences: Sequence[Any], n_threads: int | None) -> list[list[str]]:
        """Find the best labels; a model that knows a shorter way to the same may take it."""
        trellis = self._trellis(sentences, n_threads)
        return _native.label_lists(trellis.viterbi().path, trellis.offsets, self._label_list)

    def predict_marginals(
        self, X: Any, *, as_dict: bool = False, n_threads: int | None = None
    ) -> list[Any]:
        """Compute the probability of each label at each token.

        Parameters
        ----------
        X : sequence of sentences
        as_dict : bool
            Whether to give a list of dicts from label to probability, as CRFsuite does.
        n_threads : int, optional

        Returns
        -------
        list of ndarray, each of shape (T_i, Y)
            Columns in the order of ``labels_``.
        """
        self._check_fitted("predict_marginals")
        result: list[Any] = []
        for batch in self._batches(X, n_threads):
            result += batch.split(batch.marginals())
        if not as_dict:
            return result
        names = self._label_list
        return [[dict(zip(names, row, strict=True)) for row in rows.tolist()] for rows in result]

    def predict_nbest(
        self, X: Any, n: int, *, n_threads: int | None = None
    ) -> list[list[Labelling]]:
        """Find the n best labellings of each sentence, the best first.

        Parameters
        ----------
        X : sequence of sentences
        n : int
        n_threads : int, optional

        Returns
        -------
        list of list of Labelling
            With labels, probability and score; fewer than n where there are fewer.
        """
        self._check_fitted("predict_nbest")
        names = np.array(self._label_list, dtype=object)
        return [
            [
                Labelling(names[path].tolist(), float(prob), float(score))
                for path, score, prob in zip(*best, strict=True)
            ]
            for batch in self._batches(X, n_threads)
            for best in batch.nbest(n, on_infeasible="raise")
        ]

    def sample(
        self,
        X: Any,
        n: int = 1,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
    ) -> list[list[list[str]]]:
        """Draw labellings of each sentence with their probabilities.

        Parameters
        ----------
        X : sequence of sentences
        n : int
            How many for each sentence.
        random_state : int, Generator, RandomState or None

        Returns
        -------
        list of list of list of str
            For each sentence n lists of labels.
        """
        self._check_fitted("sample")
        trellis = self._trellis(as_sentences(X), None)
        paths = trellis.sample(n, random_state)  # [n, T]
        draws = [_native.label_lists(path, trellis.offsets, self._label_list) for path in paths]
        return [list(drawn) for drawn in zip(*draws, strict=True)] or [
            [] for _ in range(len(trellis))
        ]

    def entropy(self, X: Any) -> npt.NDArray[np.float64]:
        """Measure how undecided the tagger is about each sentence, in nats.

        Parameters
        ----------
        X : sequence of sentences

        Returns
        -------
        ndarray of float64, shape (N,)
        """
        self._check_fitted("entropy")
        parts = [batch.entropy() for batch in self._batches(X, None)]
        return np.concatenate(parts) if parts else np.empty(0)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Compute the share of tokens that get the right label.

        Parameters
        ----------
        X : sequence of sentences
            A `Corpus` brings its own labels.
        y : sequence of list of str, optional
        sample_weight : sequence of float, optional
            The weight of each sentence.

        Returns
        -------
        float
            Between 0 and 1; 0 if there are no tokens.
        """
        self._check_fitted("score")
        sentences = as_sentences(X)
        gold = gold_labels(sentences, X, y)
        predicted = self.predict(sentences)
        weights = np.ones(len(sentences)) if sample_weight is None else np.asarray(sample_weight)
        if weights.shape != (len(sentences),):
            raise ParameterError(
                f"sample_weight must have one number per sentence, shape ({len(sentences)},); "
                f"got {weights.shape}."
            )
        right = [sum(map(str.__eq__, *pair)) for pair in zip(gold, predicted, strict=True)]
        total = float(weights @ np.array([len(row) for row in gold], dtype=float))
        return float(weights @ np.array(right, dtype=float)) / total if total else 0.0

    # ---- files -----------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tagger to one file, which `tagloom.load` reads.

        The file is written under another name and then renamed: a crash leaves the old one.

        Parameters
        ----------
        path : str or path
        """
        self._check_fitted("save")
        header, arrays = self._contents()
        # The weights are most of the file, and whatever they are, they are only numbers: their
        # checksum waits until someone asks.
        checked = [name for name in arrays if not name.endswith("weights")]
        storage.write(path, header, arrays, checked=checked)

    def _contents(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        header, arrays = self._to_file()
        return {"kind": "tagger", "model": type(self).__name__, **header}, arrays

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle and joblib go through the model file's format: nothing else is ever pickled."""
        if not self.is_fitted:
            return (_unfitted, (type(self).__name__, self.get_params()))
        return (_from_bytes, (storage.to_bytes(*self._contents()),))

    def __copy__(self) -> Tagger:
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new

    # ---- parameters, as scikit-learn has them ----------------------------------------------

    @classmethod
    def _parameters(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name."""
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self, **params: Any) -> Tagger:
        """Change constructor arguments; what was learnt stays until the next fit."""
        known = self._parameters()
        for name, value in params.items():
            if name not in known:
                raise ParameterError(
                    f"{type(self).__name__} has no parameter {name!r}. It has: {', '.join(known)}."
                )
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import (  # type: ignore[import-untyped]
            InputTags,
            Tags,
            TargetTags,
        )

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True),
            input_tags=InputTags(two_d_array=False, string=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return self.is_fitted

    def __repr__(self) -> str:
        signature = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if not _same(value, signature[name].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    # ---- helpers ---------------------------------------------------------------------------

    def _check_fitted(self, method: str) -> None:
        if not self.is_fitted:
            raise NotFittedError(
                f"This {type(self).__name__} has no weights yet. Call fit(), or read a saved one "
                f"with tagloom.load(path), before {method}()."
            )

    @property
    def _label_list(self) -> list[str]:
        labels: list[str] = self.labels_.tolist()
        return labels

    def _scores_per_token(self) -> int:
        """How many scores a token needs: what bounds the size of a batch."""
        return len(self.labels_)

    def _batches(self, X: Any, n_threads: int | None) -> Iterator[Trellis]:
        """Score the sentences piece by piece."""
        return (self._trellis(piece, n_threads) for piece in self._pieces(X, n_threads))

    def _pieces(self, X: Any, n_threads: int | None) -> Iterator[Sequence[Any]]:
        """Cut the sentences into pieces whose scores stay small."""
        sentences = as_sentences(X)
        most = max(_BATCH_SCORES // self._scores_per_token(), 1)
        if n_threads is None or n_threads > 1:
            most *= 4  # enough work to share
        if len(sentences) == 1:
            yield sentences
            return
        lengths = [*map(len, sentences)]
        first = tokens = 0
        for i, length in enumerate(lengths):
            tokens += length
            if tokens >= most or i + 1 == len(sentences):
                yield sentences[first : i + 1]
                first, tokens = i + 1, 0


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))


def load(path: str | os.PathLike[str], *, features: Any = None, verify: bool = False) -> Tagger:
    """Read a tagger that `Tagger.save` wrote.

    The file is mapped into memory, not copied; nothing in it is executed.

    Parameters
    ----------
    path : str or path
    features : callable, optional
        The function that made the features, where the tagger was trained with one: a file keeps
        its name only.
    verify : bool
        Whether to check the weights against their checksum too, which reads the whole file.

    Returns
    -------
    Tagger

    Raises
    ------
    ModelFileError
        If the file is no tagger, is damaged, or was written by a newer version.

    Examples
    --------
    >>> import os, tempfile
    >>> import tagloom as tl
    >>> tagger = tl.CRF(features="words").fit([["they", "fish"]], [["N", "V"]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "small.tagloom")
    ...     tagger.save(path)
    ...     tl.load(path).predict([["they", "fish"]])
    [['N', 'V']]
    """
    header, arrays = storage.read(path, verify=verify)
    return _restore(header, arrays, features, str(path))


def _restore(
    header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], features: Any, where: str
) -> Tagger:
    from tagloom.errors import ModelFileError

    if header.get("kind") != "tagger":
        raise ModelFileError(
            f"{where}: holds a {header.get('kind')!r}, expected a tagger that save() wrote."
        )
    kind = Tagger.kinds.get(str(header.get("model")))
    if kind is None:
        raise ModelFileError(
            f"{where}: was written by {header.get('model')!r}, which this version does not have. "
            f"It has: {', '.join(sorted(Tagger.kinds))}."
        )
    try:
        return kind._from_file(header, arrays, features)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        if isinstance(error, NotFittedError):
            raise
        raise ModelFileError(f"{where}: what is in it does not fit together: {error}") from error


def _from_bytes(data: bytes) -> Tagger:
    return _restore(*storage.read_bytes(data), None, "a pickled tagger")


def _unfitted(kind: str, params: dict[str, Any]) -> Tagger:
    return Tagger.kinds[kind](**params)
