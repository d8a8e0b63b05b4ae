"""The learned weights of features and transitions, as users read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tagloom.models.data import label_number
from tagloom.models.fitted import Learned
from tagloom.models.taggers import Tagger
from tagloom.notebooks import Rows
from tagloom.numeric import np
from tagloom.scores import LinearScores

if TYPE_CHECKING:
    import numpy.typing as npt

    Float64 = npt.NDArray[np.float64]


class FeatureWeight(NamedTuple):
    """The weight of one feature."""

    attribute: str
    label: str
    weight: float


class FeatureWeights(Tagger):
    """A tagger whose scores are, at least in part, a `LinearScores`, the attribute ``scores_``."""

    scores_ = Learned[LinearScores]()

    @property
    def transitions_(self) -> Float64:
        """The weights of transitions y_prev → y [Y, Y], in the order of ``labels_``."""
        self._check_fitted("transitions_")
        return self.scores_.trans

    @property
    def transition_features_(self) -> dict[tuple[str, str], float]:
        """The weights of transitions by name: (from, to) → weight, without zeros."""
        names = self._label_list
        from_, to = np.nonzero(self.transitions_)
        weights = self.scores_.trans[from_, to].tolist()
        return {(names[i], names[j]): w for i, j, w in zip(from_, to, weights, strict=True)}

    @property
    def state_features_(self) -> dict[tuple[str, str], float]:
        """The weights of features by name: (attribute, label) → weight."""
        return {(w.attribute, w.label): w.weight for w in self.feature_weights()}

    def feature_weights(
        self, pattern: str | None = None, *, label: str | None = None, n: int | None = None
    ) -> Rows[FeatureWeight]:
        """List weights of features, the strongest first.

        Parameters
        ----------
        pattern : str, optional
            A shell pattern that the attribute must match, such as ``"suffix*"``.
        label : str, optional
            Only weights of this label, or of this sub-tag; then the largest come first, the most
            negative last.
        n : int, optional
            Maximum number.

        Returns
        -------
        list of FeatureWeight
            ``attribute``, ``label``, ``weight``; edge features have a label ``from → to``.
        """
        self._check_fitted("feature_weights")
        weights = self._node_weights(pattern, label, n)
        if self.scores_.edge_rows is not None and label is None:
            weights += self._edge_weights(pattern)
        if label is None:
            weights.sort(key=lambda w: (-abs(w.weight), w.attribute, w.label))
        else:
            weights.sort(key=lambda w: (-w.weight, w.attribute))
        return Rows(weights[:n])

    def _node_weights(
        self, pattern: str | None, label: str | None, n: int | None
    ) -> list[FeatureWeight]:
        """List weights of (attribute, label); at least the n strongest of them."""
        scores = self.scores_
        names = list(scores.outputs)
        y = label_number(label, names)
        chosen = np.ones(len(scores.rows.cols), dtype=bool)
        if y is not None:
            chosen &= scores.rows.cols == y
        if n is not None and n > 0 and pattern is None:  # make names for the strongest only
            strengths = scores.rows.weights if y is not None else np.abs(scores.rows.weights)
            candidates = strengths[chosen & (scores.rows.weights != 0)]
            if len(candidates) > n:
                chosen &= strengths >= np.partition(candidates, -n)[-n]
        return [
            FeatureWeight(attribute, names[col], weight)
            for attribute, col, weight in scores.named(scores.rows, scores.names, chosen, pattern)
        ]

    def _edge_weights(self, pattern: str | None) -> list[FeatureWeight]:
        scores, names = self.scores_, self._label_list
        assert scores.edge_rows is not None
        assert scores.edge_names is not None
        everything = np.ones(len(scores.edge_rows.cols), dtype=bool)
        return [
            FeatureWeight(attribute, f"{names[col // len(names)]} → {names[col % len(names)]}", w)
            for attribute, col, w in scores.named(
                scores.edge_rows, scores.edge_names, everything, pattern
            )
        ]
