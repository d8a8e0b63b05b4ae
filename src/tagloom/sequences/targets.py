"""Choose the layout to write a sentence with: that of its file, if the format is the same.

`write` chooses one for each layout among its sentences; the options are those of `write`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from tagloom import checks
from tagloom.errors import FormatError
from tagloom.records import replace
from tagloom.sequences.sentences import Sentence

if TYPE_CHECKING:
    from tagloom.sequences.arrow import ArrowLayout
    from tagloom.sequences.attribute_rows import AttributeLayout
    from tagloom.sequences.brat import BratLayout
    from tagloom.sequences.columns import ColumnLayout
    from tagloom.sequences.docbin import DocBinLayout
    from tagloom.sequences.objects import ObjectLayout
    from tagloom.sequences.slashes import SlashLayout
    from tagloom.sequences.tables import TableLayout

# The modules of the layouts are imported where they are needed, for a quick start.
AnyLayout: TypeAlias = "ColumnLayout | SlashLayout | ObjectLayout | TableLayout | AttributeLayout"
# The others are written as a whole, not by sentence.
ReadLayout: TypeAlias = "AnyLayout | BratLayout | DocBinLayout | ArrowLayout"


def target(sentence: Sentence, format: str, options: Mapping[str, Any]) -> AnyLayout:
    """Choose the layout for a sentence and for others from the same file."""
    if format in ("conll", "conllu"):
        from tagloom.sequences.columns import ColumnLayout

        source = sentence._layout
        is_new = "columns" in options
        if isinstance(source, ColumnLayout) and source.format == format and not is_new:
            return same_columns(source, sentence, options)
        return _new_conllu(options) if format == "conllu" else _new_columns(sentence, options)
    if format in ("slash", "text"):
        return _slashes(sentence, format, options)
    if format == "crfsuite":
        from tagloom.sequences.attribute_rows import AttributeLayout

        return AttributeLayout()
    if format == "csv":
        from tagloom.sequences.tables import table_target

        return table_target(sentence, options, list(options.get("append", ())))
    return _objects(sentence, format, options)


def same_columns(
    source: ColumnLayout, sentence: Sentence, options: Mapping[str, Any]
) -> ColumnLayout:
    """Return the columns of the file that a sentence was read from, plus the added ones."""
    layout = replace(
        source,
        sep=options.get("sep", source.sep),
        unknown=options.get("unknown", source.unknown),
    )
    added = list(options.get("append", ()))
    needs_label = source.label < 0 and sentence.labels is not None
    if source.format == "conllu":
        _choose_conllu_label(layout, added, needs_label, options)
    else:
        _add_columns(layout, added or ["label"] * needs_label, source.sep)
    layout.base = source if layout.sep == source.sep else None
    return layout


def _choose_conllu_label(
    layout: ColumnLayout, added: list[str], needs_label: bool, options: Mapping[str, Any]
) -> None:
    """Find the label column in CoNLL-U, which always has ten columns."""
    from tagloom.sequences.column_guesses import find_column

    if added not in ([], ["label"]):
        raise FormatError(
            parameter="append", expected="['label'] in CoNLL-U", found=checks.show(added)
        )
    if "label" in options:
        layout.label, layout.label_tail = find_column(options["label"], layout.names, "label"), -1
    elif needs_label:
        raise FormatError(
            parameter="label",
            expected=f"the column for the labels, one of {', '.join(layout.names)}",
            found="None",
        )


def _add_columns(layout: ColumnLayout, added: list[str], header_sep: str) -> None:
    """Add columns after the last one, also to the header if the file has one."""
    before = layout.names
    for name in added:
        if name == "label":
            layout.label, layout.label_tail = len(layout.names), -1
            name = next(x for x in _free_names("label") if x not in before)
        elif name in before:
            raise FormatError(
                parameter="append",
                expected="names of new columns",
                found=f"{name!r}, a column of the file",
            )
        layout.names = [*layout.names, name]
    if added and layout.has_header:
        row = layout.head.rstrip(b"\r\n")
        cells = header_sep.join(["", *layout.names[len(before) :]]).encode("utf-8")
        layout.head = row + cells + layout.head[len(row) :]


def _free_names(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}{i}" for i in count(2))


def _new_conllu(options: Mapping[str, Any]) -> ColumnLayout:
    from tagloom.sequences.column_guesses import find_column
    from tagloom.sequences.columns import CONLLU, UNKNOWN, ColumnLayout

    return ColumnLayout(
        "conllu",
        "\t",
        list(CONLLU),
        token=CONLLU.index("form"),
        label=find_column(options.get("label", "upos"), CONLLU, "label"),
        id=CONLLU.index("id"),
        comment="#",
        unknown=options.get("unknown") or UNKNOWN,
    )


def _new_columns(sentence: Sentence, options: Mapping[str, Any]) -> ColumnLayout:
    from tagloom.sequences.columns import ColumnLayout

    names = list(options.get("columns") or ())
    names = names or ["token", "label"][: 1 if sentence.labels is None else 2]
    names += _further_columns(options)
    return ColumnLayout(
        "conll",
        options.get("sep", "\t"),
        names,
        token=names.index("token") if "token" in names else -1,
        label=names.index("label") if "label" in names else -1,
        unknown=options.get("unknown"),
    )


def _slashes(sentence: Sentence, format: str, options: Mapping[str, Any]) -> SlashLayout:
    from tagloom.sequences.slashes import SlashLayout

    source = sentence._layout if isinstance(sentence._layout, SlashLayout) else SlashLayout()
    return replace(
        source,
        sep=options.get("sep", source.sep),
        unknown=options.get("unknown", source.unknown),
        format=format,
        extra=_further_columns(options),
    )


def _objects(sentence: Sentence, format: str, options: Mapping[str, Any]) -> ObjectLayout:
    from tagloom.sequences.objects import ObjectLayout

    extra = [*(options.get("columns") or ()), *_further_columns(options)]
    source = sentence._layout
    if isinstance(source, ObjectLayout) and source.format == format:
        layout = replace(source, extra=extra, label_key=options.get("label", source.label_key))
    else:
        text_key, label_key = _OBJECT_KEYS.get(format, ("text", "spans"))
        layout = ObjectLayout(format, text_key, options.get("label", label_key), extra=extra)
        from tagloom.sequences.arrays import HEAD

        layout.head = HEAD if layout.is_array else b""
    if "label_names" in options:
        from tagloom.sequences.label_names import label_names_of

        layout.label_names = label_names_of(options["label_names"], layout.label_key)
    return layout


# format -> keys of the tokens or the text, and of the labels or spans
_OBJECT_KEYS = {
    "jsonl": ("tokens", "labels"),
    "json": ("tokens", "labels"),
    "spacy": ("text", "entities"),
    "label-studio": ("text", "result"),
}


def _further_columns(options: Mapping[str, Any]) -> list[str]:
    """Return the columns to add, without the label column."""
    return [name for name in options.get("append", ()) if name != "label"]
