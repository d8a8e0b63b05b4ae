"""Outside judges: an FST library, torch autograd, pytorch-crf and torch-struct.

Run by ``make test-peers``, where these libraries are installed. They are imported inside the tests,
so that ``make test`` can collect this file without them, and a missing one is an error there.
"""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tagloom as tl
from tagloom.trellis import log_partition_grad

pytestmark = pytest.mark.peers

BIOES = ["B-X", "E-X", "I-X", "O", "S-X"]


def chain_arrays(T, Y, *, seed=0, integers=False):
    """First-order scores. Integers are exact in an FST's float32; wide, so that few sums tie."""
    rng = np.random.default_rng(seed)

    def scores(*shape):
        return 1.0 * rng.integers(-500, 500, shape) if integers else rng.standard_normal(shape)

    return {
        "emit": scores(T, Y),
        "trans": scores(Y, Y),
        "start": scores(Y),
        "stop": scores(Y),
        "edge": scores(T, Y, Y),
    }


# Finite-state transducers


def lattice(emit, trans, start, stop, edge, arc_type="standard"):
    """The sequence as an acceptor: state (t, y) after reading label y + 1; weights are costs."""
    import pynini

    T, Y = emit.shape
    fst = pynini.Fst(arc_type=arc_type)

    def arc(source, y, score, target):
        weight = pynini.Weight(fst.weight_type(), -score)
        fst.add_arc(source, pynini.Arc(y + 1, y + 1, weight, target))

    root = fst.add_state()
    fst.set_start(root)
    nodes = [[fst.add_state() for _ in range(Y)] for _ in range(T)]
    for y in range(Y):
        arc(root, y, start[y] + emit[0, y], nodes[0][y])
        fst.set_final(nodes[-1][y], pynini.Weight(fst.weight_type(), -stop[y]))
    for t in range(1, T):
        for y_prev in range(Y):
            for y in range(Y):
                score = trans[y_prev, y] + edge[t, y_prev, y] + emit[t, y]
                arc(nodes[t - 1][y_prev], y, score, nodes[t][y])
    return fst


def bioes_acceptor():
    """Legal BIOES over one type, as an automaton drawn by hand: outside, and inside a span."""
    import pynini

    fst = pynini.Fst()
    outside, inside = fst.add_state(), fst.add_state()
    fst.set_start(outside)
    fst.set_final(outside)
    free = pynini.Weight.one(fst.weight_type())
    for source, name, target in [
        (outside, "O", outside),
        (outside, "S-X", outside),
        (outside, "B-X", inside),
        (inside, "I-X", inside),
        (inside, "E-X", outside),
    ]:
        label = BIOES.index(name) + 1
        fst.add_arc(source, pynini.Arc(label, label, free, target))
    return fst


def shortest_paths(fst, n):
    """The n cheapest label paths and their scores, best first; label 0 is the empty word."""
    import pynini

    found = pynini.shortestpath(fst, nshortest=n, unique=True).paths()
    pairs = []
    while not found.done():
        pairs.append((-float(found.weight()), [label - 1 for label in found.ilabels() if label]))
        found.next()
    return sorted(pairs, reverse=True)


def assert_same_nbest(trellis, fst, n):
    expected = shortest_paths(fst, n)
    scores = [score for score, _ in expected]
    assert len(set(scores)) == len(scores), "the case was meant to have no ties"
    found = trellis.nbest(n)
    assert_array_equal(found.scores, scores)
    assert_array_equal(found.paths, [path for _, path in expected])


@pytest.mark.parametrize(("T", "Y", "n"), [(6, 3, 20), (12, 4, 10), (1, 5, 3), (4, 2, 16)])
def test_nbest_equals_the_shortest_paths_of_an_fst(T, Y, n):
    arrays = chain_arrays(T, Y, integers=True)
    assert_same_nbest(tl.Trellis(**arrays), lattice(**arrays), n)


def test_nbest_of_an_automaton_equals_a_composition():
    import pynini

    arrays = chain_arrays(8, 5, seed=1, integers=True)
    legal = pynini.compose(lattice(**arrays), bioes_acceptor())
    trellis = tl.Trellis(**arrays, states=tl.StateSpace.bioes(BIOES))
    assert_same_nbest(trellis, legal, 15)


@pytest.mark.parametrize(("T", "Y"), [(1, 3), (20, 4)])
def test_log_partition_equals_the_shortest_distance_in_the_log_semiring(T, Y):
    import pynini

    arrays = chain_arrays(T, Y)
    backward = pynini.shortestdistance(lattice(**arrays, arc_type="log64"), reverse=True)
    assert_allclose(tl.Trellis(**arrays).log_partition(), -float(backward[0]), rtol=1e-9)


# Automatic differentiation


def torch_log_partition(emit, trans, start, stop, edge):
    """The forward algorithm in torch; autograd does the rest."""
    import torch

    alpha = start + emit[0]
    for t in range(1, len(emit)):
        alpha = torch.logsumexp(alpha[:, None] + trans + edge[t] + emit[t], dim=0)
    return torch.logsumexp(alpha + stop, dim=0)


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-10), ("float32", 1e-4)])
def test_gradients_equal_autograd_through_the_forward_algorithm(dtype, rtol):
    import torch

    lengths, Y = [7, 1, 12], 5
    offsets = np.cumsum([0, *lengths])
    arrays = {k: v.astype(dtype) for k, v in chain_arrays(sum(lengths), Y, seed=2).items()}
    weight = np.array([1.0, 0.5, 2.0], dtype)
    grads = {f"grad_{name}": np.empty_like(array) for name, array in arrays.items()}
    log_z = log_partition_grad(offsets, **arrays, weight=weight, **grads)

    tensors = {name: torch.tensor(array, requires_grad=True) for name, array in arrays.items()}
    parts = [
        torch_log_partition(
            **{k: v[lo:hi] if k in ("emit", "edge") else v for k, v in tensors.items()}
        )
        for lo, hi in itertools.pairwise(offsets)
    ]
    (torch.stack(parts) * torch.tensor(weight)).sum().backward()
    assert_allclose(log_z, [part.item() for part in parts], rtol=rtol)
    for name, tensor in tensors.items():
        found = grads[f"grad_{name}"]
        assert_allclose(found, tensor.grad.numpy(), rtol=rtol, atol=rtol / 10, err_msg=name)


def test_entropy_gradient_free_identity_with_autograd():
    """Entropy = log_z − Σ marginal·score, the right side all by autograd."""
    import torch

    arrays = chain_arrays(9, 4, seed=5)
    tensors = {name: torch.tensor(array, requires_grad=True) for name, array in arrays.items()}
    log_z = torch_log_partition(**tensors)
    log_z.backward()
    inner = sum(float((tensor.grad * tensor.detach()).sum()) for tensor in tensors.values())
    assert_allclose(tl.Trellis(**arrays).entropy(), log_z.item() - inner, rtol=1e-10)


# CRF layers


@pytest.mark.parametrize("Y", [1, 2, 9])
def test_pytorch_crf(Y):
    """Likelihood, its gradients and the decoded paths of a padded batch."""
    import torch
    from torchcrf import CRF

    lengths, width = [3, 1, 11], 11
    offsets = np.cumsum([0, *lengths])
    arrays = chain_arrays(sum(lengths), Y, seed=3)
    del arrays["edge"]
    layer = CRF(Y, batch_first=True).double()
    with torch.no_grad():
        layer.start_transitions.copy_(torch.tensor(arrays["start"]))
        layer.end_transitions.copy_(torch.tensor(arrays["stop"]))
        layer.transitions.copy_(torch.tensor(arrays["trans"]))
    mask = torch.tensor([[t < T for t in range(width)] for T in lengths])
    padded = torch.zeros(len(lengths), width, Y, dtype=torch.float64)
    padded[mask] = torch.tensor(arrays["emit"])
    padded.requires_grad_()
    tags = torch.tensor(np.random.default_rng(0).integers(0, Y, (len(lengths), width)))
    likelihood = layer(padded, tags, mask=mask, reduction="none")

    trellis = tl.Trellis(**arrays, offsets=offsets)
    gold = tags[mask].numpy()
    assert_allclose(trellis.log_prob(gold), likelihood.detach().numpy(), rtol=1e-10, atol=1e-12)
    decoded = layer.decode(padded, mask=mask)
    assert_array_equal(trellis.viterbi().path, np.concatenate(decoded))

    # d(−log p)/d(score) = expected − observed counts.
    (-likelihood.sum()).backward()
    grads = {f"grad_{name}": np.empty_like(array) for name, array in arrays.items()}
    log_partition_grad(offsets, **arrays, **grads)
    observed = {name: np.zeros_like(array) for name, array in arrays.items()}
    observed["emit"][np.arange(len(gold)), gold] = 1
    for lo, hi in itertools.pairwise(offsets):
        observed["start"][gold[lo]] += 1
        observed["stop"][gold[hi - 1]] += 1
        np.add.at(observed["trans"], (gold[lo : hi - 1], gold[lo + 1 : hi]), 1)
    judged = {
        "emit": padded.grad[mask],
        "trans": layer.transitions.grad,
        "start": layer.start_transitions.grad,
        "stop": layer.end_transitions.grad,
    }
    for name, grad in judged.items():
        found = grads[f"grad_{name}"] - observed[name]
        assert_allclose(found, grad.numpy(), rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(("T", "Y"), [(2, 2), (5, 3), (17, 4)])
def test_torch_struct(T, Y):
    """Partition, marginals, arg-max, entropy and k-best of torch-struct's linear chain."""
    import torch
    import torch_struct

    class LinearChain(torch_struct.LinearChainCRF):
        arg_constraints = {}  # noqa: RUF012  # torch asks for it, torch-struct 0.5 lacks it

    arrays = chain_arrays(T, Y, seed=4)
    trellis = tl.Trellis(**arrays)
    step = arrays["trans"] + arrays["edge"] + arrays["emit"][:, None, :]  # [T, y_prev, y]
    step[1] += (arrays["start"] + arrays["emit"][0])[:, None]
    step[-1] += arrays["stop"]
    chain = LinearChain(torch.tensor(step[1:].transpose(0, 2, 1)[None].copy()))
    assert_allclose(trellis.log_partition(), chain.partition.item(), rtol=1e-10)
    assert_allclose(trellis.entropy(), chain.entropy.item(), rtol=1e-9)
    xi = chain.marginals.detach().numpy()[0].transpose(0, 2, 1)
    assert_allclose(trellis.pair_marginals()[1:], xi, rtol=1e-9, atol=1e-12)
    read = chain.struct.from_parts
    assert_array_equal(trellis.viterbi().path, read(chain.argmax)[0][0])
    k = min(6, Y**T)
    best = [read(parts)[0][0].numpy() for parts in chain.topk(k)]
    assert_array_equal(trellis.nbest(k).paths, best)


# Segments


def semi_markov(scores, trans):
    """The potentials of torch-struct's SemiMarkov: edge[n, k, to, from] of a segment of k at n.

    There the first segment, too, has a label before it: here always label 0.
    """
    import torch

    T, L, Y = scores.shape
    edge = torch.full((1, T, L + 1, Y, Y), -1e5, dtype=torch.float64)
    for t in range(T):
        for length in range(1, min(L, T - t) + 1):
            for y_prev in range(Y):
                before = 0.0 if t == 0 else trans[y_prev]
                edge[0, t, length, :, y_prev] = torch.as_tensor(scores[t, length - 1] + before)
    edge[0, 0, :, :, 1:] = -1e5  # one label before the first segment
    return edge


def test_segments_equal_torch_struct():
    import torch
    import torch_struct

    class SemiMarkov(torch_struct.SemiMarkovCRF):
        arg_constraints = {}  # noqa: RUF012  # torch asks for it, torch-struct 0.5 lacks it

    rng = np.random.default_rng(0)
    scores, trans = rng.standard_normal((8, 3, 4)), rng.standard_normal((4, 4))
    edge = semi_markov(scores, trans).requires_grad_()
    peer = SemiMarkov(edge, lengths=torch.tensor([9]))
    trellis = tl.SegmentTrellis(scores, trans)
    assert_allclose(trellis.log_partition(), peer.partition.item(), rtol=1e-9)
    of_peer = peer.marginals[0].sum(dim=-1)[:, 1:].detach().numpy()  # [T, L, Y]
    assert_allclose(trellis.marginals(), of_peer, atol=1e-9)
    assert_allclose(trellis.viterbi().score, peer.max.item(), rtol=1e-9)
