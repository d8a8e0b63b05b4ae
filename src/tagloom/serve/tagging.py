"""From a request to its answer: one function per form, called on the loop or in a thread.

Large requests are answered piece by piece, so that one whose client has left, or whose time is up,
is given up between two pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate, chain, islice, pairwise
from typing import Any

import numpy as np

from tagloom.errors import InfeasibleError, LabelError, ParameterError, RequestError
from tagloom.sequences import Sentence
from tagloom.serve.offsets import converter
from tagloom.serve.registry import Served
from tagloom.serve.schemas import (
    Columns,
    Document,
    Labelling,
    Options,
    TagReply,
    TagRequest,
    TextSentence,
    TextSpan,
    Token,
    TokenRequest,
    TokenSpan,
)

PIECE = 4000  # tokens that are tagged before the next look at the clock
DIGITS = 6  # of probabilities
_SCALE = 10.0**DIGITS
_FEW = 8  # sentences whose probabilities are rounded one by one

#: Raises if nobody waits for the answer any more.
StillWanted = Callable[[], None]


def count_tokens(request: TokenRequest | TagRequest) -> int:
    """Return the number of tokens of a request; of texts, about a quarter of the characters."""
    if isinstance(request, TokenRequest) and request.sentences is not None:
        return sum(map(len, request.sentences))
    if request.sentences is not None:
        return sum(len(x.tokens) if isinstance(x, Columns) else len(x) for x in request.sentences)
    return sum(map(len, request.texts or ())) // 4


def cost(request: TokenRequest | TagRequest, served: Served, n_tokens: int) -> int:
    """Estimate the work of a request, in tokens that are tagged and nothing else.

    Measured with the embedded English tagger, for 1,000 tokens: labels 0.2 ms, with probabilities
    0.3, all probabilities 1.5, n-best, spans and known labels 3 to 10; the rules cut text in 0.5 to
    1 ms, a learnt tokenizer in 11 to 17.
    """
    factor = 10 if request.probs == "all" else 1
    if request.nbest is not None or request.known is not None or request.spans:
        factor += 30
    if request.texts is not None:
        factor += 80 if served.tokenizer == "learnt" else 6
        factor += 30 * (served.has_spans and request.probs != "none")
    return factor * n_tokens


def check(request: TokenRequest | TagRequest, served: Served) -> None:
    """Refuse options that do not go together.

    Raises
    ------
    RequestError, ParameterError
        With the name of the field.
    """
    if (request.sentences is None) == (request.texts is None):
        raise RequestError(
            status=422,
            where="body",
            expected="either sentences or texts",
            found="neither" if request.texts is None else "both",
        )
    if request.spans and not served.has_spans:
        raise ParameterError(
            where="spans",
            expected="a model whose labels mark spans",
            found=f"{served.name}, with labels such as {served.labels[0]!r}",
        )
    if request.texts is not None:
        for name in ("known", "nbest"):
            if getattr(request, name) is not None:
                raise ParameterError(
                    where=name, expected="sentences, which are already split", found="texts"
                )


def answer(
    request: TokenRequest | TagRequest,
    served: Served,
    max_tokens: int,
    wanted: StillWanted = lambda: None,
) -> TagReply:
    """Answer a request that `check` accepted."""
    if request.texts is not None:
        return _answer_texts(request, served, max_tokens, wanted)
    return _answer_sentences(request, served, wanted)


# ---- sentences ---------------------------------------------------------------------------------


def _answer_sentences(
    request: TokenRequest | TagRequest, served: Served, wanted: StillWanted
) -> TagReply:
    reply = TagReply(model=served.name, version=served.version)
    sentences: list[Any] = request.sentences or []
    if not isinstance(request, TokenRequest):
        sentences = [*map(as_sentence, sentences)]
    known = None if request.known is None else [as_known(row) for row in request.known]
    if known is not None and len(known) != len(sentences):
        raise LabelError(where="known", expected=f"{len(sentences)} entries", found=str(len(known)))
    pieces = pieces_of(sentences)
    if len(pieces) == 1:
        add_labels(reply, served, sentences, known, request, 0)
        return reply
    reply.labels = []
    for first, last in pieces:
        wanted()
        part = None if known is None else known[first:last]
        add_labels(reply, served, sentences[first:last], part, request, first)
    return reply


def as_sentence(sentence: Any) -> Any:
    """Return a sentence of a request as the model takes it."""
    if isinstance(sentence, Columns):
        return Sentence(sentence.tokens, columns=sentence.columns)
    return sentence


def as_known(row: list[Any] | None) -> list[Any] | None:
    """Return the known labels of a sentence as the model takes them: sets for lists."""
    if row is None:
        return None
    return [frozenset(y) if isinstance(y, list) else y for y in row]


def pieces_of(sentences: list[Any]) -> list[tuple[int, int]]:
    """Cut sentences into pieces of about `PIECE` tokens; at least one, perhaps empty."""
    if sum(map(len, sentences)) <= PIECE:
        return [(0, len(sentences))]
    bounds, tokens = [0], 0
    for i, sentence in enumerate(sentences):
        tokens += len(sentence)
        if tokens >= PIECE:
            bounds.append(i + 1)
            tokens = 0
    if bounds[-1] != len(sentences):
        bounds.append(len(sentences))
    return [*pairwise(bounds)]


def add_labels(
    reply: TagReply,
    served: Served,
    sentences: list[Any],
    known: list[Any] | None,
    options: Options,
    first: int,
) -> None:
    """Add the labels of some sentences, the first of which has the number ``first``."""
    try:
        _tag(reply, served, sentences, known, options)
    except InfeasibleError as error:
        raise _shifted(error, first + error.sequence, error.position) from None


def _tag(
    reply: TagReply, served: Served, sentences: list[Any], known: Any, options: Options
) -> None:
    tagger = served.tagger
    probs: list[Any] | None = None
    if options.probs == "top":
        labels, rows = tagger.predict_with_probs(sentences, known=known, n_threads=1)
        probs = rounded(rows)
    else:
        labels = tagger.predict(sentences, known=known, n_threads=1)
    if options.probs == "all":
        gammas = tagger.predict_marginals(sentences, known=known, n_threads=1)
        probs = [gamma.astype(float).round(DIGITS).tolist() for gamma in gammas]
        reply.label_set = served.labels
    reply.labels = labels if not reply.labels else reply.labels + labels
    if probs is not None:
        reply.probs = (reply.probs or []) + probs
    if options.nbest is not None:
        best = tagger.predict_nbest(sentences, options.nbest, known=known, n_threads=1)
        rows_of = [[Labelling(x.labels, round(x.prob, DIGITS)) for x in row] for row in best]
        reply.nbest = (reply.nbest or []) + rows_of
    if options.spans:
        found = tagger.predict_spans(sentences, known=known, n_threads=1)
        spans = [
            [TokenSpan(s.start, s.end, s.type, round(s.prob, DIGITS)) for s in row] for row in found
        ]
        reply.spans = (reply.spans or []) + spans


def rounded(rows: list[list[float]]) -> list[list[float]]:
    """Round probabilities; ``round`` would take longer than tagging does.

    Examples
    --------
    >>> rounded([[0.12345678, 1.0], []])
    [[0.123457, 1.0], []]
    """
    if len(rows) <= _FEW:
        return [[int(p * _SCALE + 0.5) / _SCALE for p in row] for row in rows]
    flat = np.array([*chain.from_iterable(rows)], dtype=np.float64)
    values = (np.floor(flat * _SCALE + 0.5) / _SCALE).tolist()
    ends = [*accumulate(map(len, rows))]
    return [values[i:j] for i, j in zip([0, *ends], ends, strict=False)]


def _shifted(error: InfeasibleError, sentence: int, token: int) -> RequestError:
    return RequestError(
        "no labelling is possible: the known labels and the constraints of the model exclude "
        "each other.",
        status=422,
        where=f"sentences[{sentence}][{token}]",
    )


# ---- texts -------------------------------------------------------------------------------------


def _answer_texts(
    request: TokenRequest | TagRequest, served: Served, max_tokens: int, wanted: StillWanted
) -> TagReply:
    documents, n_tokens = [], 0
    for text in request.texts or ():
        sentences: list[TextSentence] = []
        for batch in split_text(served, text):
            wanted()
            n_tokens += sum(map(len, batch))
            if n_tokens > max_tokens:
                raise too_many_tokens(max_tokens)
            sentences += tag_split(served, batch, text, request)
        documents.append(Document(sentences))
    return TagReply(
        model=served.name,
        version=served.version,
        documents=documents,
        offsets=request.offsets,
        tokenizer=served.tokenizer,
        label_set=served.labels if request.probs == "all" else None,
    )


def too_many_tokens(max_tokens: int) -> RequestError:
    """Return the error of a request with too many tokens."""
    return RequestError(
        status=413,
        where="body",
        expected=f"at most {max_tokens:,} tokens",
        found="more",
        hint="Send them in several requests, or as a stream of NDJSON.",
    )


def split_text(served: Served, text: str) -> Iterator[list[Sentence]]:
    """Yield the sentences of a text, some at a time."""
    sentences = served.tagger.tokenizer_.stream(text)
    while batch := list(islice(sentences, 200)):
        yield batch


def tag_split(
    served: Served, sentences: list[Sentence], text: str, options: Options
) -> list[TextSentence]:
    """Tag sentences that the tokenizer cut from a text."""
    tagger = served.tagger
    rows: list[Any] = [s.tokens for s in sentences] if tagger.reads_only_tokens else sentences
    inner = TagReply(model="", version="")
    has_spans = served.has_spans and options.spans is not False
    plain = Options(probs=options.probs, spans=has_spans and options.probs != "none")
    _tag(inner, served, rows, None, plain)
    spans: list[list[Any]] | None = inner.spans
    if has_spans and spans is None:
        spans = _unscored_spans(served, inner.labels or [])
    at = converter(text, options.offsets)
    result = []
    for i, sentence in enumerate(sentences):
        places = sentence.offsets or []
        labels = (inner.labels or [])[i]
        tokens = [
            Token(at(start), at(end), token, label)
            for (start, end), token, label in zip(places, sentence.tokens, labels, strict=True)
        ]
        if inner.probs is not None:
            name = "prob" if options.probs == "top" else "probs"
            for token, prob in zip(tokens, inner.probs[i], strict=True):
                setattr(token, name, prob)
        found = None
        if spans is not None:
            found = [
                TextSpan(
                    at(places[s.start][0]),
                    at(places[s.end - 1][1]),
                    s.label,
                    text[places[s.start][0] : places[s.end - 1][1]],
                    s.prob,
                )
                for s in spans[i]
            ]
        start, end = (tokens[0].start, tokens[-1].end) if tokens else (0, 0)
        result.append(TextSentence(start, end, tokens, found))
    return result


def _unscored_spans(served: Served, labellings: list[list[str]]) -> list[list[TokenSpan]]:
    from tagloom.labels import to_spans

    scheme = getattr(served.tagger, "scheme_", None)
    return [
        [TokenSpan(s.start, s.end, s.type) for s in to_spans(labels, scheme)]
        for labels in labellings
    ]
