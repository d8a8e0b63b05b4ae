"""Streams: NDJSON and CoNLL-U in, the same out, in constant memory and in order.

The body is read as the answer is written, some thousand tokens at a time. Options are parameters of
the query, ``POST /v1/tag?model=pos&probs=top``.
"""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

from tagloom.errors import FormatError, RequestError, SentenceError, TagloomError
from tagloom.sequences import Sentence
from tagloom.serve.registry import Served
from tagloom.serve.schemas import Document, Options, TagReply
from tagloom.serve.tagging import add_labels, as_known, pieces_of, split_text, tag_split
from tagloom.web.messages import Request
from tagloom.web.problems import document

NDJSON = "application/x-ndjson"
CONLLU_TYPE = "text/x-conllu"
AT_ONCE = 1 << 16  # bytes of lines that are answered together

_ANY = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder()

#: Runs a function of the bytes of some lines in a thread, and counts its tokens.
Apart = Callable[[Callable[[bytes], tuple[bytes, int]], bytes], Awaitable[bytes]]


def read_options(request: Request) -> Options:
    """Read the options of a stream from the query.

    Raises
    ------
    ParameterError
        If a parameter is unknown or has a wrong value.
    """
    names = [*(f for f in Options.__struct_fields__), "label"]
    values: dict[str, Any] = dict(request.query(names))
    values.pop("label", None)
    try:
        return msgspec.convert(values, Options, strict=False)
    except msgspec.ValidationError as error:
        raise RequestError(f"{error}.", status=422, where="query") from None


async def lines_of(request: Request, *ends: bytes) -> AsyncIterator[bytes]:
    """Yield the body in pieces that end with one of ``ends``: whole lines, or whole sentences.

    Raises
    ------
    RequestError
        413 if one line, or one sentence, is longer than a body may be.
    """
    rest = bytearray()
    async for chunk in request.chunks():
        rest += chunk
        if len(rest) < AT_ONCE:
            continue
        cut = max((rest.rfind(end) + len(end) for end in ends if end in rest), default=0)
        if cut:
            yield bytes(rest[:cut])
            del rest[:cut]
        elif len(rest) > request.max_body:
            raise request.too_large("more without an end of line")
    if rest:
        yield bytes(rest)


async def ndjson(
    request: Request, served: Served, options: Options, apart: Apart
) -> AsyncIterator[bytes]:
    """Answer each line with one line.

    A line is a list of tokens, an object with ``tokens`` (and ``known``, ``columns``), or an object
    with ``text``. The answer has the keys of the object, and ``labels``, or the ``sentences`` of
    the text. A line that cannot be answered is answered by ``{"problem": ...}``; the stream goes
    on.
    """
    number = 0

    def answer(data: bytes) -> tuple[bytes, int]:
        nonlocal number
        lines = [line for line in data.split(b"\n")[:-1] if line.strip()]
        rows = _answer_lines(lines, number, served, options)
        number += len(lines)
        return _ENCODER.encode_lines([row for row, _ in rows]), sum(n for _, n in rows)

    async for data in lines_of(request, b"\n"):
        yield await apart(answer, data if data.endswith(b"\n") else data + b"\n")


def _answer_lines(
    lines: list[bytes], first: int, served: Served, options: Options
) -> list[tuple[dict[str, Any], int]]:
    """Answer some lines together, or one by one if one of them has a mistake."""
    try:
        objects = [_parse(line) for line in lines]
        if all("text" not in x and x.get("known") is None for x in objects):
            return _answer_together(objects, served, options)
    except TagloomError:
        pass  # found again below, by the line that has it
    rows = []
    for i, line in enumerate(lines):
        try:
            rows.append(_answer_one(_parse(line), served, options))
        except TagloomError as error:
            about = document(error)
            about["line"] = first + i + 1
            rows.append(({"problem": about}, 0))
    return rows


def _parse(line: bytes) -> dict[str, Any]:
    try:
        value = _ANY.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"not JSON: {error}.", status=400, where="line") from None
    if isinstance(value, list):
        value = {"tokens": value}
    if not isinstance(value, dict) or ("tokens" in value) == ("text" in value):
        raise RequestError(
            status=422,
            where="line",
            expected="a list of tokens, or an object with tokens or text",
            found="another value" if not isinstance(value, dict) else "neither or both",
        )
    return value


def _sentence(value: dict[str, Any]) -> Any:
    tokens = value["tokens"]
    if not isinstance(tokens, list):
        raise SentenceError(
            where="tokens", expected="a list of tokens", found=type(tokens).__name__
        )
    columns = value.get("columns")
    if not isinstance(columns, dict):
        return tokens
    if not all(isinstance(column, list) for column in columns.values()):
        raise SentenceError(where="columns", expected="lists of str", found="another value")
    return Sentence(tokens, columns=columns)


def _answer_together(
    objects: list[dict[str, Any]], served: Served, options: Options
) -> list[tuple[dict[str, Any], int]]:
    sentences = [_sentence(x) for x in objects]
    reply = TagReply(model="", version="", labels=[])
    for first, last in pieces_of(sentences):
        add_labels(reply, served, sentences[first:last], None, options, first)
    return [
        (_row(x, reply, i), len(sentence))
        for i, (x, sentence) in enumerate(zip(objects, sentences, strict=True))
    ]


def _row(value: dict[str, Any], reply: TagReply, i: int) -> dict[str, Any]:
    row = {**value, "labels": (reply.labels or [])[i]}
    for name in ("probs", "nbest", "spans"):
        rows = getattr(reply, name)
        if rows is not None:
            row[name] = rows[i]
    return row


def _answer_one(
    value: dict[str, Any], served: Served, options: Options
) -> tuple[dict[str, Any], int]:
    if "text" not in value:
        known = value.get("known")
        if known is not None and not isinstance(known, list):
            raise SentenceError(where="known", expected="a list", found=type(known).__name__)
        labels = as_known(known)
        reply = TagReply(model="", version="", labels=[])
        sentence = _sentence(value)
        add_labels(reply, served, [sentence], labels and [labels], options, 0)
        return _row(value, reply, 0), len(sentence)
    text = value["text"]
    if not isinstance(text, str) or options.nbest is not None:
        raise SentenceError(where="text", expected="a str, without nbest", found="another value")
    tagged = Document([])
    for batch in split_text(served, text):
        tagged.sentences += tag_split(served, batch, text, options)
    n_tokens = sum(len(s.tokens) for s in tagged.sentences)
    return {**value, "sentences": tagged.sentences}, n_tokens


async def conllu(
    request: Request, served: Served, options: Options, apart: Apart
) -> AsyncIterator[bytes]:
    """Replace the labels of CoNLL-U; every other byte is kept.

    The column is the one that the model was trained on, UPOS if that is unknown, or ``label`` of
    the query. A mistake before the first sentence was answered is a problem; later, the stream ends
    without its last chunk, which every client notices.
    """
    from tagloom.sequences import read, write  # here, for a quick start
    from tagloom.sequences.columns import CONLLU

    label = request.query([*Options.__struct_fields__, "label"]).get("label")
    if label is None:
        trained = getattr(served.tagger, "training_", {}).get("label")
        label = trained if trained in CONLLU else "upos"
    elif label not in CONLLU:
        raise RequestError(
            status=422, where="query", expected=f"label: one of {', '.join(CONLLU)}", found=label
        )
    if options.probs != "none" or options.nbest is not None or options.spans:
        raise RequestError(
            status=422,
            where="query",
            expected="no probs, nbest or spans: CoNLL-U has labels alone",
            found="one of them",
        )
    line = 0

    def answer(data: bytes) -> tuple[bytes, int]:
        nonlocal line
        try:
            corpus = read(io.BytesIO(data), "conllu", label=label)
        except FormatError as error:
            error.where = f"line {line + (error.line or 1)}"
            raise
        sentences = [*corpus]
        rows: Any = corpus.tokens if served.tagger.reads_only_tokens else sentences
        labels = served.tagger.predict(rows, n_threads=1)
        out = io.BytesIO()
        write(corpus.with_labels(labels), out, "conllu", label=label)
        line += data.count(b"\n")
        return out.getvalue(), corpus.n_tokens

    async for data in lines_of(request, b"\n\n", b"\n\r\n"):
        yield await apart(answer, data)
