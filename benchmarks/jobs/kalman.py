"""States that are numbers: the Kalman filter, the smoother and EM, for 4 states and 2 observations,
one sequence, one thread. tagloom and statsmodels get 100,000 steps (20,000 in a quick run).
filterpy and pykalman, which need many seconds for that, get a fiftieth; time per step is compared,
and theirs does not depend on the number of steps. All smoothers return smoothed means and
covariances; those of tagloom and statsmodels also covariances of neighbouring steps.

`tagloom` stops updating covariances when they have settled, `tagloom, every step` never does.
statsmodels has a steady state, too, in its filter. An iteration of EM learns all matrices; that of
tagloom is a fifth of a `fit` with five, which smooths once more than it has iterations.
"""

from functools import partial
from typing import Any, NamedTuple

from harness import Bench, Contestant, Goal, Job

FILTER, SMOOTH, EM = "filter", "filter and smoother", "iteration of EM"
EVERY = "tagloom, every step"
LEAST = 3.0  # seconds for each time, so that the slow ones are repeated, too


class System(NamedTuple):
    """A model and its observations, the same in both environments: NumPy draws alike."""

    A: Any  # [4, 4]
    Q: Any
    C: Any  # [2, 4]
    R: Any
    mean: Any
    cov: Any
    y: Any  # [T, 2]


def draw(T: int) -> System:
    import numpy as np

    rng = np.random.default_rng(0)
    A = 0.95 * np.linalg.qr(rng.standard_normal((4, 4)))[0]
    Q, C, R = 0.1 * np.eye(4), rng.standard_normal((2, 4)), 0.5 * np.eye(2)
    x, y = np.zeros(4), np.empty((T, 2))
    w, v = rng.standard_normal((T, 4)) * 0.1**0.5, rng.standard_normal((T, 2)) * 0.5**0.5
    for t in range(T):
        x = A @ x + w[t]
        y[t] = C @ x + v[t]
    return System(A, Q, C, R, np.zeros(4), np.eye(4), y)


def steps(bench: Bench) -> int:
    return 20_000 if bench.quick else 100_000


def tagloom(bench: Bench, steady_state: bool) -> None:
    import tagloom as tl

    T = steps(bench)
    s = draw(T)
    parts = {
        "transition": s.A,
        "transition_covariance": s.Q,
        "observation": s.C,
        "observation_covariance": s.R,
        "initial_mean": s.mean,
        "initial_covariance": s.cov,
        "steady_state": steady_state,
        "n_threads": 1,
    }
    model = tl.LinearGaussian(**parts)
    bench.time(FILTER, lambda: model.filter(s.y), T, "steps", least=LEAST)
    smoothed = bench.time(SMOOTH, lambda: model.smooth(s.y), T, "steps", least=LEAST)
    bench.value("log-likelihood per step", round(smoothed.log_likelihood / T, 9))
    learner = tl.LinearGaussian(**parts, max_iterations=5, tolerance=0)
    bench.time(EM, lambda: learner.fit(s.y), 5 * T, "steps", least=LEAST)


def statsmodels(bench: Bench) -> None:
    import numpy as np
    from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

    T = steps(bench)
    s = draw(T)
    peer = KalmanSmoother(k_endog=2, k_states=4, k_posdef=4)
    peer.bind(np.asfortranarray(s.y.T))
    peer["transition"], peer["design"], peer["selection"] = s.A, s.C, np.eye(4)
    peer["state_cov"], peer["obs_cov"] = s.Q, s.R
    peer.initialize_known(s.mean, s.cov)
    bench.time(FILTER, lambda: peer.filter(), T, "steps", least=LEAST)
    result = bench.time(SMOOTH, lambda: peer.smooth(), T, "steps", least=LEAST)
    bench.value("log-likelihood per step", round(float(result.llf) / T, 9))


def filterpy(bench: Bench) -> None:
    from filterpy.kalman import KalmanFilter

    T = steps(bench) // 50
    s = draw(T)
    peer = KalmanFilter(dim_x=4, dim_z=2)
    peer.F, peer.Q, peer.H, peer.R = s.A, s.Q, s.C, s.R
    columns = list(s.y[:, :, None])

    def filter_all() -> tuple[Any, ...]:
        peer.x, peer.P = s.mean[:, None].copy(), s.cov.copy()
        return peer.batch_filter(columns, update_first=True)

    def smooth_all() -> Any:
        means, covs, _, _ = filter_all()
        return peer.rts_smoother(means, covs)

    bench.time(FILTER, filter_all, T, "steps", least=LEAST)
    bench.time(SMOOTH, smooth_all, T, "steps", least=LEAST)


def pykalman(bench: Bench) -> None:
    from pykalman import KalmanFilter

    T = steps(bench) // 50
    s = draw(T)
    parts = ["transition_matrices", "observation_matrices", "transition_covariance"]
    parts += ["observation_covariance", "initial_state_mean", "initial_state_covariance"]
    parts += ["observation_offsets"]

    def make() -> KalmanFilter:
        return KalmanFilter(s.A, s.C, s.Q, s.R, None, None, s.mean, s.cov, em_vars=parts)

    bench.time(FILTER, lambda: make().filter(s.y), T, "steps", least=LEAST)
    bench.time(SMOOTH, lambda: make().smooth(s.y), T, "steps", least=LEAST)
    bench.value("log-likelihood per step", round(float(make().loglikelihood(s.y)) / T, 9))
    bench.time(EM, lambda: make().em(s.y, n_iter=1), T, "steps", least=LEAST)


JOB = Job(
    "Kalman filter and smoother",
    [
        Contestant("tagloom", partial(tagloom, steady_state=True)),
        Contestant(EVERY, partial(tagloom, steady_state=False)),
        Contestant("statsmodels", statsmodels, needs="statsmodels"),
        Contestant("filterpy", filterpy, needs="filterpy", beside=EVERY),
        Contestant("pykalman", pykalman, needs="pykalman", beside=EVERY),
    ],
    [
        Goal(
            "smoother beside statsmodels, every step",
            lambda found: found.times("statsmodels", SMOOTH, EVERY),
            at_least=8,
        ),
        Goal(
            "smoother beside statsmodels, steady state",
            lambda found: found.times("statsmodels", SMOOTH),
            at_least=40,
        ),
        Goal(
            "smoother beside filterpy, every step",
            lambda found: found.times("filterpy", SMOOTH, EVERY),
            at_least=60,
        ),
        Goal(
            "smoother beside pykalman, every step",
            lambda found: found.times("pykalman", SMOOTH, EVERY),
            at_least=400,
        ),
        Goal(
            "iteration of EM beside pykalman, every step",
            lambda found: found.times("pykalman", EM, EVERY),
            at_least=300,
        ),
    ],
)
