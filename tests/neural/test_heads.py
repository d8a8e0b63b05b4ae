"""Losses and their gradients, beside enumeration, autograd and finite differences."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peers

from tagloom.neural.heads import HEADS, Gold, Head  # noqa: E402
from tagloom.neural.modules import Batch, Network  # noqa: E402
from tagloom.scores.networks import Alphabets, NetworkSpec  # noqa: E402
from tagloom.scores.vectors import Vectors  # noqa: E402
from tagloom.trellis import StateSpace  # noqa: E402

Y, OFFSETS, WEIGHT = 3, np.array([0, 3, 3, 5, 6]), np.array([1.0, 1.0, 2.0, 0.5])


def make(kind, order=1, seed=0, dtype=torch.float64):
    rng = np.random.default_rng(seed)
    states = None if order == 1 else StateSpace.order(Y, order)
    head = Head(kind, Y, states).to(dtype)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_(torch.from_numpy(rng.normal(size=parameter.shape)))
    emit = torch.from_numpy(rng.normal(size=(OFFSETS[-1], Y))).to(dtype).requires_grad_(True)
    allowed = np.zeros((OFFSETS[-1], Y), np.bool_)
    allowed[np.arange(OFFSETS[-1]), rng.integers(Y, size=OFFSETS[-1])] = True
    return head, emit, allowed


def score_of(head, emit, path, order):
    """The score of a labelling, by torch alone."""
    total = emit[torch.arange(len(path)), list(path)].sum()
    if head.kind in ("softmax", "hinge") or not path:
        return total
    total = total + head.start_transitions[path[0]] + head.end_transitions[path[-1]]
    for a, b in itertools.pairwise(path):
        total = total + head.transitions[a, b]
    if order == 2:
        tied = head.weights.reshape(Y, Y, Y)
        for t in range(2, len(path)):
            total = total + tied[path[t - 2], path[t - 1], path[t]]
    return total


def enumerated(head, emit, allowed, order):
    """The loss by enumeration of all labellings, which autograd differentiates."""
    loss = 0
    for i, (begin, end) in enumerate(itertools.pairwise(OFFSETS)):
        rows, may = emit[begin:end], allowed[begin:end]
        paths = list(itertools.product(range(Y), repeat=int(end - begin)))
        scores = torch.stack([score_of(head, rows, path, order) for path in paths])
        costs = torch.tensor(
            [float(sum(not may[t, y] for t, y in enumerate(path))) for path in paths]
        )
        right = scores[costs == 0]
        if head.kind in ("crf", "softmax"):
            loss = loss + WEIGHT[i] * (scores.logsumexp(0) - right.logsumexp(0))
        else:
            loss = loss + WEIGHT[i] * ((scores + costs).max() - right.max())
    return loss


CASES = [(kind, order) for kind in HEADS for order in (1, 2) if order == 1 or kind in HEADS[:2]]


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize(("kind", "order"), CASES)
def test_losses_and_gradients_are_those_of_enumeration(kind, order, is_open):
    for seed in range(3):
        head, emit, allowed = make(kind, order, seed)
        if is_open:
            allowed[1] = True  # unknown
            allowed[4, :2] = True  # one of two
        loss = head.loss(emit, Gold(OFFSETS, allowed, WEIGHT))
        expected = enumerated(head, emit, allowed, order)
        np.testing.assert_allclose(loss.item(), expected.item(), rtol=1e-9)
        variables = [emit, *(p for p in head.parameters() if p.requires_grad and len(p))]
        ours = torch.autograd.grad(loss, variables)
        theirs = torch.autograd.grad(expected, variables)
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), atol=1e-9)


def test_crf_is_autodiff_through_the_forward_algorithm():
    head, emit, allowed = make("crf")
    gold = torch.from_numpy(allowed).int().argmax(1)
    total = 0
    for i, (begin, end) in enumerate(itertools.pairwise(OFFSETS)):
        if begin == end:
            continue
        alpha = head.start_transitions + emit[begin]
        for t in range(begin + 1, end):
            alpha = (alpha[:, None] + head.transitions).logsumexp(0) + emit[t]
        log_z = (alpha + head.end_transitions).logsumexp(0)
        path = gold[begin:end].tolist()
        total = total + WEIGHT[i] * (log_z - score_of(head, emit[begin:end], path, 1))
    variables = [emit, head.transitions, head.start_transitions, head.end_transitions]
    ours = torch.autograd.grad(head.loss(emit, Gold(OFFSETS, allowed, WEIGHT)), variables)
    for one, other in zip(ours, torch.autograd.grad(total, variables), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), atol=1e-10)


def test_softmax_is_cross_entropy_by_token():
    head, emit, allowed = make("softmax")
    gold = torch.from_numpy(allowed).int().argmax(1)
    losses = torch.nn.functional.cross_entropy(emit, gold, reduction="none")
    weight = torch.from_numpy(np.repeat(WEIGHT, np.diff(OFFSETS)))
    loss = head.loss(emit, Gold(OFFSETS, allowed, WEIGHT))
    np.testing.assert_allclose(loss.item(), (losses * weight).sum().item(), rtol=1e-12)
    assert not any(parameter.requires_grad for parameter in head.parameters())


ALPHABETS = Alphabets(("a", "b"), "abc", Vectors(["b", "c"], [[1.0, 0.5], [2, -1]]))
ENCODERS = [("lstm", True), ("lstm", False), ("gru", True), ("rnn", True), ("cnn", False)]


@pytest.mark.parametrize("characters", ["cnn", "lstm"])
@pytest.mark.parametrize(("encoder", "both"), ENCODERS)
def test_gradients_of_networks_are_finite_differences(encoder, both, characters):
    """Every array moves the loss by its gradient: through encoder, characters and h0."""
    spec = NetworkSpec(
        Y, n_words=3, word_size=4, n_vectors=3, vector_size=2, is_tuned=True, n_characters=7,
        character_size=3, character_units=3, characters=characters, encoder=encoder,
        is_bidirectional=both, layers=2, hidden=4,
    )  # fmt: skip
    torch.manual_seed(0)
    network = Network(spec).double()
    head, _, allowed = make("crf")
    sentences = [["a", "b", "cab"], [], ["bb", "a"], ["c"]]
    batch, gold = Batch.of(ALPHABETS.encode(sentences)), Gold(OFFSETS, allowed, WEIGHT)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    parameters = [p for p in network.parameters() if p.requires_grad]
    grads = torch.autograd.grad(head.loss(network(batch), gold), parameters)
    with torch.no_grad():
        for parameter, grad in zip(parameters, grads, strict=True):
            direction, step = torch.randn_like(parameter), 1e-6
            if parameter is network.tuned.weight:
                direction[0] = 0  # the vector of words without one stays zero
            parameter.add_(direction, alpha=step)
            above = head.loss(network(batch), gold).item()
            parameter.add_(direction, alpha=-2 * step)
            below = head.loss(network(batch), gold).item()
            parameter.add_(direction, alpha=step)
            slope = (above - below) / (2 * step)
            assert slope == pytest.approx((grad * direction).sum().item(), rel=1e-5, abs=1e-7)
