"""Parquet files and Arrow tables: columns of lists of tokens and labels, or of text and spans.

One row is one sentence (``tokens``, ``labels``), one text (``text``, ``spans``), or one token in a
table with a sentence column. The other columns of a table are kept: a sentence remembers its record
batch, and the writer takes the row from there. pyarrow is imported only here.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, groupby, islice, pairwise
from typing import Any, NamedTuple

import numpy as np

from tagloom import checks
from tagloom.errors import FormatError, LabelError, MissingExtraError, SentenceError, TagloomError
from tagloom.sequences.column_guesses import TOKEN_WORDS, label_column_name
from tagloom.sequences.documents import Tokenize, documents
from tagloom.sequences.faults import check_lengths, several_labels
from tagloom.sequences.files import CHUNK, Input, Output
from tagloom.sequences.label_names import LabelNames, label_names_of
from tagloom.sequences.objects import (
    SPAN_KEYS,
    TOKEN_KEYS,
    ObjectLayout,
    guess_label_key,
    label_name,
    label_value,
    parse_spans,
    put_spans,
)
from tagloom.sequences.sentences import Label, Sentence
from tagloom.sequences.tables import is_sentence_name

PARQUET, ARROW = "parquet", "arrow"
_BATCH = 4096  # rows that are read or written at once
_GROUP = 16_000_000  # bytes of a row group that is written, before compression

_WORD = 6  # bytes of a word of text

#: The first of some row groups, and the one after the last.
Groups = tuple[int, int]


def import_arrow(what: str) -> Any:
    """Import pyarrow, or raise the error that tells how to install it."""
    try:
        return importlib.import_module("pyarrow")
    except ImportError:
        raise MissingExtraError(
            f"{what} needs the package pyarrow.",
            hint="Install it with: pip install 'tagloom[arrow]'",
        ) from None


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Turn an error of pyarrow about a file into ours."""
    try:
        yield
    except TagloomError:
        raise
    except OSError as error:
        if error.errno is not None:
            raise
        raise _damaged(name, error) from error
    except Exception as error:  # pyarrow raises its own classes and those of Python
        raise _damaged(name, error) from error


def _damaged(name: str, error: Exception) -> FormatError:
    text = " ".join(str(error).split())
    return FormatError(
        path=name,
        expected="a whole Parquet or Arrow file",
        found=f"{type(error).__name__}: {checks.show(text, 200)}",
    )


# ---- reading -----------------------------------------------------------------------------------


@dataclass
class ArrowLayout:
    """Columns of a table that hold its sentences.

    Parameters
    ----------
    format : str
        "parquet" or "arrow".
    columns : ObjectLayout
        Names of the columns, as the keys of JSON objects: "jsonl" for lists of tokens,
        "jsonl-spans" for text.
    by : str or None
        The sentence column of a table with one row per token.
    batches : iterator of RecordBatch
    parquet : ParquetFile or None
    first : int
        The number in the file of the first row.
    """

    format: str
    columns: ObjectLayout
    by: str | None
    batches: Iterator[Any]
    parquet: Any = None
    first: int = 0
    head: bytes = b""
    tail: bytes = b""
    problems: list[str] = field(default_factory=list)

    @property
    def label_name(self) -> str | None:
        """The column of the labels."""
        return self.columns.label_key

    @property
    def tokenize(self) -> Tokenize | None:
        """The tokenizer of texts."""
        return self.columns.tokenize

    @tokenize.setter
    def tokenize(self, tokenize: Tokenize | None) -> None:
        self.columns.tokenize = tokenize

    @property
    def has_text(self) -> bool:
        """Whether a row holds text and spans, not tokens."""
        return self.columns.has_text

    def divide(self, tokens: int) -> list[Groups]:
        """Divide a Parquet file into row groups of about ``tokens`` tokens together, or more.

        Returns
        -------
        list of (int, int)
            The first row group of each part and the one after its last; empty if the file cannot be
            divided: the sentences of a table with one row per token may go on in the next group.
        """
        if self.parquet is None or self.by is not None:
            return []
        contents = self.parquet.metadata
        ends, total = [0], 0
        for i in range(contents.num_row_groups):
            total += _count_tokens(contents.row_group(i))
            if total >= tokens:
                ends.append(i + 1)
                total = 0
        ends[-1] = contents.num_row_groups  # the rest belongs to the last part
        return list(pairwise(ends)) if len(ends) > 2 else []

    def take(self, groups: Groups) -> None:
        """Read some row groups only; nothing has been read yet."""
        first, end = groups
        contents = self.parquet.metadata
        self.first = sum(contents.row_group(i).num_rows for i in range(first))
        self.batches = self.parquet.iter_batches(_BATCH, row_groups=range(first, end))

    def read(self, file: Input) -> Iterator[list[Sentence]]:
        """Yield the sentences of each record batch of a file."""
        return self.sentences(file.name)

    def sentences(self, name: str) -> Iterator[list[Sentence]]:
        """Yield the sentences of each record batch; errors name their source."""
        if self.by is not None:
            yield from self._read_tokens(name)
            return
        first = self.first
        while True:
            with _naming(name):
                batch = next(self.batches, None)
                if batch is None:
                    return
                if self.format == ARROW:
                    batch.validate(full=True)  # Parquet is decoded, Arrow only mapped
                rows = ArrowRows(self.format, self.columns, batch, first)
                texts = rows.values(self.columns.text_key)
                labels = rows.values(self.columns.label_key) if self.columns.labelled else None
            sentences: list[Sentence] = []
            try:
                for sentence in rows.read(texts, labels, self.problems):
                    sentences.append(sentence)
            except FormatError as error:
                yield sentences
                error.path, error.where = name, checks.join(name, error.where)
                raise
            yield sentences
            first += len(batch)

    def _read_tokens(self, name: str) -> Iterator[list[Sentence]]:
        """Read a table with one row per token; the last sentence of a batch may go on."""
        from tagloom.sequences.frames import sentences_of_frame

        kept: dict[str, list[Any]] = {}  # the rows from ``first`` on
        first = 0
        while True:
            with _naming(name):
                batch = next(self.batches, None)
                if batch is not None:
                    for column, values in batch.to_pydict().items():
                        kept.setdefault(column, []).extend(values)
            if not kept:
                return
            label = self.columns.label_key
            try:
                frame = sentences_of_frame(kept, self.by, self.columns.text_key, label, first=first)
                sentences = list(frame)
            except (FormatError, SentenceError, LabelError) as error:
                error.where = checks.join(name, error.where)
                if isinstance(error, FormatError):
                    error.path = name
                raise
            if not self.columns.labelled:
                sentences = [sentence.with_labels(None) for sentence in sentences]
            if batch is None:
                yield sentences
                return
            yield sentences[:-1]
            n = len(sentences[-1]) if sentences else 0
            first += len(kept[str(self.by)]) - n
            kept = {column: values[len(values) - n :] for column, values in kept.items()}


def _count_tokens(group: Any) -> int:
    """Estimate the number of tokens of a row group: its values, or the words of its texts."""
    values = (group.column(i).num_values for i in range(group.num_columns))
    return int(max(*values, 0, group.total_byte_size // _WORD))


@dataclass(eq=False)
class ArrowRows:
    """The rows of a record batch: what a sentence of it was read from.

    The bytes of a sentence are the index of its row, as ASCII digits.
    """

    format: str
    names: ObjectLayout
    batch: Any
    first: int  # index in the file of the first row

    def read(
        self, texts: list[Any], labels: list[Any] | None, problems: list[str]
    ) -> Iterator[Sentence]:
        """Yield the sentences of the rows, given the values of their columns."""
        for i, text in enumerate(texts):
            row_labels = None if labels is None else labels[i]
            try:
                if self.names.has_text:
                    yield from self._sentences(i, text, row_labels, problems)
                else:
                    yield self._sentence(i, text, row_labels)
            except FormatError as error:
                error.where = checks.join(f"row {self.first + i}", error.where)
                raise

    def values(self, name: str | None) -> Any:
        """Return a column as Python objects; None if there is no such column."""
        if name is None or name not in self.batch.schema.names:
            return None
        return self.batch.column(name).to_pylist()

    def _sentence(self, i: int, tokens: Any, labels: Any) -> Sentence:
        if not isinstance(tokens, list) or not _are_strings(tokens):
            raise FormatError(
                expected=f"a list of strings in column {self.names.text_key!r}",
                found=checks.show(tokens),
            )
        if labels is not None:
            if not isinstance(labels, list):
                raise FormatError(
                    expected=f"a list of labels in column {self.names.label_key!r}",
                    found=checks.show(labels),
                )
            if len(labels) != len(tokens):
                raise FormatError(
                    expected=f"{len(tokens)} labels, one per token, in column "
                    f"{self.names.label_key!r}",
                    found=str(len(labels)),
                )
            labels = self._named(labels)
        return Sentence._from_file(tokens, labels, b"%d" % i, self.first + i + 1, self)

    def _named(self, labels: list[Any]) -> list[Label]:
        """Return labels as names; numbers get theirs."""
        names = self.names.label_names
        kind: type = str if names is None else int
        if not _are_strings(labels) and not all(y is None or type(y) is kind for y in labels):
            t, y = next(
                (t, y) for t, y in enumerate(labels) if y is not None and type(y) is not kind
            )
            raise FormatError(
                where=f"token {t}",
                expected=f"a {'string' if names is None else 'number'} or null in column "
                f"{self.names.label_key!r}",
                found=checks.show(y),
                hint="Pass the names of numbered labels as {label_names}."
                if names is None
                else None,
                options={"label_names": ...},
            )
        if names is None:
            return labels
        return [y if y is None else label_name(y, names, t) for t, y in enumerate(labels)]

    def _sentences(self, i: int, text: Any, spans: Any, problems: list[str]) -> Iterator[Sentence]:
        parsed = parse_spans({self.names.text_key: text, self.names.label_key: spans}, self.names)
        problems += [f"row {self.first + i}: {problem}" for problem in parsed.problems]
        return parsed.sentences(b"%d" % i, self.first + i + 1, self)

    def columns(self, raw: bytes) -> dict[str, list[str]]:
        """Return the columns that hold one string per token, as lists."""
        found = {}
        if self.names.has_text:
            return {}
        n = len(self.batch.column(self.names.text_key)[int(raw)])
        for name in self.batch.schema.names:
            value = self.batch.column(name)[int(raw)].as_py()
            if isinstance(value, list) and len(value) == n and _are_strings(value):
                found[name] = value
        return found

    def comments(self, raw: bytes) -> list[str]:
        """Return no comments: tables have none."""
        return []

    def line_of(self, raw: bytes, token: int) -> int:
        """Return 0: a row is a line."""
        return 0


def _are_strings(values: list[Any]) -> bool:
    try:
        "".join(values)  # the fastest way to see it
    except TypeError:
        return False
    return True


def arrow_layout(
    file: Input,
    format: str,
    *,
    label: str | int | None = None,
    token: str | int | None = None,
    sentence: str | int | None = None,
    label_names: LabelNames | None = None,
    tokenize: Tokenize | None = None,
    labelled: bool = True,
) -> tuple[ArrowLayout, str]:
    """Find the columns of a file of a table."""
    for parameter, value in (("label", label), ("token", token), ("sentence", sentence)):
        if isinstance(value, int):
            raise FormatError(
                path=file.name, parameter=parameter, expected="a column", found=str(value)
            )
    with _naming(file.name):
        schema, batches, parquet = _open(file, format)
        layout, details = _layout_of(
            schema,
            batches,
            format,
            file.name,
            label=label,
            token=token,
            sentence=sentence,
            label_names=label_names,
            tokenize=tokenize,
            labelled=labelled,
        )
    layout.parquet = parquet
    return layout, details


def _open(file: Input, format: str) -> tuple[Any, Iterator[Any], Any]:
    """Return the schema of a file, its record batches, and the open file if it is Parquet.

    Memory is constant where possible.
    """
    pyarrow = import_arrow("A Parquet file" if format == PARQUET else "An Arrow file")
    if format == ARROW and file.peek(6)[0][:6] != b"ARROW1":
        reader = pyarrow.ipc.open_stream(pyarrow.PythonFile(_Reader(file), mode="r"))
        return reader.schema, iter(reader), None
    # The table of contents is at the end of the file.
    if file.plain_path is not None:
        source = pyarrow.memory_map(file.plain_path)
    else:
        source = pyarrow.BufferReader(b"".join(iter(lambda: file.read(CHUNK), b"")))
    if format == PARQUET:
        parquet = importlib.import_module("pyarrow.parquet").ParquetFile(source)
        return parquet.schema_arrow, parquet.iter_batches(_BATCH), parquet
    reader = pyarrow.ipc.open_file(source)
    return reader.schema, (reader.get_batch(i) for i in range(reader.num_record_batches)), None


class _Reader:
    """The bytes of an input as a file of Python, for pyarrow."""

    closed = False

    def __init__(self, file: Input) -> None:
        self._file, self._left = file, b""

    def read(self, size: int) -> bytes:
        """Read exactly ``size`` bytes, or all that are left."""
        parts = [self._left]
        missing = size - len(self._left)
        while missing > 0 and (data := self._file.read(CHUNK)):
            parts.append(data)
            missing -= len(data)
        data = b"".join(parts)
        self._left = data[size:]
        return data[:size]

    def close(self) -> None:
        """Leave the file open: its stream closes it."""


def _layout_of(
    schema: Any,
    batches: Iterator[Any],
    format: str,
    name: str | None,
    *,
    label: Any,
    token: Any,
    sentence: Any,
    label_names: LabelNames | None,
    tokenize: Tokenize | None,
    labelled: bool,
) -> tuple[ArrowLayout, str]:
    """Choose the columns of a table by their names and types."""
    fields = _Fields({field.name: field.type for field in schema}, name)
    for parameter, column in (("token", token), ("sentence", sentence), ("label", label)):
        if column is not None and (labelled or parameter != "label"):
            fields.check(parameter, column)
    token, by = fields.choose(token, sentence)
    if by is not None:
        columns = ObjectLayout("jsonl", token, label, labelled=labelled)
        return ArrowLayout(format, columns, by, batches), f"sentences by column {by!r}"
    keys, kind = (TOKEN_KEYS, "jsonl") if fields.is_list(token) else (SPAN_KEYS, "jsonl-spans")
    notes = [f"{keys.text[0]} in column {token!r}"]
    if label is None:
        label = guess_label_key(dict.fromkeys(fields.types), keys, labelled, name)
        is_known = token in TOKEN_KEYS.text or label in fields.types
        if labelled and kind == "jsonl" and not is_known:
            lists = [
                column for column in fields.types if column != token and fields.is_list(column)
            ]
            label = label_column_name(lists) or label
        notes += [f"labels in column {label!r}"] * (labelled and label in fields.types)
    columns = ObjectLayout(kind, token, label, tokenize, labelled=labelled)
    if label_names is not None:
        columns.label_names = label_names_of(label_names, label)
    elif kind == "jsonl" and label in fields.types and fields.is_list(label):
        columns.label_names = _stored_names(schema, label, fields.types[label], name)
    return ArrowLayout(format, columns, None, batches), "; ".join(notes)


class _Fields(NamedTuple):
    """The columns of a table."""

    types: dict[str, Any]  # column -> its Arrow type
    name: str | None  # of the file

    def check(self, parameter: str, column: Any) -> None:
        """Raise unless there is such a column."""
        if column not in self.types:
            raise FormatError(
                path=self.name,
                parameter=parameter,
                expected=f"one of the columns {', '.join(self.types)}",
                found=repr(column),
            )

    def is_list(self, column: str) -> bool:
        types = import_arrow("A table").types
        return bool(types.is_nested(self.types[column])) and not types.is_struct(self.types[column])

    def is_text(self, column: str) -> bool:
        types = import_arrow("A table").types
        kind = self.types[column]
        kind = kind.value_type if types.is_dictionary(kind) else kind
        return "string" in str(kind) and not types.is_nested(kind)

    def choose(self, token: Any, by: Any) -> tuple[Any, Any]:
        """Return the column of tokens or texts, and that of sentences for a row per token."""
        if token is None:
            usual = [key for key in TOKEN_KEYS.text if key in self.types]
            usual += [name for name in self.types if name.lower() in TOKEN_WORDS]
            token = next((name for name in usual if self.is_list(name)), None)
        if token is None and by is None and "text" in self.types and self.is_text("text"):
            token = "text"
        elif by is None and (token is None or not self.is_list(token)):
            others = (column for column in self.types if column != token)
            by = next((column for column in others if is_sentence_name(column)), None)
        if by is None and (token is None or not (self.is_list(token) or self.is_text(token))):
            columns = ", ".join(f"{column} ({kind})" for column, kind in self.types.items())
            raise FormatError(
                path=self.name,
                expected="a column of lists of tokens, a column of texts, or a sentence column",
                found=columns or "no column",
                hint="Name it with {token}.",
                options={"token": ...},
            )
        return token, by


def _stored_names(schema: Any, label: str, kind: Any, name: str | None) -> list[str] | None:
    """Return the names of numbered labels that Hugging Face stores with the schema."""
    types = import_arrow("A table").types
    value_type = getattr(kind, "value_type", None)
    if value_type is None or not types.is_integer(value_type):
        return None
    stored = (schema.metadata or {}).get(b"huggingface")
    try:
        return label_names_of(json.loads(stored or "{}")["info"]["features"], label)
    except (TypeError, KeyError, ValueError):  # none, or of another form
        raise FormatError(
            path=name,
            expected=f"labels as strings in column {label!r}",
            found=str(kind),
            hint="Pass the names of numbered labels as {label_names}.",
            options={"label_names": ...},
        ) from None


def sentences_of_table(
    table: Any, token: str | None, label: str | None, sentence: str | None, label_names: Any
) -> Iterator[Sentence]:
    """Yield the sentences of a table: of pyarrow, or any object that exports an Arrow stream."""
    pyarrow = import_arrow("from_arrow")
    if not hasattr(table, "__arrow_c_stream__"):
        raise FormatError(
            parameter="table",
            expected="a table of Arrow, or an object with __arrow_c_stream__",
            found=checks.show_type(table),
        )
    reader = pyarrow.RecordBatchReader.from_stream(table)
    layout, _ = _layout_of(
        reader.schema,
        iter(reader),
        ARROW,
        None,
        label=label,
        token=token,
        sentence=sentence,
        label_names=label_names,
        tokenize=None,
        labelled=True,
    )
    return chain.from_iterable(layout.sentences("table"))


# ---- writing -----------------------------------------------------------------------------------


@dataclass
class _Options:
    """How sentences become columns; see `write`."""

    format: str
    label: str | None = None
    label_names: LabelNames | None = None
    further: list[str] = field(default_factory=list)


def write_arrow(sentences: Iterable[Sentence], out: Output, format: str, given: Any) -> None:
    """Write sentences as a Parquet or Arrow file."""
    pyarrow = import_arrow("A Parquet file" if format == PARQUET else "An Arrow file")
    _write_batches(_record_batches(sentences, pyarrow, _options(format, given)), out, format)


def _write_batches(batches: Iterable[Any], out: Output, format: str) -> None:
    """Write record batches of one schema, at least one."""
    pyarrow = import_arrow("A Parquet file" if format == PARQUET else "An Arrow file")
    parquet = importlib.import_module("pyarrow.parquet") if format == PARQUET else None
    writer: Any = None
    group: list[Any] = []
    size = 0
    for batch in batches:
        if writer is None:
            sink = pyarrow.PythonFile(_Sink(out), mode="w")
            make = pyarrow.ipc.new_file if parquet is None else parquet.ParquetWriter
            writer = make(sink, batch.schema)
        group.append(batch)
        size += batch.nbytes
        if parquet is None or size > _GROUP:
            writer.write_table(pyarrow.Table.from_batches(group))
            out.flush()
            group, size = [], 0
    if group:
        writer.write_table(pyarrow.Table.from_batches(group))
    writer.close()


def join_parquet(paths: Sequence[str], out: Output) -> None:
    """Write the rows of several Parquet files, one after another."""
    open_file = importlib.import_module("pyarrow.parquet").ParquetFile

    def batches() -> Iterator[Any]:
        schema = None
        for path in paths:
            with _naming(path), open_file(path, memory_map=True) as file:
                schema = schema or file.schema_arrow
                for batch in file.iter_batches(_BATCH):
                    yield batch if batch.schema == schema else batch.cast(schema)

    _write_batches(batches(), out, PARQUET)


def relabel_arrow(
    layout: ArrowLayout, name: str, out: Output, function: Callable[[list[list[str]]], Any]
) -> None:
    """Write the rows of a file with new labels, as `write_arrow` would, without sentences.

    Parameters
    ----------
    layout : ArrowLayout
        Of a table with a list of tokens in each row, whose labels are strings.
    name : str
        Of the file, for errors.
    out : Output
    function : callable
        Maps the tokens of some sentences to their labels.
    """
    pyarrow = import_arrow("A Parquet file" if layout.format == PARQUET else "An Arrow file")
    _write_batches(_relabelled(layout, name, pyarrow, function), out, layout.format)


def _relabelled(
    layout: ArrowLayout, name: str, pyarrow: Any, function: Callable[[list[list[str]]], Any]
) -> Iterator[Any]:
    names, first, schema = layout.columns, layout.first, None
    label = names.label_key or "labels"
    while True:
        with _naming(name):
            batch = next(layout.batches, None)
            if batch is None:
                break
            if layout.format == ARROW:
                batch.validate(full=True)
            rows = ArrowRows(layout.format, names, batch, first)
            tokens, lengths = _token_lists(batch.column(names.text_key), pyarrow)
        if tokens is None:  # a null: read row by row, which raises with its place
            try:
                tokens = [s.tokens for s in rows.read(rows.values(names.text_key), None, [])]
            except FormatError as error:
                error.path, error.where = name, checks.join(name, error.where)
                raise
        flat = [*chain.from_iterable(function(tokens))]
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        ends = pyarrow.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
        columns[label] = pyarrow.ListArray.from_arrays(ends, pyarrow.array(flat, pyarrow.string()))
        if schema is None:
            kinds = [(of, column.type) for of, column in columns.items()]
            metadata = _metadata(batch.schema.metadata, columns, _Options(layout.format))
            schema = pyarrow.schema(kinds, metadata=metadata)
        yield _fitted(columns, schema, pyarrow, first)
        first += len(batch)
    if schema is None:
        yield from _record_batches([], pyarrow, _Options(layout.format))


def _token_lists(column: Any, pyarrow: Any) -> tuple[list[list[str]] | None, Any]:
    """Return a column of lists as lists of str, and their lengths; None if it has nulls."""
    flat = column.flatten()
    if column.null_count or flat.null_count:
        return None, None
    if not (pyarrow.types.is_list(column.type) or pyarrow.types.is_large_list(column.type)):
        rows = column.to_pylist()
        return rows, [len(row) for row in rows]
    offsets = column.offsets.to_numpy()
    ends = (offsets - offsets[0]).tolist()
    tokens = flat.to_pylist()
    return [tokens[a:b] for a, b in pairwise(ends)], np.diff(offsets)


def table_of(sentences: Iterable[Sentence]) -> Any:
    """Return a table of pyarrow with one row per sentence."""
    pyarrow = import_arrow("to_arrow")
    return pyarrow.Table.from_batches([*_record_batches(sentences, pyarrow, _Options(ARROW))])


def _options(format: str, given: Any) -> _Options:
    further = [*(given.get("columns") or ()), *given.get("append", ())]
    further = [name for name in further if name not in ("label", "token")]
    return _Options(format, given.get("label"), given.get("label_names"), further)


class _Sink:
    """An output as a file of Python, for pyarrow."""

    closed = False

    def __init__(self, out: Output) -> None:
        self._out = out

    def write(self, data: Any) -> int:
        self._out.write(bytes(data))
        return len(data)

    def flush(self) -> None:
        self._out.flush()

    def close(self) -> None:
        self.closed = True


def _record_batches(
    sentences: Iterable[Sentence], pyarrow: Any, options: _Options
) -> Iterator[Any]:
    """Yield record batches of one schema; one for each run of rows of the same source."""
    schema = None
    n = 0
    for rows, group in groupby(sentences, key=_rows_of):
        has_text = rows is not None and rows.names.has_text
        parts = (documents if has_text else iter)(group)
        while part := [*islice(parts, _BATCH)]:
            for i, sentence in enumerate(part, n):
                check_lengths(sentence, f"sentence {i}")
            columns = _columns(part, rows, pyarrow, options, n)
            if schema is None:
                old = rows.batch.schema.metadata if rows is not None else None
                kinds = [(name, column.type) for name, column in columns.items()]
                schema = pyarrow.schema(kinds, metadata=_metadata(old, columns, options))
            yield _fitted(columns, schema, pyarrow, n)
            n += len(part)
    if schema is None:
        lists = pyarrow.list_(pyarrow.string())
        schema = pyarrow.schema([("tokens", lists), (options.label or "labels", lists)])
        yield pyarrow.RecordBatch.from_pylist([], schema)


def _rows_of(sentence: Sentence) -> ArrowRows | None:
    layout = sentence._layout
    return layout if isinstance(layout, ArrowRows) else None


def _metadata(old: Any, columns: dict[str, Any], options: _Options) -> Any:
    """Keep what a schema says about its columns, unless they became others."""
    kept = dict(old or {})
    kept.pop(b"pandas", None)
    if options.label is not None or options.label_names is not None or options.further:
        kept.pop(b"huggingface", None)
    return kept or None


def _fitted(columns: dict[str, Any], schema: Any, pyarrow: Any, n: int) -> Any:
    """Return columns as a record batch of the schema of the first sentences."""
    if list(columns) != schema.names:
        raise FormatError(
            where=f"sentence {n}",
            expected=f"the columns of the first sentence, {', '.join(schema.names)}",
            found=", ".join(columns),
        )
    arrays = []
    for field_, column in zip(schema, columns.values(), strict=True):
        try:
            arrays.append(column if column.type == field_.type else column.cast(field_.type))
        except pyarrow.ArrowException:
            raise FormatError(
                where=f"sentence {n}, column {field_.name!r}",
                expected=f"{field_.type}, as in the first sentence",
                found=str(column.type),
            ) from None
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


def _columns(
    part: list[Sentence], rows: ArrowRows | None, pyarrow: Any, options: _Options, n: int
) -> dict[str, Any]:
    """Return the columns of some sentences: those of their source with new labels, or new ones."""
    names = ObjectLayout("jsonl", "tokens", "labels") if rows is None else rows.names
    label = options.label or names.label_key or "labels"
    label_names = names.label_names if options.label in (None, names.label_key) else None
    if options.label_names is not None:
        label_names = label_names_of(options.label_names, label)
    columns: dict[str, Any] = {}
    if rows is not None:
        taken = rows.batch.take(pyarrow.array([int(sentence._raw) for sentence in part]))
        columns = dict(zip(taken.schema.names, taken.columns, strict=True))
    if names.has_text:
        columns[label] = _spans(part, columns, names, label, pyarrow, n)
        if columns[label] is None:
            del columns[label]
    else:
        tokens = [sentence.tokens for sentence in part]
        if rows is None or columns[names.text_key].to_pylist() != tokens:
            columns[names.text_key] = pyarrow.array(tokens, pyarrow.list_(pyarrow.string()))
        if names.labelled or any(sentence.labels is not None for sentence in part):
            columns |= _labels(part, label, label_names, pyarrow, options.format, n)
    for name in options.further:
        values = [_further(sentence, name, i) for i, sentence in enumerate(part, n)]
        column = pyarrow.array(values)
        is_known = any(values)
        columns[name] = column if is_known else column.cast(pyarrow.list_(pyarrow.string()))
    return columns


def _labels(
    part: list[Sentence], label: str, names: list[str] | None, pyarrow: Any, format: str, n: int
) -> dict[str, Any]:
    """Return the column of labels; none if no sentence has labels."""
    layout = ObjectLayout("jsonl", "tokens", label, label_names=names)
    rows: list[Any] = []
    for i, sentence in enumerate(part, n):
        for t, y in enumerate(sentence.labels or ()):
            if isinstance(y, frozenset):
                raise several_labels(y, format, f"sentence {i}, token {t}")
        if sentence.labels is None or names is None:
            rows.append(sentence.labels)
        else:
            rows.append([label_value(y, layout) for y in sentence.labels])
    if all(row is None for row in rows):
        return {}
    value_type = pyarrow.string() if names is None else pyarrow.int64()
    return {label: pyarrow.array(rows, pyarrow.list_(value_type))}


def _spans(
    part: list[Sentence], columns: Any, names: ObjectLayout, label: str, pyarrow: Any, n: int
) -> Any:
    """Return the column of spans of texts; the spans that did not change keep their fields."""
    if all(sentence.labels is None for sentence in part):
        return columns.get(label)
    old = columns.get(label)
    span = pyarrow.struct(
        [("start", pyarrow.int64()), ("end", pyarrow.int64()), ("label", pyarrow.string())]
    )
    kind = pyarrow.list_(span) if old is None else old.type
    before = [None] * len(part) if old is None else old.to_pylist()
    layout = ObjectLayout("jsonl-spans", names.text_key, label)
    rows = []
    for i, (sentence, spans) in enumerate(zip(part, before, strict=True), n):
        value: dict[str, Any] = {label: spans}
        try:
            put_spans(value, sentence, layout)
        except FormatError as error:
            error.where = checks.join(f"sentence {i}", error.where)
            raise
        rows.append(value.get(label))
    return pyarrow.array(rows, kind)


def _further(sentence: Sentence, name: str, i: int) -> list[Any]:
    if name not in sentence.columns:
        raise FormatError(
            where=f"sentence {i}",
            parameter="columns",
            expected=f"columns of the sentence: {', '.join(sentence.columns) or 'none'}",
            found=repr(name),
        )
    return sentence.columns[name]
