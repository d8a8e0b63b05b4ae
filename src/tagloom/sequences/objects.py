"""JSON lines: one object per sentence, with tokens and labels, or with text and character spans.

Unknown keys are kept. A label may be null (unknown) or an array (one of these).
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from tagloom import checks
from tagloom.errors import FormatError
from tagloom.sequences.faults import check_lengths, placed
from tagloom.sequences.files import BOM, Input, sample_lines
from tagloom.sequences.sentences import Label, Sentence

Tokenizer: TypeAlias = Callable[[str], Iterable[tuple[int, int]]]


class _Keys(NamedTuple):
    """Keys to look for; the first is used if an object has none of them."""

    text: tuple[str, ...]
    label: tuple[str, ...]


_TOKEN_KEYS = _Keys(
    ("tokens", "words"), ("labels", "tags", "ner_tags", "pos_tags", "upos", "chunk_tags")
)
_SPAN_KEYS = _Keys(("text",), ("spans", "entities", "label", "labels"))

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
        "jsonl" (tokens and labels) or "jsonl-spans" (text and character spans).
    text_key : str
        Key of the tokens, or of the text.
    label_key : str or None
        Key of the labels, or of the spans.
    tokenize : callable
        Maps a text to (begin, end) of each token; for spans.
    extra : list of str
        Further columns to write.
    labelled : bool
        Whether labels are read; otherwise ``label_key`` is the key to write them to.
    head : bytes
        A byte order mark.
    """

    format: str
    text_key: str
    label_key: str | None
    tokenize: Tokenizer = word_offsets
    extra: list[str] = field(default_factory=list)
    labelled: bool = True
    head: bytes = b""
    tail: bytes = b""  # the bytes after the last sentence, once it is read
    problems: list[str] = field(default_factory=list)

    @property
    def label_name(self) -> str | None:
        """Key of the labels, as a user would pass it."""
        return self.label_key

    def read(self, file: Input) -> Iterator[list[Sentence]]:
        """Yield the sentences of a file as they arrive; store the bytes after them in ``tail``."""
        before, n_before = b"", 0  # blank lines belong to the sentence after them
        for lines in file.lines():
            batch: list[Sentence] = []
            for line, raw in lines:
                if not raw.strip():
                    before, n_before = before + raw, n_before + 1
                    continue
                try:
                    tokens, labels, text, offsets, problems = self._parse(_load(raw))
                except FormatError as error:
                    yield batch
                    raise placed(error, file.name, line) from None
                self.problems += [f"{file.name}:{line}: {problem}" for problem in problems]
                batch.append(
                    Sentence._from_file(
                        tokens, labels, before + raw, line - n_before, self, text, offsets
                    )
                )
                before, n_before = b"", 0
            yield batch
        self.tail = before

    def _parse(self, value: dict[str, Any]) -> _Parsed:
        return (_parse_spans if self.format == "jsonl-spans" else _parse_tokens)(value, self)

    def labels_of(self, value: dict[str, Any]) -> Any:
        """Return the value under the key of the labels; None if labels are not read."""
        return value.get(self.label_key) if self.labelled and self.label_key is not None else None

    def columns(self, raw: bytes) -> dict[str, list[str]]:
        """Return all keys whose value is a list of str, one per token."""
        value = json.loads(raw)
        n = len(self._parse(value)[0])
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
        value: dict[str, Any] = {}
        before, after = "", "\n"  # blank lines, and the line end
        if isinstance(source, ObjectLayout) and source.format == self.format:
            value, raw = json.loads(sentence._raw), sentence._raw.decode("utf-8")
            before, after = raw[: raw.index("{")], raw[raw.rindex("}") + 1 :]
            tokens, labels, text, _, _ = source._parse(value)
            same = (tokens, labels, text) == (sentence.tokens, sentence.labels, sentence.text)
            same = same and self.label_key == source.label_key and not self.extra
            if same and (
                sentence._columns is None or sentence._columns == source.columns(sentence._raw)
            ):
                return sentence._raw
            columns = (sentence._columns or {}).items()
            value.update((name, column) for name, column in columns if name not in self.extra)
            if source.label_key != self.label_key:
                value.pop(source.label_key or "", None)
        try:
            (_put_spans if self.format == "jsonl-spans" else _put_tokens)(value, sentence, self)
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


# tokens, labels, text, offsets, problems
_Parsed: TypeAlias = tuple[
    list[str], list[Label] | None, str | None, list[tuple[int, int]] | None, list[str]
]


def _load(raw: bytes) -> dict[str, Any]:
    """Parse one line; every failure becomes a FormatError."""
    text = raw.decode("utf-8").strip()
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise FormatError(
            expected="one JSON object on each line",
            found=f"{checks.show(text)}, wrong at column {error.colno} ({error.msg})",
        ) from None
    except (ValueError, RecursionError) as error:
        raise FormatError(expected="valid JSON", found=f"{checks.show(text)} ({error})") from None
    if not isinstance(value, dict):
        raise FormatError(
            expected='an object such as {"tokens": […], "labels": […]}', found=checks.show(text)
        )
    if "\\ud" in text.lower():
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise FormatError(
                expected="whole characters", found="a \\u escape that is half of a surrogate pair"
            ) from None
    return value


def _parse_tokens(value: dict[str, Any], layout: ObjectLayout) -> _Parsed:
    tokens = value.get(layout.text_key)
    if not isinstance(tokens, list) or not all(isinstance(x, str) for x in tokens):
        raise FormatError(
            expected=f"a list of strings under {layout.text_key!r}",
            found=checks.show(tokens),
            hint="Name the key with {token}.",
            options={"token": ...},
        )
    values = layout.labels_of(value)
    if values is None:
        return tokens, None, None, None, []
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
        else:
            raise FormatError(
                expected=f"a string, null (unknown) or an array of strings as label {t}",
                found=checks.show(label),
                hint="Replace numbers by the names of their labels.",
            )
    return tokens, labels, None, None, []


def _put_tokens(value: dict[str, Any], sentence: Sentence, layout: ObjectLayout) -> None:
    value[layout.text_key] = sentence.tokens
    if sentence.labels is None:
        if layout.labelled:
            value.pop(layout.label_key or "labels", None)
        return
    value[layout.label_key or "labels"] = [
        sorted(label) if isinstance(label, frozenset) else label for label in sentence.labels
    ]


def _parse_spans(value: dict[str, Any], layout: ObjectLayout) -> _Parsed:
    text = value.get(layout.text_key)
    if not isinstance(text, str):
        raise FormatError(
            expected=f"a string under {layout.text_key!r}",
            found=checks.show(text),
            hint="Name the key with {token}.",
            options={"token": ...},
        )
    offsets = [(int(begin), int(end)) for begin, end in layout.tokenize(text)]
    last = 0
    for begin, end in offsets:
        if not last <= begin < end <= len(text):
            raise FormatError(
                parameter="tokenize",
                expected=f"a function that returns tokens in order, within {len(text)} characters",
                found=f"{begin}:{end} after {last}",
            )
        last = end
    tokens = [text[begin:end] for begin, end in offsets]
    spans = layout.labels_of(value)
    if spans is None:
        return tokens, None, text, offsets, []
    if not isinstance(spans, list):
        raise FormatError(
            expected=f"a list of spans under {layout.label_key!r}", found=checks.show(spans)
        )
    labels, problems = _labels_of_spans(text, offsets, [_span(item) for item in spans])
    return tokens, labels, text, offsets, problems


def _span(item: Any) -> tuple[int, int, str]:
    """Read ``[begin, end, label]`` or ``{"start": …, "end": …, "label": …}``."""
    parts = item
    if isinstance(item, dict):
        parts = [item.get("start"), item.get("end"), item.get("label")]
    if isinstance(parts, list) and len(parts) == 3:
        begin, end, label = parts
        if type(begin) is int and type(end) is int and isinstance(label, str) and label:
            return begin, end, label
    raise FormatError(
        expected='a span such as [0, 5, "PER"] or {"start": 0, "end": 5, "label": "PER"}',
        found=checks.show(item),
    )


def _labels_of_spans(
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


def _put_spans(value: dict[str, Any], sentence: Sentence, layout: ObjectLayout) -> None:
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
        text, offsets, end = " ".join(sentence.tokens), [], 0
        for token in sentence.tokens:
            offsets.append((end, end + len(token)))
            end += len(token) + 1
    value[layout.text_key] = text
    key = layout.label_key or "spans"
    if sentence.labels is None:
        if layout.labelled:
            value.pop(key, None)
        return
    # Unchanged spans keep their other keys in the file; so do spans over unknown tokens.
    old = value.get(key) or []
    item_of = {_span(item): item for item in old}
    unknown = [at for at, y in zip(offsets, sentence.labels, strict=True) if y is None]
    as_dict = not old or isinstance(old[0], dict)
    spans = _spans_of_labels(sentence.labels, offsets)
    spans += [
        span
        for span in item_of
        if span not in spans and any(b < span[1] and e > span[0] for b, e in unknown)
    ]
    value[key] = [
        item_of.get((b, e, y), {"start": b, "end": e, "label": y} if as_dict else [b, e, y])
        for b, e, y in sorted(spans)
    ]


def _spans_of_labels(
    labels: list[Label], offsets: list[tuple[int, int]]
) -> list[tuple[int, int, str]]:
    """Read BIO labels as character spans; an I- without a span to continue begins one."""
    spans: list[tuple[int, int, str]] = []
    open_label = None
    for t, label in enumerate(labels):
        if label is None or label == "O":
            open_label = None
            continue
        if not isinstance(label, str) or label[:2] not in ("B-", "I-") or len(label) == 2:
            raise FormatError(
                where=f"token {t}",
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
    tokenize: Tokenizer | None = None,
    labelled: bool = True,
) -> tuple[ObjectLayout, str]:
    """Find the keys of a JSONL file from its first object."""
    if isinstance(label, int) or isinstance(token, int):
        name, value = ("label", label) if isinstance(label, int) else ("token", token)
        raise FormatError(
            path=file.name, parameter=name, expected="a key of the objects", found=str(value)
        )
    keys = _SPAN_KEYS if format == "jsonl-spans" else _TOKEN_KEYS
    first = _first_object(file)
    notes = []
    if not token:
        token = next((key for key in keys.text if key in first), keys.text[0])
        notes.append(f"{keys.text[0]} under {token!r}")
    if label is None:
        label = _guess_label_key(first, keys, labelled, file.name)
        notes += [f"labels under {label!r}"] if labelled else []
    elif first and label not in first and labelled:
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
        tokenize or word_offsets,
        labelled=labelled,
        head=BOM if file.has_bom else b"",
    )
    return layout, "; ".join(notes)


def _first_object(file: Input) -> dict[str, Any]:
    """Return the first object of a file, or an empty one if the file has none."""
    for line, text in enumerate(sample_lines(file), 1):
        if text.strip():
            try:
                return _load(text.encode("utf-8"))
            except FormatError as error:
                raise placed(error, file.name, line) from None
    return {}


def _guess_label_key(first: dict[str, Any], keys: _Keys, labelled: bool, path: str) -> str:
    present = [key for key in keys.label if key in first]
    if len(present) > 1 and labelled:
        raise FormatError(
            path=path,
            expected="one key with labels",
            found=" and ".join(map(repr, present)),
            hint="Choose one: {label}.",
            options={"label": present[0]},
        )
    return present[0] if present else keys.label[0]
