"""Exercise 10 of Eisenstein, chapter 7: what moves if all weights of a recurrent network are zero.

Transitions and constants are left out: they would move, but see no words.
"""

import runpy
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peers

from tagloom.neural.heads import HEADS, Gold, Head  # noqa: E402
from tagloom.neural.learners import AdamW  # noqa: E402
from tagloom.neural.modules import Batch, Network  # noqa: E402
from tagloom.scores.networks import Alphabets, NetworkSpec  # noqa: E402

EXAMPLE = Path(__file__).parents[2] / "examples" / "neural_names.py"
GOLD = [0, 1, 1, 0, 1]


class SGD:
    """The gradient alone, with the interface of `AdamW`."""

    def __init__(self, groups):
        self.parameters = [p for group in groups for p in group["params"]]

    @torch.no_grad()
    def step(self, factor):
        for p in self.parameters:
            p -= 0.5 * factor * p.grad


def zeroed(module):
    """Set weights to zero; return those that are learned, constants left out."""
    learned = {}
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.zero_()
            is_constant = "bias" in name
            parameter.requires_grad_(not is_constant)
            if not is_constant:
                learned[name] = parameter
    return learned


def train(score, learned, kind, optimiser, steps=20):
    """Return the names of the weights that have moved."""
    head = Head(kind, 2)
    offsets = np.array([0, 5])
    gold = Gold(offsets, np.eye(2, dtype=np.bool_)[GOLD], np.ones(1))
    learner = optimiser([{"params": list(learned.values()), "eta": 0.05}])
    for _ in range(steps):
        for p in learned.values():
            p.grad = None
        loss = head.loss(score(), gold)
        loss.backward()
        learner.step(1.0)
    return {name for name, p in learned.items() if p.detach().any()}


CASES = [(kind, optimiser) for kind in HEADS for optimiser in (SGD, AdamW)]


@pytest.mark.parametrize(("kind", "optimiser"), CASES)
@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_a_network_that_starts_at_zero_never_moves(cell, kind, optimiser):
    spec = NetworkSpec(2, n_words=6, word_size=4, encoder=cell, hidden=4, is_bidirectional=False)
    network = Network(spec)
    batch = Batch.of(Alphabets(tuple("abcde"), "").encode([list("abcde")]))
    learned = zeroed(network)
    assert {"words.weight", "h0", "output.weight"} <= learned.keys()
    assert train(lambda: network(batch), learned, kind, optimiser) == set()
    with torch.no_grad():
        for p in learned.values():
            p.normal_()
    # The same steps move everything from a random start.
    before = {name: p.detach().clone() for name, p in learned.items()}
    train(lambda: network(batch), learned, kind, optimiser)
    assert not any(torch.equal(p, before[name]) for name, p in learned.items())


@pytest.mark.parametrize(("kind", "optimiser"), CASES)
@pytest.mark.parametrize("g", [torch.tanh, torch.sigmoid], ids=lambda g: g.__name__)
def test_the_network_of_the_example(g, kind, optimiser):
    recurrent = runpy.run_path(str(EXAMPLE))["Recurrent"](g)
    learned = zeroed(recurrent)
    moved = train(lambda: recurrent([0, 1, 2, 3, 4]), learned, kind, optimiser)
    if g is torch.tanh:
        assert moved == set()
        return
    assert moved == {"output", "recurrence", "h0"}
    for name, p in learned.items():  # all hidden units are the same
        units = p.detach() if name != "output" else p.detach().t()
        if name in moved:
            torch.testing.assert_close(units, units[:1].expand_as(units), rtol=1e-6, atol=1e-7)
