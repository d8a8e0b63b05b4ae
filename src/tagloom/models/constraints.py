"""Constraints on predictions: schemes, state spaces, tag dictionaries and known labels.

Users choose constraints by name or object. Fitting *resolves* them against the training data into
one `Constraints`, which forbids transitions, and labels of words.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tagloom import _native, checks, labels, trellis
from tagloom.errors import DataWarning, LabelError, ModelFileError, ParameterError, SentenceError
from tagloom.models.data import Gold, caller_level
from tagloom.numeric import np
from tagloom.records import Record, field
from tagloom.renames import renamed_property
from tagloom.sequences import Sentence

if TYPE_CHECKING:
    import numpy.typing as npt

    from tagloom.trellis import StateSpace, Trellis

    Bool = npt.NDArray[np.bool_]
    Floats = npt.NDArray[np.float64]


#: The first that fits is chosen if labels fit several schemes; see tagloom.schemes.
SCHEMES = ("bio", "bioes", "bilou", "bmes", "bmewo", "ioe2", "iob1", "ioe1", "io")


class TagDictionary:
    """A tag dictionary: frequent words may only have the labels that they were seen with.

    Other words may have any label. Pass it as ``constraints`` of a tagger.

    Parameters
    ----------
    min_count : int
        Words that occur at least this often in the training data are restricted to the labels seen.
    entries : mapping of str to labels, optional
        The labels that words may have. An entry replaces the labels seen in the training data.

    Examples
    --------
    >>> import tagloom as tl
    >>> X, y = [["the", "can"], ["the", "fish"], ["can", "fish"]], [["D", "N"]] * 2 + [["V", "N"]]
    >>> tagger = tl.CRF(features="words", constraints=tl.TagDictionary(min_count=2)).fit(X, y)
    >>> tagger.constraints_.dictionary["the"]
    ('D',)
    >>> tagger.predict_marginals([["the", "ape"]])[0][0].round(6).tolist()
    [1.0, 0.0, 0.0]
    """

    def __init__(
        self, min_count: int = 10, entries: Mapping[str, Iterable[str]] | None = None
    ) -> None:
        self.min_count = min_count
        self.entries = entries

    def __repr__(self) -> str:
        words = "" if self.entries is None else f", {len(self.entries)} entries"
        return f"TagDictionary({self.min_count}{words})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TagDictionary):
            return NotImplemented
        return (self.min_count, self.entries) == (other.min_count, other.entries)

    def __hash__(self) -> int:
        return hash(self.min_count)

    def learn(
        self, names: Sequence[str], sentences: Sequence[Any], labellings: Sequence[Sequence[Any]]
    ) -> dict[str, tuple[str, ...]]:
        """Find the labels of each word that may not have all of them.

        Raises
        ------
        ParameterError, LabelError
            If ``min_count`` or an entry is invalid.
        SentenceError
            If tokens are not str.
        """
        counts: dict[str, Counter[str]] = {}
        self.count(sentences, labellings, counts)
        return self.choose(names, counts)

    @staticmethod
    def count(
        sentences: Sequence[Any],
        labellings: Sequence[Sequence[Any]],
        counts: dict[str, Counter[str]],
    ) -> None:
        """Add how often each word has each label.

        Raises
        ------
        SentenceError
            If tokens are not str.
        """
        for i, (sentence, path) in enumerate(zip(sentences, labellings, strict=True)):
            for word, label in zip(_words(sentence, i), path, strict=True):
                if not checks.is_open(label):
                    counts.setdefault(word, Counter())[label] += 1

    def choose(
        self, names: Sequence[str], counts: Mapping[str, Counter[str]]
    ) -> dict[str, tuple[str, ...]]:
        """Find the labels of each word that may not have all of them, from counts of labels.

        Raises
        ------
        ParameterError, LabelError
            If ``min_count`` or an entry is invalid.
        """
        if isinstance(self.min_count, bool) or not isinstance(self.min_count, int | np.integer):
            raise ParameterError(
                parameter="min_count", expected="an integer", found=checks.show(self.min_count)
            )
        allowed = {
            word: set(seen) for word, seen in counts.items() if seen.total() >= self.min_count
        }
        for word, entry in (self.entries or {}).items():
            allowed[word] = {entry} if isinstance(entry, str) else set(entry)
            unknown = allowed[word] - set(names)
            if unknown or not allowed[word]:
                raise LabelError(
                    where=f"TagDictionary, entry {word!r}",
                    expected=f"some of the labels {', '.join(names)}",
                    found=f"the label {min(unknown)!r}" if unknown else "no label",
                )
        return {
            word: tuple(sorted(tags)) for word, tags in allowed.items() if len(tags) < len(names)
        }


class Constraints(Record, eq=True):
    """Constraints on the predictions of a tagger, resolved against its labels.

    Attributes
    ----------
    labels : tuple of str
    scheme : str or None
        The scheme whose illegal transitions are forbidden.
    states : StateSpace or None
        A state space that contains all allowed paths.
    dictionary : dict of str to tuple of str
        The labels that words may have; other words may have any.
    """

    labels: tuple[str, ...]
    scheme: str | None = None
    states: StateSpace | None = None
    dictionary: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def transitions(self) -> StateSpace | None:
        """The allowed transitions between labels: a state space whose states are labels."""
        allowed = None
        if self.scheme is not None:
            allowed = labels.state_space(self.labels, self.scheme)
        if self.states is not None and self.states.kind == "labels":
            allowed = self.states if allowed is None else allowed & self.states
        return allowed

    moves = renamed_property("Constraints", "moves", "transitions")

    @property
    def space(self) -> StateSpace | None:
        """The state space, if it constrains more than transitions between labels."""
        return self.states if self.states is not None and self.states.kind != "labels" else None

    @property
    def everything(self) -> StateSpace | None:
        """All constraints except the dictionary, as one state space for training."""
        parts = [part for part in (self.transitions, self.space) if part is not None]
        return parts[0] & parts[1] if len(parts) == 2 else (parts[0] if parts else None)

    def forbid(
        self, trans: Floats, start: Floats, stop: Floats, states: StateSpace | None
    ) -> tuple[Floats, Floats, Floats, StateSpace | None]:
        """Set forbidden transitions, starts and stops to −inf, and restrict the state space."""
        if self.transitions is not None:
            trans = np.where(self.transitions.transitions_allowed, trans, -np.inf)
            start = np.where(self.transitions.initial, start, -np.inf)
            stop = np.where(self.transitions.final, stop, -np.inf)
        if self.space is not None:  # it has no weights
            states = self.space if states is None else states & self.space
        return trans, start, stop, states

    @cached_property
    def _sets(self) -> tuple[dict[str, int], Bool]:
        """The number of each word's set of labels, and the sets [n, Y]; set 0 has all labels."""
        numbers: dict[tuple[str, ...], int] = {}
        by_word = {
            word: numbers.setdefault(tags, len(numbers) + 1)
            for word, tags in self.dictionary.items()
        }
        sets = np.ones((len(numbers) + 1, len(self.labels)), dtype=np.bool_)
        for tags, k in numbers.items():
            sets[k] = [label in tags for label in self.labels]
        return by_word, sets

    def word_sets(self, sentences: Sequence[Any]) -> tuple[npt.NDArray[np.int32], Bool] | None:
        """Return the number of each token's label set [T] and the sets [n, Y]; None without any."""
        if not self.dictionary:
            return None
        by_word, sets = self._sets
        find = by_word.get
        if isinstance(sentences, list):
            types: dict[str, int] = {}
            rows: list[Any] = [getattr(s, "tokens", s) for s in sentences]
            read = _native.intern(rows, types)
            if read is not None:  # lists of str, the common case: look up each word once
                of_types = [find(word, 0) for word in types]
                return np.array(of_types, dtype=np.int32)[read[0]], sets
        numbers = [find(w, 0) for i, sentence in enumerate(sentences) for w in _words(sentence, i)]
        return np.array(numbers, dtype=np.int32), sets

    def restrict(self, trellis: Trellis, sentences: Sequence[Any]) -> Trellis:
        """Apply the dictionary, except to sentences that it would make infeasible."""
        word_sets = self.word_sets(sentences)
        if word_sets is None:
            return trellis
        numbers, sets = word_sets
        allowed = sets[numbers]  # [T, Y]
        restricted = trellis.constrain(allowed)
        if self.transitions is None and self.space is None:
            return restricted  # every word has a label
        is_infeasible = ~restricted.is_feasible()  # [N]
        if not is_infeasible.any():
            return restricted
        allowed |= np.repeat(is_infeasible, trellis.lengths)[:, None]
        return trellis.constrain(allowed)

    def to_dict(self) -> dict[str, Any]:
        """Return the constraints as plain data, for a model file."""
        return {
            "scheme": self.scheme,
            "states": None if self.states is None else self.states.to_dict(),
            "dictionary": {word: list(tags) for word, tags in self.dictionary.items()},
        }

    @classmethod
    def from_dict(cls, names: tuple[str, ...], data: Any) -> Constraints:
        """Make constraints from the result of `to_dict`, which is not trusted.

        Raises
        ------
        ModelFileError, ValueError
            If they do not fit the labels.
        """
        scheme, states, dictionary = data["scheme"], data["states"], data["dictionary"]
        if scheme is not None:
            labels.legal_transitions(names, scheme)  # raises if the labels do not fit
        space = None
        if states is not None:
            if "order" in states:
                raise ModelFileError(
                    where="constraints",
                    expected="a state space without weights",
                    found=f"one of order {checks.show(states['order'])}",
                )
            space = trellis.StateSpace.from_dict(states)
            if space.labels != names:
                raise ModelFileError(
                    where="constraints",
                    expected="the labels of the model",
                    found=checks.show(space.labels),
                )
        words = {str(word): tuple(tags) for word, tags in dict(dictionary).items()}
        if any(not tags or not set(tags) <= set(names) for tags in words.values()):
            raise ModelFileError(
                where="dictionary", expected="labels of the model", found="other labels"
            )
        return cls(names, scheme, space, words)

    @property
    def spec(self) -> Any:
        """The value of ``constraints=`` that gives these constraints."""
        parts: list[Any] = [part for part in (self.scheme, self.states) if part is not None]
        if self.dictionary:
            parts.append(TagDictionary(min_count=1 << 62, entries=self.dictionary))
        return parts


def check(spec: Any) -> None:
    """Raise if a value of ``constraints=`` is invalid.

    Raises
    ------
    ParameterError
    """
    for part in constraint_parts(spec):
        if isinstance(part, str) and part in ("auto", *SCHEMES):
            continue
        if not isinstance(part, trellis.StateSpace | TagDictionary):
            raise ParameterError(
                parameter="constraints",
                expected=f"one of 'auto', {', '.join(map(repr, SCHEMES))}, a StateSpace, a "
                "TagDictionary, a list of these, or None",
                found=checks.show(part),
            )


def resolve(
    spec: Any, scheme: str | None, gold: Gold, sentences: Sequence[Any], labellings: list[list[Any]]
) -> Constraints:
    """Resolve the value of ``constraints=`` against the training data.

    Parameters
    ----------
    spec
        A value that `check` accepts.
    scheme : str or None
        The scheme that "auto" detected.
    gold : Gold
    sentences, labellings
        The training data and their labels.
    """
    names = tuple(gold.names)
    return resolve_parts(
        spec, scheme, names, lambda dictionary: dictionary.learn(names, sentences, labellings)
    )


def resolve_parts(
    spec: Any,
    scheme: str | None,
    names: tuple[str, ...],
    learn: Callable[[TagDictionary], dict[str, tuple[str, ...]]],
) -> Constraints:
    """Resolve the value of ``constraints=`` for labels, of which dictionaries are yet to learn.

    Parameters
    ----------
    spec
        A value that `check` accepts.
    scheme : str or None
        The scheme that "auto" detected.
    names : tuple of str
    learn : callable
        From a `TagDictionary` to the labels of words.
    """
    space = None
    dictionary: dict[str, tuple[str, ...]] = {}
    for part in constraint_parts(spec):
        if isinstance(part, TagDictionary):
            dictionary |= learn(part)
        elif isinstance(part, trellis.StateSpace):
            if part.n_weights:
                raise ParameterError(
                    parameter="constraints",
                    expected="a state space without weights",
                    found=checks.show(part),
                    hint="To learn its weights, pass it as {states}.",
                    options={"states": ...},
                )
            named = over(part, names, "constraints")
            space = named if space is None else space & named
        elif part != "auto":
            labels.legal_transitions(names, part)  # raises if the labels are not of the scheme
            scheme = part
    return Constraints(names, scheme, space, dictionary)


def over(space: StateSpace, names: tuple[str, ...], parameter: str) -> StateSpace:
    """Return a state space with these label names.

    Raises
    ------
    LabelError
        If it is over other labels.
    """
    if space.n_labels != len(names) or space.labels not in (None, names):
        others = space.n_labels if space.labels is None else f"{', '.join(space.labels)}"
        raise LabelError(
            parameter=parameter,
            expected=f"a state space over the labels of the data, {', '.join(names)}",
            found=f"one over {others}",
            hint="Set {labels} to give both the same order.",
            options={"labels": ...},
        )
    return space if space.labels is not None else space & trellis.StateSpace.first_order(names)


def check_known(known: Any, n: int) -> list[Any]:
    """Return known labels as a list with an entry for each of n sentences.

    Raises
    ------
    LabelError
        If they are not a list of n entries.
    """
    is_list = isinstance(known, Iterable) and not isinstance(known, str | bytes | Mapping)
    entries = list(known) if is_list else []
    if not is_list or len(entries) != n:
        raise LabelError(
            parameter="known",
            expected=f"a list of {n} entries, one per sentence, each None or a list of labels",
            found=f"{len(entries)} of them" if is_list else checks.show_type(known),
        )
    return entries


def known_mask(known: Any, sentences: Sequence[Any], names: Sequence[str]) -> Bool:
    """Turn known labels, an entry per sentence, into the mask of candidate labels [T, Y].

    Raises
    ------
    LabelError
        If their number is wrong, or a label does not exist; the message names the token.
    """
    entries = check_known(known, len(sentences))
    number = {label: y for y, label in enumerate(names)}
    allowed = np.ones((sum(len(s) for s in sentences), len(names)), dtype=np.bool_)
    first = 0
    for i, (sentence, entry) in enumerate(zip(sentences, entries, strict=True)):
        n = len(sentence)
        if entry is not None and (not isinstance(entry, list | tuple) or len(entry) != n):
            raise LabelError(
                where=f"known, sentence {i}",
                expected=f"None or {checks.plural(n, 'label')}, one per token",
                found=checks.show(entry),
            )
        for t, label in enumerate(entry or ()):
            if label is None:
                continue
            options = {label} if isinstance(label, str) else label
            is_set = isinstance(options, set | frozenset) and len(options) > 0
            if not is_set or not number.keys() >= options:
                raise LabelError(
                    where=f"known, sentence {i}, token {t}",
                    expected=f"None, one of the labels {', '.join(names)}, or a set of them",
                    found=checks.show(label),
                )
            allowed[first + t] = False
            allowed[first + t, [number[y] for y in options]] = True
        first += n
    return allowed


# Label sets of spans without types, as in word segmentation; single letters can mean other things.
_BARE_LETTERS = tuple(map(set, ("BI", "BIES", "BILU", "BMES", "BMEW")))


def choose_scheme(
    spec: Any,
    gold: Gold,
    labellings: list[list[Any]],
    offsets: npt.NDArray[np.int64],
    stacklevel: int | None = None,
) -> str | None:
    """Detect the scheme whose illegal transitions "auto" forbids; None without "auto".

    Warns if labels look like spans and some of them are illegal.
    """
    if not is_auto(spec):
        return None
    if not look_like_spans(gold.names) and set(gold.names) - {"O"} not in _BARE_LETTERS:
        return None  # for instance parts of speech
    if gold.is_open.any():
        return find_scheme(gold, offsets)
    detection = labels.detect(labellings)
    if not detection.fits:
        warnings.warn(
            misfit_warning(detection),
            stacklevel=caller_level() if stacklevel is None else stacklevel + 1,
        )
        return None
    return next(scheme for scheme in SCHEMES if scheme in detection.fits)


def misfit_warning(detection: labels.Detection) -> DataWarning:
    """Return the warning for labels that look like spans but fit no scheme."""
    return DataWarning(
        f"{detection}.",
        expected="labels of a scheme",
        found="labels that no scheme fits",
        hint="Predictions may be illegal, too. To find such labels, run tagloom check; to "
        "rule them out, pass {constraints}.",
        options={"constraints": "bio"},
    )


def is_auto(spec: Any) -> bool:
    """Whether a value of ``constraints=`` asks for the scheme of the training labels."""
    return any(isinstance(part, str) and part == "auto" for part in constraint_parts(spec))


def look_like_spans(names: Sequence[str]) -> bool:
    """Whether all labels are O or a letter with a type, such as B-PER or PER-B."""
    return any(n != "O" for n in names) and all(
        n == "O"
        or (n[1:2] in ("-", "_") and n[:1] in "BIOESLUMW")
        or (n[-2:-1] == "-" and n[-1:] in "BIESLUMW")
        for n in names
    )


def find_scheme(gold: Gold, offsets: npt.NDArray[np.int64]) -> str | None:
    """Find a scheme that no pair of adjacent known labels violates, where some labels are open."""
    y = gold.numbers
    inner = np.ones(len(y), dtype=np.bool_)
    starts, ends = offsets[:-1], offsets[1:] - 1
    inner[starts] = False
    pairs = np.flatnonzero(inner & (y >= 0) & (np.roll(y, 1) >= 0))
    first, last = y[starts][y[starts] >= 0], y[ends][y[ends] >= 0]
    for scheme in SCHEMES:
        try:
            legal = labels.legal_transitions(gold.names, scheme)
        except LabelError:
            continue
        bounds = legal.start[first].all() and legal.stop[last].all()
        if bounds and legal.transitions[y[pairs - 1], y[pairs]].all():
            return scheme
    return None


def constraint_parts(spec: Any) -> list[Any]:
    """Return the parts of a value of ``constraints=``."""
    if spec is None:
        return []
    return list(spec) if isinstance(spec, list | tuple) else [spec]


def _words(sentence: Any, i: int) -> Sequence[str]:
    words = sentence.tokens if isinstance(sentence, Sentence) else sentence
    if len(words) and not isinstance(words[0], str):
        raise SentenceError(
            where=checks.place(i, 0),
            expected="a str, which a tag dictionary needs",
            found=checks.show_type(words[0]),
            hint="Leave the dictionary out, or pass tokens that are str.",
        )
    tokens: Sequence[str] = words
    return tokens
