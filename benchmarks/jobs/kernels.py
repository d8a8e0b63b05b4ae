"""The trellis alone, from arrays to arrays, in float64: Viterbi and marginals beside hmmlearn's
`decode` and `predict_proba` (45 labels, its faster implementation, 100 sentences), and the loss
and gradient of a CRF beside pytorch-crf (32 sentences of 50 tokens, 20 labels). These batches are
small: 2,000 tokens fit into the cache, and the fixed costs of a call matter. `make bench-trellis`
measures 200,000 tokens, so its figures differ; it has more sizes, and the share of the machine's
peak.
"""

from typing import Any, NamedTuple

from harness import Bench, Contestant, Job

VITERBI, MARGINALS = "Viterbi, 45 labels", "marginals, 45 labels"
LOSS = "loss and gradient, 32 × 50, 20 labels"
LEAST = 0.3


class Scores(NamedTuple):
    """Random scores, the same in both environments."""

    emit: Any  # [T, Y]
    trans: Any  # [Y, Y] log-probabilities, which hmmlearn requires
    start: Any  # [Y]
    offsets: Any  # [N + 1]
    gold: Any  # [T]


def draw(n_sentences: int, length: int, Y: int) -> Scores:
    import numpy as np

    rng = np.random.default_rng(Y)
    T = n_sentences * length
    return Scores(
        rng.standard_normal((T, Y)),
        np.log(rng.dirichlet(np.ones(Y), Y)),
        np.log(rng.dirichlet(np.ones(Y))),
        np.arange(0, T + 1, length),
        rng.integers(0, Y, T),
    )


def tagloom(bench: Bench) -> None:
    import numpy as np

    import tagloom as tl
    from tagloom.trellis import log_partition_grad

    s = draw(100, 20, 45)

    def trellis() -> tl.Trellis:
        return tl.Trellis(s.emit, s.trans, s.start, offsets=s.offsets, n_threads=1)

    T = len(s.emit)
    best = bench.time(VITERBI, lambda: trellis().viterbi(), T, "tokens", least=LEAST)
    bench.value("sum of best scores", round(float(best.score.sum()), 6))
    gamma = bench.time(MARGINALS, lambda: trellis().marginals(), T, "tokens", least=LEAST)
    bench.value("sum of squared marginals", round(float((gamma**2).sum()), 6))

    s = draw(32, 50, 20)
    Y, rows = 20, np.arange(32 * 50)
    stop = np.zeros(Y)
    grads = {f"grad_{n}": np.empty_like(a) for n, a in s._asdict().items() if n[:2] in ("em", "tr")}
    grads |= {"grad_start": np.empty(Y), "grad_stop": np.empty(Y)}
    gold = s.gold.reshape(32, 50)

    def loss() -> float:
        """−log p(gold); its gradient is expected minus observed counts."""
        log_z = log_partition_grad(s.offsets, s.emit, s.trans, s.start, stop, **grads, n_threads=1)
        transitions = (gold[:, :-1] * Y + gold[:, 1:]).ravel()
        score = (
            s.emit[rows, s.gold].sum()
            + s.trans.ravel()[transitions].sum()
            + s.start[gold[:, 0]].sum()
        )
        grads["grad_emit"][rows, s.gold] -= 1
        grads["grad_trans"] -= np.bincount(transitions, minlength=Y * Y).reshape(Y, Y)
        grads["grad_start"] -= np.bincount(gold[:, 0], minlength=Y)
        grads["grad_stop"] -= np.bincount(gold[:, -1], minlength=Y)
        return float(log_z.sum() - score)

    bench.value("loss", round(bench.time(LOSS, loss, 32 * 50, "tokens", least=LEAST), 4))


def hmmlearn(bench: Bench) -> None:
    import numpy as np
    from hmmlearn.base import BaseHMM

    class GivenScores(BaseHMM):
        """Each observation is its row of scores: logs for decode, else probabilities."""

        def _compute_log_likelihood(self, X: Any) -> Any:
            return X

        _compute_likelihood = _compute_log_likelihood

    s = draw(100, 20, 45)
    model = GivenScores(n_components=45, implementation="scaling")
    model.startprob_, model.transmat_ = np.exp(s.start), np.exp(s.trans)
    lengths, probs, T = np.diff(s.offsets), np.exp(s.emit), len(s.emit)
    score, _ = bench.time(VITERBI, lambda: model.decode(s.emit, lengths), T, "tokens", least=LEAST)
    bench.value("sum of best scores", round(float(score), 6))
    gamma = bench.time(
        MARGINALS, lambda: model.predict_proba(probs, lengths), T, "tokens", least=LEAST
    )
    bench.value("sum of squared marginals", round(float((gamma**2).sum()), 6))


def pytorch_crf(bench: Bench) -> None:
    import torch
    from torchcrf import CRF

    torch.set_num_threads(1)
    s = draw(32, 50, 20)
    layer = CRF(20, batch_first=True).to(torch.float64)
    with torch.no_grad():
        layer.transitions.copy_(torch.tensor(s.trans))
        layer.start_transitions.copy_(torch.tensor(s.start))
        layer.end_transitions.zero_()
    emit = torch.tensor(s.emit).reshape(32, 50, 20).requires_grad_()
    gold = torch.tensor(s.gold).reshape(32, 50)
    mask = torch.ones(gold.shape, dtype=torch.bool)

    def loss() -> float:
        emit.grad = None
        layer.zero_grad()
        found = -layer(emit, gold, mask)
        found.backward()
        return found.item()

    bench.value("loss", round(bench.time(LOSS, loss, 32 * 50, "tokens", least=LEAST), 4))


JOB = Job(
    "trellis",
    [
        Contestant("tagloom", tagloom),
        Contestant("hmmlearn", hmmlearn, needs="hmmlearn"),
        Contestant("pytorch-crf", pytorch_crf, needs="torchcrf", stands_on=["torch"]),
    ],
)
