"""The oracle of linear Gaussian models: one large Gaussian over all states, conditioned densely.

States are stacked into one vector x = mu + X d + e, e ~ N(0, S), where d is the start of states
that are diffuse, with a flat prior; observations are H x + level + noise. Nothing here is recursive
in the posterior, and nothing is shared with the code under test.
"""

from dataclasses import dataclass, field, replace

import numpy as np


@dataclass
class System:
    """A model with entries for each step, and observations with NaN."""

    A: np.ndarray  # [T, n, n]
    Q: np.ndarray  # [T, n, n]
    b: np.ndarray  # [T, n]
    C: np.ndarray  # [T, m, n]
    R: np.ndarray  # [T, m, m]
    d: np.ndarray  # [T, m]
    mean: np.ndarray  # [n]
    cov: np.ndarray  # [n, n]
    y: np.ndarray  # [T, m]
    diffuse: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))  # [n]

    def until(self, t: int, seen: int) -> "System":
        """The first t steps, of which the first `seen` are observed."""
        y = self.y[:t].copy()
        y[seen:] = np.nan
        names = ("A", "Q", "b", "C", "R", "d")
        return replace(self, **{name: getattr(self, name)[:t] for name in names}, y=y)


@dataclass
class Answer:
    means: np.ndarray  # [T, n]
    covariances: np.ndarray  # [T, n, n]
    lags: np.ndarray  # [T - 1, n, n] Cov[x_{t+1}, x_t]
    log_likelihood: float


def unroll(system: System, diffuse: np.ndarray) -> tuple[np.ndarray, ...]:
    """The prior of all states, mu [T n], S [T n, T n] and X [T n, q], and the observations of them:
    H [T m, T n] and the covariance of their noise [T m, T m]."""
    T, n = system.b.shape
    m = system.d.shape[1]
    mu, S = np.zeros(T * n), np.zeros((T * n, T * n))
    X = np.zeros((T * n, diffuse.sum()))
    known = np.where(diffuse[:, None] | diffuse, 0.0, system.cov)
    mu[:n], S[:n, :n], X[:n] = system.mean, known, np.eye(n)[:, diffuse]
    for t in range(1, T):
        now, before, past = slice(t * n, t * n + n), slice(t * n - n, t * n), slice(0, t * n)
        A = system.A[t]
        mu[now] = A @ mu[before] + system.b[t]
        X[now] = A @ X[before]
        S[now, past] = A @ S[before, past]
        S[past, now] = S[now, past].T
        S[now, now] = A @ S[before, before] @ A.T + system.Q[t]
    H, noise = np.zeros((T * m, T * n)), np.zeros((T * m, T * m))
    for t in range(T):
        rows = slice(t * m, t * m + m)
        H[rows, t * n : t * n + n] = system.C[t]
        noise[rows, rows] = system.R[t]
    return mu, S, X, H, noise


def condition(system: System) -> Answer:
    """All moments of the states given the observations, and the log density of these."""
    T, n = system.b.shape
    diffuse = system.diffuse if len(system.diffuse) else np.zeros(n, bool)
    mu, S, X, H, noise = unroll(system, diffuse)
    seen = np.isfinite(system.y.ravel())
    H, noise = H[seen], noise[np.ix_(seen, seen)]
    error = (system.y - system.d).ravel()[seen] - H @ mu
    F, E = H @ S @ H.T + noise, H @ X
    gain = np.linalg.solve(F, H @ S).T
    information = E.T @ np.linalg.solve(F, E)
    start = np.linalg.solve(information, E.T @ np.linalg.solve(F, error))
    rest = error - E @ start
    spread = X - gain @ E
    mean = mu + X @ start + gain @ rest
    cov = S - gain @ H @ S + spread @ np.linalg.solve(information, spread.T)
    log_dets = np.linalg.slogdet(F)[1] + np.linalg.slogdet(information)[1]
    squares = rest @ np.linalg.solve(F, rest)
    blocks = cov.reshape(T, n, T, n)
    return Answer(
        mean.reshape(T, n),
        np.array([blocks[t, :, t] for t in range(T)]),
        np.array([blocks[t + 1, :, t] for t in range(T - 1)]).reshape(-1, n, n),
        -0.5 * (seen.sum() * np.log(2 * np.pi) + log_dets + squares),
    )


def complete(system: System) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of all states and then all observations, given those that are seen."""
    mu, S, _, H, noise = unroll(system, np.zeros(system.b.shape[1], bool))
    mean = np.concatenate([mu, H @ mu + system.d.ravel()])
    cov = np.block([[S, S @ H.T], [H @ S, H @ S @ H.T + noise]])
    seen = np.concatenate([np.zeros(len(mu), bool), np.isfinite(system.y.ravel())])
    values = np.concatenate([mu, system.y.ravel()])[seen]
    gain = np.linalg.solve(cov[np.ix_(seen, seen)], cov[seen]).T
    return mean + gain @ (values - mean[seen]), cov - gain @ cov[seen]


def random_covariance(rng: np.random.Generator, n: int) -> np.ndarray:
    X = rng.standard_normal((n, n))
    return X @ X.T / n + 0.1 * np.eye(n)


def random_system(
    rng: np.random.Generator,
    n: int,
    m: int,
    T: int,
    *,
    varying: bool = False,
    missing: float = 0.0,
    correlated: bool = True,
    diffuse: int = 0,
) -> System:
    """A stable model with random numbers; of constant matrices, entries are repeated."""

    def each(make):
        return np.array([make() for _ in range(T)]) if varying else np.array([make()] * T)

    def noise():
        R = random_covariance(rng, m)
        return R if correlated else np.diag(np.diag(R))

    y = 2 * rng.standard_normal((T, m))
    y[rng.random((T, m)) < missing] = np.nan
    is_diffuse = np.zeros(n, bool)
    is_diffuse[rng.permutation(n)[:diffuse]] = True
    mean = np.where(is_diffuse, 0.0, rng.standard_normal(n))
    cov = np.where(is_diffuse[:, None] | is_diffuse, 0.0, random_covariance(rng, n))
    return System(
        each(lambda: rng.standard_normal((n, n)) * 0.7 / np.sqrt(n) + 0.2 * np.eye(n)),
        each(lambda: random_covariance(rng, n)),
        each(lambda: rng.standard_normal(n)),
        each(lambda: rng.standard_normal((m, n))),
        each(noise),
        each(lambda: rng.standard_normal(m)),
        mean,
        cov,
        y,
        is_diffuse,
    )
