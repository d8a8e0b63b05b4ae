"""Reading options of the commands, and reading files like a model's training data."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from tagloom import checks
from tagloom.cli.declarations import Parameter, choice
from tagloom.cli.running import on_close
from tagloom.errors import FormatError
from tagloom.records import Record
from tagloom.sequences import FORMATS, Corpus, read, stream
from tagloom.sequences.files import SAMPLE, Input, sample_lines
from tagloom.sequences.guesses import guess_binary, guess_file, guess_format
from tagloom.sequences.label_names import label_names_of

if TYPE_CHECKING:
    from tagloom.models import Tagger, Tokenizer
    from tagloom.sequences.corpora import Stream

Command = TypeVar("Command", bound=Callable[..., Any])


def _option(*names: str, **settings: Any) -> Parameter:
    return Parameter("option", names, settings)


OPTIONS = [
    _option("--label", help="Column or key of the labels, such as upos, upos+feats or 3."),
    _option(
        "--format",
        type=choice(list(FORMATS)),
        help="Format of the files; guessed by default.",
    ),
    _option("--columns", help="Names of the columns, such as form,pos,chunk."),
    _option("--token", help="Column or key of the tokens."),
    _option("--header/--no-header", default=None, help="Whether the first row names columns."),
    _option("--sep", help=r"Column separator; \t for a tab."),
    _option("--sentence", help="Column of a table that names the sentence."),
    _option(
        "--label-names",
        help="Names of numbered labels in JSON: O,B-PER,I-PER or a file such as dataset_info.json.",
    ),
    _option("--encoding", default="utf-8", show_default=True, help="Encoding of the files."),
]


def reading_options(command: Command) -> Command:
    """Add the options for reading files to a command of click."""
    for option in reversed(OPTIONS):
        command = option.decorate(command)
    return command


def as_column(name: str | None) -> str | int | None:
    """Convert the number of a column to int; keep a name."""
    number = None if name is None else checks.whole_number(name.removeprefix("-"))
    return name if name is None or number is None else -number if name[0] == "-" else number


def as_names(names: str | None) -> list[str] | str | None:
    """Split names at commas; a text without commas is the name of a file."""
    return names.split(",") if names is not None and "," in names else names


def as_sep(sep: str | None) -> str | None:
    """Convert backslash and t to a tab, which is hard to type in a shell."""
    return "\t" if sep == r"\t" else sep


class Reading(Record):
    """The reading options that the user passed; None for the others.

    Attributes
    ----------
    label, token, sentence : str, int or None
    format, sep : str or None
    columns : list of str or None
    label_names : list of str, str or None
    header : bool or None
    encoding : str
    """

    label: str | int | None = None
    format: str | None = None
    columns: list[str] | None = None
    token: str | int | None = None
    header: bool | None = None
    sep: str | None = None
    sentence: str | int | None = None
    label_names: list[str] | str | None = None
    encoding: str = "utf-8"

    @classmethod
    def of(cls, options: dict[str, Any]) -> Reading:
        """Remove the reading options from all options of a command and return them."""
        columns = options.pop("columns", None)
        return cls(
            label=as_column(options.pop("label", None)),
            format=options.pop("format", None),
            columns=columns.split(",") if columns else None,
            token=as_column(options.pop("token", None)),
            header=options.pop("header", None),
            sep=as_sep(options.pop("sep", None)),
            sentence=as_column(options.pop("sentence", None)),
            label_names=as_names(options.pop("label_names", None)),
            encoding=options.pop("encoding", "utf-8"),
        )

    def read(self, path: str, tokenizer: Tokenizer | None = None) -> Corpus:
        """Read a labelled file; a tokenizer splits its documents into sentences."""
        if tokenizer is None:
            return read(path, **vars(self))
        return stream(path, **vars(self))._tokenize_by(tokenizer).read()

    def head(self, path: str) -> Corpus:
        """Read the first sentence of a labelled file, for `describe`."""
        with stream(path, **vars(self)) as sentences:
            return Corpus(
                islice(sentences, 1),
                format=sentences.format,
                path=sentences.path,
                label=sentences.label,
                notice=sentences.notice,
            )

    def describe(self, corpus: Corpus) -> dict[str, Any]:
        """Return how a corpus was read, for the training record of a model."""
        record: dict[str, Any] = {"format": corpus.format, "label": corpus.label}
        if corpus.format == "conll" and len(corpus):
            names = list(corpus[0].columns)
            # Names that are only numbers do not identify the columns of another file.
            if names != [str(i) for i in range(len(names))]:
                record["columns"] = names
        passed: dict[str, Any] = {"columns": self.columns, "token": self.token, "sep": self.sep}
        passed["sentence"] = self.sentence
        if self.label_names is not None:  # the names, as a model may be used without their file
            passed["label_names"] = label_names_of(self.label_names, corpus.label)
        return record | {name: value for name, value in passed.items() if value is not None}

    def like(self, training: dict[str, Any], format: str) -> dict[str, Any]:
        """Return the options for reading a file of a format: as passed, else as in training."""
        options = {name: value for name, value in vars(self).items() if value is not None}
        options["format"] = format
        if _shape(training.get("format")) == _shape(format):
            for name in ("label", "columns", "token", "sep", "sentence", "label_names"):
                # A file that a model names is never opened.
                if training.get(name) is not None and not (
                    name == "label_names" and isinstance(training[name], str)
                ):
                    options.setdefault(name, training[name])
        return options

    def read_like(self, tagger: Tagger, path: str) -> Corpus:
        """Read a labelled file like the tagger's training data."""
        file = Input(path, self.encoding)
        try:
            why = None
            format = self.format
            if format is None:
                format, why = guess_file(file)
            sentences = stream(file, **self.like(training_of(tagger), format))
            corpus = _tokenized(sentences, tagger).read()
        except BaseException:
            file.close()
            raise
        corpus.notice = _notice(corpus, why)
        return corpus

    def stream_like(self, tagger: Tagger, path: str) -> tuple[Stream, str | None]:
        """Open a file that a tagger will label; also return a notice about the guesses.

        A file of no recognised format is read as one token per row, or one sentence per line.
        """
        sentences, notice = self._stream(path, training_of(tagger))
        return _tokenized(sentences, tagger), notice

    def read_unlabelled(self, path: str, tokenizer: Tokenizer | None = None) -> Corpus:
        """Read a file that needs no labels, as `stream_like` does."""
        sentences, notice = self._stream(path, {})
        corpus = (sentences if tokenizer is None else sentences._tokenize_by(tokenizer)).read()
        corpus.notice = notice
        return corpus

    def _stream(self, path: str, training: dict[str, Any]) -> tuple[Stream, str | None]:
        file = Input(path, self.encoding)
        try:
            why = None
            format = self.format
            if format is None:
                format, why = _guess(file, training.get("format"))
            options = self.like(training, format)
            if format == "conll" and self.label is None:
                # The same column number may mean another column in another file.
                if "columns" not in options:
                    options.pop("label", None)
                elif self.columns is None and _has_one_column(file):
                    options.pop("label", None)
                    options["columns"] = [_token_column(options)]
            elif format in ("slash", "text"):
                options.pop("label", None)
            sentences = stream(file, labelled=False, **options)
        except BaseException:
            file.close()
            raise
        on_close(sentences.close)  # also if the command fails
        return sentences, _notice(sentences, why)


def _shape(format: str | None) -> str | None:
    """Return a format, that of lines for arrays: both have the same keys and columns."""
    return {"json": "jsonl", "json-spans": "jsonl-spans", "arrow": "parquet"}.get(
        str(format), format
    )


def _has_one_column(file: Input) -> bool:
    """Return whether the first row of a file is one token."""
    rows = (line for line in sample_lines(file) if line.strip() and not line.startswith("# "))
    return len(next(rows, "two columns").split()) == 1


def _token_column(options: dict[str, Any]) -> str:
    """Return the name of the token column, and remove the option for it."""
    columns, token = options["columns"], options.pop("token", 0)
    return str(columns[token] if isinstance(token, int) and token < len(columns) else token)


def _tokenized(sentences: Stream, tagger: Tagger) -> Stream:
    """Cut texts as the tagger does, if it was trained with a tokenizer."""
    tokenizer = tagger._tokenizer
    return sentences if tokenizer is None else sentences._tokenize_by(tokenizer)


def _notice(read: Corpus | Stream, why: str | None) -> str | None:
    """Return a notice about the guessed format and the reason; None if it was not guessed."""
    if why is None:
        return None
    details = (read.notice or "").partition("; ")[2]
    notice = f"{read.path}: read as {FORMATS[str(read.format)]} ({why})"
    return f"{notice}; {details}" if details else notice


def training_of(tagger: Tagger) -> dict[str, Any]:
    """Return the training record of a tagger, which contains how its files were read."""
    record: dict[str, Any] = getattr(tagger, "training_", {})
    return record


def _guess(file: Input, trained: str | None) -> tuple[str, str]:
    """Guess the format of a file to tag, which need not have labels."""
    binary = guess_binary(file)
    if binary is not None:
        return binary
    lines = _first_sentence(file) if file.is_live else sample_lines(file, SAMPLE)
    try:
        return guess_format(file.name, lines)
    except FormatError:
        if any("\0" in line for line in lines):  # not a text file
            raise
        rows = [x.split() for x in lines if x.strip() and not x.startswith("# ")]
        if rows[0][0].startswith("{") and trained in ("jsonl", "jsonl-spans"):
            return trained, "as in training"
        if trained == "slash" and all("/" in item[1:-1] for row in rows for item in row):
            return "slash", "as in training"
        if rows[0][0].startswith(("{", "[")):
            raise
        if all(len(row) == 1 for row in rows):
            return "conll", "one token per row"
        return "text", "one sentence per line"


# Seconds without a byte after which the writer of a pipe is taken to wait for an answer.
_PATIENCE = 0.2


def _first_sentence(file: Input) -> list[str]:
    """Wait for one typed sentence, and no more.

    What a program has already written to a pipe is read, too, so that the guess is that for a
    file with the same text.
    """
    size = 1
    while True:
        data, is_all = file.peek(size)
        lines = data[: data.rfind(b"\n") + 1].decode("utf-8", "replace").split("\n")[:-1]
        filled = [i for i, line in enumerate(lines) if line.strip() and not line.startswith("# ")]
        if is_all or len(data) > SAMPLE:
            return sample_lines(file)
        has_sentence = filled and any(not line.strip() for line in lines[filled[0] :])
        if has_sentence and not file.has_more(_PATIENCE):
            return lines
        size = len(data) + 1
