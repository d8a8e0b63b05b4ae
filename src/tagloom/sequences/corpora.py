"""Read, stream and write corpora in any format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeAlias

from tagloom.errors import FormatError
from tagloom.sequences.columns import CONLLU, UNKNOWN, ColumnLayout, columns_layout, find_column
from tagloom.sequences.files import BOM, Input, Source, open_output, sample_lines, split_suffix
from tagloom.sequences.guesses import FORMATS, SUFFIXES, guess_format
from tagloom.sequences.objects import ObjectLayout, Tokenizer, object_layout
from tagloom.sequences.sentences import Corpus, Sentence
from tagloom.sequences.slashes import SlashLayout, slash_layout

_Layout: TypeAlias = ColumnLayout | SlashLayout | ObjectLayout

# format -> (what makes its layout, the options it takes)
_COLUMN_OPTIONS = {"label", "token", "columns", "header", "sep", "comment", "unknown"}
_READERS: dict[str, tuple[Callable[..., tuple[_Layout, str]], set[str]]] = {
    "conll": (columns_layout, _COLUMN_OPTIONS),
    "conllu": (columns_layout, {"label", "token", "columns", "sep", "unknown"}),
    "slash": (slash_layout, {"sep", "unknown"}),
    "jsonl": (object_layout, {"label", "token"}),
    "jsonl-spans": (object_layout, {"label", "token", "tokenize"}),
}
_WRITER_OPTIONS = {
    "conll": {"columns", "sep", "unknown"},
    "conllu": {"label", "unknown"},
    "slash": {"sep", "unknown"},
    "jsonl": {"label", "columns"},
    "jsonl-spans": {"label"},
}


class Stream(Iterator[Sentence]):
    """The sentences of a file, one after another, in constant memory.

    Made by `stream`. It ends the file's use at its end, at ``close()``, or at the end of a
    ``with`` block.

    Attributes
    ----------
    format, path, label, notice : str or None
        As in a `Corpus`.
    problems : list of str
        What could not be mapped so far.
    """

    def __init__(self, file: Input, layout: _Layout, notice: str | None) -> None:
        self.path = file.name
        self.format = layout.format
        self.label = layout.label_name
        self.notice = notice
        self._file, self._layout = file, layout
        self._sentences = layout.read(file)
        self._is_empty = True

    @property
    def problems(self) -> list[str]:
        """What could not be mapped so far."""
        return self._layout.problems if isinstance(self._layout, ObjectLayout) else []

    @property
    def _tail(self) -> bytes:
        """What to write after the last sentence; with no sentence, all that the file holds."""
        return (self._layout.head if self._is_empty else b"") + self._layout.tail

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Sentence:
        try:
            sentence = next(self._sentences)
            self._is_empty = False
            return sentence
        except BaseException:  # at the end, and on an error, the file is done with
            self.close()
            raise

    def read(self) -> Corpus:
        """Read the sentences that are left into a corpus.

        Returns
        -------
        Corpus
        """
        corpus = Corpus(
            self, format=self.format, path=self.path, label=self.label, notice=self.notice
        )
        corpus.problems = self.problems
        corpus._tail = self._tail
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
    tokenize: Tokenizer | None = None,
    encoding: str = "utf-8",
) -> Stream:
    r"""Read a corpus sentence by sentence, in constant memory.

    Parameters
    ----------
    path, format, label, token, columns, header, sep, comment, unknown, tokenize, encoding
        As in `read`.

    Returns
    -------
    Stream
        An iterator of `Sentence`.

    Raises
    ------
    FormatError, MissingExtraError, OSError
        As in `read`; a fault in the file is raised when it is reached.

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
        "tokenize": tokenize,
    }
    file = Input(path, encoding)
    try:
        why = None
        lines = sample_lines(file)
        if len(lines) == 1 and "\r" in lines[0].rstrip("\r"):
            raise FormatError(
                "its lines end in a carriage return alone, as on old Macintoshes. "
                "Convert it first: tr '\\r' '\\n'.",
                file.name,
                1,
            )
        if format is None:
            format, why = guess_format(file.name, lines)
        _check_format(format)
        make, takes = _READERS[format]
        options = _only(given, takes, format, "reading")
        if make is not slash_layout:
            options["format"] = format
        layout, details = make(file, **options)
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
    tokenize: Tokenizer | None = None,
    encoding: str = "utf-8",
) -> Corpus:
    r"""Read a corpus.

    Parameters
    ----------
    path : path, "-" or open file
        What to read; "-" is stdin. gzip, xz and zstd are recognised.
    format : {"conll", "conllu", "slash", "jsonl", "jsonl-spans"}, optional
        Guessed from name and content unless given; ``Corpus.notice`` says what was guessed and
        why, and so does the logger "tagloom" at level INFO.
    label : str or int, optional
        Column or key of the labels, by name or number. CoNLL-U: "upos" unless given, and
        "upos+feats" joins two. Columns: the last one.
    token : str or int, optional
        Column or key of the tokens.
    columns : list of str, optional
        Names of the columns of a file that has no header; they are "0", "1", … otherwise.
    header : bool, optional
        Whether the first row names the columns; guessed from its words unless given.
    sep : str, optional
        What keeps columns apart ("\t", or " " for any run of blanks), or joins word and tag.
    comment : str, optional
        What a comment line starts with, in columns; "" for no comments. Unless given, a line
        that starts with "# ", stands before a sentence and does not fit the columns is one.
    unknown : str, optional
        What stands for an unknown label: "_" in CoNLL-U (except in FEATS, where it means that
        there are none), nothing elsewhere.
    tokenize : callable, optional
        For text with spans: text to (begin, end) of each token; `word_offsets` unless given.
    encoding : str
        What the file is written in.

    Returns
    -------
    Corpus

    Raises
    ------
    FormatError
        If the file does not fit its format, with file and line; if the format cannot be told; or
        if an option does not apply.
    MissingExtraError
        For a zstd file without the package that reads it.
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
    "<file>: read as CoNLL columns; columns kept apart by blanks; labels from column '1'"
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
        tokenize=tokenize,
        encoding=encoding,
    ).read()
    if corpus.problems:
        _log(
            "WARNING",
            f"{corpus.path}: {len(corpus.problems)} span(s) did not fit the tokens, the first: "
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
    encoding: str = "utf-8",
) -> None:
    r"""Write a corpus; in the format it was read from, byte for byte but for what was changed.

    Parameters
    ----------
    sentences : Corpus, Stream or iterable of Sentence
        What to write. A stream is written as it is read, in constant memory.
    path : path, "-" or open file
        Where to; "-" is stdout. A name that ends in .gz, .xz or .zst is compressed. The file
        takes its name only once it is complete.
    format : {"conll", "conllu", "slash", "jsonl", "jsonl-spans"}, optional
        By the name of the file unless given, or else as the sentences were read.
    label : str, optional
        CoNLL-U: the column that the labels of another format go to, "upos" unless given.
        JSONL: their key.
    columns : list of str, optional
        Columns to write: "token", "label" or columns of the sentences. JSONL: further keys.
    sep : str, optional
        As in `read`; a tab for columns, "/" for word/TAG unless given.
    unknown : str, optional
        What to write for an unknown label; "_" in CoNLL-U.
    encoding : str
        What to write in.

    Raises
    ------
    FormatError
        If the format cannot hold a sentence, which the message names, or cannot be told.
    SentenceError
        If a sentence is a str.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tagloom as tl
    >>> tl.write(tl.Corpus([["They", "fish"]], [["PRON", None]]), "-", "jsonl")
    {"tokens": ["They", "fish"], "labels": ["PRON", null]}
    """
    given = {"label": label, "columns": columns, "sep": sep, "unknown": unknown}
    if isinstance(sentences, Sentence):
        sentences = [sentences]
    if not isinstance(sentences, Stream | Corpus):
        sentences = Corpus(sentences)
    format = _choose_format(path, format, sentences)
    options = _only(given, _WRITER_OPTIONS[format], format, "writing")
    # By the layout that a sentence was read with, and whether it has labels.
    layouts: dict[tuple[int, bool], _Layout] = {}
    end = b""
    with open_output(path, encoding) as out:
        first: _Layout | None = None
        for i, sentence in enumerate(sentences):
            key = (id(sentence._layout), sentence.labels is None)
            layout = layouts.get(key)
            if layout is None:
                layout = layouts[key] = _target(sentence, format, options)
            raw = layout.render(sentence, f"sentence {i}")
            if first is None:
                first = layout
                # A word that starts like a byte order mark needs a real one before it.
                out.write(layout.head or (BOM if raw.startswith(BOM) else b""))
            elif isinstance(layout, ColumnLayout) and isinstance(first, ColumnLayout):
                _check_width(layout, first, i)
            out.write(end)
            out.write(raw)
            end = _missing_end(raw, format)
        # What stood after the last sentence of the file, if the file is written back.
        if sentences.format == format:
            out.write(sentences._tail)


def _log(level: str, message: str) -> None:
    """Tell a guess at level INFO, which is silent unless asked for, and a problem at WARNING."""
    import logging  # here, for a quick start

    logging.getLogger("tagloom").log(getattr(logging, level), "%s", message)


def _check_format(format: str) -> None:
    if format not in FORMATS:
        raise FormatError(f"there is no format {format!r}. Choose one of: {', '.join(FORMATS)}.")


def _only(given: dict[str, Any], takes: set[str], format: str, doing: str) -> dict[str, Any]:
    """Keep the options that were given; one that would have no effect is an error."""
    options = {name: value for name, value in given.items() if value is not None}
    for name in options:
        if name not in takes:
            allowed = ", ".join(f"{x}=" for x in sorted(takes))
            raise FormatError(f"{name}= has no meaning in {doing} {format}. It takes: {allowed}.")
    if isinstance(options.get("columns"), str):
        raise FormatError(f"columns= takes a list of names, found {options['columns']!r}.")
    return options


def _choose_format(path: Source, format: str | None, sentences: Corpus | Stream) -> str:
    if format is not None:
        _check_format(format)
        return format
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
    named = SUFFIXES.get(split_suffix(name)[0])
    own = sentences.format
    if named == "jsonl" and own == "jsonl-spans":
        return own
    if named or own:
        return named or str(own)
    raise FormatError(
        f"cannot tell the format to write from the name {name!r}. "
        f"Pass format=, one of {', '.join(map(repr, FORMATS))}."
    )


def _target(sentence: Sentence, format: str, options: dict[str, Any]) -> _Layout:
    """The layout to write a sentence with: that of its own file, where it fits."""
    own = sentence._layout
    unknown = options.get("unknown")
    if format in ("conll", "conllu"):
        mine = own if isinstance(own, ColumnLayout) and own.format == format else None
        if mine and "columns" not in options:
            return _own_columns(mine, sentence, options)
        if format == "conllu":
            label = find_column(options.get("label", "upos"), CONLLU, None)
            return ColumnLayout(
                "conllu",
                "\t",
                list(CONLLU),
                1,
                label,
                id=0,
                comment="#",
                unknown=unknown or UNKNOWN,
            )
        names = list(options.get("columns") or ())
        names = names or ["token", "label"][: 1 if sentence.labels is None else 2]
        token = names.index("token") if "token" in names else -1
        label = names.index("label") if "label" in names else -1
        return ColumnLayout("conll", options.get("sep", "\t"), names, token, label, unknown=unknown)
    if format == "slash":
        slash = own if isinstance(own, SlashLayout) else SlashLayout()
        return replace(
            slash,
            sep=options.get("sep", slash.sep),
            unknown=unknown if unknown is not None else slash.unknown,
        )
    extra = list(options.get("columns") or ())
    if isinstance(own, ObjectLayout) and own.format == format:
        return replace(own, extra=extra, label_key=options.get("label", own.label_key))
    has_spans = format == "jsonl-spans"
    key = options.get("label", "spans" if has_spans else "labels")
    return ObjectLayout(format, "text" if has_spans else "tokens", key, extra=extra)


def _own_columns(mine: ColumnLayout, sentence: Sentence, options: dict[str, Any]) -> ColumnLayout:
    """The columns of the file that a sentence was read from, with the options of `write`."""
    sep = options.get("sep", mine.sep)
    unknown = options.get("unknown", mine.unknown)
    layout = replace(mine, sep=sep, unknown=unknown)
    if "label" in options:
        layout.label, layout.label_tail = find_column(options["label"], mine.names, None), -1
    elif mine.label < 0 and sentence.labels is not None:
        if mine.format == "conllu":
            raise FormatError(
                f"the labels have no column. Choose label=, one of {', '.join(mine.names)}."
            )
        layout.names, layout.label = [*mine.names, "label"], len(mine.names)
    return layout


def _check_width(layout: ColumnLayout, first: ColumnLayout, i: int) -> None:
    if len(layout.names) != len(first.names):
        raise FormatError(
            f"sentence {i} has {len(layout.names)} columns, the first sentence "
            f"{len(first.names)}. Name those to write: columns=[…]."
        )


def _missing_end(raw: bytes, format: str) -> bytes:
    """What a sentence lacks to be followed by another: the last of a file may lack line ends."""
    end = b"\r\n" if b"\r\n" in raw else b"\n"
    if not raw.endswith(b"\n"):
        return end if format not in ("conll", "conllu") else end + end
    if format in ("conll", "conllu") and raw.rsplit(b"\n", 2)[-2].strip():
        return end
    return b""
