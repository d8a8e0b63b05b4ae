r"""Which words a network's score depends on: gradient × input.

    emit[t, y] ≈ Σ_s x[s] · ∂emit[t, y]/∂x[s]

with x[s] the vector of word s. It is the first-order approximation of what the score would lose if
a word's vector were zero; exact only where the network is linear.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tagloom.neural.modules import Batch, Network
from tagloom.scores.networks import NetworkScores

#: Number of words that are named for each label; the others are small.
MOST = 4


def attribute_scores(network: Any, sentence: Any) -> Callable[[int, int], list[tuple[str, float]]]:
    """Divide the scores of a network among the words of a sentence.

    Parameters
    ----------
    network : NetworkScores
        Any other network is left whole.
    sentence : sentence

    Returns
    -------
    callable
        From t and y to names and values, the `MOST` largest.
    """
    if not isinstance(network, NetworkScores):
        return lambda t, y: []
    inputs = network.alphabets.encode([sentence])
    module = Network(network.spec).eval()
    module.set_arrays(network.all_arrays)
    batch = Batch.of(inputs)
    with torch.no_grad():
        x = module.token_vectors(batch)
    x.requires_grad_(True)
    emit = module.score(x, batch.offsets)
    words = list(getattr(sentence, "tokens", sentence))
    cache: dict[tuple[int, int], list[tuple[str, float]]] = {}

    def named(t: int, y: int) -> list[tuple[str, float]]:
        if (t, y) not in cache:
            (grad,) = torch.autograd.grad(emit[t, y], x, retain_graph=True)
            values = (grad * x).sum(dim=1).detach().numpy()  # [T]
            largest = np.argsort(-np.abs(values), kind="stable")[:MOST]
            cache[t, y] = [
                (f"network, word[{s - t}]={words[s]} (approximate)", float(values[s]))
                for s in sorted(largest.tolist())
            ]
        return cache[t, y]

    return named
