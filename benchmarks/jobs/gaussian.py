"""Learning without labels: an iteration of EM for a Gaussian HMM of 8 states, 100,000 tokens of 4
columns (20,000 in a quick run), one thread, from the same start. The tokens are one sequence, or
100 of equal length. hmmlearn runs with ``implementation="scaling"``, its faster one, and
``tol=-inf``; states overlap, so that neither converges before the tenth iteration. Densities, sums
over paths, moments and new parameters are part of an iteration; reading the data is part of both,
too. A fit of tagloom sums over paths once more than it has iterations, which counts against it.

dynamax does the same iterations for diagonal covariances, with its default prior and in its default
precision, single; what it computes is compiled before the clock starts.
"""

from typing import Any

from harness import Bench, Contestant, Goal, Job

Y, D, ITERATIONS = 8, 4, 10
LEAST = 2.0  # seconds for each time


def draw(T: int) -> tuple[Any, ...]:
    """Return tokens [T, D], and start values: Pr(y_1), transitions, means, variances."""
    import numpy as np

    rng = np.random.default_rng(0)
    means = rng.normal(0, 1, (Y, D))
    jumps, states = rng.random(T) < 0.02, rng.integers(0, Y, T)
    last = np.maximum.accumulate(np.where(jumps, np.arange(T), 0))
    x = means[states[last]] + rng.standard_normal((T, D))
    trans = np.full((Y, Y), 0.02 / (Y - 1)) + (0.98 - 0.02 / (Y - 1)) * np.eye(Y)
    return x, np.full(Y, 1 / Y), trans, means + rng.normal(0, 1, (Y, D)), np.full((Y, D), 4.0)


def settings() -> list[tuple[str, str, int]]:
    """List the name of each measure, its kind of covariances and its number of sequences."""
    return [
        (f"{kind}, {'one sequence' if n == 1 else f'{n} sequences'}", kind, n)
        for kind in ("diag", "full")
        for n in (1, 100)
    ]


def steps(bench: Bench) -> int:
    return 20_000 if bench.quick else 100_000


def tagloom(bench: Bench) -> None:
    import numpy as np

    import tagloom as tl

    T = steps(bench)
    x, start, trans, means, variances = draw(T)
    names = [str(y) for y in range(Y)]
    for name, kind, n in settings():
        cov = variances if kind == "diag" else np.stack([np.diag(v) for v in variances])
        emission = tl.emissions.Gaussian.from_params(names, means, cov, kind)
        values = {"start": start, "transitions": trans, "emission": emission}
        model = tl.HMM(
            labels=names,
            stop=False,
            prior=1,
            start_from=values,
            algorithm=tl.learners.EM(ITERATIONS, tolerance=0, reseed=False),
            n_threads=1,
        )
        X = np.split(x, n)
        fitted = bench.time(
            name, lambda m=model, X=X: m.fit(X), ITERATIONS * T, "tokens", least=LEAST
        )
        assert len(fitted.history_) == ITERATIONS, "EM converged too early to be compared"
        bench.value(f"log-likelihood, {name}", round(model.log_likelihood(X) / T, 8))


def hmmlearn(bench: Bench) -> None:
    import numpy as np
    from hmmlearn.hmm import GaussianHMM

    T = steps(bench)
    x, start, trans, means, variances = draw(T)
    for name, kind, n in settings():
        cov = variances if kind == "diag" else np.stack([np.diag(v) for v in variances])

        def fit(kind: str = kind, n: int = n, cov: Any = cov) -> Any:
            model = GaussianHMM(
                Y,
                kind,
                implementation="scaling",
                init_params="",
                n_iter=ITERATIONS,
                tol=-np.inf,
                covars_prior=0,
                covars_weight=0,
            )
            model.startprob_, model.transmat_, model.n_features = start, trans, D
            model.means_, model.covars_ = means, cov
            return model.fit(x, [T // n] * n)

        model = bench.time(name, fit, ITERATIONS * T, "tokens", least=LEAST)
        bench.value(f"log-likelihood, {name}", round(model.score(x, [T // n] * n) / T, 8))


def dynamax(bench: Bench) -> None:
    import jax
    import jax.numpy as jnp
    from dynamax.hidden_markov_model import DiagonalGaussianHMM

    T = steps(bench)
    x, start, trans, means, variances = draw(T)
    peer = DiagonalGaussianHMM(Y, D)
    given = {"initial_probs": start, "transition_matrix": trans}
    given |= {"emission_means": means, "emission_scale_diags": variances**0.5}
    first, props = peer.initialize(**{name: jnp.asarray(value) for name, value in given.items()})
    state = peer.initialize_m_step_state(first, props)

    @jax.jit
    def fit(x: Any) -> Any:  # `fit_em` without compiling it again in each call
        def iterate(params: Any, _: Any) -> Any:
            stats, values = jax.vmap(lambda row: peer.e_step(params, row))(x)
            return peer.m_step(params, props, stats, state)[0], values.sum()

        return jax.lax.scan(iterate, first, None, length=ITERATIONS)

    for name, kind, n in settings():
        if kind != "diag":
            continue
        X = jnp.asarray(x.reshape(n, T // n, D))
        jax.block_until_ready(fit(X))
        _, values = bench.time(
            name,
            lambda X=X: jax.block_until_ready(fit(X)),
            ITERATIONS * T,
            "tokens",
            least=LEAST,
        )
        bench.value(
            f"log-likelihood before the last iteration, {name}", round(float(values[-1]) / T, 5)
        )


def goal(name: str, at_least: float, peer: str = "hmmlearn") -> Goal:
    return Goal(f"{name}, beside {peer}", lambda found: found.times(peer, name), at_least)


JOB = Job(
    "Iteration of EM for a Gaussian HMM",
    [
        Contestant("tagloom", tagloom),
        Contestant("hmmlearn", hmmlearn, needs="hmmlearn"),
        Contestant("dynamax", dynamax, needs="dynamax", stands_on=["jax"]),
    ],
    [
        goal("diag, one sequence", 10),
        goal("full, one sequence", 14),
        goal("diag, 100 sequences", 16),
        goal("diag, one sequence", 10, "dynamax"),
    ],
)
