"""Sentence and Corpus: the objects that readers return and writers take.

A sentence from a file keeps the bytes that it was read from. Its further columns and comments are
parsed on first access. A writer of the same format reproduces the bytes and replaces only the
fields that the user changed. The file's ``Layout``, defined beside the format's reader, interprets
the bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, SupportsIndex, TypeAlias, overload

from tagloom import checks
from tagloom.errors import LabelError, SentenceError

#: A label is a name, None where it is unknown, or a frozenset where it is one of several.
Label: TypeAlias = str | frozenset[str] | None


class Layout(Protocol):
    """Interprets the bytes of one file; shared by all its sentences."""

    @property
    def format(self) -> str:
        """Name of the format."""

    def columns(self, raw: bytes) -> dict[str, list[str]]:
        """Split the bytes of one sentence into named columns."""

    def comments(self, raw: bytes) -> list[str]:
        """Find the comment lines among the bytes of one sentence."""

    def line_of(self, raw: bytes, token: int) -> int:
        """Return the line of ``raw``, counted from 0, that contains a token."""


class Sentence:
    """A list of tokens with their labels, further columns and comments.

    It behaves like the list of its tokens in ``len``, indexing and iteration.

    Parameters
    ----------
    tokens : iterable of str
        The words, or other units to label.
    labels : iterable of str, None or set of str, optional
        One per token: a name, None (unknown), or a set (one of these).
    columns : mapping of str to list of str, optional
        Further columns, each with one value per token.
    comments : iterable of str, optional
        Comment lines before the sentence.
    text : str, optional
        The raw text that the tokens come from.
    offsets : iterable of (int, int), optional
        Begin and end of each token in ``text``, in characters.

    Attributes
    ----------
    tokens : list of str
    labels : list of str, None or frozenset, or None
        None if the sentence has no labels.
    text : str or None
    offsets : list of (int, int), or None
    line : int or None
        First line of the sentence in its file, counted from 1.

    Raises
    ------
    SentenceError
        If ``tokens`` is a str, or a token is not a str.
    LabelError
        If a label is not a str, None or a set, or labels and tokens differ in number.

    Examples
    --------
    >>> from tagloom import Sentence
    >>> sentence = Sentence(["They", "can", "fish"], ["PRON", None, {"VERB", "NOUN"}])
    >>> len(sentence), sentence[1], sentence.labels[0]
    (3, 'can', 'PRON')
    >>> sentence
    Sentence('They/PRON can/? fish/{NOUN,VERB}')
    """

    __slots__ = (
        "_columns",
        "_comments",
        "_layout",
        "_raw",
        "labels",
        "line",
        "offsets",
        "text",
        "tokens",
    )

    tokens: list[str]
    labels: list[Label] | None
    text: str | None
    offsets: list[tuple[int, int]] | None
    line: int | None

    def __init__(
        self,
        tokens: Iterable[str],
        labels: Iterable[str | set[str] | frozenset[str] | None] | None = None,
        *,
        columns: Mapping[str, Iterable[str]] | None = None,
        comments: Iterable[str] = (),
        text: str | None = None,
        offsets: Iterable[tuple[int, int]] | None = None,
    ) -> None:
        self.tokens = _as_tokens(tokens)
        self.labels = None if labels is None else _as_labels(labels, len(self.tokens))
        self._columns: dict[str, list[str]] | None = {}
        for name, values in (columns or {}).items():
            self._columns[name] = list(values)
            if len(self._columns[name]) != len(self.tokens):
                raise SentenceError(
                    where=f"column {name!r}",
                    expected=f"{checks.plural(len(self.tokens), 'value')}, one per token",
                    found=str(len(self._columns[name])),
                )
        self._comments: list[str] | None = list(comments)
        self.text = text
        self.offsets = None if offsets is None else list(offsets)
        self.line = None
        self._raw = b""
        self._layout: Layout | None = None

    @classmethod
    def _from_file(
        cls,
        tokens: list[str],
        labels: list[Label] | None,
        raw: bytes,
        line: int,
        layout: Layout,
        text: str | None = None,
        offsets: list[tuple[int, int]] | None = None,
    ) -> Sentence:
        """Create a sentence that a reader has checked; ``raw`` holds columns and comments."""
        self = cls.__new__(cls)
        self.tokens, self.labels = tokens, labels
        self.text, self.offsets = text, offsets
        self.line = line
        self._raw, self._layout = raw, layout
        self._columns = self._comments = None
        return self

    @classmethod
    def _from_text(cls, tokens: list[str], text: str, offsets: list[tuple[int, int]]) -> Sentence:
        """Create a sentence of a text that a tokenizer has cut."""
        self = cls.__new__(cls)
        self.tokens, self.labels = tokens, None
        self.text, self.offsets = text, offsets
        self.line = None
        self._raw, self._layout = b"", None
        self._columns, self._comments = {}, []
        return self

    @property
    def columns(self) -> dict[str, list[str]]:
        """All columns by name; for a file, including those of the tokens and labels.

        In JSONL, further columns may hold other values than str.
        """
        if self._columns is None:
            self._columns = self._layout.columns(self._raw) if self._layout else {}
        return self._columns

    @property
    def comments(self) -> list[str]:
        """The comment lines before or between the tokens, without line ends."""
        if self._comments is None:
            self._comments = self._layout.comments(self._raw) if self._layout else []
        return self._comments

    @property
    def source(self) -> str | None:
        """The text that the sentence was read from, or None if it is not from a text file."""
        is_text = self._layout is not None and self._layout.format not in ("parquet", "arrow")
        return self._raw.decode("utf-8") if is_text else None

    def with_labels(
        self, labels: Iterable[str | set[str] | frozenset[str] | None] | None
    ) -> Sentence:
        """Return a copy with other labels, which is still tied to its file.

        Parameters
        ----------
        labels : iterable of str, None or set of str, or None
            One per token, or None for a sentence without labels.

        Returns
        -------
        Sentence

        Examples
        --------
        >>> from tagloom import Sentence
        >>> Sentence(["Fish", "swim"]).with_labels(["NOUN", "VERB"])
        Sentence('Fish/NOUN swim/VERB')
        """
        new = Sentence.__new__(Sentence)
        new.tokens = self.tokens[:]
        new.labels = None if labels is None else _as_labels(labels, len(self.tokens))
        new.text, new.offsets, new.line = self.text, self.offsets, self.line
        new._columns, new._comments = self._columns, self._comments
        new._raw, new._layout = self._raw, self._layout
        return new

    def line_of(self, token: int) -> int | None:
        r"""Return the line of the file that contains a token.

        Parameters
        ----------
        token : int
            Index of the token.

        Returns
        -------
        int or None
            The line, counted from 1; None for a sentence that is not from a file.

        Examples
        --------
        >>> import io, tagloom as tl
        >>> tl.read(io.StringIO("a X\nb Y\n\nc X\n"), "conll")[1].line_of(0)
        4
        """
        if self._layout is None or self.line is None:
            return None
        return self.line + self._layout.line_of(self._raw, token)

    def __len__(self) -> int:
        return len(self.tokens)

    @overload
    def __getitem__(self, index: SupportsIndex) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> str | list[str]:
        return self.tokens[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tokens)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sentence):
            return NotImplemented
        return (
            self.tokens == other.tokens
            and self.labels == other.labels
            and self.columns == other.columns
            and self.comments == other.comments
            and (self.text, self.offsets) == (other.text, other.offsets)
        )

    __hash__ = None  # type: ignore[assignment]  # the lists may change

    def __repr__(self) -> str:
        shown = self.tokens[:12]
        if self.labels is not None:
            shown = [f"{w}/{show_label(y)}" for w, y in zip(shown, self.labels, strict=False)]
        more = ["…"] if len(self.tokens) > 12 else []
        return f"Sentence({' '.join(shown + more)!r})"

    def _repr_html_(self) -> str:
        from tagloom.notebooks import tokens_html

        return tokens_html(self.tokens, self.labels)


def no_labels(where: str) -> LabelError:
    """Return the error for a sentence that has no labels at all."""
    return LabelError(
        where=where,
        expected="labels",
        found="none",
        hint="When reading a file, name their column with {label}.",
        options={"label": ...},
    )


def show_label(label: Label) -> str:
    """Write a label for people: ``?`` for unknown, ``{A,B}`` for one of several."""
    if label is None:
        return "?"
    return label if isinstance(label, str) else "{" + ",".join(sorted(label)) + "}"


def _as_tokens(tokens: Iterable[str]) -> list[str]:
    is_text = isinstance(tokens, str | bytes)
    if is_text or not isinstance(tokens, Iterable):
        raise SentenceError(
            expected="a list of tokens",
            found=checks.show_type(tokens),
            hint="Split it first, for instance with text.split()." if is_text else None,
        )
    if isinstance(tokens, Mapping):
        raise SentenceError(
            expected="a list of tokens",
            found=checks.show_type(tokens),
            hint="Dicts with tokens and labels are for Corpus.from_dicts.",
        )
    tokens = list(tokens)
    for t, token in enumerate(tokens):
        if not isinstance(token, str):
            raise SentenceError(where=f"token {t}", expected="a str", found=checks.show_type(token))
    return tokens


def _as_labels(labels: Iterable[Any], n_tokens: int) -> list[Label]:
    if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
        raise LabelError(expected="a list of labels", found=checks.show_type(labels))
    labels = list(labels)
    result: list[Label] = []
    try:
        "".join(labels)  # the fastest way to see that all are str, as they nearly always are
        result, labels = labels, []
    except TypeError:
        pass
    for t, label in enumerate(labels):
        label = checks.label(label, f"token {t}", may_be_open=True)
        result.append(frozenset(label) if isinstance(label, set) else label)
    if len(result) != n_tokens:
        raise LabelError(
            expected=f"{checks.plural(n_tokens, 'label')}, one per token", found=str(len(result))
        )
    return result


_SHOWN = 5  # sentences of a corpus that a notebook shows


class Corpus(Sequence[Sentence]):
    """A sequence of sentences and the file that they came from.

    Parameters
    ----------
    sentences : iterable of Sentence or of list of str
        The sentences; a plain list of tokens becomes a `Sentence`.
    labels : iterable of list, optional
        One list of labels per sentence, for sentences given as lists of tokens.
    format : str, optional
        Format of the file that the sentences were read from.
    path : str, optional
        Name of that file.
    label : str, optional
        Name of the column that holds the labels.
    notice : str, optional
        The reader's guesses and their reasons.
    problems : iterable of str, optional
        Spans that the reader could not map, for instance because they cut a token.

    Attributes
    ----------
    format, path, label, notice : str or None
    problems : list of str

    Raises
    ------
    SentenceError
        If ``sentences`` or one of its members is a str.
    LabelError
        If ``labels`` does not fit the sentences.

    Examples
    --------
    >>> from tagloom import Corpus
    >>> corpus = Corpus([["They", "fish"], ["Fish"]], [["PRON", "VERB"], ["NOUN"]])
    >>> len(corpus), corpus.n_tokens, corpus[0].labels
    (2, 3, ['PRON', 'VERB'])
    >>> corpus.label_counts()
    Counter({'PRON': 1, 'VERB': 1, 'NOUN': 1})
    >>> corpus[:1]
    Corpus(1 sentence, 2 tokens, 2 labels)
    """

    def __init__(
        self,
        sentences: Iterable[Sentence | Iterable[str]],
        labels: Iterable[Iterable[str | set[str] | frozenset[str] | None]] | None = None,
        *,
        format: str | None = None,
        path: str | None = None,
        label: str | None = None,
        notice: str | None = None,
        problems: Iterable[str] = (),
    ) -> None:
        if isinstance(sentences, str | bytes) or not isinstance(sentences, Iterable):
            raise SentenceError(
                expected="a list of sentences",
                found=checks.show_type(sentences),
                hint="To read a file, use tagloom.read(path).",
            )
        self._sentences = [_as_sentence(s, i) for i, s in enumerate(sentences)]
        if labels is not None:
            self._sentences = _with_labels(self._sentences, labels)
        self.format = format
        self.path = path
        self.label = label
        self.notice = notice
        self.problems = list(problems)
        self._tail = b""  # bytes of the file after its last sentence
        # Path -> stamp of the file as it was last read or written, shared with copies; see `write`.
        self._stamps: dict[str, tuple[int, int, int]] = {}

    @classmethod
    def from_pairs(cls, sentences: Iterable[Iterable[tuple[str, Any]]]) -> Corpus:
        """Make a corpus of (token, label) pairs, such as NLTK's ``tagged_sents()``.

        Parameters
        ----------
        sentences : iterable of lists of (str, label)

        Returns
        -------
        Corpus

        Raises
        ------
        SentenceError, LabelError
            If an item is not such a pair, with sentence and token.

        Examples
        --------
        >>> from tagloom import Corpus
        >>> Corpus.from_pairs([[("They", "PRP"), ("fish", "VBP")]])[0]
        Sentence('They/PRP fish/VBP')
        """
        from tagloom.sequences.frames import sentences_of_pairs

        return cls(sentences_of_pairs(sentences))

    @classmethod
    def from_dicts(
        cls,
        rows: Iterable[Mapping[str, Any]],
        *,
        token: str | None = None,
        label: str | None = None,
        label_names: Any = None,
    ) -> Corpus:
        """Make a corpus of dicts with a list of tokens and a list of labels.

        Parameters
        ----------
        rows : iterable of dict
            One per sentence, or a data set of Hugging Face, which has the names of its labels.
        token, label : str, optional
            Keys of tokens and labels; found as in JSONL by default.
        label_names : list of str, mapping, ClassLabel or path, optional
            Names of numbered labels, as in `tagloom.read`.

        Returns
        -------
        Corpus

        Raises
        ------
        FormatError
            If a dict lacks tokens, or its labels do not fit them.

        Examples
        --------
        >>> from tagloom import Corpus
        >>> rows = [{"tokens": ["Ann", "left"], "ner_tags": [1, 0]}]
        >>> Corpus.from_dicts(rows, label_names=["O", "B-PER"])[0]
        Sentence('Ann/B-PER left/O')
        """
        from tagloom.sequences.frames import sentences_of_dicts

        return cls(sentences_of_dicts(rows, token, label, label_names))

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        sentence: str | None = None,
        token: str | None = None,
        label: str | None = None,
        label_names: Any = None,
    ) -> Corpus:
        """Make a corpus of a data frame with one row per token, or lists in one row per sentence.

        Parameters
        ----------
        frame : DataFrame
            Of pandas, or a dict of lists of equal length.
        sentence, token, label : str, optional
            Names of the columns; found by name as in a table by default. Labels are in the column
            "label", else in the last one. A missing sentence continues the one before it, and a
            missing label is unknown.
        label_names : list of str, mapping, ClassLabel or path, optional
            Names of labels that are numbers, as in `from_dicts`.

        Returns
        -------
        Corpus

        Raises
        ------
        FormatError
            If a column does not exist, or a token is missing (with its row).

        Examples
        --------
        >>> from tagloom import Corpus
        >>> frame = {"sent": [1, None, 2], "word": ["Ann", "left", "Bo"], "tag": ["A", "B", "A"]}
        >>> Corpus.from_frame(frame).tokens
        [['Ann', 'left'], ['Bo']]
        >>> Corpus.from_frame({"tokens": [["Ann", "left"], ["Bo"]]}).tokens  # a row per sentence
        [['Ann', 'left'], ['Bo']]
        """
        from tagloom.sequences.frames import sentences_of_frame

        return cls(sentences_of_frame(frame, sentence, token, label, label_names))

    def to_frame(self) -> Any:
        """Return a data frame of pandas with one row per token.

        Returns
        -------
        DataFrame
            Columns ``sentence`` (counted from 0), ``token``, ``label`` and those of the file.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.

        Examples
        --------
        >>> from tagloom import Corpus
        >>> frame = Corpus([["Ann", "left"]], [["B-PER", "O"]]).to_frame()  # doctest: +SKIP
        """
        from tagloom.sequences.frames import frame_of

        return frame_of(self)

    @classmethod
    def from_spacy(cls, docs: Iterable[Any], *, label: str = "entities") -> Corpus:
        """Make a corpus of documents of spaCy, one sentence for each of theirs.

        Parameters
        ----------
        docs : iterable of spacy.tokens.Doc
        label : str, default "entities"
            The labels: "entities" as BIO labels, or "upos", "xpos" or "lemma".

        Returns
        -------
        Corpus
            Its sentences share the text of their document; tokens of blanks are left out.

        Raises
        ------
        FormatError
            If there are no such labels.

        Examples
        --------
        >>> from tagloom import Corpus
        >>> corpus = Corpus.from_spacy(docs)  # doctest: +SKIP
        """
        from tagloom.sequences.docbin import check_label, sentences_of_doc

        name = check_label(label)
        return cls([s for doc in docs for s in sentences_of_doc(doc, name)], label=name)

    def to_spacy(self, vocab: Any = None, *, label: str = "entities") -> list[Any]:
        """Return documents of spaCy; consecutive sentences of one text are one document.

        Parameters
        ----------
        vocab : spacy.vocab.Vocab, optional
            ``nlp.vocab`` of a pipeline, to process the documents further; an empty one by default.
        label : str, default "entities"
            What the labels become: "entities", which must be BIO labels, or "upos", "xpos" or
            "lemma".

        Returns
        -------
        list of spacy.tokens.Doc

        Raises
        ------
        FormatError
            If a label does not fit; names the sentence.
        MissingExtraError
            If spaCy is not installed.

        Examples
        --------
        >>> from tagloom import Corpus
        >>> docs = Corpus([["Ann", "left"]], [["B-PER", "O"]]).to_spacy()  # doctest: +SKIP
        """
        from tagloom.sequences.docbin import check_label, docs_of_sentences

        return list(docs_of_sentences(self, vocab, check_label(label)))

    @classmethod
    def from_arrow(
        cls,
        table: Any,
        *,
        token: str | None = None,
        label: str | None = None,
        sentence: str | None = None,
        label_names: Any = None,
    ) -> Corpus:
        """Make a corpus of an Arrow table, as a Parquet file holds it.

        Parameters
        ----------
        table : pyarrow.Table, or any object with ``__arrow_c_stream__``
            Such as a data frame of polars. A row is a sentence with lists of tokens and labels, a
            text with spans, or a token if there is a sentence column.
        token, label, sentence : str, optional
            Names of the columns; found as in a file by default.
        label_names : list of str, mapping, ClassLabel or path, optional
            Names of numbered labels, as in `tagloom.read`.

        Returns
        -------
        Corpus
            `tagloom.write` and `to_arrow` keep the other columns of the table.

        Raises
        ------
        FormatError
            If a column is missing, or a row does not fit.
        MissingExtraError
            If pyarrow is not installed.

        Examples
        --------
        >>> from tagloom import Corpus
        >>> corpus = Corpus.from_arrow(table)  # doctest: +SKIP
        """
        from tagloom.sequences.arrow import sentences_of_table

        return cls(sentences_of_table(table, token, label, sentence, label_names))

    def to_arrow(self) -> Any:
        """Return an Arrow table with one row per sentence.

        Returns
        -------
        pyarrow.Table
            Columns ``tokens`` and ``labels``, lists of strings; or the columns of the table that
            the sentences come from.

        Raises
        ------
        FormatError
            If a label is a set of labels.
        MissingExtraError
            If pyarrow is not installed.

        Examples
        --------
        >>> from tagloom import Corpus
        >>> table = Corpus([["Ann", "left"]], [["B-PER", "O"]]).to_arrow()  # doctest: +SKIP
        """
        from tagloom.sequences.arrow import table_of

        return table_of(self)

    @property
    def tokens(self) -> list[list[str]]:
        """The tokens of every sentence."""
        return [s.tokens for s in self._sentences]

    @property
    def labels(self) -> list[list[Label]]:
        """The labels of every sentence.

        Raises
        ------
        LabelError
            If a sentence has none.
        """
        result = []
        for i, s in enumerate(self._sentences):
            if s.labels is None:
                raise no_labels(checks.place(i, path=self.path))
            result.append(s.labels)
        return result

    @property
    def n_tokens(self) -> int:
        """The number of tokens of all sentences."""
        return sum(map(len, self._sentences))

    def label_counts(self) -> Counter[Label]:
        """Count every label; None means unknown, a frozenset one of several.

        Returns
        -------
        Counter
            Label to number of tokens; empty if the corpus has no labels.

        Examples
        --------
        >>> from tagloom import Corpus
        >>> Corpus([["a", "b", "c"]], [["X", "Y", "X"]]).label_counts().most_common(1)
        [('X', 2)]
        """
        counts: Counter[Label] = Counter()
        for s in self._sentences:
            counts.update(s.labels or ())
        return counts

    def with_labels(
        self, labels: Iterable[Iterable[str | set[str] | frozenset[str] | None]]
    ) -> Corpus:
        r"""Return a copy with other labels; writing it gives the original file with those labels.

        Parameters
        ----------
        labels : iterable of list
            One list of labels per sentence.

        Returns
        -------
        Corpus

        Raises
        ------
        LabelError
            If they do not fit the sentences.

        Examples
        --------
        >>> import io, tagloom as tl
        >>> corpus = tl.read(io.StringIO("They  PRP\nfish  NN\n"), "conll")
        >>> tl.write(corpus.with_labels([["PRP", "VBP"]]), "-")
        They  PRP
        fish  VBP
        """
        new = self[:]
        new._sentences = _with_labels(self._sentences, labels)
        new.problems, new._tail, new._stamps = list(self.problems), self._tail, self._stamps
        return new

    def _checked(self) -> Corpus:
        """Check labels that were set in place; a copy if some are sets, which become frozensets.

        Raises
        ------
        LabelError
            If one is not a label, with its place.
        """
        if all(_are_labels(sentence.labels or ()) for sentence in self._sentences):
            return self
        new = self[:]
        new._sentences = [
            sentence if _are_labels(labels) else _relabelled(i, sentence, labels)
            for i, sentence in enumerate(self._sentences)
            for labels in [sentence.labels or ()]
        ]
        new.problems, new._tail, new._stamps = list(self.problems), self._tail, self._stamps
        return new

    def __len__(self) -> int:
        return len(self._sentences)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Sentence: ...
    @overload
    def __getitem__(self, index: slice) -> Corpus: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Sentence | Corpus:
        if not isinstance(index, slice):
            return self._sentences[index]
        return Corpus(
            self._sentences[index],
            format=self.format,
            path=self.path,
            label=self.label,
            notice=self.notice,
        )

    def __iter__(self) -> Iterator[Sentence]:
        return iter(self._sentences)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Corpus):
            return NotImplemented
        return self._sentences == other._sentences

    __hash__ = None  # type: ignore[assignment]  # the sentences may change

    def _repr_html_(self) -> str:
        from html import escape

        shown = "".join(sentence._repr_html_() for sentence in self._sentences[:_SHOWN])
        return f"<p>{escape(repr(self))}</p>{shown}{'<p>…</p>' if len(self) > _SHOWN else ''}"

    def __repr__(self) -> str:
        parts = [repr(self.path)] if self.path else []
        parts += [_count(len(self), "sentence"), _count(self.n_tokens, "token")]
        counts = self.label_counts()
        if counts:
            of = f" of {self.label!r}" if self.label else ""
            parts.append(_count(sum(isinstance(y, str) for y in counts), "label") + of)
        if self.format:
            parts.append(f"format {self.format!r}")
        if self.problems:
            parts.append(_count(len(self.problems), "problem"))
        return f"Corpus({', '.join(parts)})"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _as_sentence(value: Sentence | Iterable[str], i: int) -> Sentence:
    if isinstance(value, Sentence):
        return value
    try:
        return Sentence(value)
    except SentenceError as error:
        error.where = checks.join(checks.place(i), error.where)
        raise


def _with_labels(sentences: list[Sentence], labels: Iterable[Iterable[Any]]) -> list[Sentence]:
    if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
        raise LabelError(
            parameter="labels", expected="a list of lists of labels", found=checks.show_type(labels)
        )
    label_lists = list(labels)
    if len(label_lists) != len(sentences):
        raise LabelError(
            parameter="labels",
            expected=f"{checks.plural(len(sentences), 'list')} of labels, one per sentence",
            found=str(len(label_lists)),
        )
    return [
        _relabelled(i, sentence, new_labels)
        for i, (sentence, new_labels) in enumerate(zip(sentences, label_lists, strict=True))
    ]


def _relabelled(i: int, sentence: Sentence, labels: Iterable[Any]) -> Sentence:
    """Return sentence i of a corpus with other labels; an error names it."""
    try:
        return sentence.with_labels(labels)
    except LabelError as error:
        error.where = checks.join(checks.place(i), error.where)
        raise


def _are_labels(labels: Iterable[Any]) -> bool:
    try:
        "".join(labels)  # the fastest way to see that all are str, as they nearly always are
        return True
    except TypeError:
        return all(y is None or isinstance(y, str | frozenset) for y in labels)
