"""The OpenAPI document of the server, generated from its schemas."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import msgspec

from tagloom.serve import schemas
from tagloom.serve.settings import Settings
from tagloom.serve.streams import CONLLU_TYPE, NDJSON
from tagloom.web.problems import title

_JSON = "application/json"
_EXAMPLE = {"sentences": [["They", "can", "fish"]], "probs": "top"}
# Every refusal that a route can give, by what it does.
_ALWAYS = (401, 421)
_ABSENT = {"type": "null"}
# What the types of the fields do not state: a request has either sentences or texts, and texts go
# without options that need tokens.
_EITHER = [
    {
        "title": "Sentences",
        "required": ["sentences"],
        "properties": {"sentences": {"type": "array"}, "texts": _ABSENT},
    },
    {
        "title": "Texts",
        "required": ["texts"],
        "properties": {
            "texts": {"type": "array"},
            **dict.fromkeys(("sentences", "known", "nbest"), _ABSENT),
        },
    },
]
_BODY = (400, 408, 413, 415, 422, 429, 500, 503, 504)


def document(settings: Settings) -> bytes:
    """Return the document as JSON.

    Parameters
    ----------
    settings : Settings
        Limits and access, which the document describes.
    """
    kinds = [
        *(schemas.TagRequest, schemas.TagReply, schemas.ExplainRequest, schemas.ExplainReply),
        *(schemas.ModelList, schemas.ModelInfo, schemas.Status, schemas.Problem),
    ]
    references, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    components["TagRequest"]["oneOf"] = _EITHER
    ref = dict(zip(kinds, references, strict=True))
    stream = {"schema": {"type": "string"}}
    tag = {
        "summary": "Label sentences or texts",
        "description": "Labels of sentences of tokens, or of raw texts, which the tokenizer of the "
        "model splits. Send NDJSON or CoNLL-U to get a stream of the same; the options model, "
        "probs, nbest, spans and offsets are then parameters of the query.",
        "operationId": "tag",
        "requestBody": {
            "required": True,
            "content": {
                _JSON: {"schema": ref[schemas.TagRequest], "example": _EXAMPLE},
                NDJSON: stream,
                CONLLU_TYPE: stream,
            },
        },
        "responses": {
            "200": {
                "description": "Labels",
                "content": {
                    _JSON: {"schema": ref[schemas.TagReply]},
                    NDJSON: stream,
                    CONLLU_TYPE: stream,
                },
            },
            **_problems(ref, *_BODY, 404),
        },
    }
    explain = {
        "summary": "Explain why tokens get their labels",
        "operationId": "explain",
        "requestBody": {
            "required": True,
            "content": {_JSON: {"schema": ref[schemas.ExplainRequest]}},
        },
        "responses": {
            "200": _answer("Reasons for each token", ref[schemas.ExplainReply]),
            **_problems(ref, *_BODY, 404),
        },
    }
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    paths = {
        "/v1/tag": {"post": tag},
        "/v1/explain": {"post": explain},
        "/v1/models": _get("models", "List the models", ref, schemas.ModelList, 422),
        "/v1/models/{name}": {
            "parameters": [name],
            **_get("model", "Describe a model", ref, schemas.ModelInfo, 404, 422, 503),
        },
        "/healthz": _get("healthz", "Whether the process is alive", ref, schemas.Status),
        "/readyz": {
            "get": {
                "summary": "Whether requests should be sent here",
                "operationId": "readyz",
                "responses": {
                    "200": _answer("Ready", ref[schemas.Status]),
                    "503": _answer("Loading or draining", ref[schemas.Status]),
                    **_problems(ref),
                },
            }
        },
    }
    about: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "tagloom",
            "version": version("tagloom"),
            "description": f"At most {settings.max_body:,} bytes and {settings.max_tokens:,} "
            "tokens per request. Errors are problem documents (RFC 9457).",
        },
        "paths": paths,
        "components": {"schemas": components},
    }
    if settings.access is not None:
        about["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        about["security"] = [{"token": []}]
    return msgspec.json.encode(about)


def _answer(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {_JSON: {"schema": schema}}}


def _problems(ref: dict[Any, Any], *codes: int) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": ref[schemas.Problem]}}
    return {
        str(code): {"description": title(code), "content": content}
        for code in sorted({*codes, *_ALWAYS})
    }


def _get(
    operation: str, summary: str, ref: dict[Any, Any], kind: type, *codes: int
) -> dict[str, Any]:
    responses = {"200": _answer(summary, ref[kind]), **_problems(ref, *codes)}
    return {"get": {"summary": summary, "operationId": operation, "responses": responses}}
