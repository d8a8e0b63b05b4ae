"""Small examples that texts on sequence labelling work through by hand.

The numbers are those of the texts; tables are always from → to and in the order of ``labels``. If
a text prints probabilities, the tables hold their logarithms, so that scores are always added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from tagloom.errors import DatasetError
from tagloom.sequences import Corpus, Sentence

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ScoreTables:
    """Scores of words and transitions, as printed in a text, and its example sentences.

    The score of labels y for a sentence w is
    start[y₁] + Σ_t word_scores[y_t, w_t] + Σ_t trans[y_{t-1}, y_t] + stop[y_T].

    Attributes
    ----------
    labels : tuple of str, length Y
    words : tuple of str, length V
    word_scores : ndarray, shape (Y, V)
        Score of a word under a label.
    trans : ndarray, shape (Y, Y)
        Score of the transition ``y_prev`` → ``y``, from → to; −inf if it is forbidden.
    start, stop : ndarray, shape (Y,)
        Score of the first and of the last label.
    corpus : Corpus
        Labelled sentences of the text, all of whose words are in the tables.
    source : str
        Citation of the text.

    Examples
    --------
    >>> from tagloom import Trellis, datasets
    >>> tables = datasets.classic("they-can-fish")
    >>> emit = tables.emit(["they", "can", "fish"])
    >>> trellis = Trellis(emit, tables.trans, tables.start, tables.stop, labels=tables.labels)
    >>> trellis.viterbi().score
    -10.0
    """

    labels: tuple[str, ...]
    words: tuple[str, ...]
    word_scores: Array
    trans: Array
    start: Array
    stop: Array
    corpus: Corpus
    source: str

    def emit(self, tokens: Sequence[str]) -> Array:
        """Look up the scores of a sentence's words, the ``emit`` of a trellis.

        Parameters
        ----------
        tokens : sequence of str

        Returns
        -------
        ndarray, shape (T, Y)

        Raises
        ------
        DatasetError
            If a token is not in the tables.

        Examples
        --------
        >>> from tagloom import datasets
        >>> datasets.classic("they-can-fish").emit(["fish", "can"])
        array([[-3., -3.],
               [-3., -1.]])
        """
        ids = []
        for t, token in enumerate(tokens):
            if token not in self.words:
                raise DatasetError(
                    where=f"token {t}",
                    expected=f"one of the words {', '.join(self.words)}",
                    found=repr(token),
                )
            ids.append(self.words.index(token))
        return np.ascontiguousarray(self.word_scores[:, ids].T)


@dataclass(frozen=True, eq=False)
class RibRob(ScoreTables):
    """The automaton for ``rib`` and ``rob`` that demonstrates label bias.

    ``labels`` are the states, ``words`` the symbols. State 1 always leads to 2, and 4 to 5, so a
    model that normalises each step separately cannot use the letter in the middle.

    Examples
    --------
    >>> from tagloom import datasets
    >>> datasets.classic("rib-rob").corpus[0]
    Sentence('r/1 i/2 b/3')
    """

    def sample(self, n_sentences: int, random_state: int | np.random.Generator = 0) -> Corpus:
        """Draw sequences from the automaton: a path, then a symbol from each of its states.

        Parameters
        ----------
        n_sentences : int
        random_state : int or Generator
            One seed gives one corpus.

        Returns
        -------
        Corpus
            Every sequence has three symbols, labelled with their states.

        Examples
        --------
        >>> from tagloom import datasets
        >>> datasets.classic("rib-rob").sample(500, random_state=3)[0]
        Sentence('r/4 o/5 b/3')
        """
        rng = np.random.default_rng(random_state)
        paths = np.array([[0, 1, 2], [3, 4, 2]])  # states by index: 1 2 3 and 4 5 3
        states = paths[(rng.random(n_sentences) < 0.5).astype(int)]  # [N, 3]
        below = np.cumsum(np.exp(self.word_scores), axis=1)[:, :-1]  # [Y, V - 1]
        symbols = (rng.random((n_sentences, 3, 1)) >= below[states]).sum(axis=2)  # [N, 3]
        tokens = np.array(self.words, dtype=object)[symbols].tolist()
        return Corpus(tokens, np.array(self.labels, dtype=object)[states].tolist(), label="state")


@dataclass(frozen=True, eq=False)
class Vowels:
    """Three vowels by their first two formants: real-valued features, three classes.

    Attributes
    ----------
    formants : ndarray, shape (N, 2)
        f1 and f2 in Hz.
    vowels : list of str, length N
        "i", "u" or "a".
    labels : tuple of str
        The three classes.
    means : ndarray, shape (3, 2)
        The centre of each class, in the order of ``labels``.
    source : str
        Citation of the measurements.

    Examples
    --------
    >>> from tagloom import datasets
    >>> vowels = datasets.classic("vowels")
    >>> vowels.formants.shape, vowels.labels
    ((60, 2), ('i', 'u', 'a'))
    """

    formants: Array
    vowels: list[str]
    labels: tuple[str, ...]
    means: Array
    source: str


@overload
def classic(name: Literal["jabberwocky", "garden-path"]) -> Corpus: ...
@overload
def classic(name: Literal["they-can-fish", "gliese-581d"]) -> ScoreTables: ...
@overload
def classic(name: Literal["vowels"]) -> Vowels: ...
@overload
def classic(name: Literal["rib-rob"]) -> RibRob: ...
@overload
def classic(name: str) -> Any: ...
def classic(name: str) -> Corpus | ScoreTables | Vowels:
    """Return a worked example from a textbook or paper.

    ============== ============= ==================================================================
    name           type          topic
    ============== ============= ==================================================================
    they-can-fish  `ScoreTables` Viterbi by hand; the best path of the tables is N V N with −10.
                                 The corpus has two sentences that word-tag and tag-tag features
                                 cannot both get right
    jabberwocky    `Corpus`      suffixes reveal the tag of made-up words. First the phrase that
                                 the text analyses, with its column "suffix"; then the stanza,
                                 whose other labels are unknown (None)
    garden-path    `Corpus`      ``the old man the boat``, D N V D N; column "garden_path" has the
                                 misleading first reading
    gliese-581d    `ScoreTables` an HMM of two words; ``can the can`` is V D N with probability
                                 0.16, and many transitions are impossible (−inf). The HMM has no
                                 stop probabilities, so ``stop`` is zero
    vowels         `Vowels`      three classes of points in the plane
    rib-rob        `RibRob`      label bias; each state emits its own letter with probability
                                 29/32 and each other letter with 1/32; ``sample`` draws sequences
    ============== ============= ==================================================================

    Parameters
    ----------
    name : str
        One of the names above; blanks and underscores count as hyphens.

    Returns
    -------
    Corpus, ScoreTables, Vowels or RibRob
        A new object at each call, so you may change it.

    Raises
    ------
    DatasetError
        If the example does not exist.

    Examples
    --------
    >>> from tagloom import datasets
    >>> tables = datasets.classic("they can fish")
    >>> tables.labels, tables.trans[0]  # from N to N, from N to V
    (('N', 'V'), array([-3., -1.]))
    >>> datasets.classic("jabberwocky")[0]
    Sentence('the/D slithy/J toves/N')
    """
    make = _CLASSICS.get(name.lower().replace(" ", "-").replace("_", "-"))
    if make is None:
        raise DatasetError(
            parameter="name", expected=f"one of {', '.join(_CLASSICS)}", found=repr(name)
        )
    return make()


def _they_can_fish() -> ScoreTables:
    # The printed caption swaps from and to: the rows of the transition table are "from".
    return ScoreTables(
        labels=("N", "V"),
        words=("they", "can", "fish"),
        word_scores=np.array([[-2.0, -3.0, -3.0], [-10.0, -1.0, -3.0]]),
        trans=np.array([[-3.0, -1.0], [-1.0, -3.0]]),
        start=np.array([-1.0, -2.0]),
        stop=np.array([-1.0, -1.0]),
        corpus=Corpus(
            [["they", "can", "fish"], ["they", "can", "can", "fish"]],
            [["N", "V", "V"], ["N", "V", "V", "N"]],
        ),
        source="Eisenstein (2018), Introduction to Natural Language Processing, Table 7.1",
    )


def _jabberwocky() -> Corpus:
    phrase = Sentence(
        ["the", "slithy", "toves"], ["D", "J", "N"], columns={"suffix": ["∅", "thy", "es"]}
    )
    lines = (
        "'Twas brillig , and the slithy toves",
        "Did gyre and gimble in the wabe :",
        "All mimsy were the borogoves ,",
        "And the mome raths outgrabe .",
    )
    stanza = [word for line in lines for word in line.split()]
    labels: list[str | None] = [None] * len(stanza)
    at = stanza.index("slithy")
    labels[at - 1 : at + 2] = ["D", "J", "N"]
    return Corpus([phrase, Sentence(stanza, labels)])


def _garden_path() -> Corpus:
    return Corpus(
        [
            Sentence(
                ["The", "old", "man", "the", "boat"],
                ["D", "N", "V", "D", "N"],
                columns={"garden_path": ["D", "J", "N", "D", "N"]},
            )
        ]
    )


def _gliese_581d() -> ScoreTables:
    return ScoreTables(
        labels=("D", "N", "V"),
        words=("can", "the"),
        word_scores=_log([[0, 1], [1, 0], [1, 0]]),
        trans=_log([[0, 1, 0], [0.2, 0.2, 0.6], [0.8, 0, 0.2]]),
        start=_log([0.8, 0, 0.2]),
        stop=np.zeros(3),
        corpus=Corpus(
            [["the", "can", "can", "can", "the", "can"], ["can", "the", "can"]],
            [["D", "N", "V", "V", "D", "N"], ["V", "D", "N"]],
        ),
        source="Wu Ke (2013), Discriminative Sequence Labeling, Example 1",
    )


def _vowels() -> Vowels:
    # The text gives f1 and f2 only as high or low. The centres are the averages for men measured
    # by Peterson and Barney (1952); the spread is ours.
    labels, n_each = ("i", "u", "a"), 20
    means = np.array([[270.0, 2290.0], [300.0, 870.0], [730.0, 1090.0]])
    classes = np.tile(np.arange(3), n_each)  # [N]
    spread = np.random.default_rng(0).uniform(-1, 1, (len(classes), 2)) * [60.0, 150.0]
    return Vowels(
        formants=np.round(means[classes] + spread),
        vowels=[labels[c] for c in classes],
        labels=labels,
        means=means,
        source="centres from Peterson and Barney (1952), points drawn around them",
    )


def _rib_rob() -> RibRob:
    letter = {"1": "r", "2": "i", "3": "b", "4": "r", "5": "o"}  # of each state
    labels, words = tuple(letter), ("b", "i", "o", "r")
    transitions = {("1", "2"), ("2", "3"), ("4", "5"), ("5", "3")}
    return RibRob(
        labels=labels,
        words=words,
        word_scores=_log([[29 / 32 if letter[y] == w else 1 / 32 for w in words] for y in labels]),
        trans=_log([[float((a, b) in transitions) for b in labels] for a in labels]),
        start=_log([0.5, 0, 0, 0.5, 0]),
        stop=_log([0, 0, 1, 0, 0]),
        corpus=Corpus([["r", "i", "b"], ["r", "o", "b"]], [["1", "2", "3"], ["4", "5", "3"]]),
        source="Lafferty, McCallum and Pereira (2001), Conditional Random Fields, section 5.1",
    )


def _log(probs: Any) -> Array:
    with np.errstate(divide="ignore"):  # log 0 = −inf: the transition or the word is impossible
        return np.log(np.array(probs, dtype=np.float64))


_CLASSICS: dict[str, Callable[[], Corpus | ScoreTables | Vowels]] = {
    "they-can-fish": _they_can_fish,
    "jabberwocky": _jabberwocky,
    "garden-path": _garden_path,
    "gliese-581d": _gliese_581d,
    "vowels": _vowels,
    "rib-rob": _rib_rob,
}
