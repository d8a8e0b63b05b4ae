"""Errors as HTTP answers: the fields of a `TagloomError` as a problem document (RFC 9457).

::

    {"type": "about:blank", "title": "Unprocessable Content", "status": 422,
     "detail": "known, sentence 0, token 1: expected one of N, V, found 'X'.",
     "error": "LabelError", "where": "known[0][1]", "expected": "one of N, V", "found": "'X'"}
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

import msgspec

from tagloom.errors import (
    ConflictError,
    MissingExtraError,
    ModelFileError,
    ReadOnlyError,
    RequestError,
    TagloomError,
)
from tagloom.web.messages import PROBLEM, Headers, Response

# Places inside sentences, as `tagloom.checks.place` writes them.
_PLACE = re.compile(r"(?:(known), )?sentence (\d+)(?:, token (\d+))?")
_STATUS: dict[Any, int] = {
    ConflictError: 409,
    ReadOnlyError: 403,
    # Input has been checked where it came in; these two are about the server itself.
    ModelFileError | MissingExtraError: 500,
}
_TITLES = {413: "Content Too Large", 422: "Unprocessable Content"}  # as RFC 9110 has them


def status_of(error: TagloomError) -> int:
    """Return the status code of an error: that of a `RequestError`, otherwise that of its class.

    Examples
    --------
    >>> from tagloom.errors import LabelError
    >>> status_of(LabelError(expected="a label", found="None"))
    422
    """
    if isinstance(error, RequestError):
        return error.status
    for kinds, status in _STATUS.items():
        if isinstance(error, kinds):
            return status
    return 422


def problem(error: TagloomError, headers: Headers | None = None) -> Response:
    """Render an error as a response.

    Parameters
    ----------
    error : TagloomError
    headers : list of pairs of bytes, optional

    Examples
    --------
    >>> from tagloom.errors import RequestError
    >>> response = problem(RequestError(status=429, expected="fewer requests", retry_after=1))
    >>> response.status, response.headers
    (429, [(b'retry-after', b'1')])
    """
    status = status_of(error)
    headers = list(headers or ())
    if isinstance(error, RequestError) and error.retry_after is not None:
        headers.append((b"retry-after", b"%d" % error.retry_after))
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="tagloom"'))
    body = msgspec.json.encode(document(error))
    return Response(body, status, PROBLEM, headers)


def document(error: TagloomError) -> dict[str, Any]:
    """Return the problem document of an error, as plain data.

    Examples
    --------
    >>> from tagloom.errors import LabelError
    >>> about = document(LabelError(where="sentence 3, token 7", expected="a str", found="1"))
    >>> about["where"], about["detail"]
    ('sentences[3][7]', 'sentence 3, token 7: expected a str, found 1.')
    """
    status = status_of(error)
    fields = error.to_dict()
    if "where" in fields:
        fields["where"] = _PLACE.sub(_as_path, fields["where"])
    return {
        "type": "about:blank",
        "title": title(status),
        "status": status,
        "detail": _valid(fields.pop("message")),
        **{name: _valid(value) for name, value in fields.items()},
    }


def title(status: int) -> str:
    """Return the reason phrase of a status code.

    Examples
    --------
    >>> title(413), title(404)
    ('Content Too Large', 'Not Found')
    """
    return _TITLES.get(status) or HTTPStatus(status).phrase


def _as_path(place: re.Match[str]) -> str:
    known, sentence, token = place.groups()
    path = f"{known or 'sentences'}[{sentence}]"
    return path if token is None else f"{path}[{token}]"


def _valid(text: str) -> str:
    """Replace half surrogate pairs, which a body cannot contain, by question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")
