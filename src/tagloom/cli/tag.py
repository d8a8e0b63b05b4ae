"""``tagloom tag``: predict labels, by default from stdin to stdout."""

from __future__ import annotations

import gc
import itertools
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from tagloom.cli import declarations
from tagloom.cli.declarations import argument, declare, integer, option
from tagloom.cli.models import load_model
from tagloom.cli.reading import OPTIONS, Reading, training_of
from tagloom.errors import FormatError
from tagloom.numeric import np
from tagloom.sequences import Sentence, write
from tagloom.sequences.corpora import choose_format, relabel
from tagloom.sequences.files import split_suffix
from tagloom.sequences.guesses import FORMATS, NOT_WRITTEN, SUFFIXES

if TYPE_CHECKING:
    from tagloom.models import Tagger
    from tagloom.sequences.corpora import Stream


@declarations.command(
    epilog="""\b
Examples:
  tagloom tag pos.tagloom < text.conll > tagged.conll
  tagloom tag pos.tagloom test.conllu -o tagged.conllu --marginals
  echo "They can fish ." | tagloom tag pos.tagloom --format text
  echo "They can fish ." | tagloom tag pos.tagloom --format text --nbest 3
  echo "They can't. Why?" | tagloom tag pos.tagloom --text
  tagloom tag parser.tagloom tagged.conllu > parsed.conllu
  tagloom tag pos.tagloom 'in/*.conllu.gz' -o out/ --n-workers 8 --resume
"""
)
@argument("model")
@argument("sources", metavar="[INPUT]...", nargs=-1)
@option("-o", "--output", default="-", metavar="FILE", help="File or folder; stdout by default.")
@option("--marginals", is_flag=True, help="Also write the probability of each label.")
@option("--nbest", type=integer(1), metavar="N", help="Write the N best labellings.")
@option("--n-threads", "--threads", type=integer(1), help="Threads; all cores by default.")
@option("--text", "is_raw", is_flag=True, help="Split raw text by the tokenizer of MODEL.")
@option("--vectors", metavar="FILE", help="Vectors of further words, for a network.")
@declare(OPTIONS)
@option("--n-workers", type=integer(1), help="Into a folder: processes that tag files.")
@option("--cluster", metavar="ADDRESS", help="Into a folder: Ray cluster that tags files.")
@option("--resume", is_flag=True, help="Into a folder: skip files that are finished.")
@option("--part", metavar="K/N", help="Into a folder: only the K-th of N parts of the files.")
@option("--quiet", "-q", is_flag=True, help="Do not print guesses or progress.")
def command(
    model: str,
    sources: tuple[str, ...],
    output: str,
    marginals: bool,
    nbest: int | None,
    n_threads: int | None,
    is_raw: bool,
    vectors: str | None,
    n_workers: int | None,
    cluster: str | None,
    resume: bool,
    part: str | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Predict the labels of INPUT with MODEL; - is stdin.

    MODEL is a file, or a model of a server of tagloom serve: http://host:8080/pos.

    Columns, comments and blank lines of INPUT are kept. The labels are written to a new column, or
    to the column or key that --label names; in CoNLL-U and JSONL, to the column or key that the
    model was trained on; plain text becomes word/TAG lines. Sentences are tagged as they arrive, in
    constant memory.

    --marginals adds a column with the probability of each label, or Prob= in MISC, or the key
    probs. --nbest writes each sentence N times, each time after a comment, or adds the key nbest.

    --text splits raw text into sentences and tokens first. They are written as word/TAG lines, as
    CoNLL-U with # text and SpaceAfter, or as JSONL with the places of tokens and spans in INPUT,
    by the name of FILE.

    --vectors adds the vectors that a network left out with --keep-vectors seen: FILE is the one
    that it was trained with.

    A dependency parser reads the tags of a CoNLL-U file and writes its columns HEAD and DEPREL. A
    role labeller reads JSONL with trees and predicates, and writes their arguments.

    If FILE is a folder, every INPUT, a file or a pattern such as 'in/*.conllu.gz', is written to a
    file of its name there, by several processes or machines. A file appears when it is complete;
    --resume continues after an interruption. --part 3/64 tags a part of the files, for the jobs of
    a job array.
    """
    request = Request(model, Reading.of(options), marginals, nbest, n_threads, is_raw, vectors)
    if _is_folder(output):
        from tagloom.cli import bulk  # here, for a quick start

        where = bulk.Where(n_workers, cluster, resume, part)
        bulk.tag(request, sources, output, where, quiet=quiet)
        return
    for_folders = {"--n-workers": n_workers, "--cluster": cluster, "--resume": resume}
    for name, value in (for_folders | {"--part": part}).items():
        if value:
            raise _usage_error(f"{name} needs a folder to write to, such as -o tagged/.")
    if len(sources) > 1:
        raise _usage_error("Several INPUT files need a folder to write to, such as -o tagged/.")
    notice = tag_file(request, sources[0] if sources else "-", output)
    if notice and not quiet:
        print(notice, file=sys.stderr)


def _is_folder(output: str) -> bool:
    """Whether -o names a folder: one that exists, or a name with a slash at its end."""
    separators = tuple(filter(None, (os.sep, os.altsep)))
    return output.endswith(separators) or os.path.isdir(output)


def _usage_error(message: str) -> Exception:
    import click  # here, for a quick start

    return click.UsageError(message)


class Request(NamedTuple):
    """How files are to be tagged: the model and the options of the command."""

    model: str
    reading: Reading
    marginals: bool
    nbest: int | None
    n_threads: int | None
    is_raw: bool
    vectors: str | None = None


def find_model(model: str, source: str, vectors: str | None = None) -> Any:
    """Load a tagger, or connect to the server that has it.

    Parameters
    ----------
    model : str
    source : str
        The file that it will tag.
    vectors : str, optional
        A file with vectors of further words.

    Returns
    -------
    object
        A tagger; for a model that predicts structures a pair, its kind and the model.
    """
    if model.startswith(("http://", "https://")):
        from tagloom.cli.remote import RemoteTagger

        if vectors is not None:
            raise _usage_error("--vectors does not apply to a model on a server.")
        return RemoteTagger(model)
    found: Any = load_model(model, source=source, any_kind=True)
    if vectors is not None:
        if not hasattr(found, "with_vectors"):
            raise _usage_error(f"--vectors does not apply to {type(found).__name__}.")
        found = found.with_vectors(vectors)
    if found.family == "tagger":
        return found
    from tagloom.cli import structures  # here, for a quick start

    kind = structures.kind_of(found)
    return load_model(model) if kind is None else (kind, found)  # the first raises


def tag_file(
    request: Request,
    source: str,
    output: str,
    model: Any = None,
    groups: tuple[int, int] | None = None,
) -> str | None:
    """Tag one file; return a notice about what was guessed.

    Parameters
    ----------
    request : Request
    source, output : str
    model : object, optional
        The result of `find_model`, if the model is loaded already.
    groups : (int, int), optional
        The row groups of a Parquet file to tag; by default the whole file.
    """
    _, reading, marginals, nbest, n_threads, is_raw, vectors = request
    tagger = find_model(request.model, source, vectors) if model is None else model
    if isinstance(tagger, tuple):
        kind, found = tagger
        if is_raw or marginals or nbest is not None:
            raise _usage_error(f"--text, --marginals and --nbest do not apply to {kind.noun}.")
        if n_threads is not None:
            found = found.set_params(n_threads=n_threads)
        kind.tag(found, source, output, reading)
        return None
    if is_raw:
        from tagloom.cli import raw  # here, for a quick start

        raw.tag(Tagging(tagger, marginals, nbest, n_threads), source, output, reading)
        return None
    sentences, notice = reading.stream_like(tagger, source)
    if groups is not None:
        layout: Any = sentences._layout
        layout.take(groups)
    is_table = sentences.format in ("conll", "csv")
    if is_table and reading.label is not None and sentences.label is None:
        raise FormatError(
            path=source,
            parameter="label",
            expected="a column of the file",
            found=repr(reading.label),
            hint="Leave it out to add a column.",
        )
    # Tagging creates no reference cycles; looking for them at the usual rate takes a fifth of the
    # time.
    gc.freeze()
    gc.set_threshold(100_000, 50, 1000)
    tagging = Tagging(tagger, marginals, nbest, n_threads)
    added = tagging.added(sentences.format)
    has_column = is_table and reading.label is not None
    append = added if added or has_column else True
    if tagging.is_plain and relabel(
        sentences,
        output,
        tagging.labels,
        tagger._label_list,
        append=append,
        encoding=reading.encoding,
    ):
        return notice
    format = choose_format(output, target_format(sentences, output), sentences)
    tagging.check(format)
    label = reading.label or training_of(tagger).get("label")
    write(
        sentences.through(tagging),
        output,
        format,
        # Documents of spaCy have one place for each kind of labels.
        label=label if format == "docbin" and label in ("upos", "xpos") else None,
        append=append,
        encoding=reading.encoding,
    )
    return notice


def target_format(sentences: Stream, output: str) -> str | None:
    """Choose the format to write: word/TAG for plain text, otherwise left to `write`."""
    is_named = split_suffix(output)[0] in (*SUFFIXES, *NOT_WRITTEN)
    return "slash" if sentences.format == "text" and not is_named else None


_OBJECTS = ("jsonl", "jsonl-spans", "json", "json-spans")
_LABELS_ONLY = ("spacy", "label-studio", "brat", "crfsuite", "docbin")


class Answer(NamedTuple):
    """One labelling of a sentence; if requested, its probability and that of each label."""

    labels: list[str]
    prob: float | None
    probs: list[float] | None


class Tagging:
    """Labels batches of sentences.

    Parameters
    ----------
    tagger : Tagger
    marginals : bool
        Whether to add the probability of each label.
    nbest : int or None
        Number of labellings per sentence; None for the best one without its probability.
    n_threads : int or None
    """

    #: The format to write sentences that are not from a file.
    format = ""

    def __init__(
        self, tagger: Tagger, marginals: bool, nbest: int | None, n_threads: int | None
    ) -> None:
        self.tagger = tagger
        self.marginals = marginals
        self.nbest = nbest
        self.n_threads = n_threads

    @property
    def is_plain(self) -> bool:
        """Whether only tokens are read and only labels are written."""
        return self.tagger.reads_only_tokens and not self.marginals and self.nbest is None

    def labels(self, batch: list[list[str]]) -> list[list[str]]:
        """Label the tokens of some sentences."""
        return self.tagger.predict(batch, n_threads=self.n_threads)

    def check(self, format: str) -> None:
        """Raise if a format has no place for what is to be written beside the labels."""
        for name, is_set, formats in (
            ("--marginals", self.marginals, _LABELS_ONLY),
            ("--nbest", self.nbest is not None, (*_LABELS_ONLY, "csv")),
        ):
            if is_set and format in formats:
                raise _usage_error(
                    f"{name} has no place in {FORMATS[format]}. Write JSONL, such as -o out.jsonl."
                )

    def added(self, format: str) -> list[str]:
        """Return the columns to write in addition to those of sentences of a format."""
        if format in _OBJECTS:
            names = ["nbest"] * (self.nbest is not None) + ["probs"] * self.marginals
            return ["label", *names] if names else []
        if format == "conllu":
            return []
        return ["label", "prob"] if self.marginals else []

    def __call__(self, batch: list[Sentence]) -> Iterator[Sentence]:
        """Label a list of sentences."""
        if not self.marginals and self.nbest is None:
            labels = self.tagger.predict(batch, n_threads=self.n_threads)
            return map(Sentence.with_labels, batch, labels)
        return itertools.chain.from_iterable(map(self._with_more, batch, self._answers(batch)))

    def _answers(self, batch: list[Sentence]) -> Iterator[list[Answer]]:
        """Yield the labellings of each sentence, with the requested probabilities."""
        tagger, names = self.tagger, self.tagger._label_list
        place = {name: y for y, name in enumerate(names)}
        gamma: list[Any] = [None] * len(batch)
        if self.marginals:
            gamma = tagger.predict_marginals(batch, n_threads=self.n_threads)
        best: list[list[tuple[list[str], float | None]]]
        if self.nbest is None:
            best = [[(labels, None)] for labels in tagger.predict(batch, n_threads=self.n_threads)]
        else:
            nbest = tagger.predict_nbest(batch, self.nbest, n_threads=self.n_threads)
            best = [[(x.labels, x.prob) for x in labellings] for labellings in nbest]
        for marginals, labellings in zip(gamma, best, strict=True):
            answers = []
            for labels, prob in labellings:
                probs = None
                if marginals is not None:
                    path = [place[label] for label in labels]
                    probs = marginals[np.arange(len(path)), path].tolist()
                answers.append(Answer(labels, prob, probs))
            yield answers

    def nbest_objects(self, batch: list[Sentence]) -> Iterator[list[dict[str, Any]]]:
        """Yield the labellings of each sentence as plain data."""
        return map(_plain, self._answers(batch))

    def _with_more(self, sentence: Sentence, answers: list[Answer]) -> Iterator[Sentence]:
        layout = sentence._layout
        format = self.format if layout is None else layout.format
        if format in _OBJECTS:
            yield self._object(sentence, answers)
            return
        for i, (labels, prob, probs) in enumerate(answers, 1):
            new = sentence.with_labels(labels)
            new._comments = None if sentence._comments is None else list(sentence._comments)
            if prob is not None:
                new.comments.append(f"# nbest = {i}, prob = {prob:.4f}")
            if probs is not None:
                new._columns = dict(sentence.columns)
                shown = [f"{p:.4f}" for p in probs]
                if format == "conllu":
                    new._columns |= _with_probs(new._columns, shown)
                else:
                    new._columns["prob"] = shown
            yield new

    def _object(self, sentence: Sentence, answers: list[Answer]) -> Sentence:
        first = answers[0]
        new = sentence.with_labels(first.labels)
        columns: dict[str, Any] = dict(sentence.columns)
        if self.nbest is not None:
            columns["nbest"] = _plain(answers)
        if first.probs is not None:
            columns["probs"] = [round(p, 6) for p in first.probs]
        new._columns = columns
        return new


def _plain(answers: list[Answer]) -> list[dict[str, Any]]:
    return [{"labels": labels, "prob": round(prob or 0.0, 6)} for labels, prob, _ in answers]


def _with_probs(columns: dict[str, list[str]], probs: list[str]) -> dict[str, list[str]]:
    """Write probabilities to MISC, replacing those of an earlier run."""
    name = next((name for name in columns if name.lower() == "misc"), None)
    if name is None:
        raise FormatError(expected="a column MISC for the probabilities", found="none")
    fields = []
    for field, prob in zip(columns[name], probs, strict=True):
        kept = [part for part in field.split("|") if part != "_" and not part.startswith("Prob=")]
        fields.append("|".join([*kept, f"Prob={prob}"]))
    return {name: fields}
