"""State spaces: which moves a trellis has, and which weights each move is tied to.

A state space is a deterministic automaton over labels. From a state there is at most one move
per label, and at most one initial state per label, so label paths and state paths are one to
one: a trellis can run over states (label histories, run lengths, a user's own) and still answer
in labels. The scores live elsewhere; here are only integers.

::

    labels            N     V                 what a path is made of
    states      N   V   N·N   V·N   ...       what a trellis runs over; each emits one label
    moves       src[m] -> dst[m]              sorted by dst, then label of src, then src
    ties        tie_ids[tie_indptr[m]:tie_indptr[m + 1]]      weights added on move m
    start ties  start_tie_ids[start_tie_indptr[s]: ...]       weights added on starting in s

BIO rules live here rather than in ``labels`` because they are an automaton like the others; what
a span is, only ``labels`` knows.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import _native
from tagloom.errors import LabelError, ParameterError, ShapeError
from tagloom.trellis import automata
from tagloom.trellis.inputs import as_array, as_list, check_count

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
Labels = int | Sequence[str]
Label = int | str

# An order-k space with more moves than this would need gigabytes; `seen=` is the way out.
MAX_MOVES = 100_000_000


@dataclass(frozen=True, eq=False, repr=False)
class StateSpace:
    """A deterministic automaton over labels, with weights tied to its moves. Immutable.

    Use the constructors below (`first_order`, `order`, `bio`, `bioes`, `run_length`,
    `total_count`, `from_edges`) and `intersect`; the fields are what they produce.

    Attributes
    ----------
    n_labels : int
        Y, the number of labels.
    labels : tuple of str, or None
        Names of the labels, if they have names.
    state_labels : ndarray of int32, shape (S,)
        The label that each state emits.
    src, dst : ndarray of int32, shape (M,)
        The moves, sorted by ``dst``, then by label of ``src``, then by ``src``.
    initial, final : ndarray of bool, shape (S,)
        Where a path may begin and end.
    tie_indptr : ndarray of int64, shape (M + 1,)
    tie_ids : ndarray of int32
        ``tie_ids[tie_indptr[m]:tie_indptr[m + 1]]`` are the weights tied to move ``m``.
    start_tie_indptr : ndarray of int64, shape (S + 1,)
    start_tie_ids : ndarray of int32
        The same for starting in a state.
    weight_groups : mapping of str to tuple of int
        Name and shape of each group of weights; the flat weights are the groups one after
        another in C order.
    ngrams : mapping of str to tuple of tuples of int
        For a pruned order-k space, the label n-grams that a group's entries stand for.
    state_names : tuple of str
        For drawing.
    history : int or None
        How many labels a state remembers where that is all it remembers: 1 if a state is a
        label, k for the unpruned order-k space, otherwise None.
    origin : str
        How the space was built, for ``repr``.

    Examples
    --------
    >>> space = StateSpace.order(["D", "N", "V"], 2)
    >>> space
    StateSpace.order(3 labels, k=2): 12 states, 36 moves
    >>> space.state_names[:5]
    ('D', 'N', 'V', 'D·D', 'N·D')
    >>> dict(space.weight_groups)
    {'ngram3': (3, 3, 3)}
    >>> StateSpace.bio(["B-PER", "I-PER", "O"]).accepts(["O", "I-PER"])
    False
    """

    n_labels: int
    labels: tuple[str, ...] | None
    state_labels: Int32
    src: Int32
    dst: Int32
    initial: Bool
    final: Bool
    tie_indptr: Int64
    tie_ids: Int32
    start_tie_indptr: Int64
    start_tie_ids: Int32
    weight_groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ngrams: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    state_names: tuple[str, ...] = ()
    history: int | None = None
    origin: str = "from_edges"

    def __post_init__(self) -> None:
        n_labels, labels = _check_labels(self.labels if self.labels is not None else self.n_labels)
        if n_labels != self.n_labels:
            raise ShapeError(f"n_labels is {self.n_labels}, but there are {n_labels} label names.")
        S = len(self.state_labels)
        if S == 0:
            raise ShapeError("A state space needs at least one state; state_labels is empty.")
        state_labels = _check_ids(self.state_labels, "state_labels", n_labels, "labels")
        src = _check_ids(self.src, "src", S, "states")
        dst = _check_ids(self.dst, "dst", S, "states")
        if len(src) != len(dst):
            raise ShapeError(f"src and dst must be of one length; got {len(src)} and {len(dst)}.")
        groups = {
            str(name): tuple(check_count(n, f"A side of group {name!r}", least=0) for n in shape)
            for name, shape in self.weight_groups.items()
        }
        n_weights = sum(math.prod(shape) for shape in groups.values())
        ties = _check_rows("tie", self.tie_indptr, self.tie_ids, len(src), n_weights)
        start_ties = _check_rows(
            "start_tie", self.start_tie_indptr, self.start_tie_ids, S, n_weights
        )
        initial = _check_flags(self.initial, "initial", S)
        final = _check_flags(self.final, "final", S)
        names = tuple(self.state_names) or _numbered(state_labels, labels)
        if len(names) != S:
            raise ShapeError(f"state_names must name the {S} states; got {len(names)} names.")
        _check_deterministic(src, dst, initial, state_labels, labels, names)

        by_target = np.lexsort((src, state_labels[src], dst))
        ties = automata.take_rows(*ties, by_target)
        self._freeze(
            labels=labels,
            state_labels=state_labels,
            src=src[by_target],
            dst=dst[by_target],
            initial=initial,
            final=final,
            tie_indptr=ties[0],
            tie_ids=ties[1],
            start_tie_indptr=start_ties[0],
            start_tie_ids=start_ties[1],
            weight_groups=MappingProxyType(groups),
            ngrams=MappingProxyType(dict(self.ngrams)),
            state_names=names,
        )
        if self.history is None and self._states_are_labels:
            self._freeze(history=1)

    def _freeze(self, **values: Any) -> None:
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                value = np.ascontiguousarray(value)
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    # ---- what it is -------------------------------------------------------------------------

    @property
    def n_states(self) -> int:
        """S, the number of states."""
        return len(self.state_labels)

    @property
    def n_moves(self) -> int:
        """M, the number of moves between states (start and stop arcs not counted)."""
        return len(self.src)

    @property
    def n_weights(self) -> int:
        """K, the length of the flat weights."""
        return sum(math.prod(shape) for shape in self.weight_groups.values())

    @property
    def _states_are_labels(self) -> bool:
        return self.n_weights == 0 and np.array_equal(self.state_labels, np.arange(self.n_labels))

    @cached_property
    def kind(self) -> str:
        """``"labels"``, ``"order"`` or ``"automaton"``: the layout that a kernel may use.

        ``"labels"``: state y is label y for every y and no weights are tied, so `moves_allowed`
        says it all. ``"order"``: the unpruned order-k space, k = `history` > 1.
        """
        if self._states_are_labels:
            return "labels"
        return "automaton" if self.history is None else "order"

    @cached_property
    def moves_allowed(self) -> Bool:
        """Moves as a bool array [Y, Y], from → to; only where ``kind == "labels"``."""
        if self.kind != "labels":
            raise AttributeError(
                f"moves_allowed needs states that are labels; {self!r}. Use src and dst."
            )
        allowed = np.zeros((self.n_labels, self.n_labels), dtype=np.bool_)  # [Y, Y]
        allowed[self.src, self.dst] = True
        allowed.flags.writeable = False
        return allowed

    @cached_property
    def native(self) -> _native.Space:
        """The space in the native core, with its index tables."""
        return _native.Space(
            n_labels=self.n_labels,
            state_labels=self.state_labels,
            initial=self.initial,
            final=self.final,
            src=self.src,
            dst=self.dst,
            ties=_native.Ties(self.tie_indptr, self.tie_ids),
            start_ties=_native.Ties(self.start_tie_indptr, self.start_tie_ids),
            n_weights=self.n_weights,
            order=(self.history or 0) if self.kind == "order" else 0,
        )

    @property
    def first_state(self) -> Int32:
        """The state [Y] of a path whose first label is y, or −1."""
        return self.native.first_state

    @property
    def move_table(self) -> Int32:
        """The move [S, Y] that reads label y in state s, or −1."""
        return self.native.move_table

    @cached_property
    def next_state(self) -> Int32:
        """The transition table [S, Y]: the state after reading label y in state s, or −1."""
        table = np.append(self.dst, np.int32(-1))[self.move_table]  # [S, Y]
        table.flags.writeable = False
        return table

    @cached_property
    def is_complete(self) -> bool:
        """Whether no label sequence is refused: every start, move and stop is there."""
        every_move = self.n_moves == self.n_states * self.n_labels
        return every_move and bool(self.final.all()) and int(self.initial.sum()) == self.n_labels

    def __repr__(self) -> str:
        return f"StateSpace.{self.origin}: {self.n_states} states, {self.n_moves} moves"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StateSpace):
            return NotImplemented
        return all(
            np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b
            for name in _COMPARED
            for a, b in [(getattr(self, name), getattr(other, name))]
        )

    def __hash__(self) -> int:
        return hash((self.labels, self.src.tobytes(), self.dst.tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        values = [getattr(self, f.name) for f in fields(self)]
        return StateSpace, tuple(dict(v) if isinstance(v, Mapping) else v for v in values)

    # ---- walking it -------------------------------------------------------------------------

    def label_id(self, label: Label) -> int:
        """Return the id of a label given by name or id.

        Raises
        ------
        LabelError
            If there is no such label.

        Examples
        --------
        >>> StateSpace.first_order(["N", "V"]).label_id("V")
        1
        """
        return _label_id(label, self.n_labels, self.labels)

    def step(self, state: int | None, label: Label) -> int:
        """Return the state after reading ``label`` in ``state`` (None: at the start), or −1.

        Examples
        --------
        >>> space = StateSpace.bio(["B", "I", "O"])
        >>> space.step(None, "B"), space.step(0, "I"), space.step(2, "I")
        (0, 1, -1)
        """
        y = self.label_id(label)
        if state is None:
            return int(self.first_state[y])
        if not 0 <= state < self.n_states:
            raise ShapeError(f"state {state} is out of range: states are 0 to {self.n_states - 1}.")
        return int(self.next_state[state, y])

    def state_path(self, path: Iterable[Label]) -> Int32:
        """Return the state at each position of a label path; −1 from the first refused label on.

        Examples
        --------
        >>> StateSpace.order(["N", "V"], 2).state_path(["N", "V", "V"])
        array([0, 4, 5], dtype=int32)
        """
        states = []
        state: int | None = None
        for label in path:
            state = self.step(state, label) if state != -1 else min(self.label_id(label), -1)
            states.append(state)
        return np.array(states, dtype=np.int32)

    def accepts(self, path: Iterable[Label]) -> bool:
        """Whether the automaton takes a label path, given as names or ids; it takes the empty one.

        Examples
        --------
        >>> space = StateSpace.bioes(["B-X", "E-X", "O"])
        >>> space.accepts(["B-X", "E-X", "O"]), space.accepts(["O", "B-X"])
        (True, False)
        """
        states = self.state_path(path)
        return len(states) == 0 or bool(states[-1] >= 0 and self.final[states[-1]])

    # ---- weights ----------------------------------------------------------------------------

    @cached_property
    def weight_slices(self) -> Mapping[str, slice]:
        """Where each group lies in the flat weights."""
        ends = np.cumsum([0] + [math.prod(shape) for shape in self.weight_groups.values()])
        return MappingProxyType(
            {
                name: slice(int(a), int(b))
                for name, a, b in zip(self.weight_groups, ends, ends[1:], strict=False)
            }
        )

    def pack(self, groups: Mapping[str, npt.ArrayLike]) -> npt.NDArray[np.floating[Any]]:
        """Lay the groups of weights one after another; a missing group is zero.

        Raises
        ------
        ShapeError
            If a group does not exist, or has another shape.

        Examples
        --------
        >>> space = StateSpace.run_length(["I", "O"], "O", 1)
        >>> space.pack({"run": [[1, 2], [3, 4]]})
        array([1., 2., 3., 4.])
        """
        arrays = {name: as_array(values, f"Group {name!r}") for name, values in groups.items()}
        for name, array in arrays.items():
            if name not in self.weight_groups:
                raise ShapeError(
                    f"There is no weight group {name!r}; this space has {list(self.weight_groups)}."
                )
            if array.shape != self.weight_groups[name]:
                raise ShapeError(
                    f"Group {name!r} must have shape {self.weight_groups[name]}; got {array.shape}."
                )
        single = bool(arrays) and all(array.dtype == np.float32 for array in arrays.values())
        flat: npt.NDArray[np.floating[Any]] = np.zeros(  # [K]
            self.n_weights, dtype=np.float32 if single else np.float64
        )
        for name, array in arrays.items():
            flat[self.weight_slices[name]] = array.ravel()
        return flat

    def unpack(self, weights: npt.ArrayLike) -> dict[str, npt.NDArray[Any]]:
        """Cut flat weights into named groups, as views; the inverse of `pack`.

        Raises
        ------
        ShapeError
            If ``weights`` is not of shape (n_weights,).

        Examples
        --------
        >>> space = StateSpace.run_length(["I", "O"], "O", 1)
        >>> space.unpack([1, 2, 3, 4])
        {'run': array([[1, 2],
               [3, 4]])}
        """
        flat = as_array(weights, "weights")
        if flat.shape != (self.n_weights,):
            raise ShapeError(f"weights must have shape ({self.n_weights},); got {flat.shape}.")
        return {
            name: flat[self.weight_slices[name]].reshape(shape)
            for name, shape in self.weight_groups.items()
        }

    # ---- constructors -----------------------------------------------------------------------

    @classmethod
    def first_order(cls, labels: Labels) -> StateSpace:
        """Return the space where a state is a label and every move is allowed.

        Parameters
        ----------
        labels : int or sequence of str
            How many labels there are, or their names.

        Examples
        --------
        >>> StateSpace.first_order(["N", "V"])
        StateSpace.first_order(2 labels): 2 states, 4 moves
        """
        Y, names = _check_labels(labels)
        every_move = np.ones((Y, Y), dtype=np.bool_)
        return cls(**automata.of_labels(Y, names, every_move), origin=f"first_order({_count(Y)})")

    @classmethod
    def order(
        cls, labels: Labels, k: int, seen: Iterable[Iterable[Label]] | None = None
    ) -> StateSpace:
        r"""Return the space whose states are the last 1 to k labels.

        The score of label :math:`y_t` after :math:`y_{t-k} \dots y_{t-1}` gains one weight for
        each n-gram of labels of 3 to k+1 that ends here; bigrams stay in ``trans``.
        There are Y + ... + Y^k states and Y² + ... + Y^(k+1) moves. Histories of one length are
        numbered by their last label, then the one before it, and so on.

        Parameters
        ----------
        labels : int or sequence of str
        k : int
            At least 1; ``order(labels, 1)`` is first order.
        seen : iterable of label sequences, optional
            Keep only the histories and n-grams that occur in these sequences (names or ids).
            Every single label stays a state, and a move leads to the longest kept history, so
            no label sequence is lost; n-grams that were not seen have no weight.

        Returns
        -------
        StateSpace
            With weight groups ``"ngram3"`` to ``"ngram{k+1}"``: of shape (Y,) * n indexed from
            the oldest label to the newest, or, if pruned, one entry for each n-gram listed in
            `ngrams`.

        Raises
        ------
        ShapeError
            If k < 1, or the space would have more than 10^8 moves.
        LabelError
            If a seen label is not one of the labels.

        Examples
        --------
        >>> full = StateSpace.order(["D", "N", "V"], 2)
        >>> pruned = StateSpace.order(["D", "N", "V"], 2, seen=[["D", "N", "V"]])
        >>> full.n_states, pruned.n_states
        (12, 5)
        >>> dict(pruned.ngrams)
        {'ngram3': ((0, 1, 2),)}
        >>> pruned.accepts(["V", "V", "V"])
        True
        """
        Y, names = _check_labels(labels)
        k = check_count(k, "The order k")
        origin = f"order({_count(Y)}, k={k}{'' if seen is None else ', pruned'})"
        if k == 1:
            return replace(cls.first_order(labels), origin=origin)
        if seen is not None:
            levels = automata.seen_grams(*_flatten_paths(seen, Y, names), Y, k + 1)
        elif Y ** (k + 1) <= MAX_MOVES:
            levels = automata.all_grams(Y, k + 1)
        else:
            raise ShapeError(
                f"order {k} over {Y} labels has more than {Y ** (k + 1):,} moves. Pass seen= "
                "(the training labels) to keep only the histories that occur."
            )
        return cls(**automata.order(Y, names, k, levels, pruned=seen is not None), origin=origin)

    @classmethod
    def from_moves(
        cls,
        labels: Labels,
        allowed: npt.ArrayLike,
        initial: npt.ArrayLike | None = None,
        final: npt.ArrayLike | None = None,
    ) -> StateSpace:
        """Return the space where a state is a label, and only some moves are allowed.

        Parameters
        ----------
        labels : int or sequence of str
        allowed : array of bool, shape (Y, Y)
            Whether y may follow y_prev, from → to.
        initial, final : array of bool, shape (Y,), optional
            Whether a path may begin, and end, with y; by default it may.

        Raises
        ------
        ShapeError
            If an array is not of bool or has another shape.

        Examples
        --------
        No two verbs in a row:

        >>> space = StateSpace.from_moves(["N", "V"], [[True, True], [True, False]])
        >>> space.accepts(["V", "N", "V"]), space.accepts(["V", "V"])
        (True, False)
        """
        Y, names = _check_labels(labels)
        flags = {"initial": initial, "final": final}
        for name, value, shape in [
            ("allowed", allowed, (Y, Y)),
            *((name, value, (Y,)) for name, value in flags.items() if value is not None),
        ]:
            array = as_array(value, name)
            if array.dtype != np.bool_ or array.shape != shape:
                raise ShapeError(
                    f"{name} must be an array of bool with shape {shape}; got {array.dtype}, "
                    f"{array.shape}."
                )
        given = {name: value for name, value in flags.items() if value is not None}
        fields = automata.of_labels(Y, names, np.asarray(allowed), **given)
        return cls(**fields, origin=f"from_moves({_count(Y)})")

    @classmethod
    def bio(cls, labels: Sequence[str]) -> StateSpace:
        """Return the space of legal BIO sequences: ``I-X`` only after ``B-X`` or ``I-X``.

        Parameters
        ----------
        labels : sequence of str
            ``"O"``, and names like ``"B-PER"`` and ``"I-PER"``, or plain ``"B"`` and ``"I"``.

        Raises
        ------
        LabelError
            If a name is not of that form.

        Examples
        --------
        >>> space = StateSpace.bio(["B-LOC", "B-PER", "I-LOC", "I-PER", "O"])
        >>> space.accepts(["B-PER", "I-PER", "B-LOC"]), space.accepts(["B-PER", "I-LOC"])
        (True, False)
        """
        names = _check_names(labels, "bio")
        fields = automata.spans(names, automata.BIO, "bio")
        return cls(**fields, origin=f"bio({_count(len(names))})")

    @classmethod
    def bioes(cls, labels: Sequence[str]) -> StateSpace:
        """Return the space of legal BIOES sequences; BILOU's ``L`` and ``U`` mean ``E`` and ``S``.

        A span is ``S-X``, or ``B-X I-X ... E-X``, and must be closed before the end.

        Parameters
        ----------
        labels : sequence of str
            ``"O"``, and names like ``"B-PER"``, or the plain letters.

        Raises
        ------
        LabelError
            If a name is not of that form.

        Examples
        --------
        >>> space = StateSpace.bioes(["B-LOC", "I-LOC", "L-LOC", "U-LOC", "O"])
        >>> space.accepts(["U-LOC", "B-LOC", "L-LOC"]), space.accepts(["B-LOC", "O"])
        (True, False)
        """
        names = _check_names(labels, "bioes")
        fields = automata.spans(names, automata.BIOES, "bioes")
        return cls(**fields, origin=f"bioes({_count(len(names))})")

    @classmethod
    def run_length(cls, labels: Labels, label: Label, n: int) -> StateSpace:
        """Return the space whose states count the run of ``label`` that ends here, up to n.

        A state is (y, r). r is 0 unless y is ``label``, and stays at n when the run grows
        longer. Weight ``run[r, y]`` is added when label y follows a run of r (r = 0 at the start).

        Parameters
        ----------
        labels : int or sequence of str
        label : int or str
            The label whose runs are counted.
        n : int
            At least 1; runs of n and more look alike.

        Examples
        --------
        >>> space = StateSpace.run_length(["I", "O"], "O", 3)
        >>> space.state_names
        ('I', 'O×1', 'O×2', 'O×3')
        >>> dict(space.weight_groups)
        {'run': (4, 2)}
        """
        Y, names = _check_labels(labels)
        x, n = _label_id(label, Y, names), check_count(n, "The cap n")
        fields = automata.counting(Y, names, x, n, "run", resets=True)
        return cls(**fields, origin=f"run_length({_count(Y)}, {label!r}, n={n})")

    @classmethod
    def total_count(cls, labels: Labels, label: Label, n: int) -> StateSpace:
        """Return the space whose states count every ``label`` so far, up to n.

        A state is (y, c). Weight ``count[c, y]`` is added when label y comes after c of them
        (c = 0 at the start), c capped at n.

        Parameters
        ----------
        labels : int or sequence of str
        label : int or str
            The label that is counted.
        n : int
            At least 1; counts of n and more look alike.

        Examples
        --------
        >>> space = StateSpace.total_count(["I", "O"], "I", 2)
        >>> space.state_names
        ('I#1', 'I#2', 'O#0', 'O#1', 'O#2')
        """
        Y, names = _check_labels(labels)
        x, n = _label_id(label, Y, names), check_count(n, "The cap n")
        fields = automata.counting(Y, names, x, n, "count", resets=False)
        return cls(**fields, origin=f"total_count({_count(Y)}, {label!r}, n={n})")

    @classmethod
    def from_edges(
        cls,
        labels: Labels,
        state_labels: Sequence[Label],
        edges: Iterable[tuple[int, int]] | npt.NDArray[Any],
        initial: Sequence[int] | Sequence[bool] | npt.NDArray[Any],
        final: Sequence[int] | Sequence[bool] | npt.NDArray[Any] | None = None,
        ties: Sequence[Sequence[int]] | None = None,
        start_ties: Sequence[Sequence[int]] | Mapping[int, Sequence[int]] | None = None,
        n_weights: int = 0,
        state_names: Sequence[str] | None = None,
    ) -> StateSpace:
        """Return the space of your own automaton.

        Parameters
        ----------
        labels : int or sequence of str
        state_labels : sequence of int or str, length S
            The label that each state emits.
        edges : iterable of (int, int)
            The moves, as pairs (from state, to state). From one state at most one move may lead
            to each label.
        initial, final : sequence
            State numbers, or one bool per state. By default every state is final.
        ties : sequence of sequences of int, optional
            For each edge, the weights added on it.
        start_ties : sequence or mapping of sequences of int, optional
            For each state, the weights added on starting there; or only for some, as a mapping.
        n_weights : int
            How many weights there are; they form one group, ``"weights"``.
        state_names : sequence of str, optional
            For drawing; by default the label and a number.

        Raises
        ------
        ShapeError
            If numbers are out of range, lengths differ, or the automaton is not deterministic.
        LabelError
            If a state's label does not exist.

        Examples
        --------
        Exactly one N, anywhere:

        >>> space = StateSpace.from_edges(
        ...     ["N", "V"],
        ...     state_labels=["V", "N", "V"],
        ...     edges=[(0, 0), (0, 1), (1, 2), (2, 2)],
        ...     initial=[0, 1],
        ...     final=[1, 2],
        ... )
        >>> space.accepts(["V", "N", "V"]), space.accepts(["V", "V"]), space.accepts(["N", "N"])
        (True, False, False)
        """
        Y, names = _check_labels(labels)
        emitted = [
            _label_id(y, Y, names, f"state_labels[{s}]: ") for s, y in enumerate(state_labels)
        ]
        S = len(emitted)
        pairs = as_array(edges if isinstance(edges, np.ndarray) else as_list(edges), "edges")
        if pairs.size == 0:
            pairs = np.zeros((0, 2), dtype=np.int64)
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise ShapeError(
                f"edges must be (from state, to state) pairs; got an array of shape {pairs.shape}."
            )
        _check_ids(pairs, "edges", S, "states", n_dims=2)
        n_weights = check_count(n_weights, "n_weights", least=0)
        if isinstance(start_ties, Mapping):
            _check_ids(list(start_ties), "list(start_ties)", S, "states")
            start_ties = [start_ties.get(s, ()) for s in range(S)]
        tie_indptr, tie_ids = _to_rows("ties", ties, len(pairs), "edge", n_weights)
        start_indptr, start_ids = _to_rows("start_ties", start_ties, S, "state", n_weights)
        return cls(
            n_labels=Y,
            labels=names,
            state_labels=np.array(emitted, dtype=np.int32),
            src=pairs[:, 0],
            dst=pairs[:, 1],
            initial=_to_flags(initial, "initial", S),
            final=np.ones(S, dtype=np.bool_) if final is None else _to_flags(final, "final", S),
            tie_indptr=tie_indptr,
            tie_ids=tie_ids,
            start_tie_indptr=start_indptr,
            start_tie_ids=start_ids,
            weight_groups={"weights": (n_weights,)} if n_weights else {},
            state_names=tuple(state_names or ()),
            origin=f"from_edges({_count(Y)})",
        )

    # ---- combining --------------------------------------------------------------------------

    def intersect(self, other: StateSpace) -> StateSpace:
        """Return the space of the label paths that both accept, with the weights of both.

        The states are the pairs of states that lie on some path from a start to an end. The
        weights are those of ``self``, then those of ``other``; a name that both have gets a
        number (``"run"``, ``"run_2"``). ``a & b`` is the same.

        Raises
        ------
        LabelError
            If the two are over different labels.
        ParameterError
            If ``other`` is no state space.

        Examples
        --------
        >>> labels = ["B", "I", "O"]
        >>> StateSpace.order(labels, 2) & StateSpace.bio(labels)
        StateSpace.order(3 labels, k=2) & bio(3 labels): 10 states, 26 moves
        """
        names = _common_labels(self, check_space(other, "other"))
        for one, two in ((self, other), (other, self)):
            if two.kind == "labels" and two.is_complete:  # refuses nothing, adds nothing
                return _with_labels(one, names)
        if self.kind == other.kind == "labels":
            fields = automata.of_labels(
                self.n_labels,
                names,
                self.moves_allowed & other.moves_allowed,
                self.initial & other.initial,
                self.final & other.final,
            )
        else:
            fields = automata.product(self, other, names)
        return StateSpace(**fields, origin=f"{self.origin} & {other.origin}")

    def __and__(self, other: StateSpace) -> StateSpace:
        if not isinstance(other, StateSpace):
            return NotImplemented
        return self.intersect(other)

    # ---- storing ----------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the space as plain lists, numbers and strings, ready for JSON.

        Examples
        --------
        >>> StateSpace.order(["N", "V"], 2).to_dict()
        {'n_labels': 2, 'labels': ['N', 'V'], 'order': 2}
        """
        head: dict[str, Any] = {
            "n_labels": self.n_labels,
            "labels": None if self.labels is None else list(self.labels),
        }
        if self.kind == "order":  # a formula, not 10^5 moves
            return head | {"order": self.history}
        body = {name: getattr(self, name).tolist() for name in _INTEGER_FIELDS}
        return (
            head
            | body
            | {
                "initial": np.flatnonzero(self.initial).tolist(),
                "final": np.flatnonzero(self.final).tolist(),
                "weight_groups": [
                    [name, list(shape)] for name, shape in self.weight_groups.items()
                ],
                "ngrams": {name: [list(g) for g in grams] for name, grams in self.ngrams.items()},
                "state_names": list(self.state_names),
                "origin": self.origin,
            }
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StateSpace:
        """Build a space from what `to_dict` returned; everything is checked again.

        Raises
        ------
        ShapeError
            If an entry is missing or does not fit the others.
        LabelError
            If the labels are not a label set.

        Examples
        --------
        >>> space = StateSpace.bio(["B", "I", "O"])
        >>> StateSpace.from_dict(space.to_dict()) == space
        True
        """
        try:
            n_labels = data["n_labels"]
            labels = None if data["labels"] is None else tuple(data["labels"])
            if "order" in data:
                return cls.order(n_labels if labels is None else labels, data["order"])
            S = len(data["state_labels"])
            arrays: dict[str, Any] = {name: np.asarray(data[name]) for name in _INTEGER_FIELDS}
            return cls(
                n_labels=n_labels,
                labels=labels,
                initial=_to_flags(data["initial"], "initial", S),
                final=_to_flags(data["final"], "final", S),
                weight_groups={name: tuple(shape) for name, shape in data["weight_groups"]},
                ngrams={
                    name: tuple(tuple(gram) for gram in grams)
                    for name, grams in data["ngrams"].items()
                },
                state_names=tuple(data["state_names"]),
                origin=data["origin"],
                **arrays,
            )
        except KeyError as error:
            raise ShapeError(f"A stored state space needs the entry {error}.") from None


_INTEGER_FIELDS = (
    "state_labels",
    "src",
    "dst",
    "tie_indptr",
    "tie_ids",
    "start_tie_indptr",
    "start_tie_ids",
)
_COMPARED = ("n_labels", "labels", *_INTEGER_FIELDS, "initial", "final", "weight_groups", "ngrams")


# ---- checks ---------------------------------------------------------------------------------


def check_space(value: Any, name: str) -> StateSpace:
    """Return the value if it is a state space."""
    if not isinstance(value, StateSpace):
        raise ParameterError(
            f"{name} must be a StateSpace, such as StateSpace.bio(labels); got {value!r:.60}."
        )
    return value


def _count(Y: int) -> str:
    return f"{Y} label" if Y == 1 else f"{Y} labels"


def _check_labels(labels: Labels) -> tuple[int, tuple[str, ...] | None]:
    """Return how many labels there are, and their names if they have names."""
    if isinstance(labels, str):
        raise LabelError(f"labels must be a list of names or a number; got the string {labels!r}.")
    if not isinstance(labels, Iterable):
        return check_count(labels, "The number of labels"), None
    names = tuple(labels)
    if not names:
        raise LabelError("A state space needs at least one label; the list of labels is empty.")
    for y, name in enumerate(names):
        if not isinstance(name, str):
            raise LabelError(
                f"labels[{y}] must be a str; got {name!r}. Pass the number of labels "
                "if they have no names."
            )
    names = tuple(map(str, names))
    if len(set(names)) < len(names):
        twice = next(name for y, name in enumerate(names) if name in names[:y])
        raise LabelError(f"Every label must be listed once; {twice!r} is there twice.")
    return len(names), names


def _check_names(labels: Sequence[str], scheme: str) -> tuple[str, ...]:
    Y, names = _check_labels(labels)
    if names is None:
        raise LabelError(f"{scheme} needs label names like 'B-PER'; got the number {Y}.")
    return names


def _label_id(label: Label, Y: int, names: tuple[str, ...] | None, where: str = "") -> int:
    if isinstance(label, str):
        if names is None:
            raise LabelError(f"{where}{label!r} is a name, but these labels are 0 to {Y - 1}.")
        if label not in names:
            raise LabelError(f"{where}there is no label {label!r}; the labels are {_some(names)}.")
        return names.index(label)
    try:
        y = operator.index(label)
    except TypeError:
        raise LabelError(f"{where}a label is a name or a number; got {label!r}.") from None
    if not 0 <= y < Y:
        raise LabelError(f"{where}there is no label {y}; labels are 0 to {Y - 1}.")
    return y


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:10]))
    return shown + (f", ... ({len(names)} in all)" if len(names) > 10 else "")


def _flatten_paths(
    paths: Iterable[Iterable[Label]], Y: int, names: tuple[str, ...] | None
) -> tuple[Int64, Int64]:
    """Return the label ids of all paths in a row, and for each where its path starts."""
    ids: dict[Any, int] = {y: y for y in range(Y)}
    ids |= {name: y for y, name in enumerate(names or ())}
    flat: list[int] = []
    starts: list[int] = [0]
    if not isinstance(paths, Iterable):
        raise LabelError(f"seen must be lists of labels, one a sequence; got {paths!r:.60}.")
    for i, path in enumerate(paths):
        labels = as_list(path, ordered=True)
        if labels is None:
            what = "the string " if isinstance(path, str) else ""
            raise LabelError(f"seen[{i}] must be a list of labels; got {what}{path!r:.60}.")
        try:
            flat.extend([ids[label] for label in labels])
        except (KeyError, TypeError):
            for t, label in enumerate(labels):
                _label_id(label, Y, names, f"seen[{i}][{t}]: ")
            raise
        starts.append(len(flat))
    return np.array(flat, dtype=np.int64), np.repeat(
        np.array(starts[:-1], dtype=np.int64), np.diff(starts)
    )


def _check_ids(values: npt.ArrayLike, name: str, n: int, what: str, n_dims: int = 1) -> Int32:
    """Return the values as int32 after checking that each is in 0 .. n-1."""
    ids = as_array(values, name)
    if ids.ndim != n_dims:
        raise ShapeError(f"{name} must be a list of numbers; got an array of shape {ids.shape}.")
    if ids.size == 0:
        return np.zeros(ids.shape, dtype=np.int32)
    if ids.dtype.kind not in "iu":
        raise ShapeError(f"{name} must be integers; got an array of {ids.dtype}.")
    outside = (ids < 0) | (ids >= n)
    if outside.any():
        i = int(np.argwhere(outside)[0][0])
        raise ShapeError(f"{name}[{i}] is {ids[i].tolist()}, but {what} are 0 to {n - 1}.")
    return ids.astype(np.int32)


def _check_rows(
    name: str, indptr: npt.NDArray[Any], ids: npt.NDArray[Any], n: int, n_weights: int
) -> tuple[Int64, Int32]:
    indptr, ids = np.asarray(indptr), np.asarray(ids)
    if (
        indptr.shape != (n + 1,)
        or indptr.dtype.kind not in "iu"
        or indptr[0] != 0
        or indptr[-1] != len(ids)
        or (np.diff(indptr) < 0).any()
    ):
        raise ShapeError(
            f"{name}_indptr must rise from 0 to len({name}_ids) = {len(ids)} in {n + 1} integers."
        )
    return indptr.astype(np.int64), _check_ids(ids, f"{name}_ids", n_weights, "weights")


def _to_flags(values: Any, name: str, S: int) -> Bool:
    """Return one bool per state, from bools or from state numbers."""
    array = as_array(values, name)
    if array.dtype == np.bool_:
        return array
    flags = np.zeros(S, dtype=np.bool_)
    flags[_check_ids(array, name, S, "states")] = True
    return flags


def _check_flags(values: npt.NDArray[Any], name: str, S: int) -> Bool:
    if values.shape != (S,) or values.dtype != np.bool_:
        raise ShapeError(
            f"{name} must be state numbers, or one bool for each of the {S} states; "
            f"got shape {values.shape}."
        )
    return values.copy()


def _check_deterministic(
    src: Int32,
    dst: Int32,
    initial: Bool,
    state_labels: Int32,
    labels: tuple[str, ...] | None,
    names: tuple[str, ...],
) -> None:
    def shown(y: int) -> str:
        return str(y) if labels is None else repr(labels[y])

    starts = np.flatnonzero(initial)
    twice = _first_twins(state_labels[starts])
    if twice is not None:
        s, r = starts[list(twice)].tolist()
        raise ShapeError(
            f"States {s} and {r} are both initial with label {shown(state_labels[s])}: at most one "
            "initial state per label. Merge them."
        )
    twice = _first_twins(src.astype(np.int64) * (int(state_labels.max()) + 1) + state_labels[dst])
    if twice is not None:
        m, n = twice
        raise ShapeError(
            f"Moves {src[m]} -> {dst[m]} and {src[n]} -> {dst[n]} (edges {m} and {n}) both leave "
            f"state {names[src[m]]!r} with label {shown(state_labels[dst[m]])}: at most one move "
            "per label. Merge the states they lead to, or make the automaton deterministic first."
        )


def _first_twins(keys: npt.NDArray[Any]) -> tuple[int, int] | None:
    """Return the places of two equal keys, the earliest there are, or None."""
    by_key = np.argsort(keys, kind="stable")
    equal = np.flatnonzero(keys[by_key[1:]] == keys[by_key[:-1]])
    if len(equal) == 0:
        return None
    second = int(by_key[equal + 1].min())
    return int(np.flatnonzero(keys == keys[second])[0]), second


def _numbered(state_labels: Int32, labels: tuple[str, ...] | None) -> tuple[str, ...]:
    """Name each state by its label, and number those that share one."""
    many = np.bincount(state_labels)
    used = np.zeros_like(many)
    names = []
    for y in state_labels.tolist():
        used[y] += 1
        label = str(y) if labels is None else labels[y]
        names.append(label if many[y] == 1 else f"{label}.{used[y]}")
    return tuple(names)


def _to_rows(
    name: str, rows: Sequence[Sequence[int]] | None, n: int, owner: str, n_weights: int
) -> tuple[Int64, Int32]:
    """Turn one list of weight numbers per edge or state into (indptr, ids)."""
    if rows is None:
        return np.zeros(n + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)
    if len(rows) != n:
        raise ShapeError(
            f"{name} must have one list of weight numbers per {owner}, {n}; got {len(rows)}."
        )
    for i, row in enumerate(rows):
        _check_ids(list(row), f"{name}[{i}]", n_weights, "weights")
    indptr = np.zeros(n + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=indptr[1:])
    return indptr, np.array(list(chain.from_iterable(rows)), dtype=np.int32)


def _common_labels(a: StateSpace, b: StateSpace) -> tuple[str, ...] | None:
    if a.n_labels != b.n_labels:
        raise LabelError(
            f"Only spaces over the same labels can be intersected; these have {a.n_labels} and "
            f"{b.n_labels} labels."
        )
    if a.labels is None or b.labels is None:
        return a.labels or b.labels
    for y, (one, two) in enumerate(zip(a.labels, b.labels, strict=True)):
        if one != two:
            raise LabelError(
                f"Only spaces over the same labels in the same order can be intersected; label {y} "
                f"is {one!r} in one and {two!r} in the other."
            )
    return a.labels


def _with_labels(space: StateSpace, names: tuple[str, ...] | None) -> StateSpace:
    if space.labels == names or names is None:
        return space
    if space.kind == "order" and space.history is not None:
        return StateSpace.order(names, space.history)
    state_names = names if space.kind == "labels" else space.state_names
    return replace(space, labels=names, state_names=state_names)


def row_sums(weights: npt.NDArray[Any], indptr: Int64, ids: Int32) -> npt.NDArray[Any]:
    """Return the sum of the weights that each row is tied to, in float64."""
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return np.bincount(rows, weights=weights[ids], minlength=len(indptr) - 1)
