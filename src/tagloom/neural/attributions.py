r"""Which words a network's score depends on: gradient × input.

    emit[t, y] ≈ Σ_s x[s] · ∂emit[t, y]/∂x[s]

with x[s] the vector of word s; for a transformer, those of its pieces. It is the first-order
approximation of what the score would lose if a word's vector were zero; exact only where the
network is linear.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tagloom.neural.modules import Batch, ModuleScores, Network, own_settings
from tagloom.neural.transformers import Int64, TransformerScores
from tagloom.scores.networks import NetworkScores

Float32 = npt.NDArray[np.float32]

#: Number of words that are named at each token; the others are small.
MOST = 4


def attribute_scores(
    network: NetworkScores | ModuleScores | TransformerScores, sentence: Any
) -> Callable[[int, int], list[tuple[str, float]]]:
    """Divide the scores of a network among the words of a sentence.

    Parameters
    ----------
    network : NetworkScores, ModuleScores or TransformerScores
    sentence : sentence

    Returns
    -------
    callable
        From t and y to names and values, of the same words for all labels at t: the `MOST` words
        that decide most between the two labels that the network prefers there.
    """
    with own_settings():
        if isinstance(network, TransformerScores):
            x, begins, emit = _of_pieces(network, sentence)
        else:
            x, begins, emit = _of_words(network, sentence)
    words = list(getattr(sentence, "tokens", sentence))

    @cache
    def values(t: int, y: int) -> Float32:
        with own_settings():
            (grad,) = torch.autograd.grad(emit[t, y], x, retain_graph=True)
        of_rows = (grad * x).sum(dim=1).detach().numpy()
        return np.add.reduceat(of_rows, begins)  # [T]

    @cache
    def named_words(t: int) -> list[int]:
        """The words that favour one of the two best labels most, so the same for every label."""
        best = emit[t].topk(2).indices.tolist()
        difference = np.abs(values(t, best[0]) - values(t, best[1]))
        return sorted(np.argsort(-difference, kind="stable")[:MOST].tolist())

    def named(t: int, y: int) -> list[tuple[str, float]]:
        of_words = values(t, y)
        return [
            (f"network, word[{s - t}]={words[s]} (approximate)", float(of_words[s]))
            for s in named_words(t)
        ]

    return named


def _of_words(network: NetworkScores | ModuleScores, sentence: Any) -> tuple[Tensor, Int64, Tensor]:
    """Return the vectors of words [T, D], the first row of each word [T], and scores [T, Y]."""
    if isinstance(network, ModuleScores):
        module = network.module
    else:
        module = Network(network.spec).eval()
        module.set_arrays(network.all_arrays)
    batch = Batch.of(network.alphabets.encode([sentence]))
    x = module.token_vectors(batch).detach().requires_grad_(True)
    return x, np.arange(len(x)), module.score(x, batch.offsets)


def _of_pieces(network: TransformerScores, sentence: Any) -> tuple[Tensor, Int64, Tensor]:
    """Return the vectors of pieces [P, D], the first row of each word [T], and scores [T, Y]."""
    batch = Batch.of(network.encode([sentence]))
    token_offsets, pieces = network.module.piece_vectors(batch)
    x = pieces.detach().requires_grad_(True)
    return x, token_offsets[:-1], network.module.score(x, token_offsets, batch)
