"""The estimator of sklearn-crfsuite, whose model is a tagger of tagloom."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tagloom.errors import NotFittedError, ParameterError
from tagloom.interop.crfsuite import read_crfsuite, read_header, to_crfsuite
from tagloom.interop.pycrfsuite import ParsedDump, Tagger, Trainer, TrainingLog, with_items
from tagloom.models.linear import LinearTagger

__all__ = ["CRF"]

# The parameters of a trainer by their names here.
_TRAINER = {
    "min_freq": "feature.minfreq",
    "all_possible_states": "feature.possible_states",
    "all_possible_transitions": "feature.possible_transitions",
    "pa_type": "type",
    **{f"calibration_{name}": f"calibration.{name}" for name in ("eta", "rate", "samples")},
    **{f"calibration_{name}": f"calibration.{name}" for name in ("candidates", "max_trials")},
}


class CRF:
    """A CRF with the interface of sklearn-crfsuite.

    Parameters
    ----------
    algorithm : {"lbfgs", "l2sgd", "ap", "pa", "arow"}, optional
        See `tagloom.interop.pycrfsuite.Trainer`.
    min_freq, all_possible_states, all_possible_transitions
        Which features have weights.
    c1, c2, max_iterations, num_memories, epsilon, period, delta, linesearch, max_linesearch
        Of the learner; None for its default.
    calibration_eta, calibration_rate, calibration_samples, calibration_candidates
        Accepted, not used.
    calibration_max_trials, pa_type, error_sensitive, averaging, variance
        Accepted, not used.
    c, gamma
        Of "pa" and "arow".
    verbose : bool
        Whether to print messages while training.
    model_filename : str, optional
        A file of CRFsuite: `fit` writes it; without `fit`, it is read.
    keep_tempfiles : bool
        Accepted, not used: there are no temporary files.
    trainer_cls : class, optional
        A subclass of `tagloom.interop.pycrfsuite.Trainer`.

    Attributes
    ----------
    classes_, attributes_ : list of str or None
    state_features_, transition_features_ : dict or None
    tagger_ : Tagger or None
    training_log_ : TrainingLog or None
    tagloom_ : CRF or None
        The tagger of tagloom, with everything that it can do. Not in sklearn-crfsuite.

    Examples
    --------
    >>> from tagloom.interop.sklearn_crfsuite import CRF
    >>> X, y = [[{"word": "they"}, {"word": "fish"}]], [["N", "V"]]
    >>> crf = CRF(c1=0.1, c2=0.1, all_possible_transitions=True).fit(X, y)
    >>> crf.predict_single(X[0]), crf.classes_, crf.score(X, y)
    (['N', 'V'], ['N', 'V'], 1.0)
    """

    _parameters: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        algorithm: str | None = None,
        min_freq: float | None = None,
        all_possible_states: bool | None = None,
        all_possible_transitions: bool | None = None,
        c1: float | None = None,
        c2: float | None = None,
        max_iterations: int | None = None,
        num_memories: int | None = None,
        epsilon: float | None = None,
        period: int | None = None,
        delta: float | None = None,
        linesearch: str | None = None,
        max_linesearch: int | None = None,
        calibration_eta: float | None = None,
        calibration_rate: float | None = None,
        calibration_samples: int | None = None,
        calibration_candidates: int | None = None,
        calibration_max_trials: int | None = None,
        pa_type: int | None = None,
        c: float | None = None,
        error_sensitive: bool | None = None,
        averaging: bool | None = None,
        variance: float | None = None,
        gamma: float | None = None,
        verbose: bool = False,
        model_filename: str | None = None,
        keep_tempfiles: bool = False,
        trainer_cls: type[Trainer] | None = None,
    ) -> None:
        given = locals()
        for name in self._parameters:
            setattr(self, name, given[name])
        self.algorithm: str | None
        self.verbose: bool
        self.model_filename: str | None
        self.trainer_cls: type[Trainer] | None
        self.training_log_: TrainingLog | None = None
        self._tagger: LinearTagger | None = None
        self._cached: dict[str, Any] = {}

    # ---- learning and predicting -----------------------------------------------------------

    def fit(self, X: Any, y: Any, X_dev: Any = None, y_dev: Any = None) -> Self:
        """Train a model; development data are scored at the end."""
        if (X_dev is None) != (y_dev is None):
            raise ParameterError(
                where="fit", expected="both X_dev and y_dev, or neither", found="one of them"
            )
        trainer = self._make_trainer()
        for xseq, yseq in zip(X, y, strict=True):
            trainer.append(xseq, yseq)
        for xseq, yseq in zip(X_dev or (), y_dev or (), strict=True):
            trainer.append(xseq, yseq, 1)
        tagger = trainer.fit(-1 if X_dev is None else 1)
        if tagger is None:
            raise ParameterError(parameter="y", expected="at least one label", found="none")
        self._tagger, self._cached = tagger, {}
        self.training_log_ = trainer.logparser
        if self.model_filename is not None:
            to_crfsuite(tagger, self.model_filename)
        return self

    def _make_trainer(self) -> Trainer:
        cls = self.trainer_cls or Trainer
        ours = ("algorithm", "verbose", "model_filename", "keep_tempfiles", "trainer_cls")
        params = {name: getattr(self, name) for name in self._parameters if name not in ours}
        given = {_TRAINER.get(name, name): x for name, x in params.items() if x is not None}
        return cls(algorithm=self.algorithm, params=given, verbose=self.verbose)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict the labels of sequences: an array of objects, as in sklearn-crfsuite."""
        return np.array(list(with_items(self._fitted.predict, X)), dtype=object)

    def predict_single(self, xseq: Any) -> list[str]:
        """Predict the labels of one sequence."""
        return with_items(self._fitted.predict, [xseq])[0]

    def predict_marginals(self, X: Any) -> npt.NDArray[Any]:
        """Return for each token of each sequence a dict from label to probability."""
        return np.array(self._marginals(X), dtype=object)

    def predict_marginals_single(self, xseq: Any) -> list[dict[str, float]]:
        """Return for each token of one sequence a dict from label to probability."""
        (marginals,) = self._marginals([xseq])
        return marginals

    def _marginals(self, X: Any) -> list[list[dict[str, float]]]:
        fitted = self._fitted
        return with_items(lambda sequences: fitted.predict_marginals(sequences, as_dict=True), X)

    def score(self, X: Any, y: Sequence[Sequence[str]]) -> float:
        """Return the token accuracy."""
        predicted = with_items(self._fitted.predict, X)
        pairs = [
            a == b
            for gold, labels in zip(y, predicted, strict=True)
            for a, b in zip(gold, labels, strict=True)
        ]
        return float(np.mean(pairs))

    # ---- looking inside --------------------------------------------------------------------

    @property
    def tagloom_(self) -> LinearTagger | None:
        """The tagger of tagloom; read from ``model_filename`` if that exists."""
        path = self.model_filename
        if self._tagger is None and path is not None and Path(path).exists():
            self._tagger = read_crfsuite(path)
        return self._tagger

    @property
    def _fitted(self) -> LinearTagger:
        tagger = self.tagloom_
        if tagger is None:
            raise NotFittedError("This CRF is not fitted.", hint="Call fit() first.")
        return tagger

    @property
    def tagger_(self) -> Tagger | None:
        """A `pycrfsuite.Tagger` with the model."""
        tagger = self.tagloom_
        if tagger is None:
            return None
        if "tagger" not in self._cached:
            self._cached["tagger"] = new = Tagger()
            new._use(tagger, read_header(to_crfsuite(tagger)))
        opened: Tagger = self._cached["tagger"]
        return opened

    @property
    def _info(self) -> ParsedDump | None:
        if "info" not in self._cached and self.tagger_ is not None:
            self._cached["info"] = self.tagger_.info()
        return self._cached.get("info")

    @property
    def classes_(self) -> list[str] | None:
        """The labels."""
        return None if self.tagloom_ is None else list(self.tagloom_.scores_.labels)

    @property
    def size_(self) -> int | None:
        """Size of the model in CRFsuite's format, in bytes."""
        return None if self._info is None else int(self._info.header["size"])

    @property
    def num_attributes_(self) -> int | None:
        """Number of attributes that have a weight."""
        return None if self._info is None else len(self._info.attributes)

    @property
    def attributes_(self) -> list[str] | None:
        """The attributes in the order of their numbers."""
        return None if self._info is None else list(self._info.attributes)

    @property
    def state_features_(self) -> dict[tuple[str, str], float] | None:
        """The weights by (attribute, label)."""
        return None if self._info is None else self._info.state_features

    @property
    def transition_features_(self) -> dict[tuple[str, str], float] | None:
        """The weights by (from, to)."""
        return None if self._info is None else self._info.transitions

    # ---- for scikit-learn ------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name."""
        return {name: getattr(self, name) for name in self._parameters}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name."""
        for name, value in params.items():
            if name not in self._parameters:
                raise ParameterError(
                    where="CRF", expected=f"one of {', '.join(self._parameters)}", found=repr(name)
                )
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags  # type: ignore[import-untyped]

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True),
            input_tags=InputTags(two_d_array=False, dict=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return self.tagloom_ is not None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cached": {}}

    def __repr__(self) -> str:
        given = (f"{k}={v!r}" for k, v in self.get_params().items() if v not in (None, False))
        return f"CRF({', '.join(given)})"


CRF._parameters = tuple(CRF.__init__.__annotations__)[:-1]  # without that of the result
