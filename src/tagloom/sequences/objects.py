"""JSON: one value per sentence, with tokens and labels, or with text and character spans.

The values stand on lines (JSONL) or in one array. spaCy's pairs and the tasks of Label Studio are
shapes of text with spans; ``_SHAPES`` has where each keeps its parts. Unknown keys are kept. A
label may be null (unknown) or an array (one of these).
"""

from __future__ import annotations

import json
import numbers
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from tagloom import checks
from tagloom.errors import FormatError
from tagloom.sequences import arrays
from tagloom.sequences.documents import Places, Tokenize, rule_offsets, text_of, tokens_of
from tagloom.sequences.faults import check_lengths, placed, several_labels
from tagloom.sequences.files import BOM, Input, sample_lines
from tagloom.sequences.guesses import ARRAYS
from tagloom.sequences.label_names import LabelNames, label_names_of
from tagloom.sequences.sentences import Label, Layout, Sentence

#: Blanks of JSON. str.strip removes others, too, such as form feeds, which a value may not follow.
BLANKS = " \t\r\n"
#: Formats that hold tokens; the others hold text and spans.
_WITH_TOKENS = ("jsonl", "json")
#: Formats whose objects may list the tokens of their text.
_LISTS_TOKENS = ("jsonl-spans", "json-spans")


class _Keys(NamedTuple):
    """Keys to look for; the first is used if an object has none of them."""

    text: tuple[str, ...]
    label: tuple[str, ...]


TOKEN_KEYS = _Keys(
    ("tokens", "words"), ("labels", "tags", "ner_tags", "pos_tags", "upos", "chunk_tags")
)
SPAN_KEYS = _Keys(("text", "data"), ("spans", "entities", "label", "labels"))
_OLD_SPANS = "annotations"  # in the first versions of doccano, which number their labels
_KEYS = {
    "spacy": _Keys(("text",), ("entities",)),
    "label-studio": _Keys(("text",), ("result",)),
}

_WORD = re.compile(r"\w+|[^\w\s]")


def word_offsets(text: str) -> list[tuple[int, int]]:
    """Split text into runs of letters and digits, and single other characters.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of (int, int)
        Begin and end of each token, in characters.

    Examples
    --------
    >>> from tagloom.sequences import word_offsets
    >>> text = "Don't go!"
    >>> [text[begin:end] for begin, end in word_offsets(text)]
    ['Don', "'", 't', 'go', '!']
    """
    return [match.span() for match in _WORD.finditer(text)]


@dataclass
class ObjectLayout:
    """The keys under which a file stores its sentences.

    Parameters
    ----------
    format : str
        "jsonl" and "json" have tokens and labels; "jsonl-spans", "json-spans", "spacy" and
        "label-studio" have text and character spans.
    text_key : str
        Key of the tokens, or of the text.
    label_key : str or None
        Key of the labels, or of the spans.
    tokenize : callable or None
        Maps a text to (begin, end) of each token, or splits it into sentences; for spans. None:
        by the preset "rules" of `tagloom.Tokenizer`.
    extra : list of str
        Further columns to write.
    labelled : bool
        Whether labels are read; otherwise ``label_key`` is the key to write them to.
    head : bytes
        A byte order mark, and the start of an array.
    label_names : list of str or None
        Names of labels that the file stores as numbers.
    """

    format: str
    text_key: str
    label_key: str | None
    tokenize: Tokenize | None = None
    extra: list[str] = field(default_factory=list)
    labelled: bool = True
    head: bytes = b""
    label_names: list[str] | None = None
    separator: bytes = arrays.SEPARATOR  # between the elements of an array
    tail: bytes = b""  # the bytes after the last sentence, once it is read
    problems: list[str] = field(default_factory=list)

    @property
    def is_array(self) -> bool:
        """Whether the values stand in one array."""
        return self.format in ARRAYS

    @property
    def has_text(self) -> bool:
        """Whether a value holds text and spans, not tokens."""
        return self.format not in _WITH_TOKENS

    @property
    def label_name(self) -> str | None:
        """Key of the labels, as a user would pass it."""
        return self.label_key

    def read(self, file: Input) -> Iterator[list[Sentence]]:
        """Yield the sentences of a file as they arrive; store the bytes after them in ``tail``."""
        if self.is_array:
            yield from self._read_array(file)
            return
        before, n_before = b"", 0  # blank lines belong to the sentence after them
        for lines in file.lines():
            batch: list[Sentence] = []
            for line, raw in lines:
                if not raw.strip(BLANKS.encode()):
                    before, n_before = before + raw, n_before + 1
                    continue
                try:
                    batch += self._sentences(_load(raw), before + raw, line, n_before, file)
                except FormatError as error:
                    yield batch
                    raise placed(error, file.name, line) from None
                before, n_before = b"", 0
            yield batch
        self.tail = before

    def _read_array(self, file: Input) -> Iterator[list[Sentence]]:
        elements = arrays.Elements(file)
        is_first = True
        for values in elements:
            batch: list[Sentence] = []
            for value, raw, line, before in values:
                if is_first:
                    self.head += before
                    is_first = False
                else:
                    self.separator = before
                try:
                    _check_value(value, raw.decode("utf-8"), self.format)
                    batch += self._sentences(value, raw, line, 0, file)
                except FormatError as error:
                    yield batch
                    raise placed(error, file.name, line) from None
            yield batch
        self.head += elements.head if is_first else b""
        self.tail = elements.tail

    def _sentences(
        self, value: Any, raw: bytes, line: int, n_before: int, file: Input
    ) -> Iterator[Sentence]:
        """Return the sentences of a value; most have one."""
        parsed = self._parse(value)
        self.problems += [f"{file.name}:{line}: {problem}" for problem in parsed.problems]
        return parsed.sentences(raw, line - n_before, self)

    def _parse(self, value: Any) -> _Parsed:
        return (parse_spans if self.has_text else _parse_tokens)(value, self)

    def labels_of(self, value: Any) -> Any:
        """Return the labels or spans of a value; None if they are not read."""
        if not self.labelled or self.label_key is None:
            return None
        return _shape(self).spans(value, self.label_key)

    def columns(self, raw: bytes) -> dict[str, list[str]]:
        """Return all keys whose value is a list of str, one per token."""
        value = json.loads(raw)
        if not isinstance(value, dict):
            return {}
        n = len(self._parse(value).tokens)
        return {
            key: column
            for key, column in value.items()
            if isinstance(column, list)
            and len(column) == n
            and all(isinstance(x, str) for x in column)
        }

    def comments(self, raw: bytes) -> list[str]:
        """Return no comments: the format has none."""
        return []

    def line_of(self, raw: bytes, token: int) -> int:
        """Return the line of ``raw`` that holds the object; the lines before it are blank."""
        return raw.rstrip().count(b"\n")

    def render(self, sentence: Sentence, where: str) -> bytes:
        """Write one sentence, from its original bytes if it was read from such a file."""
        check_lengths(sentence, where)
        source = sentence._layout
        value: Any = _shape(self).new()
        before, after = "", "" if self.is_array else "\n"  # blank lines, and the line end
        if isinstance(source, ObjectLayout) and source.format == self.format:
            value, raw = json.loads(sentence._raw), sentence._raw.decode("utf-8")
            before, after = raw[: len(raw) - len(raw.lstrip())], raw[len(raw.rstrip()) :]
            parsed = source._parse(value)
            same = parsed[:3] == (sentence.tokens, sentence.labels, sentence.text)
            same = same and self.label_key == source.label_key and not self.extra
            if same and (
                sentence._columns is None or sentence._columns == source.columns(sentence._raw)
            ):
                return sentence._raw
            columns = (sentence._columns or {}).items()
            if isinstance(value, dict):
                value.update((name, column) for name, column in columns if name not in self.extra)
                if source.label_key != self.label_key:
                    value.pop(source.label_key or "", None)
        try:
            (put_spans if self.has_text else _put_tokens)(value, sentence, self)
        except FormatError as error:
            error.where = checks.join(where, error.where)
            raise
        for name in self.extra:
            if name not in sentence.columns:
                raise FormatError(
                    where=where,
                    parameter="columns",
                    expected=f"columns of the sentence: {', '.join(sentence.columns) or 'none'}",
                    found=repr(name),
                )
            value[name] = sentence.columns[name]
        return f"{before}{json.dumps(value, ensure_ascii=False)}{after}".encode()


class _Parsed(NamedTuple):
    """One value of a file."""

    tokens: list[str]
    labels: list[Label] | None
    text: str | None = None
    offsets: Places | None = None
    problems: Iterable[str] = ()
    breaks: Iterable[int] = ()  # tokens before which a new sentence begins

    def sentences(self, raw: bytes, line: int, layout: Layout) -> Iterator[Sentence]:
        """Yield the sentences of the value."""
        bounds = [0, *self.breaks, len(self.tokens)]
        for first, last in pairwise(bounds):
            part = slice(first, last)
            sentence = Sentence._from_file(
                self.tokens[part],
                None if self.labels is None else self.labels[part],
                raw,
                line,
                layout,
                self.text,
                None if self.offsets is None else self.offsets[part],
            )
            if len(bounds) > 2:
                sentence._columns = {}  # the columns of the file are those of all sentences
            yield sentence


def _load(raw: bytes) -> dict[str, Any]:
    """Parse one line; every failure becomes a FormatError."""
    text = raw.decode("utf-8").strip(BLANKS)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        # Only a cut-off line is the beginning of an object that takes several.
        is_cut = error.pos >= len(text) - 1
        raise FormatError(
            expected="one JSON object on each line",
            found=f"{checks.show(text)}, wrong at column {error.colno} ({error.msg})",
            hint="Put objects that take several lines into one array, or on one line each."
            if is_cut
            else None,
        ) from None
    except (ValueError, RecursionError) as error:
        raise FormatError(expected="valid JSON", found=f"{checks.show(text)} ({error})") from None
    _check_value(value, text, "jsonl")
    return dict(value)


def _check_value(value: Any, text: str, format: str) -> None:
    """Raise if a value does not have the shape of its format, or contains half a character."""
    shape = _SHAPES.get(format, _PLAIN)
    if not shape.fits(value):
        raise FormatError(expected=shape.example, found=checks.show(text))
    if "\\ud" in text.lower():
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise FormatError(
                expected="whole characters", found="a \\u escape that is half of a surrogate pair"
            ) from None


# ---- shapes: where a value keeps its text and spans --------------------------------------------


class _Shape(NamedTuple):
    """Where a value keeps its text and its spans, or its labels.

    Attributes
    ----------
    example : str
        The shape, for messages.
    fits : callable
        Whether a value has this shape.
    new : callable
        Makes an empty value.
    text, spans : callable
        Read the text and the spans of a value, given their key; None if they are missing.
    put_text, put_spans : callable
        Write them.
    """

    example: str
    fits: Callable[[Any], bool]
    new: Callable[[], Any]
    text: Callable[[Any, str], Any]
    spans: Callable[[Any, str], Any]
    put_text: Callable[[Any, str, str], None]
    put_spans: Callable[[Any, str, list[Any] | None], None]


def _put(value: dict[str, Any], key: str, spans: list[Any] | None) -> None:
    if spans is None:
        value.pop(key, None)
    else:
        value[key] = spans


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[1], dict)


def _annotations(task: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the annotations of a task that were not cancelled."""
    items = task.get("annotations", task.get("completions"))
    items = items if isinstance(items, list) else []
    return [item for item in items if isinstance(item, dict) and not item.get("was_cancelled")]


def _annotation(task: dict[str, Any]) -> dict[str, Any]:
    """Return the first annotation of a task that was not cancelled; an empty one without any."""
    return next(iter(_annotations(task)), {})


def _check_one_annotation(task: Any) -> list[str]:
    """Return the problem of a task with more than one annotation, such as of two annotators."""
    n = len(_annotations(task)) if isinstance(task, dict) else 0
    return [f"{n} annotations of one task; the first is read."] if n > 1 else []


def _is_region(item: Any) -> bool:
    """Return whether an item of a result is a span of text; others are choices or relations."""
    value = item.get("value") if isinstance(item, dict) else None
    return isinstance(value, dict) and "start" in value and "labels" in value


def _put_result(task: dict[str, Any], key: str, spans: list[Any] | None) -> None:
    if spans is None:
        task.pop("annotations", None)
        return
    annotation = _annotation(task)
    if not annotation:
        task.setdefault("annotations", []).append(annotation)
    others = [item for item in annotation.get("result") or () if not _is_region(item)]
    annotation["result"] = [*spans, *others]


def _result(task: dict[str, Any], key: str) -> Any:
    result = _annotation(task).get("result")
    return [item for item in result if _is_region(item)] if isinstance(result, list) else result


_PLAIN = _Shape(
    'an object such as {"tokens": […], "labels": […]}',
    fits=lambda value: isinstance(value, dict),
    new=dict,
    text=lambda value, key: value.get(key),
    spans=lambda value, key: value.get(key),
    put_text=lambda value, key, text: value.update({key: text}),
    put_spans=_put,
)
_SHAPES = {
    "spacy": _Shape(
        'a pair such as ["Ann left", {"entities": [[0, 3, "PER"]]}]',
        fits=_is_pair,
        new=lambda: ["", {}],
        text=lambda value, key: value[0],
        spans=lambda value, key: value[1].get(key),
        put_text=lambda value, key, text: value.__setitem__(0, text),
        put_spans=lambda value, key, spans: _put(value[1], key, spans),
    ),
    "label-studio": _Shape(
        'a task such as {"data": {"text": "…"}, "annotations": [{"result": […]}]}',
        fits=lambda value: isinstance(value, dict) and isinstance(value.get("data"), dict),
        new=lambda: {"data": {}},
        text=lambda value, key: value["data"].get(key),
        spans=_result,
        put_text=lambda value, key, text: value["data"].update({key: text}),
        put_spans=_put_result,
    ),
}


def _shape(layout: ObjectLayout) -> _Shape:
    return _SHAPES.get(layout.format, _PLAIN)


def _parse_tokens(value: Any, layout: ObjectLayout) -> _Parsed:
    tokens = value.get(layout.text_key)
    if not isinstance(tokens, list) or not all(isinstance(x, str) for x in tokens):
        raise FormatError(
            expected=f"a list of strings under {layout.text_key!r}",
            found=_found(value, layout.text_key),
            hint="Name the key with {token}.",
            options={"token": ...},
        )
    values = layout.labels_of(value)
    if values is None:
        return _Parsed(tokens, None)
    if not isinstance(values, list) or len(values) != len(tokens):
        raise FormatError(
            expected=f"a list of {len(tokens)} labels, one per token, under {layout.label_key!r}",
            found=checks.show(values),
        )
    labels: list[Label] = []
    for t, label in enumerate(values):
        if isinstance(label, list) and label and all(isinstance(x, str) for x in label):
            labels.append(frozenset(label))
        elif label is None or isinstance(label, str):
            labels.append(label)
        elif layout.label_names is not None and (number := label_number(label)) is not None:
            labels.append(label_name(number, layout.label_names, t))
        else:
            raise FormatError(
                expected=f"a string, null (unknown) or an array of strings as label {t}",
                found=checks.show(label),
                hint="Pass the names of numbered labels as {label_names}.",
                options={"label_names": ...},
            )
    return _Parsed(tokens, labels)


def _found(value: dict[str, Any], key: str) -> str:
    """Return the value of a key for a message; if it is missing, also the other keys."""
    if key in value or not value:
        return checks.show(value.get(key))
    return f"None (the keys are {', '.join(map(repr, list(value)[:20]))})"


def label_number(label: Any) -> int | None:
    """Return a label that is a whole number as an int, whatever its type; None otherwise."""
    if isinstance(label, bool) or not isinstance(label, numbers.Real):
        return None
    number: Any = label
    return int(number) if number == number // 1 else None


def label_name(number: int, names: list[str], t: int) -> str | None:
    """Return the name of a numbered label; −100, which losses ignore, is unknown."""
    if number == _IGNORED:
        return None
    if not 0 <= number < len(names):
        raise FormatError(
            expected=f"a number from 0 to {len(names) - 1}, as label_names has, as label {t}",
            found=str(number),
        )
    return names[number]


def label_value(label: Label, layout: ObjectLayout) -> Any:
    """Return a label as a file stores it: by its number if the file has numbers."""
    if layout.label_names is not None:
        if label is None:
            return _IGNORED
        if label not in layout.label_names:
            raise FormatError(
                parameter="label_names",
                expected=f"names that contain {label!r}",
                found=checks.show(layout.label_names),
            )
        return layout.label_names.index(str(label))
    return sorted(label) if isinstance(label, frozenset) else label


_IGNORED = -100  # the number of a token without label, in PyTorch and in Hugging Face data


def _put_tokens(value: dict[str, Any], sentence: Sentence, layout: ObjectLayout) -> None:
    value[layout.text_key] = sentence.tokens
    if sentence.labels is None:
        if layout.labelled:
            value.pop(layout.label_key or "labels", None)
        return
    value[layout.label_key or "labels"] = [label_value(y, layout) for y in sentence.labels]


def parse_spans(value: Any, layout: ObjectLayout) -> _Parsed:
    """Read a value with text and spans."""
    text = _shape(layout).text(value, layout.text_key)
    if not isinstance(text, str):
        at = value["data"] if layout.format == "label-studio" else value
        raise FormatError(
            expected=f"a string under {layout.text_key!r}",
            found=checks.show(text) if layout.format == "spacy" else _found(at, layout.text_key),
            hint="Name the key with {token}.",
            options={"token": ...},
        )
    offsets, starts = tokens_of(
        text, value if layout.format in _LISTS_TOKENS else None, layout.tokenize
    )
    tokens = [text[begin:end] for begin, end in offsets]
    firsts = [begin for begin, _ in offsets]
    breaks = sorted({bisect_left(firsts, start) for start in starts} - {0, len(firsts)})
    spans = layout.labels_of(value)
    if spans is None:
        return _Parsed(tokens, None, text, offsets, (), breaks)
    if not isinstance(spans, list):
        raise FormatError(
            expected=f"a list of spans under {layout.label_key!r}", found=checks.show(spans)
        )
    labels, problems = labels_of_spans(text, offsets, [_span(item) for item in spans])
    if layout.format == "label-studio":
        problems += _check_one_annotation(value)
    elif isinstance(value, dict) and value.get("answer") in _NOT_ACCEPTED:
        labels = [None] * len(tokens)
        problems.append(f"the answer is {value['answer']!r}; its tokens are read as unknown.")
    breaks = [t for t in breaks if not str(labels[t]).startswith("I-")]  # not inside a span
    return _Parsed(tokens, labels, text, offsets, problems, breaks)


_NOT_ACCEPTED = ("reject", "ignore")  # answers of an annotator, in files of Prodigy


def _span(item: Any) -> tuple[int, int, str]:
    """Read a span: a list, or an object as one of `_SPAN_FORMS` has it."""
    parts = item
    if isinstance(item, dict):
        place = item.get("value", item)
        place = place if isinstance(place, dict) else item
        begin = place.get("start", place.get("start_offset"))
        end = place.get("end", place.get("end_offset"))
        label = place.get("label", place.get("labels"))
        parts = [begin, end, label[0] if isinstance(label, list) and len(label) == 1 else label]
    if isinstance(parts, list) and len(parts) in (3, 4):  # spaCy adds the id of an entity
        begin, end, label = parts[:3]
        if type(begin) is int and type(end) is int and isinstance(label, str) and label:
            return begin, end, label
    raise FormatError(
        expected='a span such as [0, 5, "PER"] or {"start": 0, "end": 5, "label": "PER"}',
        found=checks.show(item),
    )


def _new_span(like: Any, begin: int, end: int, label: str, text: str) -> Any:
    """Write a span in the form of another one of the file."""
    if isinstance(like, list):
        return [begin, end, label]
    if "value" in like:
        kept = {key: like[key] for key in ("from_name", "to_name", "type") if key in like}
        return {**kept, "value": _new_span(like["value"], begin, end, label, text)}
    if "start_offset" in like:
        return {"label": label, "start_offset": begin, "end_offset": end}
    if "labels" in like:
        return {"start": begin, "end": end, "text": text[begin:end], "labels": [label]}
    return {"start": begin, "end": end, "label": label}


# The form of spans in a value that has none yet.
_SPAN_FORMS: dict[str, Any] = {
    "spacy": [],
    "label-studio": {
        "from_name": "label",
        "to_name": "text",
        "type": "labels",
        "value": {"labels": []},
    },
}


def labels_of_spans(
    text: str, offsets: list[tuple[int, int]], spans: list[tuple[int, int, str]]
) -> tuple[list[Label], list[str]]:
    """Map character spans to BIO; tokens that a span cuts become unknown and are reported."""
    labels: list[Label] = ["O"] * len(offsets)
    problems = []
    begins, ends = [begin for begin, _ in offsets], [end for _, end in offsets]
    for begin, end, label in sorted(spans, key=lambda span: (span[0], -span[1])):
        shown = f"span {begin}:{end} {label!r}"
        if not 0 <= begin < end <= len(text):
            problems.append(f"{shown} is empty or outside the text of {len(text)} characters.")
            continue
        shown += f" ({checks.show(text[begin:end])})"
        first, last = bisect_right(ends, begin), bisect_left(begins, end)
        if first == last:
            problems.append(f"{shown} contains no token.")
            continue
        cut = [offsets[t] for t in (first, last - 1) if begins[t] < begin or ends[t] > end]
        taken = any(y != "O" for y in labels[first:last])
        if cut or taken:
            labels[first:last] = [None if y == "O" else y for y in labels[first:last]]
            why = "overlaps an earlier one"
            if cut:
                why = f"cuts the token {text[slice(*cut[0])]!r} ({cut[0][0]}:{cut[0][1]})"
            problems.append(f"{shown} {why}; the tokens it touches are read as unknown.")
            continue
        if (begins[first], ends[last - 1]) != (begin, end):
            problems.append(f"{shown} is read as {begins[first]}:{ends[last - 1]}, its tokens.")
        labels[first:last] = [f"B-{label}"] + [f"I-{label}"] * (last - first - 1)
    return labels, problems


def put_spans(value: Any, sentence: Sentence, layout: ObjectLayout) -> None:
    """Write the text and the labels of a sentence to a value, as spans."""
    text, offsets = sentence.text, sentence.offsets
    if text is not None and offsets is not None:
        tokens = [text[begin:end] for begin, end in offsets]
        if tokens != sentence.tokens:
            raise FormatError(
                expected=f"the tokens of the text, {checks.show(tokens)}",
                found=checks.show(sentence.tokens),
                hint="Change text and offsets too, or write jsonl.",
            )
    else:
        text, offsets = text_of(sentence)
    lists_tokens = layout.format in _LISTS_TOKENS and "tokens" not in value
    if lists_tokens and rule_offsets(text) != offsets:
        value["tokens"] = [list(place) for place in offsets]  # a reader would find others
    shape, key = _shape(layout), layout.label_key or "spans"
    shape.put_text(value, layout.text_key, text)
    if sentence.labels is None:
        if layout.labelled:
            shape.put_spans(value, key, None)
        return
    # Unchanged spans keep their other keys in the file; so do spans over unknown tokens.
    old = shape.spans(value, key) or []
    item_of = {_span(item): item for item in old}
    unknown = [at for at, y in zip(offsets, sentence.labels, strict=True) if y is None]
    like = old[0] if old else _SPAN_FORMS.get(layout.format, {})
    spans = spans_of_labels(sentence.labels, offsets)
    spans += [
        span
        for span in item_of
        if span not in spans and any(b < span[1] and e > span[0] for b, e in unknown)
    ]
    items = [
        item_of[span] if span in item_of else _new_span(like, *span, text) for span in sorted(spans)
    ]
    shape.put_spans(value, key, items)


def spans_of_labels(
    labels: list[Label], offsets: list[tuple[int, int]], where: str | None = None
) -> list[tuple[int, int, str]]:
    """Read BIO labels as character spans; an I- without a span to continue begins one.

    Raises
    ------
    FormatError
        If a label is not a BIO label; ``where`` is the place of the sentence.
    """
    spans: list[tuple[int, int, str]] = []
    open_label = None
    for t, label in enumerate(labels):
        if label is None or label == "O":
            open_label = None
            continue
        if isinstance(label, frozenset):
            raise several_labels(label, "a format of spans", checks.join(where, f"token {t}"))
        if label[:2] not in ("B-", "I-") or len(label) == 2:
            raise FormatError(
                where=checks.join(where, f"token {t}"),
                expected="a BIO label, as spans need them",
                found=repr(label),
                hint="Convert the scheme first: tagloom convert --scheme-to bio.",
            )
        begin, end = offsets[t]
        if label[0] == "I" and label[2:] == open_label:
            spans[-1] = (spans[-1][0], end, label[2:])
        else:
            spans.append((begin, end, label[2:]))
        open_label = label[2:]
    return spans


def object_layout(
    file: Input,
    format: str,
    *,
    label: str | int | None = None,
    token: str | int | None = None,
    tokenize: Tokenize | None = None,
    label_names: LabelNames | None = None,
    labelled: bool = True,
) -> tuple[ObjectLayout, str]:
    """Find the keys of a JSON file from its first value."""
    if isinstance(label, int) or isinstance(token, int):
        name, value = ("label", label) if isinstance(label, int) else ("token", token)
        raise FormatError(
            path=file.name, parameter=name, expected="a key of the objects", found=str(value)
        )
    keys = TOKEN_KEYS if format in _WITH_TOKENS else _KEYS.get(format, SPAN_KEYS)
    first = _first_value(file, format)
    notes = []
    if not token:
        token = _guess_text_key(first, keys)
        notes.append(f"{keys.text[0]} under {token!r}")
    if label is None:
        label = guess_label_key(first, keys, labelled, file.name)
        notes += [f"labels under {label!r}"] if labelled else []
    elif first and label not in first and labelled and format != "label-studio":
        raise FormatError(
            path=file.name,
            parameter="label",
            expected=f"a key of the first object: {', '.join(first)}",
            found=repr(label),
        )
    layout = ObjectLayout(
        format,
        token,
        label,
        tokenize,
        labelled=labelled,
        head=BOM if file.has_bom else b"",
    )
    if label_names is not None:
        layout.label_names = label_names_of(label_names, label)
    return layout, "; ".join(notes)


def _first_value(file: Input, format: str) -> dict[str, Any]:
    """Return the object with the keys of the first value, or an empty one if the file has none."""
    if format in ARRAYS:
        value = arrays.first_element(file)
        if not _SHAPES.get(format, _PLAIN).fits(value):
            return {}  # the reader reports it with its place
        if format == "spacy":
            return {"text": value[0], **value[1]}
        return dict(value["data"]) if format == "label-studio" else dict(value)
    for line, text in enumerate(sample_lines(file), 1):
        if text.strip(BLANKS):
            try:
                return _load(text.encode("utf-8"))
            except FormatError as error:
                raise placed(error, file.name, line) from None
    return {}


def _guess_text_key(first: dict[str, Any], keys: _Keys) -> str:
    """Return the key of the text or tokens: one of the usual names, else the only one that fits."""
    for key in keys.text:
        if key in first:
            return key
    kind = list if keys is TOKEN_KEYS else str
    labels = {*keys.label, *SPAN_KEYS.label}
    fitting = [key for key, value in first.items() if type(value) is kind and key not in labels]
    return fitting[0] if len(fitting) == 1 else keys.text[0]


def guess_label_key(first: dict[str, Any], keys: _Keys, labelled: bool, path: str | None) -> str:
    """Return the key of the labels in the first object of a file."""
    present = [key for key in keys.label if key in first]
    if not present and labelled and isinstance(first.get(_OLD_SPANS), list):
        present = [_OLD_SPANS] * (keys is SPAN_KEYS)
    if len(present) > 1 and labelled:
        raise FormatError(
            path=path,
            expected="one key with labels",
            found=" and ".join(map(repr, present)),
            hint="Choose one: {label}.",
            options={"label": present[0]},
        )
    return present[0] if present else keys.label[0]


# ---- dicts that are not from a file ------------------------------------------------------------


def row_keys(row: Mapping[str, Any], token: str | None, label: str | None) -> tuple[str, str]:
    """Return the keys of tokens and labels in a dict: as given, else as in a file."""
    token = token or _guess_text_key(dict(row), TOKEN_KEYS)
    if label is not None and label not in row:
        raise FormatError(
            parameter="label",
            expected=f"a key of the dicts: {', '.join(map(str, row))}",
            found=checks.show(label),
        )
    if label is None:
        label = guess_label_key(dict(row), TOKEN_KEYS, True, None)
    return token, label


def sentence_of_row(
    row: Mapping[str, Any], token: str, label: str, names: list[str] | None
) -> Sentence:
    """Make a sentence of a dict, as the reader of JSONL would."""
    layout = ObjectLayout("jsonl", token, label, label_names=names)
    value = {
        key: column.tolist() if hasattr(column, "tolist") else column for key, column in row.items()
    }
    value = {
        key: list(column) if isinstance(column, tuple) else column for key, column in value.items()
    }
    tokens, labels = _parse_tokens(value, layout)[:2]
    further = {
        key: column
        for key, column in value.items()
        if key not in (token, label)
        and isinstance(column, list)
        and len(column) == len(tokens)
        and all(isinstance(x, str) for x in column)
    }
    return Sentence(tokens, labels, columns=further)
