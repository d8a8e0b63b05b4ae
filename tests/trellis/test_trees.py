"""Dependency trees against enumeration of all trees, and their properties."""

import itertools
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tagloom as tl
from raising import raises
from tagloom.errors import InfeasibleError, ParameterError, ScoreError, ShapeError
from tagloom.trellis import Structure
from tagloom.trellis.trees import crossing_arcs, has_cycle
from tree_oracles import Trees, all_trees, is_projective, is_tree

KINDS = [
    {"projective": projective, "single_root": single_root}
    for projective, single_root in itertools.product([True, False], repeat=2)
]


def random_arcs(T, seed, *, forbidden=0.0, scale=2.0):
    rng = np.random.default_rng(seed)
    arcs = scale * rng.standard_normal((T, T + 1))
    arcs[rng.random(arcs.shape) < forbidden] = -np.inf
    return arcs


def random_siblings(T, seed):
    return np.random.default_rng(seed + 1000).standard_normal((T, T + 1, T + 1))


def check(trees, oracle, scale=1.0):
    """All answers of one sentence against enumeration; scores are of the size of scale."""
    T, H = trees.arcs.shape
    log_z = oracle.log_partition()
    assert trees.log_partition() == pytest.approx(log_z, rel=1e-12, abs=1e-10)
    assert trees.is_feasible() == bool(oracle.trees)
    if not oracle.trees:
        heads, score = trees.viterbi(on_infeasible="none")
        assert heads.tolist() == [-1] * T
        assert score == -math.inf
        assert len(trees.nbest(3).scores) == 0
        return
    heads, score = trees.viterbi()
    assert score == pytest.approx(oracle.trees[0][0])
    assert tuple(heads) in {h for s, h in oracle.trees if s == pytest.approx(score)}
    assert_allclose(trees.marginals(), oracle.marginals(H), atol=1e-12)
    assert trees.entropy() == pytest.approx(oracle.entropy(), abs=1e-10 * scale)
    best = trees.nbest(7)
    assert_allclose(best.scores, [s for s, _ in oracle.trees[:7]], atol=1e-9)
    assert len({tuple(h) for h in best.heads}) == min(7, len(oracle.trees))
    assert_allclose(best.scores, [trees.path_score(h) for h in best.heads], atol=1e-9)
    assert_allclose(best.probs, [p for p, _ in oracle.probs()[:7]], atol=1e-12)
    assert math.exp(trees.log_prob(heads)) == pytest.approx(oracle.probs()[0][0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("T", range(6))
@pytest.mark.parametrize("forbidden", [0.0, 0.3])
def test_enumeration(kind, T, forbidden):
    for seed in range(3 if T < 5 else 1):
        arcs = random_arcs(T, seed, forbidden=forbidden)
        check(tl.TreeScores(arcs, **kind), Trees(arcs, **kind))


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("T", range(6))
def test_siblings(single_root, T):
    arcs, siblings = random_arcs(T, T, forbidden=0.1), random_siblings(T, T)
    trees = tl.TreeScores(arcs, siblings=siblings, single_root=single_root)
    oracle = Trees(arcs, siblings, single_root=single_root)
    check(trees, oracle)
    if oracle.trees:
        assert_allclose(trees.sibling_marginals(), oracle.sibling_marginals(T + 1), atol=1e-12)


def test_number_of_trees():
    """(T + 1)^(T - 1) trees (Cayley), T^(T - 1) with one root; the projective ones of a table."""
    for T in range(1, 9):
        zeros = np.zeros((T, T + 1))
        count = tl.TreeScores(zeros, projective=False, single_root=False).log_partition()
        assert math.exp(count) == pytest.approx((T + 1) ** (T - 1))
        count = tl.TreeScores(zeros, projective=False).log_partition()
        assert math.exp(count) == pytest.approx(T ** (T - 1))
    counts = [math.exp(tl.TreeScores(np.zeros((T, T + 1))).log_partition()) for T in range(1, 7)]
    assert_allclose(counts, [1, 2, 7, 30, 143, 728])


@pytest.mark.parametrize("kind", KINDS)
def test_batches(kind):
    """A batch gives what its sentences give one by one, for any number of threads."""
    arcs = [random_arcs(T, T) for T in (3, 0, 12, 1, 7, 30, 2, 7, 5, 9, 4)]
    batch = tl.TreeScores.stack(arcs, **kind)
    assert isinstance(batch, Structure)
    singles = [tl.TreeScores(a, **kind) for a in arcs]
    heads, scores = batch.viterbi()
    assert_array_equal(heads, np.concatenate([s.viterbi().heads for s in singles]))
    assert_allclose(scores, [s.viterbi().score for s in singles])
    assert_allclose(batch.log_partition(), [s.log_partition() for s in singles], rtol=1e-12)
    assert_allclose(batch.entropy(), [s.entropy() for s in singles], atol=1e-9)
    for part, single in zip(batch.split(batch.marginals()), singles, strict=True):
        assert_allclose(part[:, : len(part) + 1], single.marginals(), atol=1e-12)
        assert not part[:, len(part) + 1 :].any()
    assert_allclose(batch[2].marginals(), singles[2].marginals(), atol=1e-12)
    assert_array_equal(
        batch[3:6].viterbi().heads,
        [*batch.split(heads)[3].tolist(), *batch.split(heads)[4], *batch.split(heads)[5]],
    )
    one = tl.TreeScores(batch.arcs, offsets=batch.offsets, n_threads=1, **kind)
    two = tl.TreeScores(batch.arcs, offsets=batch.offsets, n_threads=2, **kind)
    assert_array_equal(one.marginals(), two.marginals())
    assert_array_equal(one.sample(3, random_state=1), two.sample(3, random_state=1))
    for a, b in zip(one.nbest(4), two.nbest(4), strict=True):
        assert_array_equal(a.heads, b.heads)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1e2, 1e4, 1e6])
def test_large_scores(kind, scale):
    """No underflow, no cancellation: one tree takes all, or two share where they tie."""
    arcs = np.round(random_arcs(5, 3), 3) * scale
    check(tl.TreeScores(arcs, **kind), Trees(arcs, **kind), scale)
    # Two words that strongly prefer each other: a cycle that no tree has.
    arcs = np.zeros((3, 4))
    arcs[0, 2] = arcs[1, 1] = scale
    check(tl.TreeScores(arcs, **kind), Trees(arcs, **kind), scale)


@pytest.mark.parametrize("kind", KINDS)
def test_long_sentence(kind):
    """Marginals sum to one, and log_partition agrees with a dense determinant."""
    arcs = random_arcs(90, 0, scale=1.0)
    trees = tl.TreeScores(arcs, **kind)
    assert_allclose(trees.marginals().sum(axis=1), 1, rtol=1e-10)
    heads, _ = trees.viterbi()
    assert is_tree(heads.tolist())
    assert not kind["projective"] or is_projective(heads.tolist())
    if not kind["projective"]:
        assert trees.log_partition() == pytest.approx(_log_determinant(arcs, **kind), rel=1e-10)


def _log_determinant(arcs, *, single_root, projective):
    """Koo et al. 2007: the Laplacian of words, with the root in the diagonal or first row."""
    w = np.exp(arcs[:, 1:].T)  # [head, dependent]
    np.fill_diagonal(w, 0)
    laplacian = np.diag(w.sum(axis=0)) - w
    root = np.exp(arcs[:, 0])
    if single_root:
        laplacian[0] = root
    else:
        laplacian += np.diag(root)
    return np.linalg.slogdet(laplacian)[1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("has_siblings", [False, True])
def test_gradient(kind, has_siblings):
    """The marginals are the gradient of log_partition, by finite differences."""
    if has_siblings and not kind["projective"]:
        pytest.skip("siblings are for projective trees")
    T, step = 4, 1e-5
    arcs = random_arcs(T, 7)
    siblings = random_siblings(T, 7) if has_siblings else None
    trees = tl.TreeScores(arcs, siblings=siblings, **kind)
    grad = np.empty_like(arcs)
    grad_siblings = np.empty_like(siblings) if has_siblings else None
    weight = np.array([2.5])
    log_z = trees.log_partition_grad(weight, grad_arcs=grad, grad_siblings=grad_siblings)
    assert log_z[0] == trees.log_partition()
    for index in np.ndindex(T, T + 1):
        nudge = np.zeros_like(arcs)
        nudge[index] = step
        up, down = (
            tl.TreeScores(arcs + s * nudge, siblings=siblings, **kind).log_partition()
            for s in (1, -1)
        )
        assert grad[index] == pytest.approx(2.5 * (up - down) / (2 * step), abs=1e-6)
    if has_siblings:
        for index in [(0, 2, 2), (1, 0, 1), (3, 1, 2), (0, 4, 3)]:
            nudge = np.zeros_like(siblings)
            nudge[index] = step
            up, down = (
                tl.TreeScores(arcs, siblings=siblings + s * nudge, **kind).log_partition()
                for s in (1, -1)
            )
            assert grad_siblings[index] == pytest.approx(2.5 * (up - down) / (2 * step), abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cycle", [0.0, 12.0])
def test_samples(kind, cycle):
    """Frequencies of all trees agree with their probabilities (chi-square)."""
    T, n = 3, 4000
    arcs = random_arcs(T, 11, scale=0.7)
    arcs[0, 2] += cycle  # a strong cycle makes random walks long; above a limit heads are
    arcs[1, 1] += cycle  # drawn in turn
    trees, oracle = tl.TreeScores(arcs, **kind), Trees(arcs, **kind)
    drawn = [tuple(h) for h in trees.sample(n, random_state=5).tolist()]
    _check_frequencies(drawn, oracle, n)


def test_samples_with_siblings():
    arcs, siblings = random_arcs(3, 1, scale=0.5), random_siblings(3, 1)
    trees = tl.TreeScores(arcs, siblings=siblings)
    drawn = [tuple(h) for h in trees.sample(4000, random_state=0).tolist()]
    _check_frequencies(drawn, Trees(arcs, siblings), 4000)


def _check_frequencies(drawn, oracle, n):
    expected = {heads: n * p for p, heads in oracle.probs()}
    assert set(drawn) <= set(expected)
    likely = {heads: e for heads, e in expected.items() if e >= 5}
    statistic = sum((drawn.count(h) - e) ** 2 / e for h, e in likely.items())
    assert statistic < len(likely) + 5 * math.sqrt(2 * len(likely)) + 5


@pytest.mark.parametrize("kind", KINDS)
def test_constraints(kind):
    arcs = random_arcs(4, 2)
    trees = tl.TreeScores(arcs, **kind)
    mask = np.ones((4, 5), dtype=bool)
    mask[1] = [False, False, False, True, False]
    mask[0, 4] = False
    limited = trees.constrain(forced={1: 3}, forbidden={0: 4})
    check(limited, Trees(np.where(mask, arcs, -np.inf), **kind))
    assert_array_equal(limited.arcs, trees.constrain(mask).arcs)
    share = limited.log_partition() - trees.log_partition()
    assert trees.log_prob_of(mask) == pytest.approx(share)
    p = trees.marginals()[2, 1]
    assert math.exp(trees.log_prob_of({2: 1})) == pytest.approx(p)
    batch = tl.TreeScores.stack([arcs, arcs], **kind).constrain(forced={(1, 1): 3})
    assert batch.split(batch.viterbi().heads)[1][1] == 3


def test_infeasible():
    arcs = np.zeros((2, 3))
    arcs[1, :2] = -np.inf
    with raises(InfeasibleError, where="position 1"):
        tl.TreeScores(arcs).viterbi()
    cyclic = np.array([[-np.inf, 0, 0], [-np.inf, 0, 0]])
    for kind in KINDS:
        trees = tl.TreeScores.stack([np.zeros((2, 3)), cyclic], **kind)
        for method in ("viterbi", "marginals", "entropy"):
            with raises(InfeasibleError, where="sequence 1"):
                getattr(trees, method)()
        assert trees.viterbi(on_infeasible="none").heads.tolist()[2:] == [-1, -1]
        assert not trees.marginals(on_infeasible="none")[2:].any()
        assert trees.entropy(on_infeasible="none")[1] == 0
        assert trees.sample(2, 0, on_infeasible="none")[:, 2:].tolist() == [[-1, -1]] * 2
    two_roots = np.array([[0.0, 0, -np.inf], [0.0, -np.inf, 0]])
    for projective in (True, False):
        assert not tl.TreeScores(two_roots, projective=projective).is_feasible()
        many = tl.TreeScores(two_roots, projective=projective, single_root=False)
        assert many.viterbi().heads.tolist() == [0, 0]
        one = tl.TreeScores(two_roots, projective=projective)
        assert one.viterbi(on_infeasible="none").heads.tolist() == [-1, -1]


def test_wrong_arguments():
    with raises(ShapeError, parameter="arcs", found="(3, 3)"):
        tl.TreeScores(np.zeros((3, 3)))
    with raises(ShapeError, parameter="arcs", found="(3,)"):
        tl.TreeScores(np.zeros(3))
    with raises(ScoreError, where="arcs[0, 1]"):
        tl.TreeScores([[0.0, np.nan]])
    with raises(ShapeError, parameter="siblings"):
        tl.TreeScores(np.zeros((2, 3)), siblings=np.zeros((2, 3, 2)))
    with raises(ParameterError, parameter="siblings"):
        tl.TreeScores(np.zeros((2, 3)), siblings=np.zeros((2, 3, 3)), projective=False)
    with raises(ParameterError, parameter="projective"):
        tl.TreeScores(np.zeros((2, 3)), projective="yes")
    trees = tl.TreeScores(np.zeros((2, 3)))
    with raises(ShapeError, where="position 1", found="3"):
        trees.path_score([0, 3])
    with raises(ShapeError, parameter="heads"):
        trees.path_score([0])
    with raises(ParameterError, where="sibling_marginals"):
        trees.sibling_marginals()
    with pytest.raises(TypeError, match="no len"):
        len(trees)


def test_forms():
    """Types, pickles, temperatures, wide arrays."""
    arcs = random_arcs(4, 0)
    trees = tl.TreeScores(arcs.astype(np.float32))
    assert trees.marginals().dtype == np.float32
    assert_allclose(trees.marginals(), tl.TreeScores(arcs).marginals(), atol=1e-5)
    assert_allclose(pickle.loads(pickle.dumps(trees)).marginals(), trees.marginals())
    assert_allclose(
        tl.TreeScores(arcs).tempered(2.0).marginals(), tl.TreeScores(arcs / 2).marginals()
    )
    wide = np.concatenate([arcs, np.full((4, 3), 1e6)], axis=1)  # columns that are not used
    assert tl.TreeScores(wide).log_partition() == tl.TreeScores(arcs).log_partition()
    empty = tl.TreeScores(np.empty((0, 1)))
    assert empty.log_partition() == 0
    assert empty.viterbi().score == 0
    assert empty.entropy() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_instruction_sets(kind):
    arcs = [random_arcs(T, T) for T in (3, 17, 9, 4, 11)]
    batch = tl.TreeScores.stack(arcs, **kind)
    expected = batch.viterbi().heads, batch.log_partition(), batch.marginals()
    for name in tl.trellis.instruction_sets():
        with tl.trellis.use_instruction_set(name):
            assert_array_equal(batch.viterbi().heads, expected[0])
            assert_allclose(batch.log_partition(), expected[1], rtol=1e-12)
            assert_allclose(batch.marginals(), expected[2], atol=1e-12)


def test_cycles_and_crossings():
    for T in range(1, 5):
        trees = set(all_trees(T, projective=False, single_root=False))
        for heads in itertools.product(range(T + 1), repeat=T):
            assert has_cycle(heads) == (heads not in trees)
        for heads in trees:
            assert bool(crossing_arcs(heads)) == (not is_projective(heads))


def test_pictures():
    trees = tl.TreeScores([[0, 0, 2, 1], [3, 0, 0, 1], [1, 0, 2, 0]])
    text = trees.draw(tokens=["they", "can", "<fish>"], labels=["nsubj", "root", "obj"])
    assert text.splitlines() == ["they   ◄─┐  nsubj", "can    ──┤  root", "<fish> ◄─┘  obj"]
    chain = trees.draw([0, 1, 2])
    assert chain.splitlines() == ["1 ──┐    root", "2 ◄─┴─┐", "3 ◄───┘"]
    svg = trees.draw(tokens=["they", "can", "<fish>"], format="svg")
    assert svg.count('class="tl-edge"') == 3
    assert "&lt;fish&gt;" in svg
    assert "<fish>" not in svg
    assert trees._repr_svg_() is not None
    assert trees._repr_html_() == trees._repr_svg_()
    stored = Path(__file__).parents[2] / "docs" / "images" / "tree.svg"
    labels = ["nsubj", "root", "obj"]
    drawn = trees.draw(tokens=["they", "can", "fish"], labels=labels, format="svg")
    assert stored.read_text(encoding="utf-8") == drawn + "\n"
    with raises(ShapeError, parameter="tokens"):
        trees.draw(tokens=["they"])
    with pytest.raises(TypeError, match="batch"):
        tl.TreeScores.stack([np.zeros((1, 2))]).draw()
