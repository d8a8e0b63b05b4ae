"""Speed of the trellis: tagloom, its peers and the machine's peak, in one run.

    python benchmarks/trellis.py [--quick] [--labels 5 17] [--dtype float32] [--out DIR]

Two tables are printed, and written with the machine, commit and versions to
benchmarks/results/trellis.md and trellis.json:

    goals   the targets of the project, and whether this run meets them
    rates   tokens per second of every job, beside hmmlearn, pytorch-crf and torch-struct

A contestant is a class; a job is a method of the same name in every contestant that supports it. To
add a job, write its method and add its name to JOBS. To add a peer, write a class and list it in
PEERS.

Conditions:

- Both sides get the same scores in the same dtype. hmmlearn has float64 only, and its float64
  figure is also shown beside our float32.
- Results are compared before times.
- Our clock starts before `Trellis(...)`, so checking the arrays counts. The peers' tensors are
  created before theirs starts, as are the arrays for our marginals and gradients. hmmlearn gets
  probabilities where it works on probabilities.
- The contestants take turns, and the best turn counts; the spread is (worst − best) / best. One
  thread is measured in CPU time, which does not include other jobs on the machine, several threads
  in wall time. Peers have one thread.
- For goals, two contestants are compared turn by turn, and the median of the ratios counts:
  neighbouring turns run under the same load, while the best turns of each side may not.
- Threads are compared by the methods alone; the ratio with `Trellis(...)` is also reported.
- Slow peers get fewer sentences in the table of rates: the best of several batch sizes. For the
  goals hmmlearn gets the same batch as tagloom.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any, ClassVar

# The peak is that of one core, so no peer may use a second one; NumPy reads these when imported.
os.environ.update(OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", OMP_NUM_THREADS="1")

import numpy as np

import tagloom as tl
from tagloom.trellis import instruction_set, log_partition_grad

JOBS = ("viterbi", "log_partition", "marginals", "nbest", "sample", "entropy", "loss_gradient")
N_BEST = 10
LABELS = (5, 17, 45, 50, 200)  # the goals against hmmlearn are for 45
TOKENS = 200_000  # of our batches; sentences have about 20
TURN = 0.15  # minimum seconds of a turn; proportionally less for smaller batches
LARGEST_EMIT = 10_000_000  # scores; a batch with many labels has fewer tokens
TOLERANCE = {"float32": 1e-3, "float64": 1e-9}  # relative, between our result and a peer's
RESULTS = Path(__file__).parent / "results"
ROOT = Path(__file__).parent.parent


# ---- scores ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Scores:
    """A batch for all contestants; hmmlearn requires start and trans to be log-probabilities."""

    emit: np.ndarray  # [T, Y]
    trans: np.ndarray  # [Y, Y] from → to
    start: np.ndarray  # [Y]
    stop: np.ndarray  # [Y] zeros: hmmlearn has none
    gold: np.ndarray  # [T] labels of the path whose loss is taken
    offsets: np.ndarray  # [N + 1]

    @property
    def n_labels(self) -> int:
        return self.emit.shape[1]

    @property
    def n_tokens(self) -> int:
        return len(self.emit)

    def first(self, n_sentences: int, length: int | None = None) -> Scores:
        """Return the first sentences, or the same tokens split into sentences of equal length."""
        offsets = self.offsets[: n_sentences + 1]
        if length is not None:
            n_sentences = max(1, min(n_sentences, self.n_tokens // length))
            offsets = np.arange(n_sentences + 1) * min(length, self.n_tokens)
        T = offsets[-1]
        return Scores(self.emit[:T], self.trans, self.start, self.stop, self.gold[:T], offsets)


def make_scores(n_tokens: int, Y: int, dtype: str, length: int | None = None) -> Scores:
    """Draw scores for sentences of 10 to 30 tokens, or of the given length; rounded to dtype."""
    rng = np.random.default_rng(Y)
    n_sentences = max(1, n_tokens // (length or 20))
    lengths = rng.integers(10, 31, n_sentences) if length is None else [length] * n_sentences
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    T = int(offsets[-1])
    return Scores(
        emit=rng.standard_normal((T, Y)).astype(dtype, copy=False),
        trans=np.log(rng.dirichlet(np.ones(Y), Y)).astype(dtype),
        start=np.log(rng.dirichlet(np.ones(Y))).astype(dtype),
        stop=np.zeros(Y, dtype),
        gold=rng.integers(0, Y, T),
        offsets=offsets,
    )


# ---- contestants -----------------------------------------------------------------------


class Unavailable(Exception):
    """This peer cannot take part; the message has the reason."""


class Tagloom:
    name = "tagloom"
    how = "Trellis(...) and the method; marginals and gradients into arrays made beforehand"

    def __init__(self, scores: Scores, n_threads: int = 1) -> None:
        self.scores = scores
        self.n_threads = n_threads
        self.marginals_ = np.empty_like(scores.emit)
        self.grads = {
            f"grad_{name}": np.empty_like(getattr(scores, name))
            for name in ("emit", "trans", "start", "stop")
        }

    def trellis(self) -> tl.Trellis:
        s = self.scores
        return tl.Trellis(
            s.emit, s.trans, s.start, s.stop, offsets=s.offsets, n_threads=self.n_threads
        )

    def viterbi(self) -> np.ndarray:
        return self.trellis().viterbi().path

    def log_partition(self) -> float:
        return float(self.trellis().log_partition().sum())

    def marginals(self) -> np.ndarray:
        return self.trellis().marginals(out=self.marginals_)

    def nbest(self) -> list[Any]:
        return self.trellis().nbest(N_BEST)

    def sample(self) -> np.ndarray:
        return self.trellis().sample(1, random_state=0)

    def entropy(self) -> float:
        return float(self.trellis().entropy().sum())

    def loss_gradient(self) -> tuple[float, np.ndarray, np.ndarray]:
        """−log p(gold) and its gradient: expected minus observed counts, in every buffer."""
        s, grads, Y = self.scores, self.grads, self.scores.n_labels
        log_z = log_partition_grad(
            s.offsets, s.emit, s.trans, s.start, s.stop, **grads, n_threads=self.n_threads
        )
        rows = np.arange(s.n_tokens)
        first, last = s.gold[s.offsets[:-1]], s.gold[s.offsets[1:] - 1]
        inside = np.ones(s.n_tokens, bool)
        inside[s.offsets[:-1]] = False
        transitions = s.gold[:-1][inside[1:]] * Y + s.gold[inside]
        score = s.emit[rows, s.gold].sum() + s.trans.ravel()[transitions].sum()
        score += s.start[first].sum() + s.stop[last].sum()
        grads["grad_emit"][rows, s.gold] -= 1
        grads["grad_trans"] -= np.bincount(transitions, minlength=Y * Y).reshape(Y, Y)
        grads["grad_start"] -= np.bincount(first, minlength=Y)
        grads["grad_stop"] -= np.bincount(last, minlength=Y)
        return float(log_z.sum() - score), grads["grad_emit"], grads["grad_trans"]


class Hmmlearn:
    name, package = "hmmlearn", "hmmlearn"
    how = "decode; score and predict_proba with implementation='scaling'; 100 sentences at a time"
    dtypes: ClassVar = ("float64",)
    batch: ClassVar[int | None] = 100  # sentences; None for all

    def __init__(self, scores: Scores) -> None:
        require(self.package)
        from hmmlearn.base import BaseHMM

        class GivenScores(BaseHMM):
            """Each observation is its row of scores: logs for decode, else probabilities."""

            def _compute_log_likelihood(self, X: np.ndarray) -> np.ndarray:
                return X

            _compute_likelihood = _compute_log_likelihood

        self.scores = scores = scores if self.batch is None else scores.first(self.batch)
        self.model = GivenScores(n_components=scores.n_labels, implementation="scaling")
        self.model.startprob_, self.model.transmat_ = np.exp(scores.start), np.exp(scores.trans)
        self.lengths = np.diff(scores.offsets)
        self.probs = np.exp(scores.emit)  # [T, Y]

    def viterbi(self) -> np.ndarray:
        return self.model.decode(self.scores.emit, self.lengths)[1]

    def log_partition(self) -> float:
        return self.model.score(self.probs, self.lengths)

    def marginals(self) -> np.ndarray:
        return self.model.predict_proba(self.probs, self.lengths)


class HmmlearnWhole(Hmmlearn):
    """hmmlearn on the batch of the goals: all sentences."""

    batch = None


class PytorchCrf:
    name, package = "pytorch-crf", "torchcrf"
    how = "decode; forward and backward; sentences of equal length, so no padding"
    dtypes: ClassVar = ("float32", "float64")
    batch: ClassVar[int | None] = None  # sentences; None for the size that suits it best
    length = 20

    def __init__(self, scores: Scores) -> None:
        require("torch", self.package)
        import torch
        from torchcrf import CRF

        torch.set_num_threads(1)
        Y = scores.n_labels
        batch = self.batch or max(16, min(400, 1_000_000 // Y**2))
        self.scores = scores = scores.first(batch, self.length)
        self.torch = torch
        self.layer = CRF(Y, batch_first=True).to(torch.tensor(scores.emit[:0]).dtype)
        with torch.no_grad():
            self.layer.transitions.copy_(torch.tensor(scores.trans))
            self.layer.start_transitions.copy_(torch.tensor(scores.start))
            self.layer.end_transitions.copy_(torch.tensor(scores.stop))
        n = len(scores.offsets) - 1
        self.emit = torch.tensor(scores.emit).reshape(n, -1, Y).requires_grad_()
        self.gold = torch.tensor(scores.gold).reshape(n, -1)
        self.mask = torch.ones(self.gold.shape, dtype=torch.bool)  # its own default warns

    def viterbi(self) -> list[list[int]]:
        with self.torch.no_grad():
            return self.layer.decode(self.emit, self.mask)

    def loss_gradient(self) -> tuple[float, np.ndarray, np.ndarray]:
        self.emit.grad = None
        self.layer.zero_grad()
        loss = -self.layer(self.emit, self.gold, self.mask)
        loss.backward()
        grad_emit = self.emit.grad.reshape(-1, self.scores.n_labels).numpy()
        return loss.item(), grad_emit, self.layer.transitions.grad.numpy()


class PytorchCrfTraining(PytorchCrf):
    """pytorch-crf on the batch of the goal: 32 sentences of 50 tokens."""

    batch, length = 32, 50


class TorchStruct:
    name, package = "torch-struct", "torch_struct"
    how = "LinearChainCRF(potentials).partition, .marginals; potentials made beforehand"
    dtypes: ClassVar = ("float32", "float64")
    largest = 4_000_000  # numbers in [batch, 16, Y, Y, Y], which it makes to multiply matrices

    def __init__(self, scores: Scores) -> None:
        require("torch", self.package)
        import torch
        import torch_struct

        class LinearChain(torch_struct.LinearChainCRF):
            arg_constraints: ClassVar = {}  # required by torch, missing in torch-struct 0.5

        torch.set_num_threads(1)
        Y = scores.n_labels
        batch = min(100, self.largest // (16 * Y**3))
        if batch == 0:
            raise Unavailable("needs Y³ memory")
        self.chain = LinearChain
        self.scores = scores = scores.first(batch, 20)
        emit = scores.emit.reshape(len(scores.offsets) - 1, -1, Y)  # [N, T, Y]
        step = emit[:, 1:, None, :] + scores.trans  # [N, T - 1, y_prev, y]
        step[:, 0] += (scores.start + emit[:, 0])[:, :, None]
        step[:, -1] += scores.stop
        self.step = torch.tensor(np.ascontiguousarray(step.swapaxes(2, 3)))  # [N, T - 1, y, y_prev]

    def log_partition(self) -> float:
        return self.chain(self.step).partition.sum().item()

    def marginals(self) -> np.ndarray:
        """Compute marginals; torch-struct returns those of pairs, and summing them counts."""
        pairs = self.chain(self.step).marginals.detach()  # [N, T - 1, y, y_prev]
        first, rest = pairs[:, :1].sum(2), pairs.sum(3)
        return np.concatenate([first, rest], axis=1).reshape(-1, self.scores.n_labels)


PEERS = (Hmmlearn, PytorchCrf, TorchStruct)


def require(*modules: str) -> None:
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise Unavailable("not installed")


# ---- agreement -------------------------------------------------------------------------


def check_agreement(job: str, peer: Any, dtype: str) -> None:
    """Raise unless the peer's result equals ours on the same sentences."""
    ours = getattr(Tagloom(peer.scores), job)()
    theirs = getattr(peer, job)()
    if job == "viterbi":  # two paths may tie within the rounding of float32: compare their scores
        trellis = Tagloom(peer.scores).trellis()
        ours, theirs = (trellis.path_score(np.concatenate(p)) for p in ([ours], rows(theirs)))
    rtol = TOLERANCE[dtype]
    parts = zip(ours, theirs, strict=True) if isinstance(ours, tuple) else [(ours, theirs)]
    for a, b in parts:
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol, err_msg=f"{job} of {peer.name}")


def rows(paths: Any) -> list[Any]:
    return paths if isinstance(paths, list) else [paths]


# ---- clocks ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """A call to time: in CPU time with one thread unless `wall`, in wall time with several."""

    call: Callable[[], Any]
    tokens: int = 0
    name: str = "tagloom"
    threads: int = 1
    wall: bool = False

    @property
    def clock(self) -> Callable[[], float]:
        return time.perf_counter if self.wall or self.threads > 1 else time.process_time


@dataclass(frozen=True)
class Timing:
    seconds: float  # of one call, the best turn
    spread: float  # (worst − best) / best
    turns: list[float]  # seconds of one call, turn by turn
    loops: int  # calls in a turn

    def __str__(self) -> str:
        return f"{duration(self.seconds)} ±{100 * self.spread:.0f}%"


def enter(contestant: Any, job: str) -> Entry:
    threads = getattr(contestant, "n_threads", 1)
    return Entry(getattr(contestant, job), contestant.scores.n_tokens, contestant.name, threads)


def take_turns(entries: Sequence[Entry], repeats: int, least: float) -> list[Timing]:
    """Time the calls in turn; each turn repeats a short call for at least `least` seconds."""
    loops = [loops_for(entry, least) for entry in entries]
    turns = [
        [seconds_per_call(entry, n) for entry, n in zip(entries, loops, strict=True)]
        for _ in range(repeats)
    ]
    return [
        Timing(min(seconds), max(seconds) / min(seconds) - 1, list(seconds), n)
        for seconds, n in zip(zip(*turns, strict=True), loops, strict=True)
    ]


def loops_for(entry: Entry, least: float) -> int:
    seconds_per_call(entry, 1)  # warm up: first calls allocate
    return max(1, round(least / max(seconds_per_call(entry, 1), 1e-6)))


def seconds_per_call(entry: Entry, loops: int) -> float:
    clock = entry.clock
    start = clock()
    for _ in range(loops):
        entry.call()
    return (clock() - start) / loops


# ---- the machine's peak ----------------------------------------------------------------
#
# A large matrix product runs close to the rate at which one core can issue fused multiply-adds: n³
# of them in a product [n, n] × [n, n]. That rate bounds ours, per token and for first order:
#
#     log_partition   Y² transitions, one multiply-add each, on scaled probabilities
#     marginals       Y² transitions forwards and Y² backwards
#     loss_gradient   the same, and Y² multiply-adds for the pairs
#     viterbi         Y² transitions, one add and one max each: two instructions, half the rate. It
#                     is the rate of float32 for both dtypes, since scores are decoded as 32-bit
#                     integers wherever rounding cannot change the path; a core may add and compare
#                     those faster than floats
#
# exp and log per (t, y), back-pointers, checks and memory come on top. Cores with separate adders
# can exceed the bound of viterbi. nbest, sample and entropy have no bound here.

OPERATIONS_PER_MOVE = {"viterbi": 2, "log_partition": 1, "marginals": 2, "loss_gradient": 3}


def measure_peak(dtype: str, turns: int = 40, n: int = 512) -> float:
    """Return the multiply-adds per second of one thread."""
    a = np.random.default_rng(0).standard_normal((n, n)).astype(dtype)
    (timing,) = take_turns([Entry(lambda: a @ a)], turns, 0.0)
    return n**3 / timing.seconds


def share_of_peak(record: dict, peak: dict[str, float]) -> float | None:
    """Return our rate as a share of the bound; None for peers and for work without a bound."""
    operations = OPERATIONS_PER_MOVE.get(record["job"])
    if operations is None or record["contestant"] != Tagloom.name:
        return None
    per_second = record["tokens_per_second"] * record["labels"] ** 2 * operations
    dtype = "float32" if record["job"] == "viterbi" else record["dtype"]
    return per_second / (peak[dtype] * record["threads"])


# ---- rates -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    tokens: int
    repeats: int
    least: float  # seconds of a turn
    threads: int


def measure_rates(job: str, Y: int, dtype: str, settings: Settings) -> list[dict]:
    """Time one job with every contestant that supports it."""
    tokens = min(settings.tokens, LARGEST_EMIT // Y)
    scores = make_scores(tokens // 10 if job == "nbest" else tokens, Y, dtype)
    peers, absent = enter_peers(job, scores, dtype)
    entries = [enter(Tagloom(scores, n), job) for n in sorted({1, settings.threads})] + peers
    timings = take_turns(entries, settings.repeats, settings.least)
    present = [
        {
            "contestant": entry.name,
            "threads": entry.threads,
            "tokens": entry.tokens,
            "tokens_per_second": entry.tokens / timing.seconds,
            **asdict(timing),
        }
        for entry, timing in zip(entries, timings, strict=True)
    ]
    return [{"job": job, "labels": Y, "dtype": dtype, **record} for record in present + absent]


def enter_peers(job: str, scores: Scores, dtype: str) -> tuple[list[Entry], list[dict]]:
    """Return the peers that support the job, and records with the reasons for the others."""
    entries, absent = [], []
    for peer_class in PEERS:
        if not hasattr(peer_class, job) or dtype not in peer_class.dtypes:
            continue
        try:
            peer = peer_class(scores)
        except Unavailable as reason:
            absent.append({"contestant": peer_class.name, "note": str(reason)})
            continue
        check_agreement(job, peer, dtype)
        entries.append(enter(peer, job))
    return entries, absent


# ---- goals -----------------------------------------------------------------------------


def goal(what: str, ours: str, other: str, value: float | str, target: float, unit: str) -> dict:
    """Return a goal and its result: a minimum ratio, or a maximum in another unit."""
    record: dict[str, Any] = {"goal": what, "ours": ours, "other": other, "unit": unit}
    if isinstance(value, str):
        return record | {"value": None, "target": target, "met": None, "note": value}
    met = value >= target if unit == "x" else value <= target
    return record | {"value": value, "target": target, "met": met}


def versus(ours: Tagloom, peer: Any, job: str, s: Settings) -> tuple[str, str, float]:
    """Compare the time for the same batch with a peer's, one thread each, turn by turn."""
    check_agreement(job, peer, str(peer.scores.emit.dtype))
    entries = [enter(ours, job), enter(peer, job)]
    timings = take_turns(entries, 3 * s.repeats, s.least)
    low, middle, high = quantiles(paired(timings[1], timings[0]), n=4)
    mine, theirs = (
        f"{entry.name} {count(entry.tokens / median(timing.turns))} token/s"
        for entry, timing in zip(entries, timings, strict=True)
    )
    return f"{mine}, ratios from {low:.3g} to {high:.3g}", theirs, middle


def paired(a: Timing, b: Timing) -> list[float]:
    """Return the time of a over that of b, turn by turn."""
    return [x / y for x, y in zip(a.turns, b.turns, strict=True)]


def goals_against_hmmlearn(s: Settings) -> Iterable[dict]:
    scores = {dtype: make_scores(s.tokens, 45, dtype) for dtype in TOLERANCE}
    for job, dtype, call, target in [
        ("viterbi", "float64", "decode", 20),
        ("marginals", "float64", "predict_proba", 15),
        ("marginals", "float32", "predict_proba", 25),
    ]:
        what = f"{job}, 45 labels, {dtype}, against hmmlearn's {call} in float64"
        try:
            peer = HmmlearnWhole(scores["float64"])
        except Unavailable as reason:
            yield goal(what, "", "", f"hmmlearn {reason}", target, "x")
        else:
            yield goal(what, *versus(Tagloom(scores[dtype]), peer, job, s), target, "x")


def goal_against_pytorch_crf(s: Settings) -> Iterable[dict]:
    scores = make_scores(32 * 50, 20, "float32", length=50)
    what = "loss and gradient, 32 × 50 tokens, 20 labels, float32, against pytorch-crf"
    try:
        peer = PytorchCrfTraining(scores)
    except Unavailable as reason:
        yield goal(what, "", "", f"pytorch-crf {reason}", 50, "x")
    else:
        yield goal(what, *versus(Tagloom(scores), peer, "loss_gradient", s), 50, "x")


def many_short(s: Settings) -> tuple[int, float]:
    """Return turns and their seconds for measurements that are sensitive to other load."""
    return 10 * s.repeats, s.least / 5


def goals_of_threads(s: Settings) -> Iterable[dict]:
    """Compare threads by the methods alone, and report the ratio with `Trellis(...)` beside it.

    Checking the scores is limited by memory, which one core reads nearly as fast as two.
    """
    for Y in (17, 45):
        for job in ("viterbi", "marginals"):
            what = f"{job}() after Trellis(...), {Y} labels, float64, two threads against one, wall"
            if s.threads < 2:
                yield goal(what, "", "", "one thread only", 1.7, "x")
                continue
            scores = make_scores(s.tokens, Y, "float64")
            out = {"out": np.empty_like(scores.emit)} if job == "marginals" else {}
            contestants = [Tagloom(scores, n) for n in (2, 1)]
            calls = [partial(getattr(c.trellis(), job), **out) for c in contestants]
            calls += [getattr(c, job) for c in contestants]
            # One call each, as close together as possible.
            entries = [Entry(call, wall=True) for call in calls]
            two, one, whole_two, whole_one = take_turns(entries, 30 * s.repeats, 0.0)
            low, middle, high = quantiles(paired(one, two), n=4)
            ours = f"two {duration(median(two.turns))}, ratios from {low:.2f} to {high:.2f}"
            whole = median(paired(whole_one, whole_two))
            other = f"one {duration(median(one.turns))}; with Trellis(...) {whole:.2f} x"
            yield goal(what, ours, other, middle, 1.7, "x")


def goals_of_one_sentence(s: Settings) -> Iterable[dict]:
    for dtype in ("float32", "float64"):
        one = make_scores(20, 17, dtype, length=20)

        def decode(one: Scores = one) -> Any:
            return tl.Trellis(one.emit, one.trans, one.start, one.stop).viterbi()

        (timing,) = take_turns([Entry(decode)], *many_short(s))
        what = f"Trellis(...).viterbi() of one sentence, 20 tokens, 17 labels, {dtype}"
        yield goal(what, f"one call {timing}", "", 1e6 * timing.seconds, 15, "µs")


def goals_of_order(s: Settings) -> Iterable[dict]:
    """Compare the cost of a transition: order 2 has Y³ transitions, order 1 has Y²."""
    Y = 17
    space = tl.StateSpace.order(Y, 2)
    for dtype in ("float32", "float64"):
        scores = make_scores(s.tokens // 10, Y, dtype)
        weights = np.random.default_rng(0).standard_normal(space.n_weights, dtype=dtype)

        def second(scores: Scores = scores, weights: np.ndarray = weights) -> Any:
            options = {"offsets": scores.offsets, "states": space, "weights": weights}
            arrays = (scores.emit, scores.trans, scores.start, scores.stop)
            return tl.Trellis(*arrays, **options, n_threads=1).viterbi()

        entries = [Entry(second), Entry(Tagloom(scores).viterbi)]
        two, one = take_turns(entries, 2 * s.repeats, s.least)
        what = f"Viterbi, order 2 over 17 times order 1, 17 labels, {dtype}"
        yield goal(
            what, f"order 2 {two}", f"order 1 {one}", two.seconds / one.seconds / Y, 2, "times"
        )


GOALS = (
    goals_against_hmmlearn,
    goal_against_pytorch_crf,
    goals_of_threads,
    goals_of_one_sentence,
    goals_of_order,
)


# ---- tables ----------------------------------------------------------------------------


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Align the columns of a Markdown table, the first to the left."""
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]

    def join(cells: Sequence[str]) -> str:
        first, *rest = zip(cells, widths, strict=True)
        return "| " + " | ".join([first[0].ljust(first[1]), *(c.rjust(w) for c, w in rest)]) + " |"

    rule = ["-" * widths[0], *("-" * (w - 1) + ":" for w in widths[1:])]
    return "\n".join(join(line) for line in [header, rule, *lines])


def count(number: float) -> str:
    """Format 12345 as 12.3k and 12345678 as 12.3M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.{0 if number >= 100 * size else 1}f}{letter}"
    return f"{number:.0f}"


def duration(seconds: float) -> str:
    """Format 0.00012 as 120 µs."""
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def times(ratio: float) -> str:
    return f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.3g}x"


def rate_cell(record: dict) -> str:
    if "note" in record:
        return record["note"]
    return f"{count(record['tokens_per_second'])} ±{100 * record['spread']:.0f}%"


def share_cell(record: dict) -> str:
    share = record.get("share_of_peak")
    return "—" if share is None else f"{100 * share:.0f}%"


def peer_cell(record: dict | None, ours: dict) -> str:
    if record is None:
        return "—"
    if "note" in record:
        return record["note"]
    ratio = ours["tokens_per_second"] / record["tokens_per_second"]
    star = "" if record["dtype"] == ours["dtype"] else "*"
    return f"{rate_cell(record)}{star} ({times(ratio)})"


def rates_table(records: list[dict], threads: int) -> str:
    found = {
        (r["job"], r["labels"], r["dtype"], r["contestant"], r.get("threads", 1)): r
        for r in records
    }
    header = ["job", "labels", "dtype", "1 thread", "of peak"]
    header += [f"{threads} threads", "of peak"] * (threads > 1) + [peer.name for peer in PEERS]
    lines = []
    for job, Y, dtype, contestant, n in found:
        if contestant != Tagloom.name or n != 1:
            continue
        ours = found[job, Y, dtype, contestant, 1]
        line = [job, str(Y), dtype, rate_cell(ours), share_cell(ours)]
        if threads > 1:
            many = found[job, Y, dtype, contestant, threads]
            line += [rate_cell(many), share_cell(many)]
        for peer in PEERS:
            same = found.get((job, Y, dtype, peer.name, 1))
            line.append(peer_cell(same or found.get((job, Y, "float64", peer.name, 1)), ours))
        lines.append(line)
    return table(header, lines)


def goals_table(goals: list[dict]) -> str:
    lines = []
    for g in goals:
        bound = "≥" if g["unit"] == "x" else "≤"
        value = g["note"] if g["value"] is None else f"{g['value']:.3g} {g['unit']}"
        met = {True: "yes", False: "NO", None: "—"}[g["met"]]
        target = f"{bound} {g['target']} {g['unit']}"
        lines.append([g["goal"], g["ours"], g["other"], value, target, met])
    return table(["goal", "ours", "other", "found", "wanted", "met"], lines)


# ---- the report ------------------------------------------------------------------------


def describe_machine() -> dict[str, Any]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": names[0] if names else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "instruction_set": instruction_set(),
    }


def describe_versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in ("numpy", "torch", *(contestant.name for contestant in (Tagloom, *PEERS))):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions


def describe_commit() -> str:
    """Return the commit, marked as dirty if tracked files differ from it."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "unknown: no git"
    return run.stdout.strip() or "unknown: no repository"


def available_threads() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def load_average() -> list[float] | None:
    return [round(load, 2) for load in os.getloadavg()] if hasattr(os, "getloadavg") else None


def write_report(report: dict[str, Any]) -> str:
    machine, versions, peak = report["machine"], report["versions"], report["peak"]
    lines = [
        "# Trellis benchmark",
        "",
        f"`{report['command']}`",
        "",
        f"- {report['date']}, commit {report['commit']}, {report['seconds']:.0f} s",
        f"- {machine['cpu']}, {machine['cores']} cores, {machine['system']}; "
        f"instruction set in use: {machine['instruction_set']}",
        f"- load average {report['load_average']['start']} at the start, "
        f"{report['load_average']['end']} at the end",
        "- peak of one thread, by matrix product: "
        + ", ".join(f"{rate / 1e9:.1f} G multiply-adds/s in {d}" for d, rate in peak.items()),
        f"- Python {versions['python']}, NumPy {versions['numpy']}, torch {versions['torch']}",
        f"- best of {report['repeats']} turns; ± is (worst − best) / best",
        "- goals that compare: medians, and the middle half of the ratios of neighbouring turns",
        "",
        "## Goals",
        "",
        goals_table(report["goals"]),
        "",
        f"## Tokens per second ({N_BEST} paths for nbest, one for sample)",
        "",
        rates_table(report["rates"], report["threads"]),
        "",
        "In brackets: tokens per second of one tagloom thread over the peer's. * float64, the only "
        "dtype it has. Of peak: the multiply-adds that the recursion needs, over those that the "
        "core can do; a transition of viterbi is an add and a max, and counts as two, in float32.",
        "",
        *(f"- {c.name} {versions[c.name]}: {c.how}" for c in (Tagloom, *PEERS)),
        "",
    ]
    return "\n".join(lines)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few labels, short turns")
    parser.add_argument("--labels", type=int, nargs="+", help=f"by default {LABELS}")
    parser.add_argument("--dtype", nargs="+", choices=list(TOLERANCE), default=list(TOLERANCE))
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for trellis.json and .md")
    parser.add_argument("--repeats", type=int, help="turns of each contestant, at least 3")
    parser.add_argument("--threads", type=int, help="of the second column; by default all cores")
    parser.add_argument("--tokens", type=int, help=argparse.SUPPRESS)  # tiny, for the test
    found = parser.parse_args(arguments)
    found.labels = found.labels or (LABELS[:2] if found.quick else LABELS)
    found.repeats = max(3, found.repeats or (3 if found.quick else 5))
    found.tokens = found.tokens or (TOKENS // 4 if found.quick else TOKENS)
    found.threads = found.threads or available_threads()
    return found


def without_out(given: Sequence[str]) -> list[str]:
    """Return the arguments without the folder of the results, which does not affect them."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--out")
    return parser.parse_known_args(given)[1]


def main(arguments: Sequence[str] | None = None) -> None:
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = parse_arguments(given)
    least = TURN * options.tokens / TOKENS
    settings = Settings(options.tokens, options.repeats, least, options.threads)
    begun, load = time.perf_counter(), load_average()
    early = {dtype: measure_peak(dtype) for dtype in TOLERANCE}
    goals = [found for find in GOALS for found in find(settings)]
    rates = [
        record
        for job in JOBS
        for Y in options.labels
        for dtype in options.dtype
        for record in measure_rates(job, Y, dtype, settings)
    ]
    peak = {dtype: max(early[dtype], measure_peak(dtype)) for dtype in TOLERANCE}
    for record in rates:
        record["share_of_peak"] = share_of_peak(record, peak)
    report = {
        "command": shlex.join(["python", "benchmarks/trellis.py", *without_out(given)]),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": describe_commit(),
        "machine": describe_machine(),
        "versions": describe_versions(),
        "load_average": {"start": load, "end": load_average()},
        "repeats": settings.repeats,
        "threads": settings.threads,
        "seconds": time.perf_counter() - begun,
        "peak": peak,
        "goals": goals,
        "rates": rates,
    }
    text = write_report(report)
    print(text)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "trellis.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    (options.out / "trellis.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
