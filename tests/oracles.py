"""Every path, and every segmentation, one by one: the judge of the trellis.

``itertools.product`` lists all label paths of one sequence, a dict walks each through the
automaton, and every quantity is read off the list of scores: no recursion, no NumPy arithmetic, no
cleverness. Good for a few hundred paths; `reference` has the textbook recurrences for longer ones.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from types import SimpleNamespace

import numpy as np

FORBIDDEN = -math.inf


def first_order(n_labels):
    """The plain automaton with the arrays of a StateSpace: state = label, all transitions."""
    Y = range(n_labels)
    transitions = [(p, s) for s in Y for p in Y]
    return SimpleNamespace(
        n_labels=n_labels,
        n_weights=0,
        state_labels=list(Y),
        src=[p for p, _ in transitions],
        dst=[s for _, s in transitions],
        initial=[True] * n_labels,
        final=[True] * n_labels,
        tie_indptr=[0] * (len(transitions) + 1),
        tie_ids=[],
        start_tie_indptr=[0] * (n_labels + 1),
        start_tie_ids=[],
    )


class Chain:
    """One sequence: its scores, its automaton, and all its allowed paths.

    ``arcs(path)`` lists what the path is made of, from the start arc to the stop arc, as tuples
    ``(score, t, y_prev, y, ties)``; ``paths`` is the list of all ``(path, score)`` with a score
    above −inf. Every other method is a sum or a maximum over that list.
    """

    def __init__(
        self, emit, trans=None, start=None, stop=None, *, edge=None, states=None, weights=None
    ):
        T, Y = np.shape(emit)
        self.T, self.Y = T, Y
        self.emit = np.asarray(emit, float).tolist()
        self.trans = np.asarray(np.zeros((Y, Y)) if trans is None else trans, float).tolist()
        self.start = np.asarray(np.zeros(Y) if start is None else start, float).tolist()
        self.stop = np.asarray(np.zeros(Y) if stop is None else stop, float).tolist()
        self.edge = np.asarray(np.zeros((T, Y, Y)) if edge is None else edge, float).tolist()
        states = first_order(Y) if states is None else states
        self.K = int(states.n_weights)
        self.weights = np.asarray(np.zeros(self.K) if weights is None else weights, float).tolist()

        label = [int(y) for y in states.state_labels]
        self.final = [bool(f) for f in states.final]
        self.enter = {}  # label -> (state, ties): the start arcs
        for s, is_initial in enumerate(states.initial):
            if is_initial:
                assert label[s] not in self.enter, "two initial states with one label"
                lo, hi = states.start_tie_indptr[s], states.start_tie_indptr[s + 1]
                self.enter[label[s]] = s, [int(j) for j in states.start_tie_ids[lo:hi]]
        self.step = {}  # (state, label) -> (state, ties): the transitions
        for m, (p, s) in enumerate(zip(states.src, states.dst, strict=True)):
            assert (int(p), label[s]) not in self.step, (
                "two transitions with one label from one state"
            )
            lo, hi = states.tie_indptr[m], states.tie_indptr[m + 1]
            self.step[int(p), label[s]] = int(s), [int(j) for j in states.tie_ids[lo:hi]]

        everything = itertools.product(range(Y), repeat=T)
        scored = [(path, self.path_score(path)) for path in everything]
        self.paths = [(path, score) for path, score in scored if score > FORBIDDEN]

    # One path

    def arcs(self, path):
        """The arcs of a path, or None where the automaton or a −inf forbids it."""
        if self.T == 0:
            return []
        arcs, state = [], None
        for t, y in enumerate(path):
            if t == 0:
                y_prev = None
                if y not in self.enter:
                    return None
                state, ties = self.enter[y]
                terms = [self.start[y], self.emit[0][y]]
            else:
                y_prev = path[t - 1]
                if (state, y) not in self.step:
                    return None
                state, ties = self.step[state, y]
                terms = [self.emit[t][y], self.edge[t][y_prev][y], self.trans[y_prev][y]]
            terms += [self.weights[j] for j in ties]
            arcs.append((add(terms), t, y_prev, y, ties))
        if not self.final[state]:
            return None
        arcs.append((self.stop[path[-1]], self.T, path[-1], None, []))
        return None if any(score == FORBIDDEN for score, *_ in arcs) else arcs

    def path_score(self, path):
        arcs = self.arcs(tuple(path))
        return FORBIDDEN if arcs is None else add([score for score, *_ in arcs])

    def log_prob(self, path):
        score = self.path_score(path)
        return score - self.log_partition() if score > FORBIDDEN else FORBIDDEN

    # Maxima

    def nbest(self, n):
        """The n best paths; among equals the lowest label last, then before it, and so on."""
        ranked = sorted(self.paths, key=lambda item: (-item[1], item[0][::-1]))
        return ranked[:n]

    def best(self):
        return self.nbest(1)[0]

    # Sums

    def log_partition(self):
        return log_sum_exp([score for _, score in self.paths])

    def probs(self):
        log_z = self.log_partition()
        return [(path, math.exp(score - log_z)) for path, score in self.paths]

    def expectation(self, value):
        return math.fsum(p * value(path) for path, p in self.probs())

    def marginals(self):
        gamma = np.zeros((self.T, self.Y))
        for path, p in self.probs():
            for t, y in enumerate(path):
                gamma[t, y] += p
        return gamma

    def pair_marginals(self, distance=1):
        xi = np.zeros((self.T, self.Y, self.Y))
        for path, p in self.probs():
            for t in range(distance, self.T):
                xi[t, path[t - distance], path[t]] += p
        return xi

    def expected_counts(self):
        counts = SimpleNamespace(
            labels=np.zeros(self.Y),
            transitions=np.zeros((self.Y, self.Y)),
            start=np.zeros(self.Y),
            stop=np.zeros(self.Y),
            weights=np.zeros(self.K),
        )
        for path, p in self.probs():
            for _, _, y_prev, y, ties in self.arcs(path):
                if y_prev is None:
                    counts.start[y] += p
                elif y is None:
                    counts.stop[y_prev] += p
                else:
                    counts.transitions[y_prev, y] += p
                if y is not None:
                    counts.labels[y] += p
                for j, times in Counter(ties).items():
                    counts.weights[j] += times * p
        return counts

    def entropy(self):
        return -math.fsum(p * math.log(p) for _, p in self.probs() if p > 0)

    def log_prob_of(self, allowed):
        inside = [s for path, s in self.paths if all(allowed[t][y] for t, y in enumerate(path))]
        return log_sum_exp(inside) - self.log_partition() if inside else FORBIDDEN

    # Any semiring

    def total(self, semiring):
        """⊕ over paths of ⊗ over the arcs of the path, in the order of the arcs."""
        total = semiring.zero
        for path, _ in self.paths:
            product = semiring.one
            for score, t, y_prev, y, _ in self.arcs(path):
                product = semiring.times(product, semiring.lift(score, t, y_prev, y))
            total = semiring.plus(total, product)
        return total


class Segmentations:
    """One sequence with scores of segments [T, L, Y], and all its segmentations.

    A segmentation is a tuple of (start, end, label); ``all`` is the list of those with a score
    above −inf, found by cutting the sequence in every way and labelling the pieces in every way.
    """

    def __init__(self, scores, trans=None, start=None, stop=None):
        self.T, self.L, self.Y = np.shape(scores)
        Y = self.Y
        self.scores = np.asarray(scores, float).tolist()
        self.trans = np.asarray(np.zeros((Y, Y)) if trans is None else trans, float).tolist()
        self.start = np.asarray(np.zeros(Y) if start is None else start, float).tolist()
        self.stop = np.asarray(np.zeros(Y) if stop is None else stop, float).tolist()
        scored = [(one, self.score(one)) for one in self._segmentations()]
        self.all = [(one, score) for one, score in scored if score > FORBIDDEN]

    def _segmentations(self):
        if self.T == 0:
            yield ()
            return
        for is_cut in itertools.product([False, True], repeat=self.T - 1):
            cuts = [0, *(t + 1 for t, cut in enumerate(is_cut) if cut), self.T]
            pieces = list(itertools.pairwise(cuts))
            if all(end - begin <= self.L for begin, end in pieces):
                for labels in itertools.product(range(self.Y), repeat=len(pieces)):
                    yield tuple((*piece, y) for piece, y in zip(pieces, labels, strict=True))

    def score(self, segmentation):
        if not segmentation:
            return 0.0
        labels = [y for _, _, y in segmentation]
        terms = [self.scores[b][e - b - 1][y] for b, e, y in segmentation]
        terms += [self.trans[p][y] for p, y in itertools.pairwise(labels)]
        return add([self.start[labels[0]], *terms, self.stop[labels[-1]]])

    def nbest(self, n):
        """The n best; among equals the lowest last label, the shortest last segment, and so on."""
        return sorted(
            self.all,
            key=lambda item: (-item[1], [(y, e - b) for b, e, y in reversed(item[0])]),
        )[:n]

    def log_partition(self):
        return log_sum_exp([score for _, score in self.all])

    def probs(self):
        log_z = self.log_partition()
        return [(one, math.exp(score - log_z)) for one, score in self.all]

    def marginals(self):
        out = np.zeros((self.T, self.L, self.Y))
        for one, p in self.probs():
            for begin, end, y in one:
                out[begin, end - begin - 1, y] += p
        return out

    def covering(self):
        out = np.zeros((self.T, self.Y))
        for one, p in self.probs():
            for begin, end, y in one:
                out[begin:end, y] += p
        return out

    def expected_counts(self):
        counts = SimpleNamespace(
            labels=np.zeros(self.Y),
            transitions=np.zeros((self.Y, self.Y)),
            start=np.zeros(self.Y),
            stop=np.zeros(self.Y),
        )
        for one, p in self.probs():
            labels = [y for _, _, y in one]
            for y in labels:
                counts.labels[y] += p
            for y_prev, y in itertools.pairwise(labels):
                counts.transitions[y_prev, y] += p
            if labels:
                counts.start[labels[0]] += p
                counts.stop[labels[-1]] += p
        return counts

    def entropy(self):
        return -math.fsum(p * math.log(p) for _, p in self.probs() if p > 0)

    def log_prob_of(self, holds):
        inside = [score for one, score in self.all if holds(one)]
        return log_sum_exp(inside) - self.log_partition() if inside else FORBIDDEN


def add(terms):
    """The exactly rounded sum, with −inf as the forbidden score."""
    return FORBIDDEN if FORBIDDEN in terms else math.fsum(terms)


def log_sum_exp(scores):
    if not scores:
        return FORBIDDEN
    top = max(scores)
    return top + math.log(math.fsum(math.exp(score - top) for score in scores))
