"""Decoding with a language model: gaps filled, one of several candidates chosen.

A lattice has an entry for each position: a token, None for any word, or candidates with or without
scores. It becomes a `BackoffTrellis`, which does the search; here words become label ids and label
ids words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import ScoreError, SentenceError
from tagloom.language.tables import END, SPECIAL, UNKNOWN, NGramTables
from tagloom.trellis.backoff import BackoffTrellis, Slots
from tagloom.trellis.trellis import Best

Float64 = npt.NDArray[np.float64]
Join = Callable[[Sequence[str]], Any]


class Reading(NamedTuple):
    """One way to read a lattice."""

    tokens: Any  #: list of str, or str or bytes by the unit of the model
    score: float  #: log-probability under the model, plus the scores of the candidates
    prob: float  #: its share among all readings of the lattice


class Candidate(NamedTuple):
    """A candidate of a position and its probability, given everything else."""

    token: str
    prob: float


class Decoding:
    """All readings of a lattice, with their probabilities.

    Made by `NGramModel.decode`.

    Attributes
    ----------
    trellis : BackoffTrellis
        Everything else is available from it.

    Examples
    --------
    >>> import tagloom as tl
    >>> lm = tl.NGramModel(2).fit([["the", "old", "boat"], ["the", "old", "man"]])
    >>> decoding = lm.decode(["the", None, ["boat", "goat"]])
    >>> decoding.tokens
    ['the', 'old', 'boat']
    >>> [" ".join(reading.tokens) for reading in decoding.nbest(2)]
    ['the old boat', 'the old goat']
    """

    def __init__(
        self, trellis: BackoffTrellis, names: dict[int, str], words: Sequence[str], join: Join
    ) -> None:
        self.trellis = trellis
        self._names = names  # position -> the token that is the unknown word there
        self._words = words
        self._join = join

    def _token(self, t: int, label: int) -> str:
        return self._names.get(t, SPECIAL[UNKNOWN]) if label == UNKNOWN else self._words[label]

    def _tokens(self, path: npt.NDArray[np.int32]) -> Any:
        return self._join([self._token(t, label) for t, label in enumerate(path.tolist())])

    @cached_property
    def _best(self) -> Best:
        return self.trellis.viterbi()

    @property
    def tokens(self) -> Any:
        """The most probable reading."""
        return self._tokens(self._best.path)

    @property
    def score(self) -> float:
        """The score of the most probable reading."""
        return float(self._best.score)

    def nbest(self, n: int) -> list[Reading]:
        """Return the n most probable readings, all different, the best first."""
        best = self.trellis.nbest(n, on_infeasible="raise")
        rows = zip(best.paths, best.scores.tolist(), best.probs.tolist(), strict=True)
        return [Reading(self._tokens(path), score, prob) for path, score, prob in rows]

    def marginals(self, n: int = 5) -> list[list[Candidate]]:
        """Return, for each position, its n most probable candidates.

        The probability of a candidate is that of all readings with it; those of one position sum
        to 1.
        """
        n = checks.count(n, "n", least=1)
        positions = []
        for t, probs in enumerate(self.trellis.candidate_marginals()):
            labels, _ = self.trellis.candidates(t)
            best = np.argsort(-probs, kind="stable")[:n]
            positions.append(
                [Candidate(self._token(t, int(labels[k])), float(probs[k])) for k in best]
            )
        return positions

    def sample(self, n: int, random_state: Any = None) -> list[Any]:
        """Draw n readings with their probabilities."""
        return [self._tokens(path) for path in self.trellis.sample(n, random_state)]

    def entropy(self) -> float:
        """Return how uncertain the reading is, in nats."""
        return float(self.trellis.entropy())

    def __repr__(self) -> str:
        return f"Decoding({self.tokens!r:.60})"


def decode(
    tables: NGramTables, lattice: Sequence[Any], join: Join, *, start: bool, end: bool
) -> Decoding:
    """Return the readings of a lattice; see `NGramModel.decode`."""
    if all(entry is None or isinstance(entry, str) for entry in lattice):
        slots, slot, names = _tokens_and_gaps(tables, lattice)
    else:
        slots, slot, names = _candidate_sets(tables, lattice)
    trellis = BackoffTrellis(
        tables.arcs,
        slots,
        slot,
        start=tables.native.history(np.empty(0, np.int32), start),
        stop=END if end else None,
    )
    return Decoding(trellis, names, tables.words, join)


class _Positions(NamedTuple):
    """Candidates of all positions."""

    slots: Slots
    slot: Any  # [T] the set of each position
    names: dict[int, str]  # position -> the token that is the unknown word there


def _tokens_and_gaps(tables: NGramTables, lattice: Sequence[str | None]) -> _Positions:
    """Return the positions of a sentence with gaps, by the sets that the tables keep."""
    ids, _ = tables.ids([["" if token is None else token for token in lattice]])
    names = {}
    for t in np.flatnonzero(ids <= UNKNOWN).tolist():
        token = lattice[t]
        if token is not None:
            names[t] = token
            if ids[t] < 0:
                raise _not_in_vocabulary(token, t)
    is_gap = np.array([token is None for token in lattice], bool)
    return _Positions(tables.slots, np.where(is_gap, 0, 1 + ids), names)


def _candidate_sets(tables: NGramTables, lattice: Sequence[Any]) -> _Positions:
    """Return the positions of a lattice, with a set for each entry that is not None."""
    any_word = np.arange(len(SPECIAL) if None in lattice else tables.n_words, tables.n_words)
    sets: list[tuple[Any, Any]] = [(any_word, np.zeros(len(any_word)))]
    slot, names = [], {}
    for t, entry in enumerate(lattice):
        slot.append(0 if entry is None else len(sets))
        if entry is not None:
            scores, unknown = _candidates(tables, entry, t)
            labels = sorted(scores)
            sets.append((labels, [scores[label] for label in labels]))
            if unknown is not None:
                names[t] = unknown
    return _Positions(Slots.of(tables.n_words, sets), slot, names)


def _candidates(tables: NGramTables, entry: Any, t: int) -> tuple[dict[int, float], str | None]:
    """Return labels with scores, and the token of the unknown word, the best one of several."""
    scored = _scored(entry, t)
    scores: dict[int, float] = {}
    unknown = None
    ids, _ = tables.ids([list(scored)])
    for (token, score), label in zip(scored.items(), ids.tolist(), strict=True):
        if label < 0 or (label in scores and score <= scores[label]):
            continue
        scores[label] = score
        if label == UNKNOWN:
            unknown = token
    if not scores:
        raise _not_in_vocabulary(entry, t)
    return scores, unknown


def _not_in_vocabulary(entry: Any, t: int) -> SentenceError:
    return SentenceError(
        where=f"position {t}",
        expected="a word of the vocabulary, which is closed",
        found=checks.show(entry),
    )


def _scored(entry: Any, t: int) -> Mapping[str, float]:
    """Return the candidates of one position with their scores."""
    where = f"position {t}"
    if isinstance(entry, str):
        return {entry: 0.0}
    if isinstance(entry, Mapping):
        scored = dict(entry)
    elif isinstance(entry, Iterable) and not isinstance(entry, bytes):
        scored = dict.fromkeys(entry, 0.0)
    else:
        scored = {}
    if not scored or not all(isinstance(token, str) for token in scored):
        raise SentenceError(
            where=where,
            expected="a token, None, a list of tokens, or a dict of tokens and scores",
            found=checks.show_type(entry),
        )
    for token, score in scored.items():
        is_number = isinstance(score, int | float | np.floating | np.integer)
        if not is_number or math.isnan(score) or score == math.inf:
            raise ScoreError(
                where=f"{where}, candidate {token!r}",
                expected="a score below infinity",
                found=checks.show(score),
            )
    return scored
