"""Labels that depend on one, two and three previous labels, on one thread. The trellis alone: 17
labels, float32 and a weight for every label n-gram (`StateSpace.order`); then a CRF with UPOS
labels (`order=`), trained on 500 sentences for 3 epochs, which tags 500 others.
"""

from harness import Bench, Contestant, Job
from harness.features import TEMPLATES
from harness.jobs import GROWTH
from harness.models import accuracy

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

    train, test = bench.dev.first(500), bench.test.first(500)
    tagger = tl.CRF(TEMPLATES, order=order, max_iterations=3, n_threads=1)
    bench.time("train", lambda: tagger.fit(train.tokens, train.upos), train.n_tokens, "token")
    predicted = bench.time(
        "tag", lambda: tagger.predict(test.tokens, n_threads=1), test.n_tokens, "token"
    )
    bench.value("accuracy", accuracy(test.upos, predicted))


JOB = Job(
    "order",
    [Contestant("tagloom", tagloom)],
    points=[1, 2, 3],
    quick_points=[1, 2],
    point="order",
    section=GROWTH,
)
