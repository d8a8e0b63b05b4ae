"""Small encoded corpora for the tests of training, and their scores in plain Python."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

import oracles
from tagloom._native import Attributes, Labels, LinearObjective, Pruning
from tagloom.trellis import StateSpace


@dataclass
class Encoding:
    """The arguments of a `LinearObjective`; `scores` and `nll` compute what it should return."""

    offsets: np.ndarray
    indptr: np.ndarray
    ids: np.ndarray
    gold: np.ndarray
    n_labels: int
    n_attributes: int
    values: np.ndarray | None = None
    edge_indptr: np.ndarray | None = None
    edge_ids: np.ndarray | None = None
    edge_values: np.ndarray | None = None
    n_edge_attributes: int = 0
    all_combinations: bool = False
    boundaries: bool = True
    weight: np.ndarray | None = None
    float32: bool = False
    sets: np.ndarray | None = None
    allowed: np.ndarray | None = None
    states: StateSpace | None = None
    objective: LinearObjective = field(init=False)

    def __post_init__(self):
        self.objective = self.make()

    def make(self, **changes):
        given = {
            name: getattr(self, name) for name in self.__dataclass_fields__ if name != "objective"
        }
        if self.states is not None:
            given["space"] = self.states.native
        return make_objective(**given | changes)

    def prune(self, least, most=0, **changes):
        """The objective over candidate labels."""
        return self.make(prune=Pruning(least, most), **changes)

    def scores(self, theta):
        """emit [T, Y], edge [T, Y, Y], trans, start, stop from theta."""
        T, Y = len(self.gold), self.n_labels
        at, (ptr, cols, _) = 0, self.objective.rows()
        emit, edge = np.zeros((T, Y)), np.zeros((T, Y, Y))
        add_rows(emit, self.indptr, self.ids, self.values, ptr, cols, theta[: len(cols)])
        at += len(cols)
        if self.edge_ids is not None:
            ptr, cols, _ = self.objective.edge_rows()
            weights = theta[at : at + len(cols)]
            flat = edge.reshape(T, Y * Y)
            add_rows(flat, self.edge_indptr, self.edge_ids, self.edge_values, ptr, cols, weights)
            at += len(cols)
        trans = theta[at : at + Y * Y].reshape(Y, Y)
        at += Y * Y
        start, stop = np.zeros(Y), np.zeros(Y)
        if self.boundaries:
            start, stop = theta[at : at + Y], theta[at + Y : at + 2 * Y]
        return emit, edge, trans, start, stop

    def permits(self, label, y):
        return label == y if label >= 0 else bool(self.sets[-1 - label, y])

    def chains(self, theta):
        """The enumerated chain of every sentence."""
        emit, edge, trans, start, stop = self.scores(theta)
        Y = self.n_labels
        if self.allowed is not None:
            for t, label in enumerate(self.allowed):
                emit[t, [y for y in range(Y) if not self.permits(label, y)]] = -np.inf
        options = {}
        if self.states is not None:
            K = self.states.n_weights
            options = {"states": self.states, "weights": theta[len(theta) - K :]}
        for lo, hi in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield oracles.Chain(emit[lo:hi], trans, start, stop, edge=edge[lo:hi], **options)

    def nll(self, theta):
        """Σ weight·nll by enumeration of all paths."""
        total = 0.0
        for i, chain in enumerate(self.chains(theta)):
            weight = 1.0 if self.weight is None else self.weight[i]
            gold = self.gold[self.offsets[i] : self.offsets[i + 1]].tolist()
            left = [[self.permits(g, y) for y in range(self.n_labels)] for g in gold]
            total -= weight * chain.log_prob_of(np.array(left)) if gold else 0.0
        return total

    def evaluate(self, theta, threads=1):
        grad = np.full(self.objective.n_weights, 77.0)  # nonsense that must be overwritten
        loss = self.objective.evaluate(theta, grad, threads)
        return loss, grad


def make_objective(
    offsets,
    indptr,
    ids,
    gold,
    n_labels,
    n_attributes,
    values=None,
    extra=None,
    edge_indptr=None,
    edge_ids=None,
    edge_values=None,
    extra_edges=None,
    n_edge_attributes=0,
    sets=None,
    allowed=None,
    states=None,
    **options,
):
    """A linear objective from arrays by name."""
    edges = None
    if edge_ids is not None:
        edges = Attributes(edge_indptr, edge_ids, n_edge_attributes, edge_values, extra_edges)
    nodes = Attributes(indptr, ids, n_attributes, values, extra)
    labels = Labels(gold, n_labels, sets, allowed)
    return LinearObjective(offsets, nodes, labels, edges=edges, **options)


def add_rows(out, indptr, ids, values, ptr, cols, weights):
    for t in range(len(out)):
        for j in range(indptr[t], indptr[t + 1]):
            value = 1.0 if values is None else float(values[j])
            row = slice(ptr[ids[j]], ptr[ids[j] + 1])
            for column, weight in zip(cols[row].tolist(), weights[row].tolist(), strict=True):
                out[t, column] += value * weight


def random_csr(rng, T, n_attributes, most):
    counts = rng.integers(0, most + 1, T)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    # Skewed, so that some attributes are seen with many labels and others with one.
    skewed = rng.uniform(size=indptr[-1]) ** 2 * n_attributes
    return indptr, skewed.astype(np.int32)


def random_encoding(
    seed, lengths=(3, 1, 0, 4, 2), Y=3, n_attributes=12, edges=True, valued=True, **options
):
    rng = np.random.default_rng(seed)
    T = int(sum(lengths))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    indptr, ids = random_csr(rng, T, n_attributes, 5)
    if valued:
        options["values"] = rng.normal(size=len(ids)).astype(np.float32)
    if edges:
        options["edge_indptr"], options["edge_ids"] = random_csr(rng, T, 4, 2)
        options["n_edge_attributes"] = 4
        if valued:
            n = len(options["edge_ids"])
            options["edge_values"] = rng.normal(size=n).astype(np.float32)
    gold = rng.integers(0, Y, T).astype(np.int32)
    return Encoding(offsets, indptr, ids, gold, Y, n_attributes, **options)


def random_theta(encoding, seed=0, scale=1.0):
    """Random free weights; the masked ones are zero."""
    mask = encoding.objective.mask()
    return np.random.default_rng(seed).normal(size=len(mask)) * scale * mask
