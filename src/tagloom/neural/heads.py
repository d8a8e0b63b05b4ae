r"""Heads: the losses that turn scores of labels and transitions into one number to be minimised.

With score(y) the score of a labelling, transitions included, and Y(x) the labellings that the
training labels allow (one, unless labels are open)::

    crf      log Σ_ŷ exp(score(ŷ)) − log Σ_{y ∈ Y(x)} exp(score(y))
    margin   max_ŷ [cost(ŷ) + score(ŷ)] − max_{y ∈ Y(x)} score(y)
    softmax  Σ_t log Σ_ŷ exp(emit[t, ŷ]) − log Σ_{y ∈ Y(x, t)} exp(emit[t, y])
    hinge    Σ_t max_ŷ [1{ŷ ∉ Y(x, t)} + emit[t, ŷ]] − max_{y ∈ Y(x, t)} emit[t, y]

where cost(ŷ) is the number of tokens whose label is not allowed. The first two are structured: they
have transitions, and are computed by the layer `tagloom.torch.CRF`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tagloom.torch import CRF
from tagloom.trellis import StateSpace, Trellis

Bool = npt.NDArray[np.bool_]

STRUCTURED = ("crf", "margin")
HEADS = (*STRUCTURED, "softmax", "hinge")


class Gold(NamedTuple):
    """The labels of a batch of N sentences with T tokens."""

    offsets: npt.NDArray[np.int64]  # [N + 1]
    allowed: npt.NDArray[np.bool_]  # [T, Y] the labels that are possibly right
    weight: npt.NDArray[np.float64]  # [N] the weight of each sentence

    @property
    def token_weight(self) -> npt.NDArray[np.float64]:
        """The weight of each token [T]."""
        return np.repeat(self.weight, np.diff(self.offsets))


class Head(CRF):
    """A loss with its transitions.

    Parameters
    ----------
    kind : {"crf", "margin", "softmax", "hinge"}
    n_labels : int
    states : StateSpace, optional
        The label histories that transitions depend on; by default the previous label.
    has_transitions : bool
        Whether there are weights of transitions; only structured heads have any.
    """

    def __init__(
        self,
        kind: str,
        n_labels: int,
        states: StateSpace | None = None,
        *,
        has_transitions: bool = True,
    ) -> None:
        super().__init__(n_labels, states=states)
        self.kind = kind
        for parameter in self.parameters():
            torch.nn.init.zeros_(parameter)
        if kind not in STRUCTURED or not has_transitions:
            self.requires_grad_(False)

    def loss(self, emit: Tensor, gold: Gold) -> Tensor:
        """Return the weighted sum of the losses of sentences.

        Parameters
        ----------
        emit : Tensor, shape (T, Y)
        gold : Gold
        """
        if self.kind == "crf":
            return -self._log_likelihood(emit, gold, gold.allowed)
        if self.kind == "margin":
            return self._margin(emit, gold)
        allowed = torch.from_numpy(gold.allowed).to(emit.device)
        right = emit.masked_fill(~allowed, -torch.inf)
        if self.kind == "softmax":
            losses = emit.logsumexp(dim=1) - right.logsumexp(dim=1)
        else:
            losses = (emit + (~allowed).to(emit.dtype)).amax(dim=1) - right.amax(dim=1)
        weight = torch.from_numpy(gold.token_weight).to(emit.device, emit.dtype)
        return (losses * weight).sum()

    def _log_likelihood(self, emit: Tensor, gold: Gold, allowed: Bool) -> Tensor:
        """Return the log-likelihood of the labellings that are allowed, weighted and summed."""
        tags = torch.from_numpy(_as_tags(allowed)).to(emit.device)
        if (gold.weight == 1).all():
            return self.forward_ragged(emit, gold.offsets, tags)
        each = self.forward_ragged(emit, gold.offsets, tags, "none")
        return (each * torch.from_numpy(gold.weight).to(each)).sum()

    def _margin(self, emit: Tensor, gold: Gold) -> Tensor:
        """Return the loss of the most violating labelling, found by Viterbi."""
        scores = emit.detach().cpu().numpy()
        cost = (~gold.allowed).astype(scores.dtype)  # [T, Y]
        wrong = self._best(scores + cost, gold)
        right = self._best(np.where(gold.allowed, scores, -np.inf).astype(scores.dtype), gold)
        n_wrong = cost[np.arange(len(wrong)), wrong] @ gold.token_weight
        # The log-partitions cancel, so the difference of log-likelihoods is that of scores.
        of_wrong = self._log_likelihood(emit, gold, _one_hot(wrong, scores.shape))
        return of_wrong - self._log_likelihood(emit, gold, _one_hot(right, scores.shape)) + n_wrong

    def _best(self, emit: npt.NDArray[Any], gold: Gold) -> npt.NDArray[np.int32]:
        """Return the best labels [T]."""
        parts: tuple[Any, ...] = self.transitions, self.start_transitions, self.end_transitions
        trans, start, stop = (part.detach().cpu().numpy().astype(np.float64) for part in parts)
        weights = None
        if self.weights is not None:
            weights = self.weights.detach().cpu().numpy().astype(np.float64)
        trellis = Trellis(
            emit,
            trans,
            start,
            stop,
            offsets=gold.offsets,
            states=self.states,
            weights=weights,
            n_threads=1,
        )
        return trellis.viterbi().path


def _as_tags(allowed: Bool) -> npt.NDArray[Any]:
    """Return label ids [T] if every token has one label, which is faster; otherwise the sets."""
    if (allowed.sum(axis=1) == 1).all():
        return allowed.argmax(axis=1)
    return allowed


def _one_hot(path: npt.NDArray[np.int32], shape: tuple[int, ...]) -> Bool:
    """Return the mask [T, Y] of the labels of one labelling."""
    mask = np.zeros(shape, np.bool_)
    mask[np.arange(len(path)), path] = True
    return mask
