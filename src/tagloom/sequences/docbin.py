"""DocBin: spaCy's binary files of documents, read and written by spaCy itself.

A document becomes its sentences, which share its text. Labels are the entities as BIO labels, or
one of spaCy's token attributes. spaCy is imported only here and in ``interop``.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tagloom import checks
from tagloom.errors import FormatError, MissingExtraError, SentenceError
from tagloom.sequences.documents import documents, text_of
from tagloom.sequences.faults import several_labels
from tagloom.sequences.files import CHUNK, Input, Output
from tagloom.sequences.objects import spans_of_labels
from tagloom.sequences.sentences import Label, Sentence

# label= -> attribute of a token; entities are no attribute
_TOKEN_LABELS = {"upos": "pos_", "pos": "pos_", "xpos": "tag_", "tag": "tag_", "lemma": "lemma_"}
ENTITIES = "entities"


def import_spacy(what: str) -> Any:
    """Import spaCy, or raise the error that tells how to install it."""
    try:
        return importlib.import_module("spacy")
    except ImportError:
        raise MissingExtraError(
            f"{what} needs the package spacy.", hint="Install it with: pip install spacy"
        ) from None


@dataclass
class DocBinLayout:
    """Which labels of the documents are read."""

    label: str | None = None
    labelled: bool = True
    format: str = "docbin"
    head: bytes = b""
    tail: bytes = b""

    @property
    def label_name(self) -> str | None:
        """The labels that are read."""
        return self.label

    def read(self, file: Input) -> Iterator[list[Sentence]]:
        """Yield the sentences of each document."""
        spacy = import_spacy("A DocBin")
        data = b"".join(iter(lambda: file.read(CHUNK), b""))
        try:
            store = spacy.tokens.DocBin().from_bytes(data)
            docs = list(store.get_docs(spacy.vocab.Vocab()))
        except Exception as error:  # zlib, msgpack and spaCy raise errors of many classes
            raise FormatError(
                path=file.name,
                expected="a DocBin of spaCy",
                found=f"{type(error).__name__}: {checks.show(str(error), 80)}",
            ) from error
        for doc in docs:
            yield sentences_of_doc(doc, self.label, labelled=self.labelled)


def docbin_layout(
    file: Input, format: str, *, label: str | int | None = None, labelled: bool = True
) -> tuple[DocBinLayout, str]:
    """Return the layout of a DocBin: entities, or the given attribute."""
    name = check_label(ENTITIES if label is None else label)
    return DocBinLayout(name, labelled), f"labels from {name!r}" if labelled else ""


def check_label(label: str | int) -> str:
    """Return the name of labels of documents; raise for another one."""
    if label != ENTITIES and label not in _TOKEN_LABELS:
        raise FormatError(
            parameter="label",
            expected=f"one of {', '.join([ENTITIES, *_TOKEN_LABELS])}",
            found=checks.show(label),
        )
    return str(label)


def sentences_of_doc(doc: Any, label: str | None, *, labelled: bool = True) -> list[Sentence]:
    """Cut a document into sentences, without its tokens of blanks.

    Parameters
    ----------
    doc : spacy.tokens.Doc
    label : str or None
        "entities", or an attribute of tokens such as "upos".
    labelled : bool
    """
    if not hasattr(doc, "has_annotation"):
        raise SentenceError(expected="documents of spaCy, as in [doc]", found=checks.show_type(doc))
    text = doc.text
    spans = list(doc.sents) if doc.has_annotation("SENT_START") else [doc[:]]
    sentences = []
    for span in spans:
        tokens = [token for token in span if not token.text.isspace()]
        if not tokens:
            continue
        labels = [_label(token, label or ENTITIES) for token in tokens] if labelled else None
        places = [(token.idx, token.idx + len(token.text)) for token in tokens]
        words = [token.text for token in tokens]
        sentences.append(Sentence(words, labels, text=text, offsets=places))
    return sentences


def _label(token: Any, label: str) -> Label:
    """Return the label of a token; None if spaCy has none."""
    if label != ENTITIES:
        return getattr(token, _TOKEN_LABELS[label]) or None
    letter = token.ent_iob_
    if letter == "":
        return None
    return f"{letter}-{token.ent_type_}" if letter in "BI" else "O"


def docs_of_sentences(
    sentences: Iterable[Sentence], vocab: Any, label: str = ENTITIES
) -> Iterator[Any]:
    """Make documents of spaCy: one for all consecutive sentences of a text, else one for each."""
    spacy = import_spacy("to_spacy")
    vocab = spacy.vocab.Vocab() if vocab is None else vocab
    parts: list[Sentence] = []
    for i, sentence in enumerate(sentences):
        if parts and not _same_text(parts[-1], sentence):
            yield _doc(spacy, vocab, parts, label, i - len(parts))
            parts = []
        parts.append(sentence)
    if parts:
        yield _doc(spacy, vocab, parts, label, i + 1 - len(parts))


def _same_text(before: Sentence, after: Sentence) -> bool:
    return len(list(documents([before, after]))) == 1


def _doc(spacy: Any, vocab: Any, parts: list[Sentence], label: str, first: int) -> Any:
    (whole,) = documents(parts)
    text, places = text_of(whole)
    words, spaces, is_token = _with_blanks(text, places)
    starts = [len(part) for part in parts]
    sent_starts = [False] * len(words)
    tokens = [w for w, own in enumerate(is_token) if own]
    at = 0
    for n in starts:
        if n:
            sent_starts[tokens[at]] = True
        at += n
    doc = spacy.tokens.Doc(vocab, words=words, spaces=spaces, sent_starts=sent_starts)
    if whole.labels is None:
        return doc
    where = f"sentence {first}"
    if label == ENTITIES:
        entities = []
        for begin, end, kind in spans_of_labels(whole.labels, places, where):
            entities.append(doc.char_span(begin, end, label=kind))
        doc.set_ents(entities)
        return doc
    for t, (w, value) in enumerate(zip(tokens, whole.labels, strict=True)):
        if isinstance(value, frozenset):
            raise several_labels(value, "docbin", checks.join(where, f"token {t}"))
        try:
            setattr(doc[w], _TOKEN_LABELS[label], value or "")
        except (KeyError, ValueError):
            raise FormatError(
                where=where, expected="a part of speech of spaCy", found=repr(value)
            ) from None
    return doc


def _with_blanks(
    text: str, places: list[tuple[int, int]]
) -> tuple[list[str], list[bool], list[bool]]:
    """Return words and the spaces after them that make up the text, as spaCy tokenizes it.

    One blank after a word belongs to it; others are words of their own.
    """
    words: list[str] = []
    spaces: list[bool] = []
    is_token: list[bool] = []
    end = 0
    for begin, next_end in [*places, (len(text), len(text))]:
        gap = text[end:begin]
        if gap.startswith(" ") and words:
            spaces[-1], gap = True, gap[1:]
        if gap:
            words.append(gap)
            spaces.append(False)
            is_token.append(False)
        if next_end > begin:
            words.append(text[begin:next_end])
            spaces.append(False)
            is_token.append(True)
        end = next_end
    return words, spaces, is_token


def write_docbin(sentences: Iterable[Sentence], out: Output, label: str | None) -> None:
    """Write sentences as a DocBin."""
    spacy = import_spacy("A DocBin")
    docs = docs_of_sentences(sentences, None, check_label(label or ENTITIES))
    out.write(spacy.tokens.DocBin(docs=docs, store_user_data=False).to_bytes())
