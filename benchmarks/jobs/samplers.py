"""Draw the labels of the training words. A Gibbs sweep draws every label once, given all others,
with 17 states and with 45; `tagloom, blocked` draws the labels of a sentence at once, given drawn
parameters. A sweep of the beam sampler for the infinite HMM begins with the labels of 50 states
after a few Gibbs sweeps, so that it has about 50 states; the states of the last sweep are reported.
"""

from typing import Any

from harness import Bench, Contestant, Goal, Job

GIBBS_17, GIBBS_45, BLOCKED = "Gibbs sweep, 17 states", "Gibbs sweep, 45 states", "blocked, 17"
BEAM = "beam sweep, about 50 states"
WARM_UP = 10  # sweeps before the clock starts


def problem(bench: Bench, n_states: int) -> Any:
    import tagloom as tl

    emission = tl.emissions.Categorical().bind([str(k) for k in range(n_states)])
    data = emission.encode(bench.train.tokens)
    return tl.learners.Unlabelled(data, data.offsets, emission, n_threads=1)


def start(bench: Bench, n_states: int, **options: Any) -> Any:
    import tagloom as tl

    learner = tl.learners.Gibbs(**options).start(problem(bench, n_states), seed=0)
    for _ in range(WARM_UP):
        learner.step()
    return learner


def tagloom(bench: Bench) -> None:
    import numpy as np

    import tagloom as tl

    T = bench.train.n_tokens
    for what, n_states in ((GIBBS_17, 17), (GIBBS_45, 45)):
        learner = start(bench, n_states, alpha=0.1, beta=0.01)
        bench.time(what, learner.step, T, "tokens", least=2.0)
    blocked = start(bench, 17, alpha=0.1, beta=0.01, blocked=True)
    bench.time(BLOCKED, blocked.step, T, "tokens", least=2.0)
    gibbs = start(bench, 50, alpha=0.1, beta=0.01)
    beam = tl.learners.Beam(initial_states=50).start(problem(bench, 50), seed=0)
    beam.restore(beam.state() | {"labels": gibbs.labels})
    bench.time(BEAM, beam.step, 1, "sweeps", least=5.0)
    bench.value("states of the beam sampler", len(np.unique(beam.labels)))


JOB = Job(
    "Samplers",
    [Contestant("tagloom", tagloom)],
    [
        Goal(
            "Gibbs, 17 states, million tokens per second",
            lambda found: 1e-6 / found.cpu("tagloom", GIBBS_17),
            at_least=10,
            unit="",
        ),
        Goal(
            "beam sweep, about 50 states",
            lambda found: found.cpu("tagloom", BEAM),
            at_most=0.15,
            unit="s",
        ),
    ],
)
