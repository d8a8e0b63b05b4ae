"""What a tagger may predict: schemes, state spaces and tag dictionaries, and known labels.

A user asks for constraints by name or object; fitting *resolves* them against the training data
into one `Constraints`, which forbids transitions between labels and labels of words.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import checks, labels
from tagloom.errors import DataWarning, LabelError, ModelFileError, ParameterError, SentenceError
from tagloom.models.data import Gold, caller_level
from tagloom.sequences import Sentence
from tagloom.trellis import StateSpace, Trellis

Bool = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

#: Tried in this order where labels fit several schemes; see tagloom.schemes.
SCHEMES = ("bio", "bioes", "bilou", "iob1", "io")


class TagDictionary:
    """Words may only have the labels that they were seen with, if they were seen often enough.

    Other words may have any label. Give it to a tagger's ``constraints``.

    Parameters
    ----------
    min_count : int
        How often a word must occur in the training data for its labels to count as all of them.
    entries : mapping of str to labels, optional
        Labels that words may have, whether they were seen or not; they go before what was seen.

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
        self, names: Sequence[str], sentences: Sequence[Any], rows: Sequence[Sequence[Any]]
    ) -> dict[str, tuple[str, ...]]:
        """Find the labels of each word that has few enough of them to matter.

        Raises
        ------
        ParameterError, LabelError
            If min_count or an entry is wrong.
        SentenceError
            If tokens are no words.
        """
        if isinstance(self.min_count, bool) or not isinstance(self.min_count, int | np.integer):
            raise ParameterError(
                parameter="min_count", expected="an integer", found=checks.show(self.min_count)
            )
        counts: Counter[str] = Counter()
        seen: dict[str, set[str]] = {}
        for i, (sentence, row) in enumerate(zip(sentences, rows, strict=True)):
            for word, label in zip(_words(sentence, i), row, strict=True):
                if not checks.is_open(label):  # an open label says nothing
                    counts[word] += 1
                    seen.setdefault(word, set()).add(label)
        found = {word: seen[word] for word, n in counts.items() if n >= self.min_count}
        for word, given in (self.entries or {}).items():
            found[word] = {given} if isinstance(given, str) else set(given)
            unknown = found[word] - set(names)
            if unknown or not found[word]:
                what = f"the label {sorted(unknown)[0]!r}" if unknown else "no label"
                raise LabelError(
                    where=f"TagDictionary, entry {word!r}",
                    expected=f"some of the labels {', '.join(names)}",
                    found=what,
                )
        return {word: tuple(sorted(own)) for word, own in found.items() if len(own) < len(names)}


@dataclass(frozen=True)
class Constraints:
    """What a tagger may predict, as `resolve` found it.

    Attributes
    ----------
    labels : tuple of str
    scheme : str or None
        The scheme whose illegal transitions are forbidden.
    states : StateSpace or None
        A space whose paths alone are allowed.
    dictionary : dict of str to tuple of str
        The labels that words may have; others may have any.
    """

    labels: tuple[str, ...]
    scheme: str | None = None
    states: StateSpace | None = None
    dictionary: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def transitions(self) -> StateSpace | None:
        """Transitions between labels that are allowed: a space whose states are labels."""
        found = None
        if self.scheme is not None:
            found = labels.state_space(self.labels, self.scheme)
        if self.states is not None and self.states.kind == "labels":
            found = self.states if found is None else found & self.states
        return found

    @property
    def space(self) -> StateSpace | None:
        """The space, where it is more than transitions between labels."""
        return self.states if self.states is not None and self.states.kind != "labels" else None

    @property
    def everything(self) -> StateSpace | None:
        """All that is forbidden about transitions, as one space; for learning."""
        parts = [part for part in (self.transitions, self.space) if part is not None]
        return parts[0] & parts[1] if len(parts) == 2 else (parts[0] if parts else None)

    def forbid(
        self, trans: Floats, start: Floats, stop: Floats, states: StateSpace | None
    ) -> tuple[Floats, Floats, Floats, StateSpace | None]:
        """Return the scores with −inf where forbidden, and the state space that they need."""
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
            word: numbers.setdefault(own, len(numbers) + 1) for word, own in self.dictionary.items()
        }
        sets = np.ones((len(numbers) + 1, len(self.labels)), dtype=np.bool_)
        for own, k in numbers.items():
            sets[k] = [label in own for label in self.labels]
        return by_word, sets

    def word_sets(self, sentences: Sequence[Any]) -> tuple[npt.NDArray[np.int32], Bool] | None:
        """Find the set of labels of each token [T], and the sets [n, Y]; None if all are free."""
        if not self.dictionary:
            return None
        by_word, sets = self._sets
        find = by_word.get
        numbers = [find(w, 0) for i, sentence in enumerate(sentences) for w in _words(sentence, i)]
        return np.array(numbers, dtype=np.int32), sets

    def restrict(self, trellis: Trellis, sentences: Sequence[Any]) -> Trellis:
        """Forbid what the dictionary does, except where that would leave a sentence no path."""
        found = self.word_sets(sentences)
        if found is None:
            return trellis
        numbers, sets = found
        allowed = sets[numbers]  # [T, Y]
        restricted = trellis.constrain(allowed)
        if self.transitions is None and self.space is None:
            return restricted  # every word has a label
        dead = ~restricted.is_feasible()  # [N]
        if not dead.any():
            return restricted
        allowed |= np.repeat(dead, trellis.lengths)[:, None]
        return trellis.constrain(allowed)

    def to_dict(self) -> dict[str, Any]:
        """Describe the constraints for a model file."""
        return {
            "scheme": self.scheme,
            "states": None if self.states is None else self.states.to_dict(),
            "dictionary": {word: list(own) for word, own in self.dictionary.items()},
        }

    @classmethod
    def from_dict(cls, names: tuple[str, ...], data: Any) -> Constraints:
        """Make constraints from what `to_dict` returned, trusting nothing.

        Raises
        ------
        ModelFileError, ValueError
            If it does not fit the labels.
        """
        scheme, states, dictionary = data["scheme"], data["states"], data["dictionary"]
        if scheme is not None:
            labels.legal_transitions(names, scheme)  # raises if they do not fit
        space = None
        if states is not None:
            if "order" in states:
                raise ModelFileError(
                    where="constraints", expected="a state space of order k", found="another kind"
                )
            space = StateSpace.from_dict(states)
            if space.labels != names:
                raise ModelFileError(
                    where="constraints",
                    expected="the labels of the model",
                    found=checks.show(space.labels),
                )
        words = {str(word): tuple(own) for word, own in dict(dictionary).items()}
        if any(not own or not set(own) <= set(names) for own in words.values()):
            raise ModelFileError(
                where="dictionary", expected="labels of the model", found="other labels"
            )
        return cls(names, scheme, space, words)

    @property
    def spec(self) -> Any:
        """What to ask a tagger for to get these constraints again."""
        parts: list[Any] = [part for part in (self.scheme, self.states) if part is not None]
        if self.dictionary:
            parts.append(TagDictionary(min_count=1 << 62, entries=self.dictionary))
        return parts


def check(spec: Any) -> None:
    """Refuse what is no constraint.

    Raises
    ------
    ParameterError
    """
    for part in _parts(spec):
        if isinstance(part, StateSpace | TagDictionary):
            continue
        if not (isinstance(part, str) and part in ("auto", *SCHEMES)):
            raise ParameterError(
                parameter="constraints",
                expected=f"one of 'auto', {', '.join(map(repr, SCHEMES))}, a StateSpace, a "
                "TagDictionary, a list of these, or None",
                found=checks.show(part),
            )


def resolve(
    spec: Any, scheme: str | None, gold: Gold, sentences: Sequence[Any], rows: list[list[Any]]
) -> Constraints:
    """Turn what was asked for into constraints on the labels of the training data.

    Parameters
    ----------
    spec
        As `check` allows it.
    scheme : str or None
        What "auto" found.
    gold : Gold
    sentences, rows
        The training data and their labels.
    """
    names = tuple(gold.names)
    found, space = scheme, None
    dictionary: dict[str, tuple[str, ...]] = {}
    for part in _parts(spec):
        if isinstance(part, TagDictionary):
            dictionary |= part.learn(names, sentences, rows)
        elif isinstance(part, StateSpace):
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
            found = part
    return Constraints(names, found, space, dictionary)


def over(space: StateSpace, names: tuple[str, ...], parameter: str) -> StateSpace:
    """Name the labels of a state space, or check their names.

    Raises
    ------
    LabelError
        If it is over other labels.
    """
    if space.n_labels != len(names) or space.labels not in (None, names):
        own = space.n_labels if space.labels is None else f"{', '.join(space.labels)}"
        raise LabelError(
            parameter=parameter,
            expected=f"a state space over the labels of the data, {', '.join(names)}",
            found=f"one over {own}",
            hint="Set {labels} to give both the same order.",
            options={"labels": ...},
        )
    return space if space.labels is not None else space & StateSpace.first_order(names)


def known_rows(known: Any, n: int) -> list[Any]:
    """Check that known labels are a list of rows, one for each of n sentences.

    Raises
    ------
    LabelError
        If they are not.
    """
    is_list = isinstance(known, Iterable) and not isinstance(known, str | bytes | Mapping)
    rows = list(known) if is_list else []
    if not is_list or len(rows) != n:
        raise LabelError(
            parameter="known",
            expected=f"a list of {n} entries, one per sentence, each None or a list of labels",
            found=f"{len(rows)} of them" if is_list else checks.show_type(known),
        )
    return rows


def known_labels(known: Any, sentences: Sequence[Any], names: Sequence[str]) -> Bool:
    """Turn known labels, one row per sentence, into a mask [T, Y] of what they leave.

    Raises
    ------
    LabelError
        If their number is wrong, or a label does not exist; the message names the token.
    """
    rows = known_rows(known, len(sentences))
    number = {label: y for y, label in enumerate(names)}
    allowed = np.ones((sum(len(s) for s in sentences), len(names)), dtype=np.bool_)
    first = 0
    for i, (sentence, row) in enumerate(zip(sentences, rows, strict=True)):
        n = len(sentence)
        if row is not None and (not isinstance(row, list | tuple) or len(row) != n):
            raise LabelError(
                where=f"known, sentence {i}",
                expected=f"None or {checks.plural(n, 'label')}, one per token",
                found=checks.show(row),
            )
        for t, label in enumerate(row or ()):
            if label is None:
                continue
            own = {label} if isinstance(label, str) else label
            if not isinstance(own, set | frozenset) or not own or not number.keys() >= own:
                raise LabelError(
                    where=f"known, sentence {i}, token {t}",
                    expected=f"None, one of the labels {', '.join(names)}, or a set of them",
                    found=checks.show(label),
                )
            allowed[first + t] = False
            allowed[first + t, [number[y] for y in own]] = True
        first += n
    return allowed


def choose_scheme(
    spec: Any,
    gold: Gold,
    rows: list[list[Any]],
    offsets: npt.NDArray[np.int64],
    stacklevel: int | None = None,
) -> str | None:
    """Find the scheme whose illegal transitions "auto" forbids when decoding, if it was asked for.

    Warns if labels look like spans and some of them are illegal.
    """
    if not any(isinstance(part, str) and part == "auto" for part in _parts(spec)):
        return None
    if not look_like_spans(gold.names):
        return None  # parts of speech, say
    if gold.is_open.any():
        return find_scheme(gold, offsets)
    found = labels.detect(rows)
    if not found.fits:
        warnings.warn(
            DataWarning(
                f"{found}.",
                hint="Predictions may be illegal, too. To find such labels, run tagloom check; to "
                "rule them out, pass {constraints}.",
                options={"constraints": "bio"},
            ),
            stacklevel=caller_level() if stacklevel is None else stacklevel + 1,
        )
        return None
    return next(scheme for scheme in SCHEMES if scheme in found.fits)


def look_like_spans(names: Sequence[str]) -> bool:
    """Whether labels are O, and prefixes with types, such as B-PER."""
    return any(n != "O" for n in names) and all(
        n == "O" or (n[1:2] in ("-", "_") and n[:1] in "BIOESLU") for n in names
    )


def find_scheme(gold: Gold, offsets: npt.NDArray[np.int64]) -> str | None:
    """Find the scheme of labels of which some are open: no neighbours that are known break it."""
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


def _parts(spec: Any) -> list[Any]:
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
    found: Sequence[str] = words
    return found
