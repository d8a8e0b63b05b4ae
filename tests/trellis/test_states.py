"""State spaces against what they mean: every label sequence of up to 5 labels, in plain Python."""

import itertools
import json
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raising import raises
from tagloom.errors import LabelError, ParameterError, ShapeError
from tagloom.trellis.states import StateSpace


def paths(Y, longest=5):
    """All label sequences of 0 to ``longest`` labels."""
    for T in range(longest + 1):
        yield from itertools.product(range(Y), repeat=T)


def walk(space, path):
    """Follow a path through the public arrays: (accepted, Counter of weight ids)."""
    used = Counter()
    state = None
    for y in path:
        if state is None:
            starts = np.flatnonzero(space.initial & (space.state_labels == y)).tolist()
            found = [(s, space.start_tie_indptr, space.start_tie_ids, s) for s in starts]
        else:
            transitions = np.flatnonzero(
                (space.src == state) & (space.state_labels[space.dst] == y)
            )
            found = [(space.dst[m], space.tie_indptr, space.tie_ids, m) for m in transitions]
        assert len(found) <= 1  # deterministic
        if not found:
            return False, None
        state, indptr, ids, row = found[0]
        used.update(ids[indptr[row] : indptr[row + 1]].tolist())
    return state is None or bool(space.final[state]), used


def check(space, is_legal, expected_weights, longest=5):
    """The space accepts the legal paths, and ties to each the expected weights."""
    n_accepted = 0
    for path in paths(space.n_labels, longest):
        accepted, used = walk(space, path)
        assert accepted == is_legal(path), path
        assert space.accepts(path) == accepted, path
        if accepted:
            n_accepted += 1
            assert used == expected_weights(path), path
    assert n_accepted > 1


def flat_ids(space, keys):
    """Weight ids of (group, index) keys, counted."""
    start, offset = {}, 0
    for name, shape in space.weight_groups.items():
        start[name] = offset
        offset += int(np.prod(shape))
    assert offset == space.n_weights
    return Counter(
        start[name] + int(np.ravel_multi_index(index, space.weight_groups[name]))
        for name, index in keys
    )


def ngram_keys(path, k, listed=None):
    """The n-grams of 3 to k+1 labels of a path, as (group, index)."""
    for n in range(3, k + 2):
        for t in range(n, len(path) + 1):
            gram = tuple(path[t - n : t])
            if listed is None:
                yield f"ngram{n}", gram
            elif gram in listed[f"ngram{n}"]:
                yield f"ngram{n}", (listed[f"ngram{n}"].index(gram),)


def run_keys(path, x, n):
    for t, y in enumerate(path):
        r = 0
        while r < t and path[t - 1 - r] == x:
            r += 1
        yield "run", (min(r, n), y)


def count_keys(path, x, n):
    for t, y in enumerate(path):
        yield "count", (min(path[:t].count(x), n), y)


def everything(path):
    return True


def nothing(path):
    return Counter()


# ---- the constructors mean what they say ----------------------------------------------------


@pytest.mark.parametrize("Y", [1, 2, 3])
def test_first_order_allows_everything(Y):
    space = StateSpace.first_order(Y)
    check(space, everything, nothing)
    assert space.kind == "labels"
    assert space.history == 1
    assert space.is_complete
    assert space.transitions_allowed.all()
    assert space.transitions_allowed.shape == (Y, Y)


@pytest.mark.parametrize(("Y", "k"), [(1, 2), (2, 1), (2, 2), (2, 3), (2, 4), (3, 2), (3, 3)])
def test_order_counts_ngrams(Y, k):
    space = StateSpace.order(Y, k)
    check(space, everything, lambda path: flat_ids(space, ngram_keys(path, k)))
    assert space.n_states == sum(Y**n for n in range(1, k + 1))
    assert space.n_transitions == (sum(Y ** (n + 1) for n in range(1, k + 1)))
    assert dict(space.weight_groups) == {f"ngram{n}": (Y,) * n for n in range(3, k + 2)}
    assert space.kind == ("order" if k > 1 else "labels")
    assert space.history == k
    assert space.is_complete


def test_order_numbers_histories_from_the_last_label():
    space = StateSpace.order(["a", "b"], 3)
    histories = [tuple(name.split("·")) for name in space.state_names]
    assert histories == sorted(histories, key=lambda h: (len(h), h[::-1]))
    for state, history in enumerate(histories):
        assert space.state_path(history)[-1] == state


SEEN = [[[0, 1, 2, 0]], [[0, 0, 1], [2, 1], []], [[1, 1, 1, 1, 1, 1]], [[2]], []]


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_pruned_order_keeps_seen_ngrams_and_every_path(seen, k):
    space = StateSpace.order(3, k, seen=seen)
    listed = {
        f"ngram{n}": sorted({tuple(p[i : i + n]) for p in seen for i in range(len(p) - n + 1)})
        for n in range(3, k + 2)
    }
    assert {name: list(grams) for name, grams in space.ngrams.items()} == listed
    check(space, everything, lambda path: flat_ids(space, ngram_keys(path, k, listed)))
    histories = {(y,) for y in range(3)}
    histories |= {
        tuple(p[i : i + n]) for p in seen for n in range(1, k + 1) for i in range(len(p) - n + 1)
    }
    assert {tuple(map(int, name.split("·"))) for name in space.state_names} == histories
    assert space.is_complete
    assert space.kind == ("automaton" if len(histories) > 3 else "labels")


def test_pruned_order_that_has_seen_everything_is_the_full_order():
    full = StateSpace.order(["a", "b", "c"], 2)
    everything_once = itertools.product("abc", repeat=3)
    pruned = StateSpace.order(["a", "b", "c"], 2, seen=everything_once)
    for name in ("state_labels", "src", "dst", "tie_indptr", "tie_ids", "initial", "final"):
        np.testing.assert_array_equal(getattr(full, name), getattr(pruned, name))
    assert pruned.ngrams["ngram3"] == tuple(itertools.product(range(3), repeat=3))


def legal_bio(names):
    for before, after in itertools.pairwise(["O", *names]):
        if after[0] == "I" and before not in ("B" + after[1:], after):
            return False
    return True


def legal_bioes(names):
    open_type = None  # type of the span that is open
    for name in names:
        letter, kind = {"L": "E", "U": "S"}.get(name[0], name[0]), name[1:]
        if letter in "IE":
            if open_type != kind:
                return False
        elif open_type is not None:
            return False
        open_type = kind if letter in "BI" else None
    return open_type is None


@pytest.mark.parametrize(
    ("scheme", "is_legal", "labels"),
    [
        ("bio", legal_bio, ["B-X", "B-Y", "I-X", "I-Y", "O"]),
        ("bio", legal_bio, ["O", "I", "B"]),
        ("bio", legal_bio, ["I-X", "O", "B-Y-Z", "I-Y-Z"]),
        ("bioes", legal_bioes, ["B-X", "I-X", "E-X", "S-X", "O"]),
        ("bioes", legal_bioes, ["O", "U-X", "L-X", "I-X", "B-X"]),
        ("bioes", legal_bioes, ["B-X", "E-X", "B-Y", "E-Y", "O"]),
        ("bioes", legal_bioes, ["B", "I", "E", "S", "O"]),
    ],
)
def test_span_schemes_accept_the_legal_sequences(scheme, is_legal, labels):
    space = getattr(StateSpace, scheme)(labels)
    check(space, lambda path: is_legal([labels[y] for y in path]), nothing)
    assert space.kind == "labels"
    for a, b in itertools.product(range(len(labels)), repeat=2):
        assert space.transitions_allowed[a, b] == ((a, b) in zip(space.src, space.dst, strict=True))


@pytest.mark.parametrize(("Y", "x", "n"), [(1, 0, 2), (2, 0, 1), (2, 1, 3), (3, 1, 2), (3, 2, 9)])
def test_run_length_weighs_the_run_before(Y, x, n):
    space = StateSpace.run_length(Y, x, n)
    check(space, everything, lambda path: flat_ids(space, run_keys(path, x, n)))
    assert space.n_states == Y - 1 + n
    assert space.weight_groups["run"] == (n + 1, Y)
    assert space.kind == "automaton"


@pytest.mark.parametrize(("Y", "x", "n"), [(1, 0, 2), (2, 0, 1), (2, 1, 3), (3, 1, 2), (3, 2, 9)])
def test_total_count_weighs_the_count_before(Y, x, n):
    space = StateSpace.total_count(Y, x, n)
    check(space, everything, lambda path: flat_ids(space, count_keys(path, x, n)))
    assert space.n_states == (Y - 1) * (n + 1) + n


def even_number_of_a(weighted=False):
    """Labels a, b; an even number of a's. States: b even, a odd, b odd, a even."""
    edges = [(0, 0), (0, 1), (1, 3), (1, 2), (2, 2), (2, 3), (3, 0), (3, 1)]
    return StateSpace.from_edges(
        ["a", "b"],
        state_labels=["b", "a", "b", 0],
        edges=edges,
        initial=[0, 1],
        final=[True, False, False, True],
        ties=[[m, 0] for m in range(len(edges))] if weighted else None,
        start_ties={1: [8]} if weighted else None,
        n_weights=9 if weighted else 0,
    )


def test_from_edges_accepts_what_the_automaton_accepts():
    space = even_number_of_a()
    check(space, lambda path: path.count(0) % 2 == 0, nothing)
    assert space.kind == "automaton"
    assert space.history is None
    assert not space.is_complete
    assert space.state_names == ("b.1", "a.1", "b.2", "a.2")


def test_from_edges_ties_follow_their_edges():
    space = even_number_of_a(weighted=True)
    edges = [(0, 0), (0, 1), (1, 3), (1, 2), (2, 2), (2, 3), (3, 0), (3, 1)]

    def expected(path):
        used, state = Counter(), None
        for y in path:
            if state is None:
                state = 1 if y == 0 else 0
                used.update([8] if state == 1 else [])
            else:
                target = {0: {0: 1, 1: 0}, 1: {0: 3, 1: 2}, 2: {0: 3, 1: 2}, 3: {0: 1, 1: 0}}
                transition = edges.index((state, target[state][y]))
                used.update([transition, 0])
                state = target[state][y]
        return used

    check(space, lambda path: path.count(0) % 2 == 0, expected)


def test_from_edges_where_states_are_labels_is_such_a_space():
    space = StateSpace.from_edges(2, [0, 1], [(0, 1), (1, 0)], initial=[0])
    assert space.kind == "labels"
    np.testing.assert_array_equal(space.transitions_allowed, [[False, True], [True, False]])


# ---- intersection ---------------------------------------------------------------------------

LABELS = ["B", "I", "O"]
SPACES = {
    "first": StateSpace.first_order(LABELS),
    "order2": StateSpace.order(LABELS, 2),
    "order3": StateSpace.order(LABELS, 3),
    "pruned": StateSpace.order(LABELS, 3, seen=[["B", "I", "I", "O"], ["O", "B", "O"]]),
    "bio": StateSpace.bio(LABELS),
    "run": StateSpace.run_length(LABELS, "I", 2),
    "count": StateSpace.total_count(LABELS, "B", 1),
    "no BB": StateSpace.from_edges(
        LABELS,
        [0, 1, 2],
        [(p, s) for p in range(3) for s in range(3) if (p, s) != (0, 0)],
        [0, 1, 2],
    ),
    "odd length": StateSpace.from_edges(
        LABELS,
        [0, 1, 2] * 2,
        [(p, s) for p in range(6) for s in range(6) if (p < 3) != (s < 3)],
        initial=[0, 1, 2],
        final=[0, 1, 2],
    ),
}


@pytest.mark.parametrize(("one", "two"), [*itertools.combinations_with_replacement(SPACES, 2)])
def test_intersect_is_conjunction_with_both_weights(one, two):
    a, b = SPACES[one], SPACES[two]
    both = a & b
    walks = {path: (walk(a, path), walk(b, path)) for path in paths(3, 4)}

    def expected(path):
        (_, used_a), (_, used_b) = walks[path]
        return used_a + Counter({j + a.n_weights: count for j, count in used_b.items()})

    check(both, lambda path: walks[path][0][0] and walks[path][1][0], expected, longest=4)
    assert both.n_weights == a.n_weights + b.n_weights
    assert (both.kind == "labels") == (a.kind == b.kind == "labels")
    reached = set(np.flatnonzero(both.initial))
    for _ in range(both.n_states):
        reached |= {int(s) for p, s in zip(both.src, both.dst, strict=True) if p in reached}
    if both.kind != "labels":
        assert reached == set(range(both.n_states))  # no state that no path visits


def test_intersect_keeps_the_layout_where_nothing_is_added():
    order = SPACES["order2"]
    assert (order & StateSpace.first_order(LABELS)) == order
    assert (StateSpace.first_order(3) & order).kind == "order"


def test_intersect_takes_the_names_of_the_one_that_has_them():
    assert (StateSpace.order(3, 2) & StateSpace.first_order(LABELS)) == SPACES["order2"]
    assert (StateSpace.run_length(3, 1, 2) & StateSpace.bio(LABELS)).labels == tuple(LABELS)
    assert (StateSpace.first_order(3) & StateSpace.bio(LABELS)) == SPACES["bio"]


def test_intersect_numbers_groups_that_share_a_name():
    a = StateSpace.run_length(LABELS, "B", 1)
    b = StateSpace.run_length(LABELS, "I", 2)
    both = a & b & a
    assert dict(both.weight_groups) == {"run": (2, 3), "run_2": (3, 3), "run_3": (2, 3)}


def test_intersect_drops_states_that_lead_nowhere():
    only_b = StateSpace.from_edges(2, [1], [(0, 0)], initial=[0])
    both = StateSpace.total_count(2, 0, 5) & only_b
    assert (both.n_states, both.n_transitions) == (1, 1)
    # label 0 can be entered, but a path cannot stop there nor leave it
    trap = StateSpace.from_edges(2, [0, 1], [(1, 0), (1, 1)], initial=[0, 1], final=[1])
    both = StateSpace.order(2, 2) & trap
    assert both.state_names == ("1", "1·1")
    assert both.n_transitions == 2


def test_intersect_to_nothing_accepts_only_the_empty_path():
    a = StateSpace.from_edges(2, [0], [(0, 0)], initial=[0])
    b = StateSpace.run_length(2, 0, 2) & StateSpace.from_edges(2, [1], [(0, 0)], initial=[0])
    both = a & b
    assert [path for path in paths(2, 4) if both.accepts(path)] == [()]
    assert both.weight_groups == {"run": (3, 2)}
    assert not both.initial.any()


# ---- arrays, weights, storage ---------------------------------------------------------------


@pytest.mark.parametrize("space", [*SPACES.values()], ids=[*SPACES])
def test_arrays_are_sorted_typed_and_read_only(space):
    transitions = list(zip(space.dst, space.state_labels[space.src], space.src, strict=True))
    assert transitions == sorted(transitions)
    types = {
        "state_labels": np.int32, "src": np.int32, "dst": np.int32, "tie_ids": np.int32,
        "start_tie_ids": np.int32, "tie_indptr": np.int64, "start_tie_indptr": np.int64,
        "initial": np.bool_, "final": np.bool_, "next_state": np.int32, "first_state": np.int32,
    }  # fmt: skip
    for name, dtype in types.items():
        array = getattr(space, name)
        assert array.dtype == dtype, name
        assert array.flags.c_contiguous, name
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    with pytest.raises(AttributeError):
        space.src = np.zeros(0)
    assert len(space.state_names) == space.n_states
    assert isinstance(space.n_weights, int)


@pytest.mark.parametrize("space", [*SPACES.values()], ids=[*SPACES])
def test_a_space_survives_json_and_pickle(space):
    copies = [
        StateSpace.from_dict(json.loads(json.dumps(space.to_dict()))),
        pickle.loads(pickle.dumps(space)),
    ]
    for copy in copies:
        assert copy == space
        assert hash(copy) == hash(space)
        assert (copy.kind, copy.history, repr(copy)) == (space.kind, space.history, repr(space))
        assert copy.state_names == space.state_names
        assert not copy.src.flags.writeable


def test_spaces_differ_if_anything_differs():
    assert SPACES["first"] != StateSpace.first_order(["B", "I", "x"])
    assert SPACES["first"] != SPACES["bio"]
    assert SPACES["order2"] != SPACES["order3"]
    assert StateSpace.run_length(3, 0, 2) != StateSpace.run_length(3, 1, 2)
    assert SPACES["first"] != "first"
    assert len({StateSpace.order(3, 2), StateSpace.order(3, 2), StateSpace.order(3, 3)}) == 2


def test_building_twice_gives_the_same_transitions_in_any_order_of_edges():
    edges = [(0, 0), (0, 1), (1, 0)]
    a = StateSpace.from_edges(2, [0, 1], edges, [0], ties=[[0], [1, 2], []], n_weights=3)
    b = StateSpace.from_edges(2, [0, 1], edges[::-1], [0], ties=[[], [1, 2], [0]], n_weights=3)
    assert a == b


def test_pack_and_unpack_are_inverse():
    space = SPACES["order3"] & SPACES["run"]
    rng = np.random.default_rng(0)
    groups = {name: rng.normal(size=shape) for name, shape in space.weight_groups.items()}
    flat = space.pack(groups)
    assert flat.shape == (space.n_weights,)
    for name, values in space.unpack(flat).items():
        np.testing.assert_array_equal(values, groups[name])
        np.testing.assert_array_equal(flat[space.weight_slices[name]], groups[name].ravel())
        assert np.shares_memory(values, flat)
    assert space.pack({"run": np.ones((3, 3), dtype=np.float32)}).dtype == np.float32
    only_run = space.pack({"run": np.ones((3, 3))})
    assert only_run.sum() == 9
    assert SPACES["first"].pack({}).shape == (0,)
    assert SPACES["first"].unpack([]) == {}


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (StateSpace.order(3, 2), "StateSpace.order(3 labels, k=2): 12 states, 36 transitions"),
        (StateSpace.first_order(1), "StateSpace.first_order(1 label): 1 states, 1 transitions"),
        (SPACES["bio"], "StateSpace.bio(3 labels): 3 states, 8 transitions"),
        (SPACES["run"], "StateSpace.run_length(3 labels, 'I', n=2): 4 states, 12 transitions"),
        (
            StateSpace.order(3, 2, seen=[[0, 1, 2]]),
            "StateSpace.order(3 labels, k=2, pruned): 5 states, 15 transitions",
        ),
    ],
)
def test_repr_says_how_it_was_built(space, text):
    assert repr(space) == text


def test_step_and_state_path_take_names_and_ids():
    space = SPACES["bio"]
    assert space.step(None, "I") == -1
    assert space.step(space.step(None, "B"), 1) == 1
    np.testing.assert_array_equal(space.state_path(["B", "I", 2, "I", "B"]), [0, 1, 2, -1, -1])
    assert space.state_path([]).tolist() == []
    with raises(LabelError, where="label", found="'X'"):
        space.state_path(["I", "X"])  # the label is wrong even where the path is already refused


# ---- random automata ------------------------------------------------------------------------


@st.composite
def automata(draw, Y=2):
    """A random deterministic automaton with ties."""
    S = draw(st.integers(1, 5))
    state_labels = draw(st.lists(st.integers(0, Y - 1), min_size=S, max_size=S))
    edges, ties = [], []
    for p in range(S):
        for y in range(Y):
            targets = [s for s in range(S) if state_labels[s] == y]
            if targets and draw(st.booleans()):
                edges.append((p, draw(st.sampled_from(targets))))
                ties.append(draw(st.lists(st.integers(0, 3), max_size=2)))
    firsts = [[s for s in range(S) if state_labels[s] == y] for y in range(Y)]
    initial = [draw(st.sampled_from(states)) for states in firsts if states and draw(st.booleans())]
    final = draw(st.lists(st.booleans(), min_size=S, max_size=S))
    return StateSpace.from_edges(
        Y, state_labels, edges, initial, final, ties=ties, n_weights=4,
        start_ties=draw(st.lists(st.lists(st.integers(0, 3), max_size=2), min_size=S, max_size=S)),
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(automata(), automata())
def test_intersect_of_random_automata(a, b):
    both = a & b
    for path in paths(2, 5):
        (in_a, used_a), (in_b, used_b) = walk(a, path), walk(b, path)
        in_both, used = walk(both, path)
        assert in_both == (in_a and in_b)
        if in_both:
            assert used == used_a + Counter({j + 4: count for j, count in used_b.items()})
    assert StateSpace.from_dict(both.to_dict()) == both


# ---- size -----------------------------------------------------------------------------------


def test_large_orders_have_the_right_size():
    assert StateSpace.order(17, 2).n_transitions == 17**2 + 17**3
    assert StateSpace.order(49, 2).n_transitions == 49**2 + 49**3
    # 50^12 does not fit into 64 bits; the histories that occur do
    rng = np.random.default_rng(0)
    deep = StateSpace.order(50, 11, seen=rng.integers(50, size=(20, 30)))
    assert deep.n_transitions == deep.n_states * 50


# ---- errors ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "error", "fields"),
    [
        (
            lambda: StateSpace.first_order(0),
            ShapeError,
            {"parameter": "labels", "found": "0"},
        ),
        (lambda: StateSpace.first_order([]), LabelError, {"parameter": "labels", "found": "none"}),
        (
            lambda: StateSpace.first_order("NV"),
            LabelError,
            {"parameter": "labels", "found": "'NV'"},
        ),
        (
            lambda: StateSpace.first_order(["a", "b", "a"]),
            LabelError,
            {"parameter": "labels", "found": "'a' twice"},
        ),
        (
            lambda: StateSpace.first_order(["a", 3]),
            LabelError,
            {"where": "labels[1]", "found": "3"},
        ),
        (lambda: StateSpace.first_order(2.5), ShapeError, {"parameter": "labels", "found": "2.5"}),
        (lambda: StateSpace.order(3, 0), ShapeError, {"parameter": "k", "found": "0"}),
        (
            lambda: StateSpace.order(50, 9),
            ShapeError,
            {
                "parameter": "k",
                "found": "9, which has more than 97,656,250,000,000,000 over 50 labels",
            },
        ),
        (
            lambda: StateSpace.order(["a", "b"], 2, seen=[["a"], ["b", "c"]]),
            LabelError,
            {"where": "seen[1][1]", "found": "'c'"},
        ),
        (
            lambda: StateSpace.order(2, 2, seen=[[0, None]]),
            LabelError,
            {"where": "seen[0][1]", "found": "None"},
        ),
        (
            lambda: StateSpace.order(2, 2, seen=[[{0}]]),
            LabelError,
            {"where": "seen[0][0]", "found": "{0}"},
        ),
        (
            lambda: StateSpace.order(["a"], 2, seen=["aa"]),
            LabelError,
            {"where": "seen[0]", "found": "'aa'"},
        ),
        (
            lambda: StateSpace.order(2, 2, seen=[0, 1]),
            LabelError,
            {"where": "seen[0]", "found": "0"},
        ),
        (
            lambda: StateSpace.order(2, 2, seen=[[0], {1}]),
            LabelError,
            {"where": "seen[1]", "found": "{1}"},
        ),
        (lambda: StateSpace.order(2, 2, seen=3), LabelError, {"parameter": "seen", "found": "3"}),
        (
            lambda: StateSpace.order(2, 2**70),
            ShapeError,
            {"parameter": "k", "found": "an integer of 71 bits"},
        ),
        (
            lambda: StateSpace.from_transitions(2, [[True], [True, False]]),
            ShapeError,
            {"parameter": "allowed", "found": "[[True], [True, False]]"},
        ),
        (
            lambda: StateSpace.bio(["B-X", "PER"]),
            LabelError,
            {"where": "labels[1]", "found": "'PER'"},
        ),
        (
            lambda: StateSpace.bio(["B-X", "S-X"]),
            LabelError,
            {"where": "labels[1]", "found": "'S-X'"},
        ),
        (lambda: StateSpace.bio(["O-X"]), LabelError, {"where": "labels[0]", "found": "'O-X'"}),
        (lambda: StateSpace.bio(3), LabelError, {"parameter": "labels", "found": "3"}),
        (
            lambda: StateSpace.bioes(["b-X"]),
            LabelError,
            {"where": "labels[0]", "found": "'b-X'"},
        ),
        (
            lambda: StateSpace.run_length(2, 2, 1),
            LabelError,
            {"found": "2"},
        ),
        (lambda: StateSpace.run_length(2, "a", 1), LabelError, {"found": "'a'"}),
        (lambda: StateSpace.run_length(2, 0, 0), ShapeError, {"parameter": "n", "found": "0"}),
        (
            lambda: StateSpace.from_edges(2, [0, 1, 1], [(0, 1), (1, 0), (0, 2)], [0]),
            ShapeError,
            {
                "where": "edges 0 and 2",
                "found": "0 -> 1 and 0 -> 2, which both leave state '0' with label '1'",
            },
        ),
        (
            lambda: StateSpace.from_edges(["a"], ["a"], [(0, 0), (0, 0)], [0]),
            ShapeError,
            {
                "where": "edges 0 and 1",
                "found": "0 -> 0 and 0 -> 0, which both leave state 'a' with label 'a'",
            },
        ),
        (
            lambda: StateSpace.from_edges(["a"], ["a", "a"], [], [0, 1]),
            ShapeError,
            {"parameter": "initial", "found": "states 0 and 1, both with label 'a'"},
        ),
        (
            lambda: StateSpace.from_edges(2, [0, 1], [(0, 1), (0, 5)], [0]),
            ShapeError,
            {"where": "edges[1]", "found": "[0, 5]"},
        ),
        (
            lambda: StateSpace.from_edges(2, [0, 1], [(0, 1, 1)], [0]),
            ShapeError,
            {"parameter": "edges", "found": "shape (1, 3)"},
        ),
        (
            lambda: StateSpace.from_edges(2, [0, 1], 3, [0]),
            ShapeError,
            {"parameter": "edges", "found": "shape ()"},
        ),
        (
            lambda: StateSpace.from_edges(2, [0, 1], [(0, 1), (1,)], [0]),
            ShapeError,
            {"parameter": "edges", "found": "[(0, 1), (1,)]"},
        ),
        (
            lambda: StateSpace.from_edges(2, [0, 1], [(0.5, 1)], [0]),
            ShapeError,
            {"parameter": "edges", "found": "float64 of shape (1, 2)"},
        ),
        (
            lambda: StateSpace.from_edges(2, [0, 1], [], [2]),
            ShapeError,
            {"where": "initial[0]", "found": "2"},
        ),
        (
            lambda: StateSpace.from_edges(2, [0, 1], [], [True]),
            ShapeError,
            {"parameter": "initial", "found": "shape (1,)"},
        ),
        (
            lambda: StateSpace.from_edges(2, [], [], []),
            ShapeError,
            {"parameter": "state_labels", "found": "none"},
        ),
        (
            lambda: StateSpace.from_edges(["a"], ["a", "z"], [], []),
            LabelError,
            {"where": "state_labels[1]", "found": "'z'"},
        ),
        (
            lambda: StateSpace.from_edges(1, [0], [(0, 0)], [0], ties=[[0], [1]], n_weights=2),
            ShapeError,
            {"parameter": "ties", "found": "2"},
        ),
        (
            lambda: StateSpace.from_edges(1, [0], [(0, 0)], [0], ties=[[2]], n_weights=2),
            ShapeError,
            {"where": "ties[0][0]", "found": "2"},
        ),
        (
            lambda: StateSpace.from_edges(1, [0], [], [0], start_ties={1: [0]}, n_weights=2),
            ShapeError,
            {"where": "list(start_ties)[0]", "found": "1"},
        ),
        (
            lambda: StateSpace.from_edges(1, [0], [], [0], state_names=["x", "y"]),
            ShapeError,
            {"parameter": "state_names", "found": "2"},
        ),
        (
            lambda: StateSpace.first_order(2) & StateSpace.first_order(3),
            LabelError,
            {"parameter": "other", "found": "3"},
        ),
        (
            lambda: StateSpace.first_order(["a", "b"]) & StateSpace.first_order(["b", "a"]),
            LabelError,
            {"where": "label 0 of other", "found": "'b'"},
        ),
        (
            lambda: StateSpace.first_order(2).step(5, 0),
            ShapeError,
            {"parameter": "state", "found": "5"},
        ),
        (
            lambda: StateSpace.order(2, 2).pack({"ngram4": np.zeros(2)}),
            ShapeError,
            {"parameter": "groups", "found": "'ngram4'"},
        ),
        (
            lambda: StateSpace.order(2, 2).pack({"ngram3": np.zeros(2)}),
            ShapeError,
            {"parameter": "groups['ngram3']", "found": "(2,)"},
        ),
        (
            lambda: StateSpace.order(2, 2).unpack([1.0]),
            ShapeError,
            {"parameter": "weights", "found": "(1,)"},
        ),
    ],
)
def test_mistakes_are_named(build, error, fields):
    with raises(error, **fields):
        build()


def test_transitions_allowed_needs_states_that_are_labels():
    with pytest.raises(AttributeError, match="states that are labels"):
        _ = StateSpace.order(2, 2).transitions_allowed


def test_intersect_wants_a_state_space():
    with raises(ParameterError, parameter="other", found="3"):
        StateSpace.first_order(2).intersect(3)
    with pytest.raises(TypeError):
        StateSpace.first_order(2) & [[True]]


@pytest.mark.parametrize(
    ("damage", "fields"),
    [
        ({"src": None}, {"where": "stored state space", "found": "none"}),
        ({"src": [0, 0, 99]}, {"where": "src[2]", "found": "99"}),
        ({"src": [[0, 0, 0]]}, {"parameter": "src", "found": "int64 of shape (1, 3)"}),
        ({"dst": [0]}, {"parameter": "dst", "found": "1"}),
        ({"state_labels": [-1, 0]}, {"where": "state_labels[0]", "found": "-1"}),
        ({"n_labels": 3}, {"parameter": "n_labels", "found": "3"}),
        ({"tie_indptr": [0, 9, 1, 1, 1]}, {"parameter": "tie_indptr", "found": "[0, 9, 1, 1, 1]"}),
        ({"tie_ids": [7] * 4}, {"where": "tie_ids[0]", "found": "7"}),
        (
            {"weight_groups": [["run", [-1, 2]]]},
            {"parameter": "weight_groups['run']", "found": "-1"},
        ),
        ({"final": [4]}, {"where": "final[0]", "found": "4"}),
    ],
)
def test_damaged_storage_is_refused(damage, fields):
    stored = StateSpace.run_length(["a", "b"], "a", 1).to_dict() | damage
    stored = {name: value for name, value in stored.items() if value is not None}
    with raises(ShapeError, **fields):
        StateSpace.from_dict(stored)
