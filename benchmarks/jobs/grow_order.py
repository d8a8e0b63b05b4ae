"""Viterbi and the log-partition where a label depends on one, two and three labels before it, 17
labels, float32, one thread: `StateSpace.order`, with a weight for every n-gram of labels.
"""

from harness import Bench, Contestant, Job
from harness.jobs import GROWTH

N_SENTENCES, LENGTH, Y = 100, 20, 17


def tagloom(bench: Bench) -> None:
    import numpy as np

    import tagloom as tl

    order = int(bench.point or 0)
    rng = np.random.default_rng(0)
    states = tl.StateSpace.order(Y, order)
    T = N_SENTENCES * LENGTH
    trellis = tl.Trellis(
        rng.standard_normal((T, Y)).astype(np.float32),
        states=states,
        weights=rng.standard_normal(states.n_weights).astype(np.float32),
        offsets=np.arange(0, T + 1, LENGTH),
        n_threads=1,
    )
    bench.time("Viterbi", trellis.viterbi, T, "token", least=0.2)
    bench.time("log-partition", trellis.log_partition, T, "token", least=0.2)
    bench.time("marginals", trellis.marginals, T, "token", least=0.2)
    bench.value("states", len(states.state_labels))
    bench.value("moves", len(states.src))


JOB = Job(
    "order",
    [Contestant("tagloom", tagloom)],
    points=[1, 2, 3],
    quick_points=[1, 2],
    point="order",
    section=GROWTH,
)
