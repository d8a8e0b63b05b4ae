"""Hypothesis strategies: small trellises of every shape, and tolerances for judging them.

Hypothesis chooses the sizes and a seed; a NumPy generator with that seed chooses the rest and
fills in the numbers, which is far quicker than drawing them one by one. A failing example prints
its Case.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis import strategies as st

import oracles
import tagloom as tl

BIO = ("B-X", "I-X", "O")
BIOES = ("B-X", "E-X", "I-X", "O", "S-X")
SPACES = ("first", "order2", "order3", "seen", "run", "count", "edges", "bio", "bioes", "both")
LOOKS = ("floats", "integers", "wide", "huge")
MOST_PATHS = 300  # an enumeration of these takes a few milliseconds


@dataclass
class Case:
    """Arrays of a trellis: one entry of emits and edges per sequence, the rest shared."""

    emits: list  # of [T, Y]
    trans: np.ndarray | None = None
    start: np.ndarray | None = None
    stop: np.ndarray | None = None
    edges: list | None = None
    states: object = None
    weights: np.ndarray | None = None
    space: str = "None"
    look: str = "floats"
    chains: list = field(default_factory=list, repr=False)

    def __post_init__(self):
        edges = self.edges or [None] * len(self.emits)
        self.chains = [
            oracles.Chain(emit, **self.shared(), edge=edge)
            for emit, edge in zip(self.emits, edges, strict=True)
        ]

    def shared(self):
        return {
            "trans": self.trans,
            "start": self.start,
            "stop": self.stop,
            "states": self.states,
            "weights": self.weights,
        }

    @property
    def n_labels(self):
        return self.emits[0].shape[1]

    @property
    def dtype(self):
        return self.emits[0].dtype

    @property
    def offsets(self):
        return np.cumsum([0] + [len(emit) for emit in self.emits])

    def batch(self, **options):
        edge = None if self.edges is None else np.concatenate(self.edges)
        return tl.Trellis(
            np.concatenate(self.emits),
            **self.shared(),
            edge=edge,
            offsets=self.offsets,
            **options,
        )

    def single(self, i=0, **options):
        edge = None if self.edges is None else self.edges[i]
        return tl.Trellis(self.emits[i], **self.shared(), edge=edge, **options)

    def feasible(self):
        """The same case without the sequences that have no path."""
        keep = [i for i, chain in enumerate(self.chains) if chain.paths]
        edges = None if self.edges is None else [self.edges[i] for i in keep]
        return replace(self, emits=[self.emits[i] for i in keep], edges=edges)

    @property
    def scale(self):
        """The largest finite score in absolute value: rounding errors grow with it."""
        arrays = [*self.emits, self.trans, self.start, self.stop, self.weights, *(self.edges or [])]
        finite = [np.abs(a[np.isfinite(a)]) for a in arrays if a is not None]
        return max([1.0] + [float(a.max()) for a in finite if a.size])

    @property
    def close(self):
        """Tolerances for sums and probabilities of this case's dtype and scale.

        A score of magnitude M is rounded to M·eps in a step, and a probability is off by the same
        factor; a few dozen such steps stay below these bounds.
        """
        eps = 5e-7 if self.dtype == np.float32 else 1e-14
        return {"rtol": 50 * eps, "atol": 2 * eps * self.scale}


def numbers(rng, shape, look, forbidden, dtype):
    """Random scores: ``integers`` makes ties, ``wide`` spans hundreds, where probabilities begin to
    underflow, ``huge`` mixes ±10^4 with ordinary ones.
    """
    if look == "integers":
        x = rng.integers(-2, 3, shape).astype(float)
    else:
        x = (60.0 if look == "wide" else 2.0) * rng.standard_normal(shape)
    if look == "huge":
        x = np.where(rng.random(shape) < 0.3, rng.choice([-1e4, 1e4], shape), x)
    x[rng.random(shape) < forbidden] = -math.inf
    return x.astype(dtype)


def random_automaton(rng, labels):
    """A deterministic automaton with holes: states, transitions, ends and ties at random."""
    Y = labels if isinstance(labels, int) else len(labels)
    S = int(rng.integers(1, 7))
    state_labels = rng.integers(0, Y, S)
    edges = []
    for p in range(S):
        for y in range(Y):
            targets = np.flatnonzero(state_labels == y)
            if targets.size and rng.random() < 0.8:
                edges.append((p, int(rng.choice(targets))))
    edges = [edges[i] for i in rng.permutation(len(edges))]  # the order must not matter
    initial = []
    for y in range(Y):
        targets = np.flatnonzero(state_labels == y)
        if targets.size and rng.random() < 0.9:
            initial.append(int(rng.choice(targets)))
    K = int(rng.integers(0, 4))

    def ties():
        return [int(j) for j in rng.integers(0, K, rng.integers(0, 4))] if K else []

    final = [s for s in range(S) if rng.random() < 0.8]
    return tl.StateSpace.from_edges(
        labels,
        state_labels.tolist(),
        edges,
        initial,
        final=final,
        ties=[ties() for _ in edges],
        start_ties=[ties() for _ in range(S)],
        n_weights=K,
    )


def make_space(rng, kind, labels):
    """One automaton of each constructor over the given labels (a count or names)."""
    Y = labels if isinstance(labels, int) else len(labels)
    space = tl.StateSpace
    if kind == "first":
        return space.first_order(labels)
    if kind == "order2":
        return space.order(labels, 2)
    if kind == "order3":
        return space.order(labels, 3)
    if kind == "seen":
        seen = [rng.integers(0, Y, rng.integers(0, 6)).tolist() for _ in range(3)]
        return space.order(labels, int(rng.integers(2, 4)), seen=seen)
    if kind in ("run", "count"):
        build = space.run_length if kind == "run" else space.total_count
        label = int(rng.integers(0, Y))
        label = label if isinstance(labels, int) else labels[label]
        return build(labels, label, int(rng.integers(1, 4)))
    if kind == "edges":
        return random_automaton(rng, labels)
    if kind == "bio":
        return space.bio(labels)
    if kind == "bioes":
        return space.bioes(labels)
    raise ValueError(kind)


@st.composite
def cases(draw, n=None, spaces=(None,), looks=LOOKS, max_T=5, max_Y=4):
    """A Case of n sequences, any of which may be empty or have no path.

    By default 1 to 3, or enough short ones to fill the lanes of the vector code. Hypothesis likes
    to repeat a value that it has drawn before; so all that it draws goes into the seed, and the
    choices made with it are spread evenly over automata, types and kinds of scores.
    """
    Y = draw(st.integers(1, max_Y), label="Y")
    if n is None:
        n = draw(st.sampled_from([1, 2, 3, 6, 18]), label="N")
    lengths = [draw(st.integers(0, max_T), label="T") for _ in range(n)]
    seed = draw(st.integers(0, 2**32 - 1), label="seed")
    rng = np.random.default_rng([seed, Y, *lengths])

    dtype = (np.float32, np.float64)[rng.integers(2)]
    kind = spaces[rng.integers(len(spaces))]
    look = looks[rng.integers(len(looks))]
    forbidden = rng.choice([0.0, 0.0, 0.15, 0.4])
    has = {name: rng.random() < 0.5 for name in ("trans", "start", "stop", "edge")}

    labels, states, weights = Y, None, None
    if kind in ("bio", "bioes"):
        labels = BIO if kind == "bio" else BIOES
        states = make_space(rng, kind, labels)
    elif kind == "both":
        kinds = ["order2", "seen", "run", "count", "edges"]
        if rng.random() < 0.5:
            labels, kinds = BIO, [*kinds, "bio", "bio"]
        first, second = rng.choice(kinds, 2)
        states = make_space(rng, first, labels) & make_space(rng, second, labels)
    elif kind is not None:
        states = make_space(rng, kind, labels)
    Y = labels if isinstance(labels, int) else len(labels)
    longest = int(math.log(2 * MOST_PATHS / max(n, 2)) / math.log(max(Y, 2)))
    lengths = [min(T, longest) for T in lengths]

    def scores(*shape):
        return numbers(rng, shape, look, forbidden, dtype)

    if states is not None and states.n_weights:
        weights = numbers(rng, (states.n_weights,), look, forbidden / 4, dtype)
    return Case(
        emits=[scores(T, Y) for T in lengths],
        trans=scores(Y, Y) if has["trans"] else None,
        start=scores(Y) if has["start"] else None,
        stop=scores(Y) if has["stop"] else None,
        edges=[scores(T, Y, Y) for T in lengths] if has["edge"] else None,
        states=states,
        weights=weights,
        space=str(kind),
        look=look,
    )
