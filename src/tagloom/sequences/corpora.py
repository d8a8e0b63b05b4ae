"""Read, stream and write corpora in any format.

`stream` chooses a layout (the columns or keys of the file), and the layout reads the file. `read`
collects a stream. `write` renders each sentence with a layout that ``targets.py`` chooses.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tagloom import checks
from tagloom.errors import FormatError
from tagloom.sequences.files import (
    BOM,
    SAMPLE,
    Input,
    Source,
    open_output,
    sample_lines,
    split_suffix,
    stamp_of,
)
from tagloom.sequences.guesses import (
    ARRAYS,
    BINARY,
    FORMATS,
    NOT_WRITTEN,
    PASS_FORMAT,
    SUFFIXES,
    guess_binary,
    guess_text,
)
from tagloom.sequences.sentences import Corpus, Sentence
from tagloom.sequences.targets import ReadLayout, same_columns, target

if TYPE_CHECKING:
    from tagloom.sequences.documents import Tokenize
    from tagloom.sequences.label_names import LabelNames

# format -> (module and function that makes its layout, options that it takes); the module is
# imported when such a file is read, for a quick start
_COLUMN_OPTIONS = {"label", "token", "columns", "header", "sep", "comment", "unknown", "labelled"}
_READERS: dict[str, tuple[str, set[str]]] = {
    "conll": ("column_guesses.plain_layout", _COLUMN_OPTIONS),
    "conllu": (
        "column_guesses.conllu_layout",
        {"label", "token", "columns", "sep", "unknown", "labelled"},
    ),
    "csv": ("tables.table_layout", (_COLUMN_OPTIONS - {"comment"}) | {"sentence"}),
    "slash": ("slashes.slash_layout", {"sep", "unknown", "labelled"}),
    "text": ("slashes.slash_layout", {"labelled"}),
    **dict.fromkeys(
        ("jsonl", "json"), ("objects.object_layout", {"label", "token", "label_names", "labelled"})
    ),
    **dict.fromkeys(
        ("jsonl-spans", "json-spans", "spacy", "label-studio"),
        ("objects.object_layout", {"label", "token", "tokenize", "labelled"}),
    ),
    "brat": ("brat.brat_layout", {"tokenize", "labelled"}),
    "crfsuite": ("attribute_rows.attribute_layout", {"labelled"}),
    "docbin": ("docbin.docbin_layout", {"label", "labelled"}),
    **dict.fromkeys(
        ("parquet", "arrow"),
        (
            "arrow.arrow_layout",
            {"label", "token", "sentence", "label_names", "tokenize", "labelled"},
        ),
    ),
}
_WRITER_OPTIONS = {
    "conll": {"columns", "sep", "unknown", "append"},
    "conllu": {"label", "unknown", "append"},
    "csv": {"columns", "sep", "unknown", "append"},
    "slash": {"sep", "unknown", "append"},
    "text": set(),
    "jsonl": {"label", "columns", "label_names", "append"},
    "jsonl-spans": {"label", "append"},
    "json": {"label", "columns", "label_names", "append"},
    "json-spans": {"label", "append"},
    "spacy": {"label"},
    "label-studio": set(),
    "brat": set(),
    "crfsuite": set(),
    "docbin": {"label"},
    "parquet": {"label", "columns", "label_names", "append"},
    "arrow": {"label", "columns", "label_names", "append"},
}


_WITH_COLUMNS = ("conll", "conllu", "csv")
# Formats that have one place for labels, and none for other values.
_USUAL_PLACE = ("spacy", "label-studio", "brat", "crfsuite", "docbin")
_WITH_TEXT = ("jsonl-spans", "json-spans", "spacy", "label-studio")


class Stream(Iterator[Sentence]):
    r"""The sentences of a file, one after another, in constant memory.

    Created by `stream`. The file is closed at its end, by ``close()``, or at the end of a ``with``
    block.

    Attributes
    ----------
    format, path, label, notice : str or None
        As in a `Corpus`.
    problems : list of str
        Spans that could not be mapped to tokens so far.

    Examples
    --------
    >>> import io, tagloom as tl
    >>> with tl.stream(io.BytesIO(b"They/PRON fish/VERB\n"), "slash") as sentences:
    ...     print(sentences.format, next(sentences))
    slash Sentence('They/PRON fish/VERB')
    """

    def __init__(
        self,
        file: Input,
        layout: ReadLayout,
        notice: str | None,
        batches: Iterator[Iterable[Sentence]] | None = None,
    ) -> None:
        self.path = file.name
        self.format = layout.format
        self.label = layout.label_name
        self.notice = notice
        self._file, self._layout = file, layout
        self._batches = layout.read(file) if batches is None else batches
        self._sentences: Iterator[Sentence] = iter(())  # the rest of the current batch
        self._is_empty = True

    @property
    def problems(self) -> list[str]:
        """Spans that could not be mapped to tokens so far."""
        problems: list[str] = getattr(self._layout, "problems", [])
        return problems

    @property
    def _tail(self) -> bytes:
        """Bytes to write after the last sentence; the whole file if it has no sentence."""
        return (self._layout.head if self._is_empty else b"") + self._layout.tail

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Sentence:
        while True:
            for sentence in self._sentences:
                self._is_empty = False
                return sentence
            self._sentences = iter(self._next_batch())

    def _next_batch(self) -> Iterable[Sentence]:
        try:
            return next(self._batches)
        except BaseException:  # close the file at its end and on errors
            self.close()
            raise

    def batches(self) -> Iterator[list[Sentence]]:
        r"""Yield the remaining sentences in lists, as the file delivers them.

        A list holds what could be read at once: some thousand tokens of a file, or one sentence
        typed at a terminal.

        Yields
        ------
        list of Sentence

        Examples
        --------
        >>> import io, tagloom as tl
        >>> file = io.BytesIO(b"They/PRON fish/VERB\n" * 3)
        >>> [len(batch) for batch in tl.stream(file, "slash").batches()]
        [3]
        """
        while True:
            batch = list(self._sentences)
            if batch:
                self._is_empty = False
                yield batch
            try:
                self._sentences = iter(self._next_batch())
            except StopIteration:
                return

    def through(self, function: Callable[[list[Sentence]], Iterable[Sentence]]) -> Stream:
        r"""Apply a function to the sentences as they are read, in constant memory.

        Parameters
        ----------
        function : callable
            Maps a list of sentences, as `batches` yields them, to the sentences that replace them.

        Returns
        -------
        Stream
            Replaces this stream, which must not be used any more.

        Examples
        --------
        >>> import io, tagloom as tl
        >>> def shout(batch):
        ...     return [s.with_labels([label.upper() for label in s.labels]) for s in batch]
        >>> file = io.BytesIO(b"They  pron\nfish  verb\n")
        >>> tl.write(tl.stream(file, "conll").through(shout), "-")
        They  PRON
        fish  VERB
        """
        return Stream(self._file, self._layout, self.notice, map(function, self.batches()))

    def _tokenize_by(self, tokenize: Tokenize) -> Stream:
        """Cut texts with spans by a tokenizer; other formats have tokens."""
        layout: Any = self._layout
        if getattr(layout, "has_text", False):
            layout.tokenize = tokenize
        return self

    def read(self) -> Corpus:
        r"""Read the remaining sentences into a corpus.

        Returns
        -------
        Corpus

        Examples
        --------
        >>> import io, tagloom as tl
        >>> tl.stream(io.BytesIO(b"They/PRON fish/VERB\n"), "slash").read()
        Corpus('<file>', 1 sentence, 2 tokens, 2 labels, format 'slash')
        """
        corpus = Corpus(
            self, format=self.format, path=self.path, label=self.label, notice=self.notice
        )
        corpus.problems = self.problems
        corpus._tail = self._tail
        if self._file.stamp is not None and self.path is not None:
            corpus._stamps[os.path.realpath(self.path)] = self._file.stamp
        return corpus

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Stream({self.path!r}, format {self.format!r})"


def stream(
    path: Source | Input,
    format: str | None = None,
    *,
    label: str | int | None = None,
    token: str | int | None = None,
    columns: Sequence[str] | None = None,
    header: bool | None = None,
    sep: str | None = None,
    comment: str | None = None,
    unknown: str | None = None,
    sentence: str | int | None = None,
    label_names: LabelNames | None = None,
    tokenize: Tokenize | None = None,
    labelled: bool = True,
    encoding: str = "utf-8",
) -> Stream:
    r"""Read a corpus sentence by sentence, in constant memory.

    Parameters
    ----------
    path, format, label, token, columns, header, sep, comment, unknown, sentence, label_names
        As in `read`.
    tokenize, labelled, encoding
        As in `read`.

    Returns
    -------
    Stream
        An iterator of `Sentence`.

    Raises
    ------
    FormatError, MissingExtraError, OSError
        As in `read`; an error in the file is raised when its line is reached.

    Examples
    --------
    >>> import io, tagloom as tl
    >>> file = io.BytesIO(b"They/PRON fish/VERB\n" * 1000)
    >>> sum(len(sentence) for sentence in tl.stream(file, "slash"))
    2000
    """
    given: dict[str, Any] = {
        "label": label,
        "token": token,
        "columns": columns,
        "header": header,
        "sep": sep,
        "comment": comment,
        "unknown": unknown,
        "sentence": sentence,
        "label_names": label_names,
        "tokenize": tokenize,
        "labelled": None if labelled else False,
    }
    file = path if isinstance(path, Input) else Input(path, encoding)
    try:
        why = None
        if format is None:
            format, why = guess_binary(file) or (None, None)
        if format not in BINARY:
            lines = sample_lines(file, 1 if format else SAMPLE)
            _check_line_ends(lines, file.name)
            if format is None:
                format, why = guess_text(file, lines)
        _check_format(format)
        if format in BINARY and file.encoding != "utf-8":
            raise FormatError(
                path=file.name,
                parameter="encoding",
                expected=f"left out when reading {format}, which is not text",
                found=repr(encoding),
            )
        maker, takes = _READERS[format]
        options = _only(given, takes, format, "reading")
        module, _, name = maker.partition(".")
        make = getattr(import_module(f"tagloom.sequences.{module}"), name)
        layout, details = make(file, format, **options)
    except BaseException:
        file.close()
        raise
    notice = None
    if why is not None or details:
        notice = f"{file.name}: read as {FORMATS[format]}" + (f" ({why})" if why else "")
        notice += f"; {details}" if details else ""
        _log("INFO", notice)
    return Stream(file, layout, notice)


def read(
    path: Source,
    format: str | None = None,
    *,
    label: str | int | None = None,
    token: str | int | None = None,
    columns: Sequence[str] | None = None,
    header: bool | None = None,
    sep: str | None = None,
    comment: str | None = None,
    unknown: str | None = None,
    sentence: str | int | None = None,
    label_names: LabelNames | None = None,
    tokenize: Tokenize | None = None,
    labelled: bool = True,
    encoding: str = "utf-8",
) -> Corpus:
    r"""Read a corpus.

    Parameters
    ----------
    path : path, "-" or open file
        The file to read; "-" is stdin. gzip, xz and zstd are recognised.
    format : str, optional
        A key of ``tagloom.sequences.FORMATS``, such as "conll", "conllu", "csv" or "jsonl".
        Guessed from name and content by default. The guess and its reason are in
        ``Corpus.notice`` and are logged by "tagloom" at level INFO.
    label : str or int, optional
        Column or key of the labels, by name or number. CoNLL-U: "upos" by default;
        "upos+feats" joins two columns. Columns: the last one by default.
    token : str or int, optional
        Column or key of the tokens.
    columns : list of str, optional
        Names of the columns of a file without a header; "0", "1", … by default.
    header : bool, optional
        Whether the first row names the columns; guessed from its words by default.
    sep : str, optional
        Separator of columns ("\t", or " " for any run of blanks), or of word and tag.
    comment : str, optional
        Prefix of comment lines in column files; "" for no comments. By default, a line is a
        comment if it starts with "# ", stands before a sentence and does not fit the columns.
    unknown : str, optional
        Value that means an unknown label. The default is "_" in CoNLL-U (except in FEATS, where
        it means no features) and no value elsewhere.
    sentence : str or int, optional
        Tables: column that names the sentence, by name or number. A row whose field is empty
        belongs to the sentence of the row before it. Found by its name by default, such as
        "sentence_id"; without such a column, a blank row ends a sentence.
    label_names : list of str, mapping, ClassLabel or path, optional
        Names of labels that JSON or a table stores as numbers, as Hugging Face does; or a JSON
        file that has them, such as ``dataset_info.json``. The number −100 means an unknown label.
    tokenize : Tokenizer or callable, optional
        For text with spans, unless an object lists its ``tokens``: a `Tokenizer`, which also
        splits the text into sentences, or a function from a text to (begin, end) of each token. By
        default the tokens of ``Tokenizer()``, and one sentence per text.
    labelled : bool, default True
        Pass False for a file without labels, for example to predict them: the column or key may
        be missing and is not read. A column file may lack the label column even if ``columns``
        names it.
    encoding : str, default "utf-8"
        Encoding of the file.

    Returns
    -------
    Corpus

    Raises
    ------
    FormatError
        If the file does not fit its format (with file and line), if the format cannot be guessed,
        or if an option does not apply to it.
    MissingExtraError
        If a zstd file is read without the package zstandard, or Parquet without pyarrow.
    OSError
        If the file cannot be opened.

    Examples
    --------
    >>> import io, tagloom as tl
    >>> corpus = tl.read(io.BytesIO(b"They PRP\nfish VBP\n\nFish NN\n"), "conll")
    >>> corpus.tokens
    [['They', 'fish'], ['Fish']]
    >>> corpus.labels[0]
    ['PRP', 'VBP']
    >>> corpus.notice
    "<file>: read as CoNLL columns; columns separated by blanks; labels from column '1'"
    """
    corpus = stream(
        path,
        format,
        label=label,
        token=token,
        columns=columns,
        header=header,
        sep=sep,
        comment=comment,
        unknown=unknown,
        sentence=sentence,
        label_names=label_names,
        tokenize=tokenize,
        labelled=labelled,
        encoding=encoding,
    ).read()
    if corpus.problems:
        _log(
            "WARNING",
            f"{corpus.path}: {checks.plural(len(corpus.problems), 'problem')}, the first: "
            f"{corpus.problems[0]} All are in corpus.problems.",
        )
    return corpus


def write(
    sentences: Iterable[Sentence | Iterable[str]],
    path: Source,
    format: str | None = None,
    *,
    label: str | None = None,
    columns: Sequence[str] | None = None,
    sep: str | None = None,
    unknown: str | None = None,
    label_names: LabelNames | None = None,
    append: bool | Sequence[str] = False,
    encoding: str = "utf-8",
) -> None:
    r"""Write a corpus.

    In the format that it was read from, the file is reproduced byte for byte, except for the
    fields that were changed. A corpus does not replace the file that it was read from if another
    program has changed that file since.

    Parameters
    ----------
    sentences : Corpus, Stream or iterable of Sentence
        The sentences to write. A stream is written as it is read, in constant memory.
    path : path, "-" or open file
        Destination; "-" is stdout. A name that ends in .gz, .xz or .zst is compressed. The file
        appears under its name only when it is complete.
    format : str, optional
        A key of ``tagloom.sequences.FORMATS``, such as "conll", "conllu", "csv" or "jsonl".
        By default the format that the file name implies, else the one that was read.
    label : str, optional
        CoNLL-U: column for labels that come from another format, "upos" by default. JSONL,
        Parquet and Arrow: key or column of the labels.
    columns : list of str, optional
        Columns to write: "token", "label" or columns of the sentences. JSONL, Parquet and Arrow:
        further keys or columns.
    sep : str, optional
        As in `read`. By default a tab for columns, "/" for word/TAG.
    unknown : str, optional
        Value to write for an unknown label; "_" in CoNLL-U.
    label_names : list of str, mapping, ClassLabel or path, optional
        As in `read`: the file then gets the numbers of the labels.
    append : bool or list of str, default False
        Keep the columns of the file, and write the labels to a new column after the last one.
        Formats without columns write the labels to their usual place. A list, such as
        ``["label", "prob"]``, also adds columns of the sentences: after the tag in word/TAG, as
        keys in JSONL.
    encoding : str, default "utf-8"
        Encoding of the file, if its format is text.

    Raises
    ------
    FormatError
        If the format cannot hold a sentence (the message names it), no format is implied, or the
        file was changed since the corpus was read from it.
    LabelError
        If a value that was assigned to an item of ``labels`` is not a label.
    SentenceError
        If a sentence is a str.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tagloom as tl
    >>> tl.write(tl.Corpus([["They", "fish"]], [["PRON", None]]), "-", "jsonl")
    {"tokens": ["They", "fish"], "labels": ["PRON", null]}
    >>> import io
    >>> corpus = tl.read(io.BytesIO(b"They  they\nfish  fish\n"), "conll", labelled=False)
    >>> tl.write(corpus.with_labels([["PRON", "VERB"]]), "-", append=True)
    They  they PRON
    fish  fish VERB
    """
    if isinstance(append, str):
        raise FormatError(parameter="append", expected="a list of names", found=repr(append))
    given: dict[str, Any] = {"label": label, "columns": columns, "sep": sep, "unknown": unknown}
    given |= {"label_names": label_names, "append": _added(append)}
    if isinstance(sentences, Sentence):
        sentences = [sentences]
    if not isinstance(sentences, Stream | Corpus):
        sentences = Corpus(sentences)
    if isinstance(sentences, Corpus):
        sentences = sentences._checked()
    format = choose_format(path, format, sentences)
    if format not in _WRITER_OPTIONS:
        raise FormatError(
            parameter="format",
            expected=f"one that can be written: {', '.join(_WRITER_OPTIONS)}",
            found=repr(format),
        )
    if given["append"] == ["label"] and format in _USUAL_PLACE:
        given["append"] = None
    options = _only(given, _WRITER_OPTIONS[format], format, "writing")
    if format == "brat":
        from tagloom.sequences.brat import write_brat

        write_brat(sentences, path, encoding)
        return
    if format == "docbin":
        from tagloom.sequences.docbin import write_docbin

        with open_output(path) as out:
            write_docbin(sentences, out, options.get("label"))
        return
    if format in ("parquet", "arrow"):
        from tagloom.sequences.arrow import write_arrow  # imported here for a fast start

        with open_output(path) as out:
            write_arrow(sentences, out, format, options)
        return
    if format == "csv":
        from tagloom.sequences.tables import SentenceIds

        options["ids"] = SentenceIds()
    # Keys: the layout that a sentence was read with, and whether it has labels.
    layouts: dict[tuple[int, bool], Any] = {}
    end, n = b"", 0
    stamps = sentences._stamps if isinstance(sentences, Corpus) else {}
    target_path = os.path.realpath(path) if isinstance(path, str | os.PathLike) else ""
    with open_output(path, encoding, stamps.get(target_path)) as out:
        first: Any = None
        for batch in _batches(sentences, format):
            parts = []
            for i, sentence in enumerate(batch, n):
                key = (id(sentence._layout), sentence.labels is None)
                layout: Any = layouts.get(key)
                if layout is None:
                    layout = layouts[key] = target(sentence, format, options)
                raw = layout.render(sentence, f"sentence {i}")
                if first is None:
                    first = layout
                    # A word that starts like a byte order mark needs a real one before it.
                    parts.append(layout.head or (BOM if raw.startswith(BOM) else b""))
                elif format in _WITH_COLUMNS:
                    _check_width(layout, first, i)
                parts += end, raw
                if format in ARRAYS:
                    end = layout.separator
                else:
                    end = b"" if raw.endswith(b"\n\n") else _missing_end(raw, format)
            n += len(batch)
            out.write(b"".join(parts))
            out.flush()
        # The bytes after the last sentence, if the format stays the same.
        tail = sentences._tail if sentences.format == format else b""
        if format in ARRAYS and not tail:
            from tagloom.sequences.arrays import TAIL

            tail = b"[]\n" if first is None else TAIL
        out.write(tail)
    if target_path in stamps:
        stamps[target_path] = stamp_of(target_path)


def relabel(
    sentences: Stream,
    path: Source,
    function: Callable[[list[list[str]]], list[list[str]]],
    values: Iterable[str],
    *,
    append: bool | Sequence[str] = False,
    encoding: str = "utf-8",
) -> bool:
    """Write a file with new labels, as `write` would, without creating its sentences.

    For column files, and for tables with a list of tokens in each row.

    Parameters
    ----------
    sentences : Stream
        A stream from which nothing has been read yet.
    path : path, "-" or open file
    function : callable
        Maps the tokens of some sentences to their labels.
    values : iterable of str
        All labels that the function may return.
    append, encoding
        As in `write`.

    Returns
    -------
    bool
        False if only `write` can do it; nothing is written then.
    """
    source: Any = sentences._layout
    if source.format in ("parquet", "arrow"):
        return _relabel_table(sentences, path, function, append, encoding)
    if source.format not in ("conll", "conllu"):
        return False
    if choose_format(path, None, sentences) != source.format:
        return False
    added = _added(append)
    try:
        layout = same_columns(source, Sentence([], []), {"append": added} if added else {})
    except FormatError:
        return False  # `write` raises the error and names the sentence
    n = len(source.names)
    if len(layout.names) > n + (layout.label == n) or layout.label_tail >= 0:
        return False
    if not all(map(layout.can_hold, values)):
        return False
    with sentences, open_output(path, encoding) as out:
        is_empty = True
        for data in source.relabel(sentences._file, function, layout.label):
            if data and is_empty:
                out.write(layout.head or (BOM if data.startswith(BOM) else b""))
                is_empty = False
            out.write(data)
            out.flush()
        out.write((source.head if is_empty else b"") + source.tail)
    return True


def _relabel_table(
    sentences: Stream,
    path: Source,
    function: Callable[[list[list[str]]], list[list[str]]],
    append: bool | Sequence[str],
    encoding: str,
) -> bool:
    """Do `relabel` for Parquet and Arrow files."""
    from tagloom.sequences.arrow import ArrowLayout, relabel_arrow

    source = sentences._layout
    assert isinstance(source, ArrowLayout)
    is_plain = source.by is None and not source.has_text and source.columns.label_names is None
    if not is_plain or choose_format(path, None, sentences) != source.format:
        return False
    if any(name != "label" for name in _added(append) or ()):
        return False
    with sentences, open_output(path, encoding) as out:
        relabel_arrow(source, sentences._file.name, out, function)
    return True


def _added(append: bool | Sequence[str]) -> list[str] | None:
    """Return the columns to add, or None."""
    return (["label"] * append if isinstance(append, bool) else list(append)) or None


def _batches(sentences: Corpus | Stream, format: str) -> Iterator[list[Sentence]]:
    """Cut sentences into lists that are written at once; a stream has its own batches.

    Sentences of one text are one document in the formats that hold text.
    """
    by_text = format in _WITH_TEXT
    if isinstance(sentences, Stream):
        for batch in sentences.batches():
            yield [*_documents(batch)] if by_text else batch
        return
    remaining = _documents(sentences) if by_text else iter(sentences)
    while batch := list(islice(remaining, 256)):
        yield batch


def _documents(sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    from tagloom.sequences.documents import documents  # here, for a quick start

    return documents(sentences)


def _log(level: str, message: str) -> None:
    """Log a guess at level INFO, which Python hides by default, or a problem at WARNING."""
    if level == "INFO" and "logging" not in sys.modules:
        return  # nobody has set a level at which it would be shown
    import logging  # imported here for a fast start

    logging.getLogger("tagloom").log(getattr(logging, level), "%s", message)


def _check_line_ends(lines: list[str], name: str) -> None:
    if len(lines) == 1 and "\r" in lines[0].rstrip("\r"):
        raise FormatError(
            path=name,
            line=1,
            expected="lines that end in a line feed",
            found="carriage returns only, as on old Macintoshes",
            hint="Convert the file first: tr '\\r' '\\n'.",
        )


def _check_format(format: str) -> None:
    if format not in FORMATS:
        raise FormatError(
            parameter="format", expected=f"one of {', '.join(FORMATS)}", found=checks.show(format)
        )


def _only(given: dict[str, Any], takes: set[str], format: str, doing: str) -> dict[str, Any]:
    """Return the options that are set; raise for one that the format does not use."""
    options = {name: value for name, value in given.items() if value is not None}
    for name in options:
        if name not in takes:
            raise FormatError(
                parameter=name,
                expected=f"left out when {doing} {format}, which takes {', '.join(sorted(takes))}",
                found=checks.show(options[name]),
            )
    if isinstance(options.get("columns"), str):
        raise FormatError(
            parameter="columns", expected="a list of names", found=checks.show(options["columns"])
        )
    return options


def choose_format(path: Source, format: str | None, sentences: Corpus | Stream) -> str:
    """Return the format to write: the given one, that of the name, or that which was read."""
    if format is not None:
        _check_format(format)
        return format
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
    suffix = split_suffix(name)[0]
    named = SUFFIXES.get(suffix)
    read_as = None if suffix in NOT_WRITTEN else sentences.format
    if named == "jsonl" and read_as == "jsonl-spans":
        return read_as
    if named == "json" and read_as in (*ARRAYS, "jsonl-spans"):
        return "json-spans" if read_as == "jsonl-spans" else read_as
    if named or read_as:
        return named or str(read_as)
    raise FormatError(
        expected="a file name whose suffix implies the format",
        found=repr(name),
        hint=f"Choose one that ends in {', '.join(SUFFIXES)}."
        if suffix in NOT_WRITTEN
        else PASS_FORMAT,
        options={"format": ...},
    )


def _check_width(layout: Any, first: Any, i: int) -> None:
    if len(layout.names) != len(first.names):
        raise FormatError(
            where=f"sentence {i}",
            expected=f"{len(first.names)} columns, as in the first sentence",
            found=str(len(layout.names)),
            hint="Name the columns to write with {columns}.",
            options={"columns": ...},
        )


def _missing_end(raw: bytes, format: str) -> bytes:
    """Return the line ends that must follow a sentence before another one can."""
    end = b"\r\n" if b"\r\n" in raw else b"\n"
    if not raw.endswith(b"\n"):
        return end if format not in ("conll", "conllu") else end + end
    if format in ("conll", "conllu") and raw.rsplit(b"\n", 2)[-2].strip():
        return end
    return b""
