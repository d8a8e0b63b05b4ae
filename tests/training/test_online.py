"""AdaGrad, SGD and the perceptron: textbook runs, plain references, the optimum, resumed runs."""

import _thread
import itertools
import re
import signal
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import oracles
from encoded import Encoding, random_encoding
from raising import raises
from tagloom.errors import ParameterError, ScoreError
from tagloom.training import LBFGS, SGD, AdaGrad, AveragedPerceptron

N, V = 0, 1
THEY, CAN, FISH = 0, 1, 2
FISH_SENTENCE = [THEY, CAN, FISH], [N, V, V]
CANS_SENTENCE = [THEY, CAN, CAN, FISH], [N, V, V, N]

ONLINE = [
    (AdaGrad, {"l2": 0.1}),
    (AdaGrad, {"l2": 0.1, "average": True}),
    (SGD, {"l2": 0.1}),
    (SGD, {"l2": 0.1, "average": True}),
    (AdaGrad, {"average": True}),
    (SGD, {}),
    (AveragedPerceptron, {}),
    (AveragedPerceptron, {"average": False}),
    (AveragedPerceptron, {"margin": 0.75}),
]


def words(*sentences, boundaries=False):
    """Sentences whose tokens have one attribute each, the word."""
    lengths = [len(ids) for ids, _ in sentences]
    ids, gold = (np.concatenate(part).astype(np.int32) for part in zip(*sentences, strict=True))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    indptr = np.arange(len(ids) + 1)
    return Encoding(offsets, indptr, ids, gold, 2, 3, all_combinations=True, boundaries=boundaries)


def best(encoding, theta):
    return [list(chain.best()[0]) for chain in encoding.chains(theta)]


# Textbook


@pytest.mark.parametrize("boundaries", [False, True])
def test_they_can_fish_and_they_can_can_fish_are_not_separable(boundaries):
    """Exercise 2: the right paths together score what two wrong ones do, whatever the weights."""
    encoding = words(FISH_SENTENCE, CANS_SENTENCE, boundaries=boundaries)
    for seed in range(20):
        theta = np.random.default_rng(seed).normal(size=encoding.objective.n_weights)
        fish, cans = encoding.chains(theta)
        right = fish.path_score((N, V, V)) + cans.path_score((N, V, V, N))
        wrong = fish.path_score((N, V, N)) + cans.path_score((N, V, V, V))
        assert_allclose(right, wrong, rtol=1e-12)


@pytest.mark.parametrize("boundaries", [False, True])
def test_the_perceptron_cycles(boundaries):
    """Exercise 3: NNN, NVVV, then NVN, NVVV for ever."""
    one = words(FISH_SENTENCE, boundaries=boundaries)
    other = words(CANS_SENTENCE, boundaries=boundaries)
    both = words(FISH_SENTENCE, CANS_SENTENCE, boundaries=boundaries)
    together = AveragedPerceptron(both.objective, shuffle=False, average=False)
    theta = np.zeros(one.objective.n_weights)
    predicted = []
    for _ in range(8):
        for encoding in (one, other):
            predicted += best(encoding, theta)
            single = AveragedPerceptron(encoding.objective, average=False, theta=theta)
            assert not single.step().converged
            theta = single.theta()
        assert not together.step().converged
        assert_array_equal(together.theta(), theta)
    assert predicted[:2] == [[N, N, N], [N, V, V, V]]
    assert predicted[2:] == [[N, V, N], [N, V, V, V]] * 7


def test_the_update_of_the_textbook():
    """[7.64-7.66]: NVN predicted for they can fish."""
    encoding = words(FISH_SENTENCE, boundaries=True)
    # Three words, then N->N, N->V, V->N, V->V, then start N V, stop N V.
    theta = np.zeros(14)
    theta[2 * CAN + V] = 5.0
    theta[2 * FISH + N] = theta[2 * THEY + N] = 1.0
    assert best(encoding, theta) == [[N, V, N]]
    optimiser = AveragedPerceptron(encoding.objective, average=False, theta=theta)
    step = optimiser.step()
    change = optimiser.theta() - theta
    assert_array_equal(change[:6], [0, 0, 0, 0, -1, 1])  # (fish, N) -1, (fish, V) +1
    assert_array_equal(change[6:10], [0, 0, -1, 1])  # (V, N) -1, (V, V) +1
    assert_array_equal(change[10:], [0, 0, -1, 1])  # (N, stop) -1, (V, stop) +1
    assert step.loss == 1.0


# Plain references


def features(encoding, i, path):
    """Φ of one sentence as a vector like theta, masked weights left out."""
    phi = np.zeros(encoding.objective.n_weights)
    lo, Y = encoding.offsets[i], encoding.n_labels
    ptr, cols, _ = encoding.objective.rows()
    edge_ptr, edge_cols, _ = encoding.objective.edge_rows()

    def add(base, ptr, cols, indptr, ids, values, t, column):
        for j in range(indptr[t], indptr[t + 1]):
            for w in range(ptr[ids[j]], ptr[ids[j] + 1]):
                if cols[w] == column:
                    phi[base + w] += 1.0 if values is None else float(values[j])

    for k, y in enumerate(path):
        t = lo + k
        add(0, ptr, cols, encoding.indptr, encoding.ids, encoding.values, t, y)
        if k == 0:
            continue
        pair = path[k - 1] * Y + y
        if encoding.edge_ids is not None:
            edges = encoding.edge_indptr, encoding.edge_ids, encoding.edge_values
            add(len(cols), edge_ptr, edge_cols, *edges, t, pair)
        phi[len(cols) + len(edge_cols) + pair] += 1
    if len(path) and encoding.boundaries:
        phi[len(phi) - 2 * Y + path[0]] += 1
        phi[len(phi) - Y + path[-1]] += 1
    return phi * encoding.objective.mask()


def updates(encoding, i):
    """What a margin is measured in: how far one update takes each token of a sentence."""
    lo, hi = encoding.offsets[i : i + 2]
    nodes, edges = np.zeros(hi - lo), np.zeros(hi - lo + 1)
    for t in range(lo, hi):
        nodes[t - lo] = (encoding.values[encoding.indptr[t] : encoding.indptr[t + 1]] ** 2).sum()
        if t > lo and encoding.edge_ids is not None:
            own = slice(encoding.edge_indptr[t], encoding.edge_indptr[t + 1])
            edges[t - lo] = (encoding.edge_values[own] ** 2).sum()
    return 2 * (nodes + edges[:-1] + edges[1:] + 2)


@pytest.mark.parametrize("float32", [False, True])
@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("weight", [None, np.array([1.0, 0.5, 2.0, 0.0, 1.5])])
@pytest.mark.parametrize("margin", [0, 0.5])
def test_perceptron_equals_a_plain_one(edges, weight, float32, margin):
    encoding = random_encoding(21, edges=edges, weight=weight, float32=float32)
    # Whole values: sums are exact, so that ties are ties.
    encoding.values = np.round(2 * encoding.values)
    if edges:
        encoding.edge_values = np.round(2 * encoding.edge_values)
    encoding.__post_init__()
    options = {"margin": margin, "shuffle": False}
    optimiser = AveragedPerceptron(encoding.objective, **options)
    last = AveragedPerceptron(encoding.objective, **options, average=False)
    theta, total, n, n_mistakes = np.zeros(encoding.objective.n_weights), 0.0, 0, 0
    for _ in range(4):
        loss = 0.0
        for i in range(len(encoding.offsets) - 1):
            gold = encoding.gold[encoding.offsets[i] : encoding.offsets[i + 1]].tolist()
            *_, chain = itertools.islice(encoding.chains(theta), i + 1)
            more = margin * updates(encoding, i)
            chain.paths = [
                (path, score + more @ (np.array(path) != gold)) for path, score in chain.paths
            ]
            found, score = chain.best()
            found = list(found)
            w = 1.0 if weight is None else weight[i]
            loss += w * (score - chain.path_score(gold))
            n_mistakes += found != gold
            theta = theta + w * (features(encoding, i, gold) - features(encoding, i, found))
            total, n = total + theta, n + 1
        assert_allclose(optimiser.step().loss, loss / 5, rtol=1e-6)
        last.step()
        assert_allclose(last.theta(), theta, atol=1e-12)
        assert_allclose(optimiser.theta(), total / n, rtol=1e-6, atol=1e-6)
    assert n_mistakes > 3


@pytest.mark.parametrize("n", [1, 3])
def test_one_update_is_what_a_margin_is_measured_in(n):
    """With n attributes per token: 2·(n + 2), 2 for each attribute and each transition."""
    D = 2
    gold = np.array([N, V, D], np.int32)
    ids = np.arange(3 * n, dtype=np.int32)
    encoding = Encoding(
        np.array([0, 3]), np.arange(4) * n, ids, gold, 3, 3 * n, all_combinations=True
    )
    theta = np.zeros(encoding.objective.n_weights)
    first, middle, last = 3 * n * np.arange(3)  # where the weights of each token's attributes are
    theta[[first + N, middle + N, last + D]] = 99.0, 0.5, 99.0
    assert best(encoding, theta) == [[N, N, D]]

    def ahead(theta):
        (chain,) = encoding.chains(theta)
        return chain.path_score((N, V, D)) - chain.path_score((N, N, D))

    unit = 2 * (n + 2)
    once = AveragedPerceptron(encoding.objective, average=False, theta=theta)
    once.step()
    assert ahead(once.theta()) == ahead(theta) + unit
    # Ahead by one update is enough for a margin of a little less, and not for a little more.
    theta[[middle + N, middle + D]] = -unit, -99.0
    for margin, n_updates in [(0.99, 0), (1.01, 1)]:
        optimiser = AveragedPerceptron(
            encoding.objective, margin=margin, average=False, theta=theta
        )
        assert optimiser.step().converged == (n_updates == 0)
        assert ahead(optimiser.theta()) == unit + n_updates * unit


def test_a_margin_is_kept_in_the_end():
    sentences = [([THEY, CAN, FISH], [N, V, N]), ([FISH, CAN, THEY], [N, V, N])]
    encoding = words(*sentences, boundaries=True)
    optimiser = AveragedPerceptron(encoding.objective, margin=1.5, average=False)
    while not optimiser.step().converged:
        pass
    for chain, (_, gold) in zip(encoding.chains(optimiser.theta()), sentences, strict=True):
        for path, score in chain.paths:
            n_wrong = sum(a != b for a, b in zip(path, gold, strict=True))
            assert chain.path_score(gold) - score >= 1.5 * 2 * (1 + 2) * n_wrong
    with raises(ParameterError, parameter="margin", found="-1"):
        AveragedPerceptron(encoding.objective, margin=-1)


@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("weight", [None, np.array([1.0, 0.5, 2.0, 0.0, 1.5])])
def test_sgd_equals_a_plain_one(edges, weight):
    """Without a penalty an epoch is θ ← θ − eta·(expected − observed), sentence by sentence."""
    encoding = random_encoding(22, edges=edges, weight=weight)
    optimiser = SGD(encoding.objective, eta0=0.3, decay=0.5, shuffle=False)
    averaged = SGD(encoding.objective, eta0=0.3, decay=0.5, shuffle=False, average=True)
    theta, total, n = np.zeros(encoding.objective.n_weights), 0.0, 0
    for epoch in range(3):
        loss = 0.0
        for i in range(5):
            gold = encoding.gold[encoding.offsets[i] : encoding.offsets[i + 1]].tolist()
            *_, chain = itertools.islice(encoding.chains(theta), i + 1)
            w = 1.0 if weight is None else weight[i]
            loss -= w * chain.log_prob(gold)
            expected = sum(p * features(encoding, i, path) for path, p in chain.probs())
            eta = 0.3 / (1 + 0.5 * (epoch + i / 5))
            theta = theta - eta * w * (expected - features(encoding, i, gold))
            if epoch > 0:
                total, n = total + theta, n + 1
        assert_allclose(optimiser.step().loss, loss / 5, rtol=1e-10)
        averaged.step()
        assert_allclose(optimiser.theta(), theta, rtol=1e-9, atol=1e-12)
        mean = total / n if n else theta
        assert_allclose(averaged.theta(), mean, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("margin", "first_square"), [(0.0, 1.0), (1.5, 1.0), (0.0, 30.0)])
def test_adagrad_equals_a_plain_one(margin, first_square):
    """One attribute per token, each word once a sentence: tokens are then independent."""
    sentences = [([0, 1, 2], [N, V, V]), ([2, 0, 1], [N, N, V])]
    encoding = words(*sentences)
    options = {"eta": 0.5, "margin": margin, "first_square": first_square}
    optimiser = AdaGrad(encoding.objective, shuffle=False, **options)
    theta, squares = np.zeros(10), np.full(10, first_square)
    for _ in range(4):
        loss = 0.0
        for i, (_, gold) in enumerate(sentences):
            *_, chain = itertools.islice(encoding.chains(theta), i + 1)
            paths, probs = zip(*chain.probs(), strict=True)
            n_wrong = [sum(a != b for a, b in zip(path, gold, strict=True)) for path in paths]
            weights = np.array(probs) * np.exp(margin * np.array(n_wrong))
            loss += np.log(weights.sum()) - chain.log_prob(gold)
            expected = sum(
                w * features(encoding, i, path) for path, w in zip(paths, weights, strict=True)
            )
            grad = expected / weights.sum() - features(encoding, i, gold)
            squares += grad**2
            theta = theta - 0.5 * grad / np.sqrt(squares)
        assert_allclose(optimiser.step().loss, loss / 2, rtol=1e-10)
        assert_allclose(optimiser.theta(), theta, rtol=1e-10)


# The optimum


@pytest.mark.parametrize("options", [{}, {"edges": True}, {"all_combinations": True}])
@pytest.mark.parametrize(
    ("optimiser", "parameters", "epochs"),
    [
        (AdaGrad, {"eta": 0.3}, 150),
        (AdaGrad, {"eta": 0.3, "average": True}, 150),
        (SGD, {"eta0": 0.2, "decay": 0.2}, 300),
        (SGD, {"eta0": 0.2, "decay": 0.2, "average": True}, 300),
    ],
)
@pytest.mark.parametrize("l2", [0.1, 1.0])
def test_objective_comes_within_a_percent_of_the_optimum(
    options, optimiser, parameters, epochs, l2
):
    options = {"edges": False, "valued": False} | options
    lengths = np.random.default_rng(0).integers(1, 12, 80)
    encoding = random_encoding(23, lengths, Y=4, n_attributes=40, **options)

    def objective(theta):
        return encoding.evaluate(theta)[0] + l2 * theta @ theta

    judge = LBFGS(encoding.objective, l2=l2, epsilon=1e-6)
    while not (step := judge.step()).converged:
        pass
    online = optimiser(encoding.objective, l2=l2, **parameters)
    for _ in range(epochs):
        online.step()
    theta = online.theta()
    assert step.loss * (1 - 1e-9) <= objective(theta) <= 1.01 * step.loss
    assert not theta[~encoding.objective.mask()].any()


# One contract


def small(**options):
    lengths = np.random.default_rng(1).integers(0, 10, 50)
    return random_encoding(24, lengths, Y=4, n_attributes=60, valued=False, **options)


@pytest.mark.parametrize(("optimiser", "parameters"), ONLINE)
@pytest.mark.parametrize("float32", [False, True])
def test_resuming_gives_the_same_bits(optimiser, parameters, float32):
    encoding = small(float32=float32)
    whole = optimiser(encoding.objective, random_state=7, **parameters)
    for _ in range(3):
        whole.step()
    state = {name: array.copy() for name, array in whole.state().items()}
    expected = [whole.step().loss for _ in range(3)]
    resumed = optimiser(encoding.make(), random_state=7, **parameters)
    resumed.restore(state)
    assert [resumed.step().loss for _ in range(3)] == expected
    assert_array_equal(resumed.theta(), whole.theta())


@pytest.mark.parametrize(("optimiser", "parameters"), ONLINE)
@pytest.mark.parametrize("float32", [False, True])
def test_taken_weights_are_those_of_the_learner(optimiser, parameters, float32):
    online = optimiser(small(float32=float32, boundaries=True).objective, **parameters)
    online.step()
    online.step()
    weights = online.weights()
    assert_array_equal(online.take_weights(), weights)
    for use in (online.step, online.weights, online.take_weights, online.state):
        with pytest.raises(ValueError, match="have been taken"):
            use()


@pytest.mark.parametrize(("optimiser", "parameters"), ONLINE)
def test_one_seed_gives_one_model_and_another_seed_another(optimiser, parameters):
    found = []
    for seed in (3, 3, 4):
        online = optimiser(small().objective, random_state=seed, **parameters)
        online.step()
        online.step()
        found.append(online.theta())
    assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


@pytest.mark.parametrize(("optimiser", "parameters"), ONLINE)
def test_losses_fall_and_masked_weights_stay_zero(optimiser, parameters):
    encoding = small()
    online = optimiser(encoding.objective, **parameters)
    steps = [online.step() for _ in range(15)]
    assert steps[-1].loss < 0.8 * steps[0].loss
    assert steps[0].grad_norm is None
    theta = online.theta()
    mask = encoding.objective.mask()
    assert not theta[~mask].any()
    assert theta[mask].any()


@pytest.mark.parametrize(("optimiser", "parameters"), ONLINE)
@pytest.mark.parametrize("lengths", [[], [0], [1], [3000, 1]])
@pytest.mark.parametrize("Y", [1, 3])
def test_odd_sizes(optimiser, parameters, lengths, Y):
    encoding = random_encoding(25, lengths, Y=Y, valued=False)
    online = optimiser(encoding.objective, **parameters)
    for _ in range(3):
        assert np.isfinite(online.step().loss)
    assert np.isfinite(online.theta()).all()


@pytest.mark.parametrize(("optimiser", "parameters"), ONLINE[:4])
def test_large_weights_to_start_from(optimiser, parameters):
    """Beyond what probabilities can hold, log space answers."""
    encoding = small()
    theta = np.round(np.random.default_rng(2).normal(size=encoding.objective.n_weights) * 1e4)
    online = optimiser(encoding.objective, theta=theta, **parameters)
    first = online.step().loss
    assert np.isfinite(first)
    assert online.step().loss < first


def test_a_separable_corpus_converges():
    encoding = words(([0, 1], [N, V]), ([1, 2], [V, N]))
    optimiser = AveragedPerceptron(encoding.objective)
    for _ in range(20):
        if optimiser.step().converged:
            break
    else:
        raise AssertionError("not converged")
    assert best(encoding, optimiser.state()["theta"]) == [[N, V], [V, N]]


def test_ties_go_to_the_lowest_label_at_the_end_and_before_it():
    rng = np.random.default_rng(0)
    encoding = random_encoding(26, [4], Y=3, edges=False, valued=False, all_combinations=True)
    for _ in range(50):
        theta = rng.integers(-1, 2, encoding.objective.n_weights).astype(float)
        (chain,) = encoding.chains(theta)
        assert isinstance(chain, oracles.Chain)
        gold = encoding.gold.tolist()
        difference = features(encoding, 0, gold) - features(encoding, 0, chain.best()[0])
        optimiser = AveragedPerceptron(encoding.objective, average=False, theta=theta)
        optimiser.step()
        assert_array_equal(optimiser.theta() - theta, difference)


def test_an_interrupt_acts_between_epochs():
    lengths = np.full(400, 20)
    online = AdaGrad(random_encoding(27, lengths, Y=8, n_attributes=300, edges=False).objective)
    losses = []

    def learn():
        losses.append(online.step().loss)
        timer.start()  # not before: a sanitizer may take seconds for an epoch
        for _ in range(100_000):
            losses.append(online.step().loss)

    # A shell that starts tests in the background tells them to ignore interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, _thread.interrupt_main)
    try:
        with pytest.raises(KeyboardInterrupt):
            learn()
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert 0 < len(losses) < 100_000
    assert np.isfinite(online.theta()).all()


# What does not fit


@pytest.mark.parametrize(
    ("optimiser", "parameters"),
    [
        (AdaGrad, {"eta": -1.0}),
        (AdaGrad, {"margin": -1.0}),
        (AdaGrad, {"l2": np.inf}),
        (SGD, {"eta0": np.nan}),
        (SGD, {"decay": -0.5}),
        (AveragedPerceptron, {"random_state": -1}),
    ],
)
def test_arguments_out_of_range(optimiser, parameters):
    with pytest.raises(ParameterError) as caught:
        optimiser(small().objective, **parameters)
    ((name, value),) = parameters.items()
    assert (caught.value.parameter, caught.value.found) == (name, repr(value).removeprefix("np."))


@pytest.mark.parametrize("rule", [SGD, AveragedPerceptron])
def test_overflow_of_the_scores_is_an_error(rule):
    encoding = small()
    huge = np.full(len(encoding.ids), 3e38, np.float32)
    objective = encoding.make(values=huge, float32=True)
    optimiser = rule(objective)
    with raises(ScoreError, expected="finite scores", hint="scale the values") as caught:
        [optimiser.step() for _ in range(5)]
    assert re.fullmatch(r"epoch [1-5]", caught.value.where)


def test_the_state_of_another_optimiser_is_refused():
    objective = small().objective
    adagrad, perceptron = AdaGrad(objective), AveragedPerceptron(objective)
    with raises(ParameterError, parameter="state", found="another learner"):
        perceptron.restore(adagrad.state())
    with raises(ParameterError, parameter="state", found="another learner"):
        LBFGS(objective).restore(adagrad.state())
