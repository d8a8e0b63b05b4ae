"""Training over candidate labels: equal to all labels if all are kept, and to enumeration."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from encoded import random_encoding
from tagloom._native import Subtags, Trigrams
from tagloom.training import LBFGS, SGD, AdaGrad, AveragedPerceptron
from tagloom.trellis import StateSpace

# Labels a|x, a|y, b|x, b, of the sub-tags a, x, y, b.
OF_LABELS = [[0, 1], [0, 2], [3, 1], [3]]
S = 4


def subtags():
    ptr = np.cumsum([0, *map(len, OF_LABELS)]).astype(np.int32)
    return Subtags(S, ptr, np.concatenate(OF_LABELS).astype(np.int32))


@pytest.mark.parametrize("boundaries", [False, True])
@pytest.mark.parametrize(
    ("rule", "options"), [(AdaGrad, {}), (AdaGrad, {"average": True}), (SGD, {"average": True})]
)
@pytest.mark.parametrize("seed", range(3))
def test_all_labels_kept_is_the_unpruned_model(rule, options, boundaries, seed):
    encoding = random_encoding(seed, Y=4, edges=False, boundaries=boundaries)
    gold = encoding.gold.copy()
    gold[[0, 5]] = -1, -2  # one of two labels; any label
    sets = np.array([[1, 0, 1, 0], [1, 1, 1, 1]], dtype=np.uint8)
    weight = np.array([1.0, 0.5, 1.0, 2.0, 1.5])
    encoding = replace(encoding, gold=gold, sets=sets, weight=weight)
    pruned = encoding.prune(0.0, warm_up=0)
    learners = [rule(objective, **options) for objective in (encoding.objective, pruned)]
    for _ in range(3):
        losses = [learner.step().loss for learner in learners]
        assert_allclose(losses[1], losses[0], rtol=1e-9)
        assert_allclose(learners[1].theta(), learners[0].theta(), rtol=1e-9, atol=1e-11)


class Enumerated:
    """The loss of one sentence over its candidates, path by path."""

    def __init__(self, encoding, least, most, *, order, trigrams, with_subtags):
        self.encoding, self.least, self.most = encoding, least, most
        self.order, self.trigrams, self.with_subtags = order, trigrams, with_subtags

    def parts(self, theta):
        encoding = self.encoding
        T, Y = len(encoding.gold), encoding.n_labels
        ptr, cols, _ = encoding.objective.rows()
        A, at = len(ptr) - 1, len(cols)
        emit = np.zeros((T, Y))
        shared = theta[at : at + A * S].reshape(A, S) if self.with_subtags else np.zeros((A, S))
        for t in range(T):
            for a in encoding.ids[encoding.indptr[t] : encoding.indptr[t + 1]]:
                for w in range(ptr[a], ptr[a + 1]):
                    emit[t, cols[w]] += theta[w]
                for y in range(Y):
                    emit[t, y] += sum(shared[a, s] for s in OF_LABELS[y])
        at += A * S * self.with_subtags
        trans = theta[at : at + Y * Y].reshape(Y, Y).copy()
        start, stop = theta[at + Y * Y :][:Y], theta[at + Y * Y + Y :][:Y]
        if self.with_subtags:
            between = theta[-S * S :].reshape(S, S)
            for y_prev, y in np.ndindex(Y, Y):
                pairs = itertools.product(OF_LABELS[y_prev], OF_LABELS[y])
                trans[y_prev, y] += sum(between[pair] for pair in pairs)
        tied = theta[at + Y * Y + 2 * Y :][: len(self.trigrams)]
        return emit, trans, start, stop, dict(zip(self.trigrams, tied, strict=True))

    def candidates(self, theta):
        candidates = []
        for row, gold in zip(self.parts(theta)[0], self.encoding.gold.tolist(), strict=True):
            ranked = sorted(range(len(row)), key=lambda y: -row[y])  # of equal ones the lower first
            kept = [y for y in ranked if np.exp(row[y] - row.max()) >= self.least]
            candidates.append(sorted({*kept[: self.most or None], gold}))
        return candidates

    def loss(self, theta, candidates):
        emit, trans, start, stop, tied = self.parts(theta)

        def score(path):
            total = sum(emit[t, y] for t, y in enumerate(path))
            if self.order > 0:
                total += start[path[0]] + stop[path[-1]]
                total += sum(trans[pair] for pair in itertools.pairwise(path))
            if self.order > 1:
                total += sum(tied.get(tuple(path[t : t + 3]), 0.0) for t in range(len(path) - 2))
            return total

        scores = [score(path) for path in itertools.product(*candidates)]
        return np.logaddexp.reduce(scores) - score(self.encoding.gold.tolist())


TRIGRAMS = [(y, *pair) for y in range(4) for pair in [(0, 0), (1, 3), (2, y), (3, 1)]]


@pytest.mark.parametrize("with_subtags", [False, True])
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("most", [0, 1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_loss_and_gradient_by_enumeration(seed, most, order, with_subtags):
    """A step of length 1 is the gradient; that of the enumerated loss is by differences."""
    encoding = random_encoding(seed, [4], Y=4, edges=False, valued=False)
    options = {"subtags": subtags()} if with_subtags else {}
    trigrams = TRIGRAMS if order == 2 else []
    if order == 2:
        options["trigrams"] = Trigrams(4, np.array(TRIGRAMS, dtype=np.int32))
    least = 0.01 if most == 2 else 0.4
    objective = encoding.prune(least, most, warm_up=int(order == 0), **options)
    oracle = Enumerated(
        encoding, least, most, order=order, trigrams=trigrams, with_subtags=with_subtags
    )
    free = objective.mask()
    theta = np.random.default_rng(seed).normal(size=objective.n_weights) * free
    learner = SGD(objective, eta0=1.0, decay=0.0, theta=theta)
    candidates = oracle.candidates(theta)
    assert 4 < sum(map(len, candidates)) < 16  # some are pruned, not all
    assert_allclose(learner.step().loss, oracle.loss(theta, candidates), rtol=1e-9)
    steps = 1e-6 * np.eye(len(theta))
    grad = [
        (oracle.loss(theta + h, candidates) - oracle.loss(theta - h, candidates)) / 2e-6
        for h in steps
    ]
    assert_allclose(theta - learner.theta(), np.where(free, grad, 0), atol=1e-8)


def test_each_epoch_has_its_order():
    """Weights of transitions move from the second epoch on, those of trigrams from the third."""
    encoding = random_encoding(5, [6, 7], Y=4, edges=False)
    trigrams = Trigrams(4, np.array(TRIGRAMS, dtype=np.int32))
    for warm_up in (0, 1, 2):
        objective = encoding.prune(0.0, trigrams=trigrams, warm_up=warm_up)
        learner = AdaGrad(objective)
        for epoch in range(5):
            learner.step()
            theta = learner.theta()
            K = len(TRIGRAMS)
            assert theta[-16 - 8 - K : -8 - K].any() == (epoch >= warm_up)
            assert theta[-K:].any() == (epoch >= 2 * warm_up)


@pytest.mark.parametrize("rule", [AdaGrad, SGD])
@pytest.mark.parametrize("boundaries", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_all_labels_kept_is_the_unpruned_model_of_order_2(rule, boundaries, seed):
    states = StateSpace.order(4, 2)
    encoding = random_encoding(seed, (3, 1, 0, 6, 2), Y=4, edges=False, boundaries=boundaries)
    gold = encoding.gold.copy()
    gold[[0, 5]] = -1, -2  # one of two labels; any label
    sets = np.array([[1, 0, 1, 0], [1, 1, 1, 1]], dtype=np.uint8)
    weight = np.array([1.0, 0.5, 1.0, 2.0, 1.5])
    encoding = replace(encoding, gold=gold, sets=sets, weight=weight, states=states)
    pruned = encoding.prune(0.0, warm_up=0, space=None, trigrams=states.native_trigrams)
    learners = [rule(objective) for objective in (encoding.objective, pruned)]
    for _ in range(3):
        losses = [learner.step().loss for learner in learners]
        assert_allclose(losses[1], losses[0], rtol=1e-9)
        assert_allclose(learners[1].theta(), learners[0].theta(), rtol=1e-9, atol=1e-11)


def test_resumed_run_has_the_same_bits():
    encoding = random_encoding(1, Y=4, edges=False)
    trigrams = Trigrams(4, np.array(TRIGRAMS, dtype=np.int32))
    objective = encoding.prune(0.1, subtags=subtags(), trigrams=trigrams, float32=True)
    through, first, second = (AdaGrad(objective, average=True, l2=0.1) for _ in range(3))
    for _ in range(4):
        through.step()
    for _ in range(2):
        first.step()
    second.restore(first.state())
    for _ in range(2):
        second.step()
    assert_array_equal(second.theta(), through.theta())


def test_penalty_lowers_the_weights():
    encoding = random_encoding(2, Y=4, edges=False)
    norms = []
    for l2 in (0.0, 1.0):
        learner = AdaGrad(encoding.prune(0.1, subtags=subtags()), l2=l2)
        for _ in range(5):
            learner.step()
        norms.append(np.square(learner.theta()).sum())
    assert norms[1] < 0.5 * norms[0]


def test_what_cannot_be_pruned():
    encoding = random_encoding(3, Y=4, edges=False)
    objective = encoding.prune(0.1)
    with pytest.raises(ValueError, match="adagrad or sgd"):
        AveragedPerceptron(objective)
    with pytest.raises(ValueError, match="not a fixed function"):
        LBFGS(objective).step()
    with pytest.raises(ValueError, match="sub-tags need pruning"):
        encoding.make(subtags=subtags())
    with pytest.raises(ValueError, match="between 0 and 1"):
        encoding.prune(2.0)
    with pytest.raises(ValueError, match="trigrams need pruning"):
        encoding.make(trigrams=Trigrams(4, np.zeros((1, 3), np.int32)))
    with pytest.raises(ValueError, match="of the same labels"):
        encoding.prune(0.1, trigrams=Trigrams(3, np.zeros((1, 3), np.int32)))
    with pytest.raises(ValueError, match="not be negative"):
        encoding.prune(0.1, -1)
