"""The loop around learners of every kind, with toy learners whose weights are plain Python."""

import math
import os
import re
import signal
import threading

import numpy as np
import pytest

from raising import raises
from tagloom.errors import ModelFileError, ParameterError, TrainingError
from tagloom.training import Checkpoint, Fitting, Outcome, Record, Step, fit_iteratively, run


class Coin:
    """EM-like: the weights are a dict of floats, the objective is a likelihood that rises.

    Random numbers come from (seed, iteration), so that the iteration is state enough.
    """

    def __init__(self, seed=0, converges_at=None, start=0.5):
        self.seed, self.converges_at = seed, converges_at
        self.heads, self.iteration = start, 0

    def step(self):
        draws = np.random.default_rng([self.seed, self.iteration]).random(50) < 0.7
        self.heads = 0.9 * self.heads + 0.1 * float(draws.mean())
        self.iteration += 1
        log_likelihood = 70 * math.log(self.heads) + 30 * math.log(1 - self.heads)
        converged = self.iteration == self.converges_at
        return Step.rising(log_likelihood, "log_likelihood", converged=converged)

    def weights(self):
        return {"heads": self.heads, "tails": 1 - self.heads}

    def state(self):
        return {"heads": np.array(self.heads), "iteration": np.array(self.iteration)}

    def restore(self, state):
        self.heads, self.iteration = float(state["heads"]), int(state["iteration"])

    def pack(self, weights):
        return {name: np.array(weight) for name, weight in weights.items()}

    def unpack(self, arrays):
        return {name: float(array) for name, array in arrays.items()}


class Steady:
    """Weights of any kind, made by a function of the iteration; a loss that falls."""

    def __init__(self, make=float, losses=None):
        self.make, self.losses, self.iteration = make, losses, 0

    def step(self):
        self.iteration += 1
        loss = 1 / self.iteration if self.losses is None else self.losses[self.iteration - 1]
        return Step(loss)

    def weights(self):
        return self.make(self.iteration)

    def state(self):
        return {"iteration": np.array(self.iteration)}

    def restore(self, state):
        self.iteration = int(state["iteration"])


def press(signum=signal.SIGINT):
    os.kill(os.getpid(), signum)


# ---- steps and records -------------------------------------------------------------------------


def test_plain_weights_and_an_objective_that_rises():
    records = []
    outcome = fit_iteratively(Coin(), max_iterations=40, listeners=[records.append])
    assert outcome.weights["heads"] == pytest.approx(0.7, abs=0.05)
    assert sum(outcome.weights.values()) == pytest.approx(1)
    assert (outcome.stopped, outcome.best, outcome.records) == ("max_iterations", 40, records)
    assert [r.iteration for r in records] == list(range(1, 41))
    first, last = records[0], records[-1]
    assert first.objective < last.objective < 0  # it rises
    assert first.loss == -first.objective
    assert (last.measure, last.rises, last.grad_norm, last.gap) == (
        "log_likelihood",
        True,
        None,
        None,
    )


def test_a_learner_reports_convergence():
    outcome = fit_iteratively(Coin(converges_at=7), max_iterations=40)
    assert (outcome.stopped, len(outcome.records)) == ("converged", 7)


def test_no_iterations_leave_the_weights_of_the_start():
    outcome = fit_iteratively(Coin(start=0.25), max_iterations=0)
    assert outcome.weights == {"heads": 0.25, "tails": 0.75}
    assert (outcome.best, outcome.best_record, outcome.records) == (0, None, [])


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_divergence_is_an_error(loss):
    with pytest.raises(TrainingError) as caught:
        fit_iteratively(Steady(losses=[1.0, loss]), max_iterations=5)
    assert (caught.value.where, caught.value.found) == ("iteration 2", str(loss))


def test_records_are_stored_with_the_name_of_their_objective():
    plain = Record(1, 2.0, None, None, True, 1, 0.5)
    named = plain._replace(measure="elbo", rises=True)
    assert len(plain.to_row()) == 8  # as in files of earlier versions
    for record in (plain, named):
        assert Record.from_row(record.to_row()) == record


@pytest.mark.parametrize("value", [-1, 1.5, "3", None])
def test_invalid_max_iterations(value):
    with pytest.raises(ParameterError) as caught:
        fit_iteratively(Steady(), max_iterations=value)
    assert caught.value.parameter == "max_iterations"


# ---- development scores ------------------------------------------------------------------------


def test_the_best_weights_are_kept():
    scores = [0.1, 0.4, 0.3, 0.4, 0.2]
    outcome = fit_iteratively(
        Steady(lambda i: [i]), max_iterations=5, dev=lambda weights: scores[weights[0] - 1]
    )
    assert (outcome.weights, outcome.best) == ([2], 2)  # the first of equals
    assert [r.dev for r in outcome.records] == scores
    assert [r.is_best for r in outcome.records] == [True, True, False, False, False]


def test_patience():
    scores = [0.1, 0.4, 0.3, 0.3, 0.3, 0.9]
    outcome = fit_iteratively(
        Steady(int), max_iterations=6, dev=lambda i: scores[i - 1], patience=3
    )
    assert (outcome.stopped, len(outcome.records), outcome.weights) == ("early", 5, 2)


# ---- Ctrl-C ------------------------------------------------------------------------------------


def test_ctrl_c_ends_after_the_step():
    before = signal.getsignal(signal.SIGINT)

    def listen(record):
        if record.iteration == 3:
            press()

    outcome = fit_iteratively(Steady(int), max_iterations=9, listeners=[listen])
    assert (outcome.stopped, outcome.weights) == ("interrupted", 3)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_raises():
    def listen(record):
        press()
        press()

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        fit_iteratively(Steady(int), max_iterations=9, listeners=[listen])
    assert signal.getsignal(signal.SIGINT) is before


def test_a_run_in_another_thread():
    outcomes = []
    thread = threading.Thread(
        target=lambda: outcomes.append(fit_iteratively(Steady(int), max_iterations=3))
    )
    thread.start()
    thread.join()
    assert outcomes[0].weights == 3


# ---- checkpoints -------------------------------------------------------------------------------

KINDS = {
    "dict of floats": Coin,
    "array": lambda: Steady(lambda i: np.arange(i)),
    "dict of arrays": lambda: Steady(lambda i: {"a": np.arange(i), "b.c": np.eye(2) * i}),
}


def same(one, other):
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            same(one[name], other[name])
    else:
        assert type(one) is type(other)
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("with_dev", [False, True])
def test_a_checkpoint_resumes_to_the_same_bits(make, with_dev, tmp_path):
    def run_for(iterations, **options):
        scores = iter([0.1, 0.5, 0.2, 0.3, 0.6, 0.4][start:])
        dev = (lambda weights: next(scores)) if with_dev else None
        return fit_iteratively(make(), max_iterations=iterations, dev=dev, **options)

    start = 0
    whole = run_for(6)
    path = tmp_path / "run"
    run_for(3, checkpoint=path, identity={"seed": 1})
    start = 3
    resumed = run_for(6, checkpoint=Checkpoint(path, {"seed": 1}))
    same(resumed.weights, whole.weights)
    assert resumed.best == whole.best == (5 if with_dev else 6)
    assert [r._replace(seconds=0) for r in resumed.records] == [
        r._replace(seconds=0) for r in whole.records
    ]


def test_the_best_weights_survive_a_resumed_run_without_better_ones(tmp_path):
    scores = [0.9, 0.1, 0.2, 0.3]
    dev = lambda weights: scores[len(weights) - 1]  # noqa: E731
    options = {"dev": dev, "checkpoint": tmp_path / "run"}
    fit_iteratively(Steady(np.arange), max_iterations=2, **options)
    outcome = fit_iteratively(Steady(np.arange), max_iterations=4, **options)
    np.testing.assert_array_equal(outcome.weights, np.arange(1))
    assert (outcome.best, len(outcome.records)) == (1, 4)


@pytest.mark.parametrize("stopped", ["converged", "early"])
def test_a_run_that_has_ended_is_not_continued(stopped, tmp_path):
    def run_again():
        dev = (lambda weights: 0.5) if stopped == "early" else None
        learner = Coin(converges_at=2 if stopped == "converged" else None)
        return fit_iteratively(
            learner, max_iterations=9, dev=dev, patience=1, checkpoint=tmp_path / "run"
        )

    first, second = run_again(), run_again()
    assert first.stopped == second.stopped == stopped
    assert (second.weights, len(second.records)) == (first.weights, 2)


def test_the_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "run"
    fit_iteratively(Coin(), max_iterations=1, checkpoint=path, identity={"data": "a"})
    with raises(ModelFileError, where="run", expected="data 'b'", found="data 'a'"):
        fit_iteratively(Coin(), max_iterations=1, checkpoint=path, identity={"data": "b"})


def test_weights_that_cannot_be_stored_are_refused_before_training(tmp_path):
    learner = Steady(lambda i: {"a": [i]})
    with pytest.raises(ParameterError) as caught:
        fit_iteratively(learner, max_iterations=1, dev=lambda w: 0.0, checkpoint=tmp_path / "run")
    assert caught.value.parameter == "checkpoint"
    assert "pack" in caught.value.hint
    assert learner.iteration == 0
    # Without development data the weights follow from the state.
    outcome = fit_iteratively(learner, max_iterations=1, checkpoint=tmp_path / "run")
    assert outcome.weights == {"a": [1]}


@pytest.mark.parametrize("checkpoint", [3, b"run", True])
def test_a_checkpoint_that_is_not_a_path(checkpoint):
    with pytest.raises(ParameterError) as caught:
        fit_iteratively(Steady(), max_iterations=1, checkpoint=checkpoint)
    assert caught.value.parameter == "checkpoint"


# ---- progress ----------------------------------------------------------------------------------


def test_the_bar_names_the_objective(capfd):
    fit_iteratively(Coin(), max_iterations=2, progress=True, title="Coins")
    shown = capfd.readouterr().err
    assert "Coins" in shown
    assert "log likelihood -6" in shown
    assert "2/2" in shown
    assert "tokens/s" not in shown


def test_the_speed_is_shown(capfd):
    fit_iteratively(Coin(), max_iterations=1, verbose=True, n_tokens=1000)
    assert re.search(r" [\d,]+ tokens/s  ", capfd.readouterr().err)


# ---- several runs ------------------------------------------------------------------------------


def test_the_best_of_several_starts(tmp_path):
    starts = [0.1, 0.69, 0.3]
    records = []
    fitting = Fitting(max_iterations=2, callback=records.append, checkpoint=str(tmp_path / "run"))
    outcome = fitting.run_best(lambda i: Coin(start=starts[i]), 3)
    assert outcome.weights["heads"] == pytest.approx(0.69, abs=0.02)
    assert [r.iteration for r in records] == [1, 2] * 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.1", "run.2", "run.3"]
    # Development scores come first.
    judged = Fitting(max_iterations=2, dev=lambda weights: -weights["heads"])
    assert judged.run_best(lambda i: Coin(start=starts[i]), 3).weights["heads"] < 0.3


def test_one_start_has_no_suffix(tmp_path):
    Fitting(max_iterations=1, checkpoint=str(tmp_path / "run")).run_best(lambda i: Coin(), 1)
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_ctrl_c_ends_all_starts():
    started = []

    def make(i):
        started.append(i)
        return Coin(start=[0.69, 0.1, 0.5][i])

    def listen(record):
        if len(started) == 2:
            press()

    outcome = Fitting(max_iterations=3, callback=listen).run_best(make, 3)
    assert started == [0, 1]
    assert outcome.stopped == "interrupted"
    assert outcome.weights["heads"] > 0.6


# ---- old names ---------------------------------------------------------------------------------


def test_old_names_warn():
    with pytest.warns(DeprecationWarning, match="fit_iteratively"):
        outcome = run(Steady(np.arange), max_iterations=2)
    with pytest.warns(DeprecationWarning, match="is now called weights"):
        assert len(outcome.theta) == 2
    assert Outcome(3).weights == 3
