"""Tokenizers: raw text to sentences of tokens with character offsets.

The presets cut by the rules of `tagloom.text`; `fit` replaces them by learnt `Boundaries`. A
tokenizer is a model, so that it is saved alone or inside the file of a tagger.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from tagloom import checks
from tagloom.errors import ParameterError, SentenceError
from tagloom.models.files import Model
from tagloom.parameters import attribute, choice, flag, names, parameter
from tagloom.sequences import Sentence
from tagloom.sequences.raw import RawText, paragraphs
from tagloom.storage import File
from tagloom.text import BLOCK, PRESETS, Cuts, Cutter, blocks

if TYPE_CHECKING:
    from tagloom.models.boundaries import Boundaries

# The parameters of the preset "rules".
_RULES = ("abbreviations", "hyphens", "contractions", "patterns")
_LISTS = ("abbreviations", "patterns")
_LEARNT_BLOCK = 1 << 17  # characters that learnt boundaries cut at once


class Score(NamedTuple):
    """Precision, recall and F1 of boundaries.

    Attributes
    ----------
    precision, recall, f1 : float
        Between 0 and 1.
    """

    precision: float
    recall: float
    f1: float


class TokenizerScores(NamedTuple):
    """How well a tokenizer finds tokens and sentences.

    Attributes
    ----------
    tokens, sentences : Score
        A token, or a sentence, is correct if its first and its last character are.
    """

    tokens: Score
    sentences: Score


class Tokenizer(Model):
    """Split raw text into sentences and tokens.

    Every token is a piece of the text, ``text[start:end]``, and what lies between tokens is blank.
    So offsets always lead back to the text, whatever it contains.

    Attributes
    ----------
    boundaries_ : Boundaries
        What `fit` has learnt; absent before.

    Examples
    --------
    >>> import tagloom as tl
    >>> text = "Dr. Lee didn't pay $3.50.  Why not?"
    >>> for sentence in tl.Tokenizer().split(text):
    ...     print(sentence.tokens)
    ['Dr.', 'Lee', 'did', "n't", 'pay', '$', '3.50', '.']
    ['Why', 'not', '?']
    >>> sentence.offsets[0], text[27:30]
    ((27, 30), 'Why')
    >>> tl.Tokenizer("whitespace").split("Why not?")[0].tokens
    ['Why', 'not?']
    """

    preset: str = parameter(
        default="rules",
        kw_only=False,
        type='{"rules", "whitespace", "characters"}',
        check=lambda value: checks.choice(value, "preset", PRESETS),
        help="How text is cut before `fit`.",
        details='"rules" has patterns for words, numbers, addresses, abbreviations and contractions'
        ' of European languages; "whitespace" cuts at blanks, with a sentence on each line; '
        '"characters" makes each character a token, for Chinese and Japanese.',
    )
    abbreviations: Sequence[str] = names(
        default=(),
        check=lambda value: _check_list(value, "abbreviations"),
        help='Further abbreviations that keep their full stop, for "rules".',
    )
    hyphens: str = choice(
        default="split",
        choices=("split", "keep"),
        help='Whether "rules" cuts well-known into three tokens or keeps it.',
    )
    contractions: bool = flag(default=True, help='Whether "rules" cuts don\'t and cannot in two.')
    patterns: Sequence[str] = names(
        default=(),
        check=lambda value: _check_patterns(value),
        help='Regular expressions of further tokens that "rules" keeps whole.',
    )

    boundaries_: Boundaries = attribute(init=False)
    _cutter: tuple[Any, Cutter] | None = attribute(default=None, init=False)

    @property
    def is_fitted(self) -> bool:
        """Whether the tokenizer can be used: always, since presets need no training."""
        return True

    @property
    def is_learnt(self) -> bool:
        """Whether `fit` has replaced the preset."""
        return "boundaries_" in self.__dict__

    # ---- text to tokens --------------------------------------------------------------------

    def split(self, text: str) -> list[Sentence]:
        """Split a text into sentences.

        Parameters
        ----------
        text : str

        Returns
        -------
        list of Sentence
            With ``text``, the whole text, and ``offsets``, the place of each token in it.

        Raises
        ------
        SentenceError
            If the text is not a str.
        """
        return [*self.stream(text)]

    def stream(self, text: str) -> Iterator[Sentence]:
        """Yield the sentences of a text one by one; memory does not grow with the text.

        Parameters
        ----------
        text : str

        Examples
        --------
        >>> import tagloom as tl
        >>> sum(len(sentence) for sentence in tl.Tokenizer().stream("One. Two. " * 1000))
        4000
        """
        for cuts in self._cut_blocks(text):
            offsets, bounds = cuts.spans(), cuts.sentences.tolist()
            for first, last in pairwise(bounds):
                places = offsets[first:last]
                tokens = [text[start:end] for start, end in places]
                yield Sentence._from_text(tokens, text, places)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return start and end of each token of a text, in characters.

        Examples
        --------
        >>> import tagloom as tl
        >>> tl.Tokenizer().offsets("Why not?")
        [(0, 3), (4, 7), (7, 8)]
        """
        return [place for cuts in self._cut_blocks(text) for place in cuts.spans()]

    def _cut_blocks(self, text: str) -> Iterator[Cuts]:
        if not isinstance(text, str):
            raise SentenceError(expected="a text, which is a str", found=checks.show_type(text))
        size = _LEARNT_BLOCK if self.is_learnt else BLOCK
        return blocks(text, self.boundaries_ if self.is_learnt else self._make_preset(), size)

    def _make_preset(self) -> Cutter:
        """Return the preset with its options; it is kept, since it remembers what it has cut."""
        options = {name: getattr(self, name) for name in _RULES}
        key = (self.preset, *(tuple(x) if isinstance(x, list) else x for x in options.values()))
        if self._cutter is None or self._cutter[0] != key:
            self.check_parameters()
            cutter = PRESETS[self.preset](**(options if self.preset == "rules" else {}))
            self._cutter = (key, cutter)
        return self._cutter[1]

    # ---- learning --------------------------------------------------------------------------

    def fit(self, X: Iterable[Sentence]) -> Self:
        """Learn where tokens and sentences end.

        Parameters
        ----------
        X : Corpus, or iterable of Sentence
            Sentences with their text: CoNLL-U with ``# text`` or SpaceAfter, or JSONL with text and
            tokens.

        Returns
        -------
        self

        Raises
        ------
        SentenceError
            If a sentence does not have its text.
        """
        from tagloom.models.boundaries import Boundaries

        self.check_parameters()
        self.boundaries_ = Boundaries.learn(_raw(X), self._make_preset())
        return self

    def evaluate(self, X: Iterable[Sentence]) -> TokenizerScores:
        """Compare the tokens and sentences that the tokenizer finds with those of a corpus.

        Paragraphs are cut from their raw text. A token is correct if it has the same characters,
        apart from blanks; a sentence if its first and last character are the same.

        Parameters
        ----------
        X : Corpus, or iterable of Sentence
            Sentences with their text, see `fit`.

        Returns
        -------
        TokenizerScores
        """
        counts = [[0, 0, 0], [0, 0, 0]]  # gold, found, correct: of tokens, of sentences
        for raw in _raw(X):
            found = self.split(raw.text)
            rows = [sentence.offsets or [] for sentence in found]
            for count, kind in zip(counts, (_tokens, _sentences), strict=True):
                gold, ours = kind(raw.offsets), kind(rows)
                count[0] += len(gold)
                count[1] += len(ours)
                count[2] += len(gold & ours)
        return TokenizerScores(*(_score(*count) for count in counts))

    # ---- files -----------------------------------------------------------------------------

    def to_file(self) -> File:
        """Return parameters and learnt boundaries as a header and arrays."""
        params = self.get_params()
        params |= {name: list(params[name]) for name in _LISTS}
        file = File({"params": params})
        if not self.is_learnt:
            return file
        learnt = self.boundaries_.to_file()
        return file | File({"boundaries": learnt.header}, learnt.arrays, learnt.unverified)

    @classmethod
    def from_file(cls, file: File, *, features: Any = None) -> Self:
        """Make a tokenizer from the result of `to_file`; everything is checked."""
        params = dict(file.header["params"])
        params |= {name: tuple(_check_list(params[name], name)) for name in _LISTS}
        tokenizer = cls(**params)
        preset = tokenizer._make_preset()
        if "boundaries" in file.header:
            from tagloom.models.boundaries import Boundaries

            part = File(file.header["boundaries"], file.arrays, file.unverified)
            tokenizer.boundaries_ = Boundaries.from_file(part, preset)
        return tokenizer


def _check_list(value: Any, name: str) -> list[str]:
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    if not is_list or not all(isinstance(x, str) and x.split() == [x] for x in value):
        raise ParameterError(
            parameter=name, expected="a list of str without blanks", found=checks.show(value)
        )
    return list(value)


def _check_patterns(value: Any) -> None:
    for pattern in _check_list(value, "patterns"):
        try:
            matches_nothing = re.compile(pattern).match("")
        except re.error as error:
            raise ParameterError(
                parameter="patterns", expected=f"regular expressions ({error})", found=repr(pattern)
            ) from None
        if matches_nothing or re.compile(pattern).groups:
            raise ParameterError(
                parameter="patterns",
                expected="regular expressions without groups that match at least one character",
                found=repr(pattern),
                hint="Write (?:…) for a group.",
            )


def _raw(X: Iterable[Sentence]) -> Iterator[RawText]:
    """Yield the raw text of the paragraphs of a corpus."""
    sentences = checks.sentences(X)
    for i, sentence in enumerate(sentences):
        if not isinstance(sentence, Sentence):
            raise SentenceError(
                where=checks.place(i),
                expected="a Sentence with its text",
                found=checks.show_type(sentence),
                hint="Read a file with tagloom.read().",
            )
    return paragraphs(sentences, getattr(X, "path", None))


_Rows = list[list[tuple[int, int]]]  # the offsets of the tokens of each sentence


def _tokens(rows: _Rows) -> set[tuple[int, int]]:
    return set(chain.from_iterable(rows))


def _sentences(rows: _Rows) -> set[tuple[int, int]]:
    return {(row[0][0], row[-1][1]) for row in rows if row}


def _score(n_gold: int, n_found: int, n_correct: int) -> Score:
    precision, recall = n_correct / max(n_found, 1), n_correct / max(n_gold, 1)
    return Score(precision, recall, 2 * n_correct / max(n_gold + n_found, 1))


#: The tokenizer of taggers that have no other.
RULES = Tokenizer()
