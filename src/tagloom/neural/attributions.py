r"""Which words a network's score depends on: gradient × input.

    emit[t, y] ≈ Σ_s x[s] · ∂emit[t, y]/∂x[s]

with x[s] the vector of word s; for a transformer, those of its pieces. It is the first-order
approximation of what the score would lose if a word's vector were zero; exact only where the
network is linear.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tagloom.neural.modules import Batch, ModuleScores, Network, own_settings
from tagloom.neural.transformers import Int64, TransformerScores
from tagloom.scores.networks import NetworkScores

#: Number of words that are named for each label; the others are small.
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
        From t and y to names and values, the `MOST` largest.
    """
    with own_settings():
        if isinstance(network, TransformerScores):
            x, begins, emit = _of_pieces(network, sentence)
        else:
            x, begins, emit = _of_words(network, sentence)
    words = list(getattr(sentence, "tokens", sentence))
    cache: dict[tuple[int, int], list[tuple[str, float]]] = {}

    def named(t: int, y: int) -> list[tuple[str, float]]:
        if (t, y) not in cache:
            with own_settings():
                (grad,) = torch.autograd.grad(emit[t, y], x, retain_graph=True)
            of_rows = (grad * x).sum(dim=1).detach().numpy()
            values = np.add.reduceat(of_rows, begins)  # [T]
            largest = np.argsort(-np.abs(values), kind="stable")[:MOST]
            cache[t, y] = [
                (f"network, word[{s - t}]={words[s]} (approximate)", float(values[s]))
                for s in sorted(largest.tolist())
            ]
        return cache[t, y]

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
