"""What clients send and what they get, as typed structs.

msgspec decodes bodies into them and names the place of a mistake; the OpenAPI document is generated
from them. Fields that are None are left out of answers.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

#: Which probabilities an answer has: none, those of the predicted labels, or those of all labels.
Probs: TypeAlias = Literal["none", "top", "all"]
#: The unit of offsets: characters as Python counts them, UTF-16 code units as JavaScript and Java
#: do, or bytes of UTF-8 as Go and Rust do.
Unit: TypeAlias = Literal["codepoint", "utf16", "byte"]
#: A known label: the label, a list of allowed ones, or null.
Known: TypeAlias = list[list[str | list[str] | None] | None]

MOST_LABELLINGS = 100


class Columns(Struct, forbid_unknown_fields=True):
    """A sentence with further columns, for models whose templates read them."""

    tokens: list[str]
    columns: dict[str, list[str]] = {}


class Options(Struct, forbid_unknown_fields=True, kw_only=True):
    """What a request may ask for besides labels."""

    model: Annotated[str | None, Meta(description="Name of the model; the first by default.")] = (
        None
    )
    probs: Annotated[Probs, Meta(description="Probabilities to add to the labels.")] = "none"
    nbest: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_LABELLINGS)] | None,
        Meta(description="Number of labellings of each sentence, with their probabilities."),
    ] = None
    spans: Annotated[
        bool | None,
        Meta(
            description="Whether to add spans; by default for texts, if labels mark spans. Models "
            "whose labels do not mark spans refuse true (422)."
        ),
    ] = None
    offsets: Annotated[Unit, Meta(description="Unit of places in texts.")] = "codepoint"


class TokenRequest(Options, forbid_unknown_fields=True, kw_only=True):
    """Sentences of tokens, or texts: the common case, decoded strictly."""

    sentences: list[list[str]] | None = None
    texts: list[str] | None = None
    known: Known | None = None


class TagRequest(Options, forbid_unknown_fields=True, kw_only=True):
    """Sentences in any form that a model may take, or texts."""

    sentences: Annotated[
        list[list[Any] | Columns] | None,
        Meta(
            description="Sentences, each a list of tokens. For models that were trained on them: "
            "lists of feature objects or of rows of numbers, or objects with tokens and columns."
        ),
    ] = None
    texts: Annotated[
        list[str] | None,
        Meta(description="Raw texts, which the tokenizer of the model splits."),
    ] = None
    known: Annotated[
        Known | None,
        Meta(
            description="Known labels: for each sentence null, or a list as long as the sentence "
            "with, for each token, its label, a list of allowed ones or null."
        ),
    ] = None


class ExplainRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """One sentence to explain."""

    sentence: list[Any] | Columns
    model: str | None = None
    known: Annotated[
        list[str | list[str] | None] | None,
        Meta(description="Known labels, as many as there are tokens."),
    ] = None


class Labelling(Struct):
    """One of the n best labellings of a sentence."""

    labels: list[str]
    prob: float


class TokenSpan(Struct, omit_defaults=True):
    """A span of tokens."""

    start: int
    end: int
    label: str
    prob: float | None = None


class Token(Struct, omit_defaults=True):
    """A token of a text; places are offsets in the text."""

    start: int
    end: int
    text: str
    label: str
    prob: float | None = None
    probs: list[float] | None = None


class TextSpan(Struct, omit_defaults=True):
    """A span of a text; places are offsets in the text."""

    start: int
    end: int
    label: str
    text: str
    prob: float | None = None


class TextSentence(Struct, omit_defaults=True):
    """A sentence of a text."""

    start: int
    end: int
    tokens: list[Token]
    spans: list[TextSpan] | None = None


class Document(Struct):
    """A text with its sentences."""

    sentences: list[TextSentence]


class TagReply(Struct, omit_defaults=True, kw_only=True):
    """Labels of sentences, or documents of texts."""

    model: str
    version: str
    labels: list[list[str]] | None = None
    probs: list[list[float | list[float]]] | None = None
    nbest: list[list[Labelling]] | None = None
    spans: list[list[TokenSpan]] | None = None
    documents: list[Document] | None = None
    offsets: Unit | None = None
    tokenizer: str | None = None
    label_set: Annotated[
        list[str] | None, Meta(description="The labels in the order of their probabilities.")
    ] = None


class Reason(Struct):
    """One term in which the best path and its rival differ."""

    position: int
    name: str
    label: str
    rival: str
    weight: float
    rival_weight: float
    value: float


class Decision(Struct):
    """Why one token has its label."""

    position: int
    token: str
    label: str
    prob: float
    runner_up: str | None
    runner_up_prob: float
    rival: list[str]
    margin: float | None
    reasons: list[Reason]


class ExplainReply(Struct, kw_only=True):
    """Why each token of a sentence has its label."""

    model: str
    version: str
    tokens: list[str]
    labels: list[str]
    score: float
    prob: float
    decisions: list[Decision]


class ModelInfo(Struct, kw_only=True, omit_defaults=True):
    """A model of this server."""

    name: str
    kind: str
    version: str
    labels: list[str]
    loaded: Annotated[str, Meta(description="When it was loaded, in ISO 8601.")]
    tokenizer: str
    reads_only_tokens: Annotated[
        bool, Meta(description="Whether labels depend on tokens alone, not on other columns.")
    ]
    scheme: str | None = None
    description: dict[str, Any] | None = None


class ModelList(Struct):
    """The models of this server; the first answers requests that name none."""

    models: list[ModelInfo]


class Status(Struct):
    """Whether the server is alive, or ready for requests."""

    status: str


class Problem(Struct, kw_only=True, omit_defaults=True):
    """What is wrong with a request (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    error: str
    where: str | None = None
    parameter: str | None = None
    found: str | None = None
    expected: str | None = None
    hint: str | None = None
