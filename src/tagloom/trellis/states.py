"""State spaces: the allowed label paths, and the weights tied to their transitions.

A state space is a deterministic automaton over labels. From a state there is at most one transition
per label, and at most one initial state per label, so label paths and state paths are one to
one: a trellis can run over states (label histories, run lengths, your own) and still answer in
labels. A state space has no scores, only integers.

::

    labels            N     V                 what a path consists of
    states      N   V   N·N   V·N   ...       what a trellis runs over; each emits one label
    transitions       src[m] -> dst[m]              sorted by dst, then label of src, then src
    ties        tie_ids[tie_indptr[m]:tie_indptr[m + 1]]      weights added on transition m
    start ties  start_tie_ids[start_tie_indptr[s]: ...]       weights added on starting in s

A transition is a transition between states. The automata are built in `automata`, arguments are
checked in `space_checks`, and the index tables are those of the native space. The rules of BIO and
BIOES are in `tagloom.schemes`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks, schemes
from tagloom.checks import show
from tagloom.errors import LabelError, ParameterError, ShapeError
from tagloom.renames import renamed_property, warn_renamed
from tagloom.trellis import automata
from tagloom.trellis.automata import Fields
from tagloom.trellis.inputs import as_array, check_mask, label_id
from tagloom.trellis.space_checks import (
    Label,
    Labels,
    as_flags,
    as_rows,
    check_deterministic,
    check_edges,
    check_groups,
    check_ids,
    check_labels,
    check_paths,
    checked_fields,
    common_labels,
)

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

# An order-k space with more transitions than this would need gigabytes; `seen=` avoids it.
MAX_TRANSITIONS = 100_000_000

_TYPES = {
    "state_labels": np.int32,
    "src": np.int32,
    "dst": np.int32,
    "tie_indptr": np.int64,
    "tie_ids": np.int32,
    "start_tie_indptr": np.int64,
    "start_tie_ids": np.int32,
    "initial": np.bool_,
    "final": np.bool_,
}
_INTEGERS = [name for name, dtype in _TYPES.items() if dtype is not np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class StateSpace(Fields):
    """A deterministic automaton over labels, with weights tied to its transitions. Immutable.

    Use the constructors below (`first_order`, `order`, `from_transitions`, `bio`, `bioes`,
    `run_length`, `total_count`, `from_edges`) and `intersect`; the fields are what they produce.

    Attributes
    ----------
    n_labels : int
        Y, the number of labels.
    labels : tuple of str, or None
        Names of the labels, if they have names.
    state_labels : ndarray of int32, shape (S,)
        The label that each state emits.
    src, dst : ndarray of int32, shape (M,)
        The transitions, sorted by ``dst``, then by label of ``src``, then by ``src``.
    initial, final : ndarray of bool, shape (S,)
        Where a path may begin and end.
    tie_indptr : ndarray of int64, shape (M + 1,)
    tie_ids : ndarray of int32
        ``tie_ids[tie_indptr[m]:tie_indptr[m + 1]]`` are the weights tied to transition ``m``.
    start_tie_indptr : ndarray of int64, shape (S + 1,)
    start_tie_ids : ndarray of int32
        The same for starting in a state.
    weight_groups : mapping of str to tuple of int
        Name and shape of each group of weights. The flat weights are the groups one after
        another in C order.
    ngrams : mapping of str to tuple of tuples of int
        For a pruned order-k space, the label n-grams of the entries of each group.
    state_names : tuple of str
        For drawing.
    history : int or None
        The number of labels that determine a state, if a state is nothing but them: 1 if a state
        is a label, k for the unpruned order-k space, otherwise None.
    origin : str
        How the space was built, for ``repr``.

    Examples
    --------
    >>> space = StateSpace.order(["D", "N", "V"], 2)
    >>> space
    StateSpace.order(3 labels, k=2): 12 states, 36 transitions
    >>> space.state_names[:5]
    ('D', 'N', 'V', 'D·D', 'N·D')
    >>> dict(space.weight_groups)
    {'ngram3': (3, 3, 3)}
    >>> StateSpace.bio(["B-PER", "I-PER", "O"]).accepts(["O", "I-PER"])
    False
    """

    def __post_init__(self) -> None:
        self._store(checked_fields(self))
        check_deterministic(self, self.state_names)
        self._sort_transitions()

    @classmethod
    def _of(cls, automaton: Fields, origin: str) -> StateSpace:
        """Return the space of an automaton that is right by construction."""
        space = object.__new__(cls)
        values = {f.name: getattr(automaton, f.name) for f in fields(automaton)}
        space._store(values | {"origin": origin})
        space._sort_transitions()
        return space

    def _store(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if not self.state_names:
            object.__setattr__(self, "state_names", _numbered(self.state_labels, self.labels))
        for name in ("weight_groups", "ngrams"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        if self.history is None and self._states_are_labels:
            object.__setattr__(self, "history", 1)

    def _sort_transitions(self) -> None:
        """Sort the transitions and make the arrays read-only, in their types."""
        by_target = np.lexsort((self.src, self.state_labels[self.src], self.dst))
        tie_indptr, tie_ids = automata.take_rows(self.tie_indptr, self.tie_ids, by_target)
        transitions = {"src": self.src[by_target], "dst": self.dst[by_target]}
        arrays = {name: getattr(self, name) for name in _TYPES} | transitions
        arrays |= {"tie_indptr": tie_indptr, "tie_ids": tie_ids}
        for name, dtype in _TYPES.items():
            array: npt.NDArray[Any] = np.array(arrays[name], dtype=dtype, order="C")  # a copy
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    # ---- properties -------------------------------------------------------------------------

    @property
    def n_states(self) -> int:
        """S, the number of states."""
        return len(self.state_labels)

    @property
    def n_transitions(self) -> int:
        """M, the number of transitions between states (start and stop arcs not counted)."""
        return len(self.src)

    n_moves = renamed_property("StateSpace", "n_moves", "n_transitions")

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

        ``"labels"``: state y is label y for every y and no weights are tied, so
        `transitions_allowed` describes the space. ``"order"``: the unpruned order-k space, k =
        `history` > 1.
        """
        if self._states_are_labels:
            return "labels"
        return "automaton" if self.history is None else "order"

    @cached_property
    def transitions_allowed(self) -> Bool:
        """Allowed transitions as a bool array [Y, Y], from → to; only if ``kind == "labels"``."""
        if self.kind != "labels":
            raise AttributeError(
                f"transitions_allowed needs states that are labels; {self!r}. Use src and dst."
            )
        allowed = np.zeros((self.n_labels, self.n_labels), dtype=np.bool_)  # [Y, Y]
        allowed[self.src, self.dst] = True
        allowed.flags.writeable = False
        return allowed

    moves_allowed = renamed_property("StateSpace", "moves_allowed", "transitions_allowed")

    @property
    def trigrams(self) -> Int32 | None:
        """The label trigrams [K, 3] of the K weights, of a space of order 2; otherwise None."""
        if self.kind != "order" or self.history != 2:
            return None
        grams = np.indices((self.n_labels,) * 3, dtype=np.int32)
        return np.ascontiguousarray(grams.reshape(3, -1).T)

    @cached_property
    def native_trigrams(self) -> _native.Trigrams | None:
        """The same for the native core."""
        trigrams = self.trigrams
        return None if trigrams is None else _native.Trigrams(self.n_labels, trigrams)

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
    def transition_table(self) -> Int32:
        """The transition [S, Y] from state s on label y, or −1."""
        return self.native.transition_table

    move_table = renamed_property("StateSpace", "move_table", "transition_table")

    @cached_property
    def next_state(self) -> Int32:
        """The transition table [S, Y]: the state after reading label y in state s, or −1."""
        table = np.append(self.dst, np.int32(-1))[self.transition_table]  # [S, Y]
        table.flags.writeable = False
        return table

    @cached_property
    def is_complete(self) -> bool:
        """Whether every label sequence is accepted: all starts, transitions and stops exist."""
        every_transition = self.n_transitions == self.n_states * self.n_labels
        return (
            every_transition and bool(self.final.all()) and int(self.initial.sum()) == self.n_labels
        )

    def __repr__(self) -> str:
        return f"StateSpace.{self.origin}: {self.n_states} states, {self.n_transitions} transitions"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StateSpace):
            return NotImplemented
        names = ("n_labels", "labels", *_TYPES, "weight_groups", "ngrams")
        return all(
            np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b
            for name in names
            for a, b in [(getattr(self, name), getattr(other, name))]
        )

    def __hash__(self) -> int:
        return hash((self.labels, self.n_labels, self.n_states, self.n_transitions))

    def __reduce__(self) -> tuple[Any, ...]:
        values = [getattr(self, f.name) for f in fields(self)]
        return StateSpace, tuple(dict(v) if isinstance(v, Mapping) else v for v in values)

    # ---- label paths ------------------------------------------------------------------------

    def label_id(self, label: Label) -> int:
        """Return the id of a label given by name or id.

        Raises
        ------
        LabelError
            If the label is unknown.

        Examples
        --------
        >>> StateSpace.first_order(["N", "V"]).label_id("V")
        1
        """
        return label_id(label, self.n_labels, self.labels, "label")

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
            expected = f"a state from 0 to {self.n_states - 1}"
            raise ShapeError(parameter="state", expected=expected, found=show(state))
        return int(self.next_state[state, y])

    def state_path(self, path: Iterable[Label]) -> Int32:
        """Return the state at each position of a label path; −1 from the first dead end on.

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
        """Whether the automaton accepts a label path, given as names or ids; the empty one always.

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
        """The place of each group in the flat weights."""
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
        arrays = check_groups(groups, self.weight_groups)
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
            expected = f"of shape ({self.n_weights},)"
            raise ShapeError(parameter="weights", expected=expected, found=str(flat.shape))
        return {
            name: flat[self.weight_slices[name]].reshape(shape)
            for name, shape in self.weight_groups.items()
        }

    # ---- constructors -----------------------------------------------------------------------

    @classmethod
    def first_order(cls, labels: Labels) -> StateSpace:
        """Return the space where a state is a label and every transition is allowed.

        Parameters
        ----------
        labels : int or sequence of str
            The number of labels, or their names.

        Examples
        --------
        >>> StateSpace.first_order(["N", "V"])
        StateSpace.first_order(2 labels): 2 states, 4 transitions
        """
        Y, names = check_labels(labels)
        every_transition = np.ones((Y, Y), dtype=np.bool_)
        return cls._of(automata.of_labels(Y, names, every_transition), f"first_order({_count(Y)})")

    @classmethod
    def order(
        cls, labels: Labels, k: int, seen: Iterable[Iterable[Label]] | None = None
    ) -> StateSpace:
        r"""Return the space whose states are the last 1 to k labels.

        The score of label :math:`y_t` after :math:`y_{t-k} \dots y_{t-1}` gains one weight for
        each label n-gram of length 3 to k+1 that ends here; bigrams stay in ``trans``.
        There are Y + ... + Y^k states and Y² + ... + Y^(k+1) transitions. Histories of one length
        are numbered by their last label, then the one before it, and so on.

        Parameters
        ----------
        labels : int or sequence of str
        k : int
            At least 1; ``order(labels, 1)`` is first order.
        seen : iterable of label sequences, optional
            Keep only the histories and n-grams that occur in these sequences (names or ids).
            Every single label stays a state, and a transition leads to the longest kept history, so
            every label sequence stays possible. Unseen n-grams have no weight. The transitions are
            listed when an operation first needs them; candidates of order 2 do not.

        Returns
        -------
        StateSpace
            With weight groups ``"ngram3"`` to ``"ngram{k+1}"``: of shape (Y,) * n indexed from
            the oldest label to the newest, or, if pruned, one entry for each n-gram in `ngrams`.

        Raises
        ------
        ShapeError
            If k < 1, or the space would have more than 10^8 transitions.
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
        Y, names = check_labels(labels)
        k = checks.count(k, "k", least=1, error=ShapeError)
        origin = f"order({_count(Y)}, k={k}{'' if seen is None else ', pruned'})"
        if k == 1:
            return cls._of(automata.of_labels(Y, names, np.ones((Y, Y), dtype=np.bool_)), origin)
        if seen is not None:
            levels = automata.seen_grams(*check_paths(seen, Y, names, "seen"), Y, k + 1)
        elif Y ** (k + 1) <= MAX_TRANSITIONS:
            levels = automata.all_grams(Y, k + 1)
        else:
            raise ShapeError(
                parameter="k",
                expected=f"an order with at most {MAX_TRANSITIONS:,} transitions",
                found=f"{k}, which has more than {Y ** (k + 1):,} over {_count(Y)}",
                hint="Pass seen= (the training labels) to keep only histories that occur.",
            )
        if seen is not None:
            from tagloom.trellis.histories import HistorySpace

            return HistorySpace.of_levels(Y, names, levels, origin)
        return cls._of(automata.order(Y, names, k, levels), origin)

    @classmethod
    def from_transitions(
        cls,
        labels: Labels,
        allowed: npt.ArrayLike,
        initial: npt.ArrayLike | None = None,
        final: npt.ArrayLike | None = None,
    ) -> StateSpace:
        """Return the space where a state is a label, and only some transitions are allowed.

        Parameters
        ----------
        labels : int or sequence of str
        allowed : array of bool, shape (Y, Y)
            Whether y may follow y_prev, from → to.
        initial, final : array of bool, shape (Y,), optional
            Whether a path may begin, and end, with y; every label by default.

        Raises
        ------
        ShapeError
            If an array is not of bool or has another shape.

        Examples
        --------
        No two verbs in a row:

        >>> space = StateSpace.from_transitions(["N", "V"], [[True, True], [True, False]])
        >>> space.accepts(["V", "N", "V"]), space.accepts(["V", "V"])
        (True, False)
        """
        Y, names = check_labels(labels)
        automaton = automata.of_labels(
            Y,
            names,
            check_mask(allowed, "allowed", (Y, Y)),
            True if initial is None else check_mask(initial, "initial", (Y,)),
            True if final is None else check_mask(final, "final", (Y,)),
        )
        return cls._of(automaton, f"from_transitions({_count(Y)})")

    @classmethod
    def from_moves(cls, *args: Any, **options: Any) -> StateSpace:
        """Old name of `from_transitions`."""
        warn_renamed("StateSpace.from_moves", "from_transitions")
        return cls.from_transitions(*args, **options)

    @classmethod
    def bio(cls, labels: Sequence[str]) -> StateSpace:
        """Return the space of legal BIO sequences: ``I-X`` only after ``B-X`` or ``I-X``.

        `tagloom.labels.state_space` does the same for every scheme.

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
        return cls._of_scheme(labels, schemes.SCHEMES["bio"])

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
        return cls._of_scheme(labels, schemes.BIOES_OR_BILOU)

    @classmethod
    def _of_scheme(cls, labels: Sequence[str], scheme: schemes.Scheme) -> StateSpace:
        Y, names = check_labels(labels)
        if names is None:
            expected = "label names such as 'B-PER'"
            raise LabelError(parameter="labels", expected=expected, found=show(labels))
        legal = schemes.legal_transitions(names, scheme)
        automaton = automata.of_labels(Y, names, legal.transitions, legal.start, legal.stop)
        return cls._of(automaton, f"{scheme.name}({_count(Y)})")

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
            At least 1; runs of n and longer share a state.

        Examples
        --------
        >>> space = StateSpace.run_length(["I", "O"], "O", 3)
        >>> space.state_names
        ('I', 'O×1', 'O×2', 'O×3')
        >>> dict(space.weight_groups)
        {'run': (4, 2)}
        """
        return cls._counting("run_length", labels, label, n, "run", resets=True)

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
            At least 1; counts of n and more share a state.

        Examples
        --------
        >>> space = StateSpace.total_count(["I", "O"], "I", 2)
        >>> space.state_names
        ('I#1', 'I#2', 'O#0', 'O#1', 'O#2')
        """
        return cls._counting("total_count", labels, label, n, "count", resets=False)

    @classmethod
    def _counting(
        cls, origin: str, labels: Labels, label: Label, n: int, group: str, *, resets: bool
    ) -> StateSpace:
        Y, names = check_labels(labels)
        y, n = label_id(label, Y, names, "label"), checks.count(n, "n", least=1, error=ShapeError)
        automaton = automata.counting(Y, names, y, n, group, resets=resets)
        return cls._of(automaton, f"{origin}({_count(Y)}, {label!r}, n={n})")

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
        """Return the space of any automaton.

        Parameters
        ----------
        labels : int or sequence of str
        state_labels : sequence of int or str, length S
            The label that each state emits.
        edges : iterable of (int, int)
            The transitions, as pairs (from state, to state). At most one transition from a state
            may lead to each label.
        initial, final : sequence
            State numbers, or one bool per state. By default every state is final.
        ties : sequence of sequences of int, optional
            For each edge, the weights added on it.
        start_ties : sequence or mapping of sequences of int, optional
            For each state, the weights added on starting there; a mapping for some states only.
        n_weights : int
            The number of weights; they form one group, ``"weights"``.
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
        Y, names = check_labels(labels)
        emitted = [label_id(y, Y, names, f"state_labels[{s}]") for s, y in enumerate(state_labels)]
        S, pairs = len(emitted), check_edges(edges, len(emitted))
        n_weights = checks.count(n_weights, "n_weights", error=ShapeError)
        if isinstance(start_ties, Mapping):
            check_ids(list(start_ties), "list(start_ties)", S, "states")
            start_ties = [start_ties.get(s, ()) for s in range(S)]
        tie_indptr, tie_ids = as_rows("ties", ties, len(pairs), "edge", n_weights)
        start_indptr, start_ids = as_rows("start_ties", start_ties, S, "state", n_weights)
        return cls(
            n_labels=Y,
            labels=names,
            state_labels=np.array(emitted, dtype=np.int32),
            src=pairs[:, 0],
            dst=pairs[:, 1],
            initial=as_flags(initial, "initial", S),
            final=np.ones(S, dtype=np.bool_) if final is None else as_flags(final, "final", S),
            tie_indptr=tie_indptr,
            tie_ids=tie_ids,
            start_tie_indptr=start_indptr,
            start_tie_ids=start_ids,
            weight_groups={"weights": (n_weights,)} if n_weights else {},
            state_names=tuple(state_names or ()),
            origin=f"from_edges({_count(Y)})",
        )

    # ---- intersection -----------------------------------------------------------------------

    def intersect(self, other: StateSpace) -> StateSpace:
        """Return the space of the label paths that both accept, with the weights of both.

        The states are the pairs of states on some path from a start to an end. The weights are
        those of ``self``, then those of ``other``; a name that both have gets a number (``"run"``,
        ``"run_2"``). ``a & b`` is the same.

        Raises
        ------
        LabelError
            If the two are over different labels.
        ParameterError
            If ``other`` is not a StateSpace.

        Examples
        --------
        >>> labels = ["B", "I", "O"]
        >>> StateSpace.order(labels, 2) & StateSpace.bio(labels)
        StateSpace.order(3 labels, k=2) & bio(3 labels): 10 states, 26 transitions
        """
        check_space(other, "other")
        names = common_labels((self.n_labels, self.labels), (other.n_labels, other.labels))
        for one, two in ((self, other), (other, self)):
            if two.kind == "labels" and two.is_complete:  # accepts everything, adds nothing
                return one._with_labels(names)
        if self.kind == other.kind == "labels":
            automaton = automata.of_labels(
                self.n_labels,
                names,
                self.transitions_allowed & other.transitions_allowed,
                self.initial & other.initial,
                self.final & other.final,
            )
        else:
            automaton = automata.product(self, other, names)
        return StateSpace._of(automaton, f"{self.origin} & {other.origin}")

    def __and__(self, other: StateSpace) -> StateSpace:
        if not isinstance(other, StateSpace):
            return NotImplemented
        return self.intersect(other)

    def _with_labels(self, names: tuple[str, ...] | None) -> StateSpace:
        if self.labels == names or names is None:
            return self
        if self.kind == "order" and self.history is not None:
            return StateSpace.order(names, self.history)
        state_names = names if self.kind == "labels" else self.state_names
        return replace(self, labels=names, state_names=state_names)

    # ---- storing ----------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the space as plain lists, numbers and strings, ready for JSON.

        Examples
        --------
        >>> StateSpace.order(["N", "V"], 2).to_dict()
        {'n_labels': 2, 'labels': ['N', 'V'], 'order': 2}
        """
        labels = None if self.labels is None else list(self.labels)
        head: dict[str, Any] = {"n_labels": self.n_labels, "labels": labels}
        if self.kind == "order":  # a formula, not 10^5 transitions
            return head | {"order": self.history}
        return {
            **head,
            **{name: getattr(self, name).tolist() for name in _INTEGERS},
            "initial": np.flatnonzero(self.initial).tolist(),
            "final": np.flatnonzero(self.final).tolist(),
            "weight_groups": [[name, list(shape)] for name, shape in self.weight_groups.items()],
            "ngrams": {name: [list(g) for g in grams] for name, grams in self.ngrams.items()},
            "state_names": list(self.state_names),
            "origin": self.origin,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StateSpace:
        """Build a space from the result of `to_dict`; everything is checked again.

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
            if "seen" in data:
                from tagloom.trellis.histories import HistorySpace

                Y, names = check_labels(n_labels if labels is None else labels)
                return HistorySpace.from_seen(Y, names, str(data["origin"]), data["seen"])
            S = len(data["state_labels"])
            arrays: dict[str, Any] = {name: np.asarray(data[name]) for name in _INTEGERS}
            return cls(
                n_labels=n_labels,
                labels=labels,
                initial=as_flags(data["initial"], "initial", S),
                final=as_flags(data["final"], "final", S),
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
            raise ShapeError(
                where="stored state space", expected=f"an entry {error}", found="none"
            ) from None


def check_space(value: Any, name: str) -> StateSpace:
    """Return the value if it is a state space."""
    if not isinstance(value, StateSpace):
        expected = "a StateSpace, such as StateSpace.bio(labels)"
        raise ParameterError(parameter=name, expected=expected, found=show(value))
    return value


def row_sums(weights: npt.NDArray[Any], indptr: Int64, ids: Int32) -> npt.NDArray[Any]:
    """Return the sum of the weights that each row is tied to, in float64."""
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return np.bincount(rows, weights=weights[ids], minlength=len(indptr) - 1)


def _count(Y: int) -> str:
    return f"{Y} label" if Y == 1 else f"{Y} labels"


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
