"""Token classifiers: each label is predicted independently of the others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tagloom import _native
from tagloom.errors import ParameterError
from tagloom.features import FeatureExtractor
from tagloom.models.layouts import Layout
from tagloom.models.linear import LinearTagger
from tagloom.models.local import LocalTagger
from tagloom.numeric import np
from tagloom.parameters import parameter

if TYPE_CHECKING:
    from tagloom.models.reading import TrainingData
    from tagloom.models.resident import Part


class TokenClassifier(LocalTagger):
    r"""A linear classifier of tokens, without any dependence between labels.

    Its features may look at the whole sentence, but not at other labels: the learner treats every
    token as a separate sentence, and transitions have no weights. ::

        loss="log"         Σ_t −log Pr(y_t | x, t) + l2·‖θ‖²        logistic regression
        loss="perceptron"  θ ← θ + φ(x, t, y_t) − φ(x, t, ŷ)         averaged perceptron
        loss="hinge"       ½‖θ‖² + C·Σ_t max_ŷ [1{ŷ ≠ y_t} + θ·φ(x, t, ŷ) − θ·φ(x, t, y_t)]

    Examples
    --------
    The label of ``can`` depends on its neighbours, not on the word alone:

    >>> import tagloom as tl
    >>> X = [["they", "can", "fish"], ["can", "of", "fish"]]
    >>> y = [["N", "V", "V"], ["N", "P", "N"]]
    >>> tl.TokenClassifier(features=["word"]).fit(X, y).score(X, y) < 1
    True
    >>> tl.TokenClassifier(features=["word[-1..1]"]).fit(X, y).predict(X)
    [['N', 'V', 'V'], ['N', 'P', 'N']]
    """

    features: Any = parameter(
        default="auto",
        kw_only=False,
        details='The presets are "pos", "chunk", "ner" and "words". Templates and all other '
        "arguments of `tagloom.features.make` are accepted, except edge templates, which look at "
        "the previous label. None if the tokens are dicts or lists of features.",
    )

    boundaries = False

    def _make_objective(
        self, data: TrainingData, *, pattern_only: bool = False
    ) -> tuple[_native.LinearObjective, Layout]:
        objective, layout = LinearTagger._make_objective(
            self, self._tokens(data), pattern_only=pattern_only
        )
        free = objective.mask()
        free[layout.transitions_at :] = False
        objective.set_mask(free)
        return objective, layout

    def _part(self, data: TrainingData) -> Part:
        return super()._part(self._tokens(data))

    def _free_transitions(self, extractor: FeatureExtractor, takes_all: bool) -> str:
        return "none"

    @staticmethod
    def _tokens(data: TrainingData) -> TrainingData:
        """Make each token a sentence."""
        encoded = data.encoded
        if encoded.edge_indptr is not None:
            raise ParameterError(
                parameter="features",
                expected="without edge(...) templates, as TokenClassifier ignores the previous "
                "label",
                found="edge templates",
                hint="Leave them out, or use MEMM or CRF.",
            )
        weight = data.weight
        if weight is not None:
            weight = np.repeat(weight, np.diff(encoded.offsets))
        alone = np.arange(len(data.gold.numbers) + 1, dtype=np.int64)  # each token is a sentence
        return replace(data, encoded=encoded._replace(offsets=alone), weight=weight)
