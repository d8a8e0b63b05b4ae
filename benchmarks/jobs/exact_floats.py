"""The cost of float32. Taggers store weights in float32, and sum and decode scores in float32; here
the same weights are summed and decoded in float64, on the test set with XPOS labels. Training also
scores in float32: its last loss is compared with the loss of the final model on the training part,
computed in float64. A chain of 100,000 tokens shows the effect of rounding on long sums. A
difference matters if it changes a label: the share of equal labels is a target.
"""

from collections.abc import Sequence
from typing import Any

from harness import Bench, Contestant, Goal, Job
from harness.jobs import EXACT
from harness.models import L2, accuracy, our_model

SAME, LARGEST = "labels that agree, %", "largest difference of a marginal"
LOSS = "relative difference of the loss in training"


def double_trellis(scores: Any, sentences: Sequence[list[str]]) -> Any:
    """Return the trellis of some sentences, its scores summed in float64."""
    import numpy as np

    import tagloom as tl

    encoded = scores.extractor.encode(sentences, scores.index)
    emit = np.zeros((len(encoded.indptr) - 1, len(scores.labels)))  # [T, Y]
    attributes = encoded.ids.astype(np.int64)
    tokens = np.repeat(np.arange(len(emit)), np.diff(encoded.indptr))
    begin, end = scores.rows.ptr[attributes], scores.rows.ptr[attributes + 1]
    lengths = end - begin
    at = np.repeat(begin - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    at += np.arange(lengths.sum())  # the weights of all attributes of all tokens
    weights = scores.rows.weights[at].astype(np.float64)
    np.add.at(emit, (np.repeat(tokens, lengths), scores.rows.cols[at].astype(np.int64)), weights)
    return tl.Trellis(emit, scores.trans, scores.start, scores.stop, offsets=encoded.offsets)


def double_loss(scores: Any, X: list[list[str]], y: list[list[str]]) -> float:
    """Return Σ −log Pr(y | x) + l2·‖θ‖² in float64."""
    import numpy as np

    place = {label: i for i, label in enumerate(scores.labels)}
    loss = 0.0
    for i in range(0, len(X), 1000):  # all at once would take gigabytes
        gold = np.array([place[label] for labels in y[i : i + 1000] for label in labels])
        loss -= double_trellis(scores, X[i : i + 1000]).log_prob(gold).sum()
    squares = (np.square(w.astype(np.float64)).sum() for w in (scores.rows.weights, scores.trans))
    return float(loss + L2 * sum(squares))


def tagloom(bench: Bench) -> None:
    path = our_model(bench, "xpos")
    import numpy as np

    import tagloom as tl

    tagger, test = tl.load(path), bench.test
    names, gold = tagger.labels_.tolist(), test.xpos
    single = tagger.trellis(test.tokens)
    double = double_trellis(tagger.scores_, test.tokens)
    paths = [trellis.viterbi().path for trellis in (single, double)]
    bench.value("tokens", test.n_tokens)
    bench.value("type of scores", str(single.emit.dtype))
    bench.value("largest difference of a score", float(np.abs(single.emit - double.emit).max()))
    bench.value(SAME, 100 * float(np.mean(paths[0] == paths[1])))
    for name, found in zip(("accuracy", "accuracy in float64"), paths, strict=True):
        rows = [[names[y] for y in row] for row in single.split(found)]
        bench.value(name, accuracy(gold, rows))
    gamma, exact = single.marginals(), double.marginals()
    bench.value(LARGEST, float(np.abs(gamma - exact).max()))
    log_z = (single.log_partition(), double.log_partition())
    relative = np.abs(log_z[0] - log_z[1]) / np.abs(log_z[1])
    bench.value("largest relative difference of a log-partition", float(relative.max()))

    loss = double_loss(tagger.scores_, bench.train.tokens, bench.train.xpos)
    bench.value(LOSS, abs(tagger.history_[-1].loss / loss - 1))

    rng = np.random.default_rng(0)
    long = rng.standard_normal((100_000, 17))
    trans = rng.standard_normal((17, 17))
    chains = [tl.Trellis(long.astype(t), trans.astype(t)) for t in (np.float32, np.float64)]
    a, b = (float(chain.log_partition()) for chain in chains)
    bench.value("100,000 tokens: relative difference of the log-partition", abs(a - b) / abs(b))
    gamma, exact = (chain.marginals() for chain in chains)
    bench.value("100,000 tokens: " + LARGEST, float(np.abs(gamma - exact).max()))
    agree = chains[0].viterbi().path == chains[1].viterbi().path
    bench.value("100,000 tokens: " + SAME, 100 * float(np.mean(agree)))


JOB = Job(
    "float32 and float64",
    [Contestant("tagloom", tagloom)],
    [
        Goal(
            "labels that agree",
            lambda found: found.value("tagloom", SAME),
            at_least=99.99,
            unit="%",
        ),
        Goal(LARGEST, lambda found: found.value("tagloom", LARGEST), at_most=1e-3, unit=""),
    ],
    after=["train_xpos"],
    rounds=1,
    section=EXACT,
)
