"""Raw text through a tagger: the sentences that `Tagger.tag_text` returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from tagloom import labels as schemes
from tagloom.models.constraints import look_like_spans
from tagloom.sequences import Sentence

if TYPE_CHECKING:
    from tagloom.models.taggers import Tagger

_BATCH = 4096  # sentences that are tagged at once


class TextSpan(NamedTuple):
    """A span of a text.

    Attributes
    ----------
    type : str
    start, end : int
        Its first character, and the character after its last.
    text : str
    prob : float or None
        Probability that the labels have exactly this span; None unless requested.
    """

    type: str
    start: int
    end: int
    text: str
    prob: float | None = None


class TaggedSentence(Sentence):
    """A sentence of a text with its predicted labels.

    Attributes
    ----------
    tokens, labels : list of str
    text : str
        The whole text that was tagged.
    offsets : list of (int, int)
        Start and end of each token in the text, in characters.
    probs : list of float or None
        The probability of each label; None unless requested.
    spans : list of TextSpan
        The spans that the labels mark; empty if they do not mark spans, as parts of speech.
    """

    __slots__ = ("probs", "spans")

    probs: list[float] | None
    spans: list[TextSpan]

    @property
    def start(self) -> int:
        """The first character of the sentence."""
        return self.offsets[0][0] if self.offsets else 0

    @property
    def end(self) -> int:
        """The character after the last of the sentence."""
        return self.offsets[-1][1] if self.offsets else 0

    def to_dict(self, shift: int = 0) -> dict[str, Any]:
        """Return the sentence as plain data, ready for JSON.

        Parameters
        ----------
        shift : int
            Added to all places: where the text begins in a longer one.

        Returns
        -------
        dict
            ``start``, ``end`` and ``text`` of the sentence, ``tokens``, ``offsets``, ``labels``,
            ``probs`` if there are any, and ``spans`` as dicts.
        """
        text = self.text or ""
        row: dict[str, Any] = {
            "start": self.start + shift,
            "end": self.end + shift,
            "text": text[self.start : self.end],
            "tokens": self.tokens,
            "offsets": [[start + shift, end + shift] for start, end in self.offsets or ()],
            "labels": self.labels,
        }
        if self.probs is not None:
            row["probs"] = [round(prob, 6) for prob in self.probs]
        if self.spans:
            row["spans"] = [_plain(span, shift) for span in self.spans]
        return row


def _plain(span: TextSpan, shift: int) -> dict[str, Any]:
    row = span._asdict() | {"start": span.start + shift, "end": span.end + shift}
    if span.prob is None:
        del row["prob"]
    else:
        row["prob"] = round(span.prob, 6)
    return row


def tag(
    tagger: Tagger, sentences: Iterator[Sentence], probs: bool, n_threads: int | None
) -> Iterator[TaggedSentence]:
    """Label the sentences of a text, some thousands at a time."""
    has_spans = look_like_spans(tagger.labels_.tolist())
    while batch := list(islice(sentences, _BATCH)):
        rows: Any = [s.tokens for s in batch] if tagger.reads_only_tokens else batch
        label_probs = None
        if probs:
            labellings, label_probs = tagger.predict_with_probs(rows, n_threads=n_threads)
        else:
            labellings = tagger.predict(rows, n_threads=n_threads)
        spans = _spans(tagger, rows, labellings, probs, n_threads) if has_spans else None
        for i, sentence in enumerate(batch):
            tagged = TaggedSentence(
                sentence.tokens, labellings[i], text=sentence.text, offsets=sentence.offsets
            )
            tagged.probs = None if label_probs is None else label_probs[i]
            tagged.spans = [] if spans is None else [_in_text(sentence, *span) for span in spans[i]]
            yield tagged


def _spans(
    tagger: Tagger,
    rows: Sequence[Any],
    labellings: list[list[str]],
    probs: bool,
    n_threads: int | None,
) -> list[list[tuple[str, int, int, float | None]]]:
    """Return type, tokens and probability of the spans that labels mark."""
    if probs:
        found = tagger.predict_spans(rows, n_threads=n_threads)
        return [[(s.type, s.start, s.end, s.prob) for s in row] for row in found]
    scheme = getattr(tagger, "scheme_", None)
    return [
        [(s.type, s.start, s.end, None) for s in schemes.to_spans(path, scheme)]
        for path in labellings
    ]


def _in_text(sentence: Sentence, type: str, first: int, last: int, prob: float | None) -> TextSpan:
    """Turn the tokens of a span into characters."""
    assert sentence.offsets is not None
    assert sentence.text is not None
    start, end = sentence.offsets[first][0], sentence.offsets[last - 1][1]
    return TextSpan(type, start, end, sentence.text[start:end], prob)
