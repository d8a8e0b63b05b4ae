"""Outside judges of dependency trees: networkx's arborescences and torch-struct's dependency CRFs.

Run by ``make test-peers``, where these libraries are installed; imported inside the tests, so that
``make test`` can collect this file without them.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tagloom as tl

pytestmark = pytest.mark.peers


@pytest.mark.parametrize("T", [1, 2, 7, 20])
@pytest.mark.parametrize("seed", range(3))
def test_networkx(T, seed):
    """The maximum spanning arborescence from the root, which may have several dependents."""
    import networkx

    arcs = np.random.default_rng(seed).standard_normal((T, T + 1))
    graph = networkx.DiGraph()
    for t in range(T):
        for h in range(T + 1):
            if h != t + 1:
                graph.add_edge(h, t + 1, weight=arcs[t, h])
    best = networkx.maximum_spanning_arborescence(graph)
    expected = {d: h for h, d in best.edges}
    heads, score = tl.TreeScores(arcs, projective=False, single_root=False).viterbi()
    assert heads.tolist() == [expected[t + 1] for t in range(T)]
    assert score == pytest.approx(sum(arcs[d - 1, h] for d, h in expected.items()))


def torch_scores(arcs):
    """Scores [1, head, dependent], with those of the root on the diagonal."""
    import torch

    T = len(arcs)
    scores = arcs[:, 1:].T.copy()
    scores[np.arange(T), np.arange(T)] = arcs[:, 0]
    # torch-struct 0.5 writes into its argument, which torch allows only for a copy.
    return torch.tensor(scores[None], requires_grad=True).clone()


def from_torch(table):
    """An array [T, H] from one by [head, dependent]."""
    T = len(table)
    arcs = np.zeros((T, T + 1))
    arcs[:, 0] = np.diagonal(table)
    arcs[:, 1:] = np.where(np.eye(T, dtype=bool), 0, table).T
    return arcs


@pytest.mark.parametrize("T", [2, 5, 12])
@pytest.mark.parametrize("single_root", [True, False])
def test_torch_struct_projective(T, single_root):
    import torch_struct

    class Dependencies(torch_struct.DependencyCRF):
        arg_constraints = {}  # noqa: RUF012  # torch asks for it, torch-struct 0.5 lacks it

    arcs = np.random.default_rng(T).standard_normal((T, T + 1))
    peer = Dependencies(torch_scores(arcs), multiroot=not single_root)
    trees = tl.TreeScores(arcs, single_root=single_root)
    assert trees.log_partition() == pytest.approx(peer.partition.item(), rel=1e-10)
    assert_allclose(trees.marginals(), from_torch(peer.marginals[0].detach().numpy()), atol=1e-10)
    assert trees.entropy() == pytest.approx(peer.entropy.item(), rel=1e-8)
    best = from_torch(peer.argmax[0].detach().numpy())
    assert_array_equal(trees.viterbi().heads, best.argmax(axis=1))


@pytest.mark.parametrize("T", [2, 5, 12])
@pytest.mark.parametrize("single_root", [True, False])
def test_torch_struct_all_trees(T, single_root):
    import torch_struct

    class Dependencies(torch_struct.NonProjectiveDependencyCRF):
        arg_constraints = {}  # noqa: RUF012

    arcs = np.random.default_rng(T).standard_normal((T, T + 1))
    peer = Dependencies(torch_scores(arcs), multiroot=not single_root)
    trees = tl.TreeScores(arcs, single_root=single_root, projective=False)
    # It adds 1e-5 to every weight.
    assert trees.log_partition() == pytest.approx(peer.partition.item(), rel=2e-5)
    assert_allclose(trees.marginals(), from_torch(peer.marginals[0].detach().numpy()), atol=1e-4)
