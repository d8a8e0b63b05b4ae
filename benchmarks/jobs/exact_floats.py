"""What float32 costs. Taggers keep weights in float32, and sum and decode scores in float32; here
the same weights are summed and decoded in float64, on the test set with XPOS labels.
A chain of 100,000 tokens shows what rounding does to long sums.
"""

from harness import Bench, Contestant, Goal, Job
from harness.jobs import EXACT
from harness.models import accuracy, our_model

SAME, LARGEST = "labels that agree, %", "largest difference of a marginal"


def tagloom(bench: Bench) -> None:
    path = our_model(bench, "xpos")
    import numpy as np

    import tagloom as tl

    tagger, test = tl.load(path), bench.test
    names, gold = tagger.labels_.tolist(), test.xpos
    single = tagger.trellis(test.tokens)
    scores = tagger.scores_
    encoded = scores.extractor.encode(test.tokens, scores.index)
    emit = np.zeros(single.emit.shape)  # [T, Y] in float64
    attributes = encoded.ids.astype(np.int64)
    tokens = np.repeat(np.arange(len(emit)), np.diff(encoded.indptr))
    begin, end = scores.rows.ptr[attributes], scores.rows.ptr[attributes + 1]
    lengths = end - begin
    at = np.repeat(begin - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    at += np.arange(lengths.sum())  # the weights of all attributes of all tokens
    weights = scores.rows.weights[at].astype(np.float64)
    np.add.at(emit, (np.repeat(tokens, lengths), scores.rows.cols[at].astype(np.int64)), weights)
    double = tl.Trellis(emit, scores.trans, scores.start, scores.stop, offsets=single.offsets)
    paths = [trellis.viterbi().path for trellis in (single, double)]
    bench.value("tokens", len(emit))
    bench.value("type of scores", str(single.emit.dtype))
    bench.value("largest difference of a score", float(np.abs(single.emit - emit).max()))
    bench.value(SAME, 100 * float(np.mean(paths[0] == paths[1])))
    for name, found in zip(("accuracy", "accuracy in float64"), paths, strict=True):
        rows = [[names[y] for y in row] for row in single.split(found)]
        bench.value(name, accuracy(gold, rows))
    gamma, exact = single.marginals(), double.marginals()
    bench.value(LARGEST, float(np.abs(gamma - exact).max()))
    log_z = (single.log_partition(), double.log_partition())
    relative = np.abs(log_z[0] - log_z[1]) / np.abs(log_z[1])
    bench.value("largest relative difference of a log-partition", float(relative.max()))

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
