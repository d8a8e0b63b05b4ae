"""``tagloom check``: find problems in corpora, before training on them, and in model files."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import click

from tagloom._native import first_bad_byte
from tagloom.checks import plural
from tagloom.cli.mistakes import naming
from tagloom.cli.models import is_model, load_model
from tagloom.cli.reading import Reading, reading_options
from tagloom.errors import FormatError, ModelFileError, TagloomError
from tagloom.records import replace
from tagloom.sequences import FORMATS, Corpus, Sentence, stream
from tagloom.sequences.files import Input, check_size
from tagloom.sequences.guesses import BINARY, guess_binary

# kind -> its meaning; --ignore takes the kinds
KINDS = {
    "model": "a model file that is damaged or cannot be used",
    "bytes": "bytes that are not UTF-8, or NUL",
    "format": "a line that does not fit the format; the rest of the file is not checked",
    "span": "a character span that does not fit the tokens",
    "illegal": "a label that is illegal in its scheme",
    "mixed": "sentences or files in different schemes",
    "empty": "no sentences, a sentence without tokens, or a blank line where one is expected",
    "long": "a very long sentence, whose end is probably missing",
    "duplicate": "a sentence that occurs twice in one file",
    "overlap": "sentences that occur in two files",
    "rare": "labels that occur only a few times",
    "control": "control characters",
    "error": "a label that is probably wrong, by a model trained on the other sentences (--errors)",
}
# Tabs and line ends are allowed; carriage returns within a line and byte order marks within the
# text are not.
_CONTROL = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff\u2028\u2029]|\r(?!\n|$)")
LONG = 1000  # tokens: perhaps a whole text, but not a sentence
SHOWN = 5  # problems of one kind that are printed; --json has all


@dataclass
class Problem:
    """A problem and its place."""

    kind: str
    path: str
    line: int | None
    message: str

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.message}"


@dataclass
class Report:
    """Contents and problems of one file."""

    path: str
    format: str = ""
    notice: str | None = None
    label: str | None = None
    sentences: int = 0
    tokens: int = 0
    labels: dict[str, int] = field(default_factory=dict)
    schemes: list[str] = field(default_factory=list)  # those that fit; empty if not spans
    problems: list[Problem] = field(default_factory=list)


@click.command(
    epilog="""\b
Examples:
  tagloom check train.conllu dev.conllu test.conllu
  tagloom check train.conllu --ignore duplicate --ignore rare --json
  tagloom check train.conllu --label upos --errors 100
  tagloom check pos.tagloom
"""
)
@click.argument("files", nargs=-1, required=True)
@reading_options
@click.option("--scheme", help="Scheme that the labels must follow; detected by default.")
@click.option(
    "--rare", default=3, show_default=True, help="Report labels that occur less often than this."
)
@click.option(
    "--errors",
    type=click.IntRange(1),
    metavar="N",
    help="Also report the N labels that are most probably wrong.",
)
@click.option(
    "--ignore", multiple=True, type=click.Choice(list(KINDS)), help="Ignore a kind of problem."
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def command(
    files: tuple[str, ...],
    scheme: str | None,
    rare: int,
    errors: int | None,
    ignore: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Check FILES and their overlap; - is stdin. Every byte of a model is verified.

    The exit code is 0 without problems, 1 with problems, and 2 if the command cannot run.
    """
    reading = Reading.of(options)
    reports, corpora = [], []
    for path in files:
        if is_model(path):
            reports.append(check_model(path))
            continue
        report, corpus = read_report(path, reading)
        report.problems += check_corpus(corpus, report, scheme, rare)
        if errors is not None:
            report.problems += check_errors(corpus, errors)
        reports.append(report)
        corpora.append(corpus)
    reports[0].problems += check_schemes(reports)
    corpus_reports = [report for report in reports if report.format != "model"]
    for i, corpus in enumerate(corpora):
        for j in range(i):
            corpus_reports[i].problems += check_overlap(corpora[j], corpus)
    for report in reports:
        report.problems = [p for p in report.problems if p.kind not in ignore]
    total = sum(len(report.problems) for report in reports)
    if as_json:
        value = {"files": [asdict(report) for report in reports], "problems": total}
        click.echo(json.dumps(value, ensure_ascii=False))
    else:
        for report in reports:
            show(report)
    if total:
        click.get_current_context().exit(1)


def check_model(path: str) -> Report:
    """Read a whole model and verify its checksums."""
    report = Report(path, format="model")
    try:
        tagger = load_model(path, verify=True)
    except ModelFileError as error:
        report.problems.append(Problem("model", path, None, _without_place(error)))
    else:
        record = getattr(tagger, "training_", {})
        report.sentences, report.tokens = record.get("sentences", 0), record.get("tokens", 0)
        report.labels = dict.fromkeys(tagger.labels_.tolist(), 0)
        report.notice = f"{path}: {tagger!r}, trained on the data counted above"
    return report


def _without_place(error: TagloomError) -> str:
    """Render an error without its place, which the problem already has."""
    error.where = None
    return error.render(naming(click.get_current_context().command))


def read_report(path: str, reading: Reading) -> tuple[Report, Corpus]:
    """Read a file up to its first error, which becomes a problem."""
    file = Input(path, reading.encoding)
    try:
        return _read_report(file, reading)
    finally:
        file.close()


def _read_report(file: Input, reading: Reading) -> tuple[Report, Corpus]:
    report, read = Report(file.name), []
    source: Any = file
    # brat's annotations need the encoding for the text beside them, too.
    is_direct = reading.format in (*BINARY, "brat") or file.name.endswith(".ann")
    if not is_direct and guess_binary(file) is None:
        source = _Named(_decoded(file, report.problems), file.name)
        reading = replace(reading, encoding="utf-8")  # the data are decoded by now
    try:
        sentences = stream(source, **vars(reading))
        report.format, report.notice = sentences.format, sentences.notice
        report.label = sentences.label
        for sentence in sentences:
            read.append(sentence)  # one by one, to keep those before an error
        report.problems += [_span_problem(problem, file.name) for problem in sentences.problems]
    except FormatError as error:
        if error.line is None:  # not about a line; for example the format cannot be guessed
            raise
        message = f"{_without_place(error)} The rest of the file was not checked."
        report.problems.append(Problem("format", error.path or file.name, error.line, message))
    return report, Corpus(read, format=report.format, path=file.name, label=report.label)


def _decoded(file: Input, problems: list[Problem]) -> bytes:
    """Read a text file; bytes that are no text become problems, and U+FFFD."""
    data = _read_all(file)
    problems += find_bad_bytes(data, file.name, file.start)
    if problems:
        data = data.decode("utf-8", "replace").replace("\0", "\ufffd").encode("utf-8")
    return data


def _read_all(file: Input) -> bytes:
    """Read a whole file; raise for a line that is too long."""
    parts, line, size = [], 1, 0  # size: bytes of the line so far
    for data in iter(file.read, b""):
        end = data.rfind(b"\n") + 1
        line, size = line + data.count(b"\n"), len(data) - end + (0 if end else size)
        check_size(size, file.name, line, "a line end")
        parts.append(data)
    return b"".join(parts)


class _Named(io.BytesIO):
    """Bytes with the name of their file."""

    def __init__(self, data: bytes, name: str) -> None:
        super().__init__(data)
        self.name = name


def _span_problem(problem: str, path: str) -> Problem:
    match = re.match(rf"{re.escape(path)}:(\d+): ", problem)
    if match is None:  # brat has no lines of text, and a table rows
        return Problem("span", path, None, problem.removeprefix(f"{path}: "))
    return Problem("span", path, int(match[1]), problem[match.end() :])


def find_bad_bytes(data: bytes, path: str, start: int) -> Iterator[Problem]:
    """Find the first byte of each line that is NUL or not UTF-8."""
    if first_bad_byte(data) == len(data):
        return
    offset = start
    for line, text in enumerate(data.split(b"\n"), 1):
        bad = first_bad_byte(text)
        if bad < len(text):
            what = "NUL" if text[bad] == 0 else "not UTF-8"
            message = f"byte 0x{text[bad]:02X} at offset {offset + bad} is {what}."
            yield Problem("bytes", path, line, message)
        offset += len(text) + 1


def check_corpus(
    corpus: Corpus, report: Report, scheme: str | None, rare: int
) -> Iterator[Problem]:
    """Fill in the contents of a corpus and find its problems."""
    report.sentences, report.tokens = len(corpus), corpus.n_tokens
    counts = Counter(y for s in corpus for y in s.labels or () if isinstance(y, str))
    report.labels = dict(counts.most_common())
    yield from check_labels(corpus, report, scheme)
    path = report.path
    if not corpus and not report.problems:
        yield Problem("empty", path, None, "the file has no sentences.")
    seen: dict[tuple[str, ...], int] = {}
    for i, sentence in enumerate(corpus):
        if not sentence.tokens:
            yield Problem("empty", path, _line(sentence), f"sentence {i} has no tokens.")
            continue
        if corpus.format in ("conll", "conllu", "slash") and _starts_blank(sentence):
            yield Problem("empty", path, sentence.line, f"a blank line before sentence {i}.")
        if len(sentence) > LONG:
            end = "blank line" if corpus.format in ("conll", "conllu") else "line end"
            message = f"sentence {i} has {len(sentence):,} tokens. Is a {end} missing?"
            yield Problem("long", path, _line(sentence), message)
        first = seen.setdefault(tuple(sentence.tokens), i)
        if first != i:
            how = "" if corpus[first].labels == sentence.labels else ", with other labels"
            where = f"sentence {first} (line {_line(corpus[first])}){how}"
            yield Problem("duplicate", path, _line(sentence), f"sentence {i} repeats {where}.")
        yield from check_characters(sentence, i, path)
    few = [(n, label) for label, n in counts.items() if n < rare]
    if few:
        shown = ", ".join(f"{label} ({n})" for n, label in sorted(few)[:10])
        more = f", and {len(few) - 10} more" if len(few) > 10 else ""
        message = f"{len(few)} label(s) occur fewer than {rare} times: {shown}{more}."
        yield Problem("rare", path, None, message)


def _starts_blank(sentence: Sentence) -> bool:
    return not (sentence.source or "x").split("\n", 1)[0].strip()


def _line(sentence: Sentence) -> int | None:
    return sentence.line_of(0) if sentence.tokens else sentence.line


def check_characters(sentence: Sentence, i: int, path: str) -> Iterator[Problem]:
    """Find control characters, in the raw text and in words that JSON has escaped."""
    lines = (sentence.source or "").split("\n")
    hits = [(n, hit[0]) for n, line in enumerate(lines) if (hit := _CONTROL.search(line))]
    if not hits:
        words = [*sentence.tokens, *(y for y in sentence.labels or () if isinstance(y, str))]
        hits = [(0, hit[0]) for word in words if (hit := _CONTROL.search(word))][:1]
    for n, character in hits:
        line = None if sentence.line is None else sentence.line + n
        yield Problem("control", path, line, f"sentence {i} contains U+{ord(character):04X}.")


def check_labels(corpus: Corpus, report: Report, scheme: str | None) -> Iterator[Problem]:
    """Find illegal labels and mixed schemes; sentences with open labels are skipped."""
    from tagloom.labels import detect, get_scheme, validate
    from tagloom.schemes import parse_label

    # Sentences with open labels are replaced by empty ones, so that the others keep their index.
    labelled: list[Any] = [
        s if s.labels is not None and all(isinstance(y, str) for y in s.labels) else []
        for s in corpus
    ]
    if scheme is None:
        # Labels such as B-PER are spans; NOUN or even a lone B are not.
        typed = [y for y in report.labels if y != "O"]
        if sum(y[1:2] == "-" and parse_label(y) is not None for y in typed) * 2 <= len(typed):
            return
        detection = detect(labelled)
        report.schemes = list(detection.fits)
        if detection.fits:
            return
        scheme, mixed = _best_scheme(labelled, report.path)
        if mixed:
            yield mixed
            return
    else:
        scheme = get_scheme(scheme).name
    problems = validate(labelled, scheme)
    report.schemes = [scheme]
    for p in problems:
        text = str(p)
        text = text[text.index("sentence ") :]
        yield Problem("illegal", report.path, p.line, text)


def _best_scheme(sentences: list[Any], path: str) -> tuple[str, Problem | None]:
    """Choose the scheme that most sentences fit; report mixed schemes if many fit only others."""
    from tagloom.labels import SCHEMES, detect

    fits: dict[tuple[str, ...], tuple[str, ...]] = {}  # by the labels of a sentence
    spans: list[tuple[tuple[str, ...], Any]] = []  # the sentences with spans
    counts: Counter[str] = Counter()
    for sentence in sentences:
        key = tuple(getattr(sentence, "labels", ()))
        if set(key) <= {"O"}:
            continue
        if key not in fits:
            fits[key] = detect([list(key)]).fits
        counts.update(fits[key])
        spans.append((key, sentence))
    best = max(SCHEMES, key=lambda name: counts[name])
    others = [(key, sentence) for key, sentence in spans if best not in fits[key]]
    rest = Counter(name for key, _ in others for name in fits[key])
    other, n = max(rest.items(), key=lambda item: item[1], default=("", 0))
    # A few sentences in another scheme are mistakes; at least three and a tenth of all are not.
    if counts[best] == 0 or n < max(3, len(spans) / 10):
        return best, None
    line = _line(next(sentence for key, sentence in others if other in fits[key]))
    message = (
        f"the file mixes schemes: {counts[best]} sentence(s) fit {best}, but {n} fit {other} "
        f"and not {best}, starting here."
    )
    return best, Problem("mixed", path, line, message)


def check_errors(corpus: Corpus, most: int) -> Iterator[Problem]:
    """Find the labels that are most probably wrong, by cross-fitted CRFs."""
    from tagloom.evaluation import find_label_errors
    from tagloom.models import CRF

    # A sentence without labels says nothing about labels.
    where = [i for i, s in enumerate(corpus) if s.labels is not None and s.tokens]
    labelled = [corpus[i] for i in where]
    if len(labelled) < 2:
        return
    n_folds = min(5, len(labelled))
    for suspect in find_label_errors(CRF(), labelled, n_folds=n_folds, n_most=most):
        sentence = labelled[suspect.sentence]
        message = (
            f"sentence {where[suspect.sentence]}, token {suspect.token} {suspect.word!r} is "
            f"{suspect.label}, but {suspect.suggestion} has probability "
            f"{suspect.suggestion_prob:.3f}."
        )
        yield Problem("error", str(corpus.path), sentence.line_of(suspect.token), message)


def check_schemes(reports: list[Report]) -> Iterator[Problem]:
    """Find files that are consistent but do not share a scheme."""
    spans = [report for report in reports if report.schemes]
    if spans and not set.intersection(*(set(report.schemes) for report in spans)):
        seen = "; ".join(f"{report.path}: {' or '.join(report.schemes)}" for report in spans)
        yield Problem("mixed", spans[0].path, None, f"the files have different schemes: {seen}.")


def check_overlap(first: Corpus, second: Corpus) -> Iterator[Problem]:
    """Find sentences of one file that occur in another."""
    first_tokens = {tuple(s.tokens) for s in first}
    shared = [s for s in second if s.tokens and tuple(s.tokens) in first_tokens]
    if shared:
        share = len(shared) / len(second)
        words = " ".join(shared[0].tokens)
        message = (
            f"{len(shared)} of {len(second)} sentences ({share:.1%}) also occur in {first.path}, "
            f"the first: {words if len(words) <= 60 else words[:60] + '…'!r}."
        )
        yield Problem("overlap", str(second.path), _line(shared[0]), message)


_NAMES = {**FORMATS, "model": "a model"}


def show(report: Report) -> None:
    """Print a report as text."""
    scheme = f", scheme {' or '.join(report.schemes)}" if report.schemes else ""
    click.echo(
        f"{report.path}: {_NAMES.get(report.format, 'unreadable')}, "
        f"{plural(report.sentences, 'sentence')}, {plural(report.tokens, 'token')}, "
        f"{plural(len(report.labels), 'label')}{scheme}"
    )
    if report.notice:
        click.echo("  " + report.notice.removeprefix(f"{report.path}: "))
    for kind, meaning in KINDS.items():
        problems = [problem for problem in report.problems if problem.kind == kind]
        if not problems:
            continue
        click.echo(f"  {kind} ({len(problems):,}): {meaning}")
        for problem in problems[:SHOWN]:
            click.echo(f"    {problem}")
        if len(problems) > SHOWN:
            click.echo(f"    … and {len(problems) - SHOWN:,} more; --json has all")
    if not report.problems:
        click.echo("  no problems")
