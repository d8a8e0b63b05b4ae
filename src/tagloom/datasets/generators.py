"""Generate a corpus of any size from a seed, by a fully specified process.

::

    lexicon   word types by Zipf's law, each with a home state, some with a second one
    chain     start and trans of a hidden Markov model over states; each state has a label
    lengths   the number of tokens of each sentence
    states    drawn from the chain, for all sentences at once, position by position
    words     drawn from the lexicon of each state

Every draw inverts a cumulative table with a uniform random number. So the corpus depends on the
seed alone, and not on how a NumPy version samples from a distribution.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import DatasetError
from tagloom.sequences import Corpus, Sentence

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

KINDS = ("pos", "bio")
_N_LABELS = {"pos": 12, "bio": 9}

_CONSONANTS, _VOWELS = "bdfghklmnprstvz", "aeiou"
_SYLLABLES = [c + v for c in _CONSONANTS for v in _VOWELS]  # 75
_SUFFIXES_EACH = 2  # suffixes that occur with one state only


def synthetic(
    n_sentences: int | None = None,
    *,
    n_tokens: int | None = None,
    kind: str = "pos",
    n_labels: int | None = None,
    vocabulary: int = 5000,
    mean_length: float = 15.0,
    ambiguity: float = 0.15,
    suffixes: float = 0.8,
    random_state: int | np.random.Generator = 0,
) -> Corpus:
    """Generate a corpus from a hidden Markov model with a Zipfian lexicon.

    The process, in order:

    1. *Lexicon.* Word number r (from 1) has weight 1/r. ``kind="pos"``: the first third of the
       labels are closed classes, whose words are all among the most frequent ones; the others are
       open. A word belongs to one label, and with probability ``ambiguity`` also to a second one,
       which gets a share of its weight between 1/5 and 1/2. Frequent words are short. A word of an
       open class ends, with probability ``suffixes``, in one of two suffixes that occur with its
       first label only; all other words end in a vowel. So the suffix of an unknown word reveals
       its label, unless the word is used with its second label.
    2. *Transitions.* p(y | y_prev) ∝ (weight of the words of y) · g², where g is exponential and
       drawn once per pair. So each label has a few likely successors, and the words of the whole
       corpus still follow Zipf's law.
    3. *Sentences.* A length is 1 plus two geometric numbers. Labels follow the transitions; each
       word is drawn from its label's words by weight.

    ``kind="bio"``: labels are O and B-, I- for the types A, B, C, .... Every fourth word of the
    lexicon is a name of one type, or of two with probability ``ambiguity``. Names are capitalised,
    have suffixes as above, and can open and continue spans. Each type also has five cue words,
    labelled O, which are followed by a span of the type with probability 3/4; after other O words
    a span starts with probability 0.04. A span continues after each word with probability 0.4. One
    span in ten is followed immediately by another, possibly of the same type.

    Parameters
    ----------
    n_sentences : int, optional
        Number of sentences; 1000 if neither this nor ``n_tokens`` is given.
    n_tokens : int, optional
        Number of tokens, as an alternative; it is exact, since the last sentence is cut.
    kind : {"pos", "bio"}, default "pos"
        Plain labels, as for parts of speech, or spans in BIO.
    n_labels : int, optional
        Number of labels. "pos": 2 to 500, by default 12. "bio": odd, 3 to 53, by default 9, which
        is O and two labels for each of four types.
    vocabulary : int, default 5000
        Number of word types that can occur; at least 20 per label.
    mean_length : float, default 15
        Mean number of tokens of a sentence; at least 1.
    ambiguity : float, default 0.15
        Share of word types with a second label (with "bio": of names with a second type), between
        0 and 1.
    suffixes : float, default 0.8
        Share of open-class words (with "bio": of names) whose suffix reveals their label, between
        0 and 1.
    random_state : int or Generator, default 0
        The same seed and parameters give the same corpus. For a training and a test set of the
        same language, take two slices of one corpus.

    Returns
    -------
    Corpus

    Raises
    ------
    DatasetError
        If a parameter is out of range, or both sizes are given.

    Examples
    --------
    >>> import tagloom as tl
    >>> corpus = tl.datasets.synthetic(200, random_state=7)
    >>> train, test = corpus[:150], corpus[150:]
    >>> tl.datasets.synthetic(n_tokens=10_000, kind="bio").n_tokens
    10000
    """
    n_labels = _N_LABELS.get(kind, 12) if n_labels is None else n_labels
    _check(n_sentences, n_tokens, kind, n_labels, vocabulary, mean_length, ambiguity, suffixes)
    rng = np.random.default_rng(random_state)
    make = _pos_source if kind == "pos" else _bio_source
    source = make(rng, n_labels, vocabulary, ambiguity, suffixes)
    offsets = _draw_offsets(rng, n_sentences, n_tokens, mean_length)
    states = source.draw_states(rng, offsets)
    tokens = source.words[source.draw_words(rng, states)].tolist()
    labels = source.labels[states].tolist()
    bounds = offsets.tolist()
    return Corpus(
        (Sentence(tokens[a:b], labels[a:b]) for a, b in pairwise(bounds)),
        label=kind,
    )


class _Choices:
    """A table with rows of weighted entries; draws entries from given rows.

    Parameters
    ----------
    row_of : array of int, shape (E,)
        The row of each entry; sorted.
    weight : array, shape (E,)
        Unnormalised; 0 means never drawn. Every row has a positive weight.
    """

    def __init__(self, row_of: Ints, weight: Floats) -> None:
        n_rows = int(row_of[-1]) + 1
        total = np.concatenate([[0.0], np.cumsum(weight)])  # [E + 1]
        begin, end = (
            np.searchsorted(row_of, np.arange(n_rows), side) for side in ("left", "right")
        )
        before, mass = total[begin], total[end] - total[begin]
        # The cumulative share within its row plus the row's number: one ascending table.
        self._table = row_of + (total[1:] - before[row_of]) / mass[row_of]  # [E]
        used = np.flatnonzero(weight)
        self._last = used[np.searchsorted(used, end) - 1]  # [n_rows]

    def draw(self, rng: np.random.Generator, rows: Ints) -> Ints:
        """Draw an entry from each of these rows."""
        entry = np.searchsorted(self._table, rows + rng.random(len(rows)), side="right")
        return np.minimum(entry, self._last[rows])  # rows + 0.99... may round up to the next row


@dataclass
class _Source:
    """A hidden Markov model whose states have labels.

    Parameters
    ----------
    labels : array of str, shape (S,)
        The label of each state.
    transitions : array, shape (S + 1, S)
        Weight of the transition from → to; the last row is the start.
    words : array of str, shape (V,)
    state_of, word_of : array of int, shape (E,)
        The entries of the lexicon: this state may emit that word.
    weight : array, shape (E,)
        Weight relative to the other entries of the state.
    """

    labels: npt.NDArray[np.object_]
    transitions: Floats
    words: npt.NDArray[np.object_]
    state_of: Ints
    word_of: Ints
    weight: Floats

    def draw_states(self, rng: np.random.Generator, offsets: Ints) -> Ints:
        """Draw the state of every token: position by position, all sentences at once."""
        S = len(self.labels)
        choices = _Choices(np.repeat(np.arange(S + 1), S), self.transitions.ravel())
        lengths = np.diff(offsets)
        longest_first = np.argsort(-lengths, kind="stable")
        begins = offsets[:-1][longest_first]
        # The number of sentences that reach position t; they are a prefix of longest_first.
        n_running = np.searchsorted(-lengths[longest_first], -np.arange(lengths.max()))
        states = np.empty(offsets[-1], dtype=np.int64)
        previous = np.full(len(lengths), S)
        for t, n in enumerate(n_running):
            previous = choices.draw(rng, previous[:n]) % S
            states[begins[:n] + t] = previous
        return states

    def draw_words(self, rng: np.random.Generator, states: Ints) -> Ints:
        """Draw a word for every token, from the entries of its state."""
        order = np.argsort(self.state_of, kind="stable")
        choices = _Choices(self.state_of[order], self.weight[order])
        return self.word_of[order][choices.draw(rng, states)]


def _pos_source(
    rng: np.random.Generator, n_labels: int, vocabulary: int, ambiguity: float, suffixes: float
) -> _Source:
    V, n_closed = vocabulary, n_labels // 3
    zipf = 1 / np.arange(1.0, V + 1)
    # Every second of the most frequent words is of a closed class; all others are open.
    is_closed = np.zeros(V, dtype=bool)
    is_closed[: min(V // 4, 20 * n_closed) : 2] = True
    home = np.empty(V, dtype=np.int64)
    home[is_closed] = _spread(rng, int(is_closed.sum()), n_closed)
    home[~is_closed] = n_closed + _spread(rng, int((~is_closed).sum()), n_labels - n_closed)
    has_suffix = ~is_closed & (rng.random(V) < suffixes)
    second = (home + 1 + (rng.random(V) * (n_labels - 1)).astype(np.int64)) % n_labels
    is_ambiguous = rng.random(V) < ambiguity
    share = np.where(is_ambiguous, 0.2 + 0.3 * rng.random(V), 0.0)

    weight = np.concatenate([zipf * (1 - share), (zipf * share)[is_ambiguous]])
    state_of = np.concatenate([home, second[is_ambiguous]])
    mass = np.bincount(state_of, weight, minlength=n_labels)
    width = len(str(n_labels))
    return _Source(
        labels=np.array([f"T{y + 1:0{width}}" for y in range(n_labels)], dtype=object),
        transitions=mass * np.log1p(-rng.random((n_labels + 1, n_labels))) ** 2,
        words=_spell(rng, np.where(has_suffix, home, -1), n_labels),
        state_of=state_of,
        word_of=np.concatenate([np.arange(V), np.flatnonzero(is_ambiguous)]),
        weight=weight,
    )


def _bio_source(
    rng: np.random.Generator, n_labels: int, vocabulary: int, ambiguity: float, suffixes: float
) -> _Source:
    # States: O, then a cue, B- and I- for each type k, at 1 + 3k, 2 + 3k and 3 + 3k.
    V, K = vocabulary, (n_labels - 1) // 2
    zipf = 1 / np.arange(1.0, V + 1)
    cue, begin, inside = (np.arange(K) * 3 + i for i in (1, 2, 3))
    S = 1 + 3 * K

    # The words of rank 4, 8, 12, ... are names; five of the next ranks are cues of each type.
    owner = np.full(V, -1)
    owner[3::4] = _spread(rng, len(owner[3::4]), K)
    is_name = owner >= 0
    cue_words = np.flatnonzero(~is_name)[K : 6 * K]
    owner[cue_words] = np.arange(len(cue_words)) % K
    is_cue = (owner >= 0) & ~is_name
    has_suffix = is_name & (rng.random(V) < suffixes)
    other = (owner + 1 + (rng.random(V) * (K - 1)).astype(np.int64)) % K
    is_ambiguous = is_name & (rng.random(V) < ambiguity) & (K > 1)
    share = np.where(is_ambiguous, 0.2 + 0.3 * rng.random(V), 0.0)

    entries = [  # (states, words, weights); B- and I- have the same words
        (np.zeros(V, dtype=np.int64), np.flatnonzero(owner < 0), zipf),
        (cue[owner], np.flatnonzero(is_cue), zipf),
        (begin[owner], np.flatnonzero(is_name), zipf * (1 - share)),
        (inside[owner], np.flatnonzero(is_name), zipf * (1 - share)),
        (begin[other], np.flatnonzero(is_ambiguous), zipf * share),
        (inside[other], np.flatnonzero(is_ambiguous), zipf * share),
    ]
    # Weights of the transitions; each row sums to one.
    popularity = 0.3 + rng.random(K)
    popularity /= popularity.sum()
    transitions = np.zeros((S + 1, S))
    transitions[0, 0], transitions[0, cue], transitions[0, begin] = (
        0.88,
        0.08 * popularity,
        0.04 * popularity,
    )
    transitions[S] = transitions[0]
    transitions[cue, 0], transitions[cue, begin] = 0.25, 0.75
    for state in (begin, inside):
        transitions[state, 0] = 0.6 * 0.9
        transitions[np.ix_(state, begin)] = 0.6 * 0.1 * popularity
        transitions[state, inside] = 0.4

    names = [chr(ord("A") + k) for k in range(K)]
    words = _spell(rng, np.where(has_suffix, owner, -1), K)
    words[is_name] = [word.capitalize() for word in words[is_name]]
    return _Source(
        labels=np.array(
            ["O", *(y for k in names for y in ("O", f"B-{k}", f"I-{k}"))], dtype=object
        ),
        transitions=transitions,
        words=words,
        state_of=np.concatenate([states[words_] for states, words_, _ in entries]),
        word_of=np.concatenate([words_ for _, words_, _ in entries]),
        weight=np.concatenate([weights[words_] for _, words_, weights in entries]),
    )


def _spread(rng: np.random.Generator, n_words: int, n_classes: int) -> Ints:
    """Assign words to classes of unequal size; the first words ensure that no class is empty."""
    size = 0.3 + rng.random(n_classes)
    bounds = np.cumsum(size)[:-1] / size.sum()
    classes = np.searchsorted(bounds, rng.random(n_words), side="right")
    classes[:n_classes] = np.arange(n_classes)
    return classes


def _spell(rng: np.random.Generator, owner: Ints, n_owners: int) -> npt.NDArray[np.object_]:
    """Spell every word: open syllables, then a closed one if a suffix reveals its owner.

    Stems differ and end in a vowel, suffixes start and end in a consonant: all words differ.
    """
    syllables = [_SYLLABLES[i] for i in np.argsort(rng.random(len(_SYLLABLES)))]
    closed = [syllable + c for syllable in syllables for c in _CONSONANTS]
    endings = np.argsort(rng.random(len(closed)))[: _SUFFIXES_EACH * n_owners]
    which = (rng.random(len(owner)) * _SUFFIXES_EACH).astype(np.int64)
    words = np.empty(len(owner), dtype=object)
    for r, k in enumerate(owner.tolist()):
        stem, rest = "", r + 1  # bijective base 75: frequent words are short
        while rest:
            rest, digit = divmod(rest - 1, len(syllables))
            stem = syllables[digit] + stem
        words[r] = stem if k < 0 else stem + closed[endings[_SUFFIXES_EACH * k + which[r]]]
    return words


def _draw_offsets(
    rng: np.random.Generator, n_sentences: int | None, n_tokens: int | None, mean_length: float
) -> Ints:
    """Draw the begin and end of each sentence; shape (N + 1,)."""
    if n_tokens is None:
        n = 1000 if n_sentences is None else n_sentences
        return np.concatenate([[0], np.cumsum(_draw_lengths(rng, n, mean_length))])
    lengths = np.empty(0, dtype=np.int64)
    while lengths.sum() < n_tokens:
        missing = n_tokens - int(lengths.sum())
        more = _draw_lengths(rng, 1 + int(missing / mean_length), mean_length)
        lengths = np.concatenate([lengths, more])
    ends = np.cumsum(lengths)
    ends = ends[: np.searchsorted(ends, n_tokens) + 1]
    ends[-1] = n_tokens
    return np.concatenate([[0], ends])


def _draw_lengths(rng: np.random.Generator, n: int, mean: float) -> Ints:
    u = rng.random((2, n))
    if mean == 1:
        return np.ones(n, dtype=np.int64)
    log_more = np.log((mean - 1) / (mean + 1))  # each geometric number has the mean (mean - 1) / 2
    geometric = np.floor(np.log1p(-u) / log_more).astype(np.int64)
    lengths: Ints = 1 + geometric[0] + geometric[1]
    return lengths


def _check(
    n_sentences: int | None,
    n_tokens: int | None,
    kind: str,
    n_labels: int,
    vocabulary: int,
    mean_length: float,
    ambiguity: float,
    suffixes: float,
) -> None:
    if kind not in KINDS:
        raise _wrong("kind", f"one of {', '.join(KINDS)}", kind)
    if n_sentences is not None and n_tokens is not None:
        raise _wrong("n_tokens", "left out if n_sentences is given", n_tokens)
    for name, size in (("n_sentences", n_sentences), ("n_tokens", n_tokens)):
        if size is not None:
            checks.count(size, name, least=1, error=DatasetError)
    if kind == "pos" and not 2 <= n_labels <= 500:
        raise _wrong("n_labels", "between 2 and 500", n_labels)
    if kind == "bio" and not (3 <= n_labels <= 53 and n_labels % 2):
        expected = "an odd number from 3 to 53: O, and B- and I- for each of 1 to 26 types"
        raise _wrong("n_labels", expected, n_labels)
    if vocabulary < 20 * n_labels:
        expected = f"at least 20 words per label, {20 * n_labels} for {n_labels} labels"
        raise _wrong("vocabulary", expected, vocabulary)
    if not mean_length >= 1:
        raise _wrong("mean_length", "at least 1", mean_length)
    for name, share in (("ambiguity", ambiguity), ("suffixes", suffixes)):
        if not 0 <= share <= 1:
            raise _wrong(name, "a share between 0 and 1", share)


def _wrong(parameter: str, expected: str, value: Any) -> DatasetError:
    return DatasetError(parameter=parameter, expected=expected, found=checks.show(value))
