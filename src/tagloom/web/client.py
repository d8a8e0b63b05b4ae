"""A client of `tagloom serve`, with nothing but the standard library.

It keeps one connection open, tries again when the server is full or a kept connection has been
closed, and raises the server's errors with their fields.
"""

from __future__ import annotations

import errno
import http.client
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self
from urllib.parse import quote, urlsplit

from tagloom import checks
from tagloom.errors import ParameterError, RequestError

AT_ONCE = 20_000  # tokens that `tag` sends in one request
MOST_SECONDS = 30  # that a client waits between two attempts


class Client:
    """Calls a server.

    Parameters
    ----------
    url : str
        ``http://host:8080``, or with the name of a model, ``http://host:8080/pos``.
    token : str, optional
        The token of the server.
    timeout : float
        Seconds to wait for an answer.
    attempts : int
        How often a request is sent while the server answers 429 or 503.

    Examples
    --------
    >>> import tagloom as tl
    >>> from tagloom.serve import Metrics, Registry, Served, Settings, make_app
    >>> from tagloom.web import Client, background
    >>> tagger = tl.HMM().fit([["they", "fish"], ["fish"]], [["N", "V"], ["N"]])
    >>> registry = Registry(["small"])
    >>> registry.put(Served("small", "1", tagger))
    >>> with background(make_app(registry, Settings(), Metrics(["small"]))) as url:
    ...     with Client(url) as client:
    ...         client.tag([["they", "fish"]])
    [['N', 'V']]
    """

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = 60.0, attempts: int = 5
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ParameterError(
                parameter="url", expected="an address such as http://host:8080", found=repr(url)
            )
        self.url = f"{parts.scheme}://{parts.netloc}"
        self.model = parts.path.strip("/") or None
        self._attempts = checks.count(attempts, "attempts", least=1)
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._connection = kind(parts.hostname, parts.port, timeout=timeout)
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def tag(
        self,
        sentences: Iterable[Sequence[Any]],
        *,
        model: str | None = None,
        known: Sequence[Any] | None = None,
    ) -> list[list[str]]:
        """Return the labels of sentences, sent in requests of at most 20,000 tokens.

        Parameters
        ----------
        sentences : iterable of list of str
            Or of other forms that the model takes, as JSON.
        model : str, optional
            By default that of the URL, or the first of the server.
        known : sequence, optional
            Known labels, one entry per sentence; sets are sent as lists.

        Raises
        ------
        RequestError
            If the server refuses; ``error.status`` is the status code.
        """
        rows = [*sentences]
        if any(isinstance(row, str) for row in rows):
            checks.sentences(rows)  # raises
        answers = self.requests(rows, known=known, model=model)
        return [labels for answer in answers for labels in answer["labels"]]

    def requests(
        self, sentences: Sequence[Any], *, known: Sequence[Any] | None = None, **options: Any
    ) -> Iterator[dict[str, Any]]:
        """Yield the whole answers to requests of at most 20,000 tokens each.

        Parameters
        ----------
        sentences : sequence of sentences
        known : sequence, optional
        **options
            ``model``, ``probs``, ``nbest``, ``spans``, as in the body of ``POST /v1/tag``.
        """
        first = tokens = 0
        for i, row in enumerate(sentences):
            tokens += len(row["tokens"] if isinstance(row, dict) else row)
            if tokens < AT_ONCE and i + 1 < len(sentences):
                continue
            if known is not None:
                options["known"] = [*map(_plain, known[first : i + 1])]
            yield self.request(sentences=sentences[first : i + 1], **options)
            first, tokens = i + 1, 0

    def tag_texts(
        self, texts: Sequence[str], *, model: str | None = None, **options: Any
    ) -> list[dict[str, Any]]:
        """Return the documents of raw texts: sentences with tokens, labels, places and spans.

        Parameters
        ----------
        texts : sequence of str
        model : str, optional
        **options
            ``probs``, ``offsets``, ``spans``, as in the body of ``POST /v1/tag``.
        """
        documents: list[dict[str, Any]] = self.request(texts=list(texts), model=model, **options)[
            "documents"
        ]
        return documents

    def explain(self, sentence: Sequence[Any], *, model: str | None = None) -> dict[str, Any]:
        """Return why each token of a sentence has its label, as plain data."""
        body = {"sentence": list(sentence), "model": model or self.model}
        return self._ask("POST", "/v1/explain", body)

    def models(self) -> list[dict[str, Any]]:
        """Return the models of the server."""
        models: list[dict[str, Any]] = self._ask("GET", "/v1/models")["models"]
        return models

    def model_info(self, name: str) -> dict[str, Any]:
        """Return the description of one model."""
        return self._ask("GET", f"/v1/models/{quote(name, safe='')}")

    def request(self, **body: Any) -> dict[str, Any]:
        """Send ``POST /v1/tag`` with the fields of its body, and return the whole answer."""
        if body.get("model") is None:
            body["model"] = self.model
        return self._ask("POST", "/v1/tag", body)

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        headers = dict(self._headers)
        data = None
        if body is not None:
            data = json.dumps({k: v for k, v in body.items() if v is not None}).encode()
            headers["Content-Type"] = "application/json"
        for attempt in range(1, self._attempts + 1):
            status, answer_headers, text = self._send(method, path, data, headers)
            if status not in (429, 503) or attempt == self._attempts:
                break
            seconds = answer_headers.get("retry-after") or ""
            wait = checks.whole_number(seconds)
            time.sleep(min(1 if wait is None else wait, MOST_SECONDS))
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if status == 200 and isinstance(answer, dict):
            return answer
        raise _error(status, answer, self.url)

    def _send(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str]
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        was_open = self._connection.sock is not None
        try:
            return self._send_once(method, path, data, headers)
        except (http.client.HTTPException, ConnectionError):
            # The server closes connections that were idle for long. Tagging changes nothing, so
            # that it can be repeated.
            self.close()
            if not was_open:
                raise
            return self._send_once(method, path, data, headers)

    def _send_once(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str]
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        try:
            self._connection.request(method, path, data, headers)
            answer = self._connection.getresponse()
            return answer.status, answer.headers, answer.read()
        except TimeoutError as error:
            self.close()
            raise TimeoutError(errno.ETIMEDOUT, "The server does not answer", self.url) from error
        except OSError as error:
            if error.errno is not None:
                error.filename = self.url
            raise


def _plain(row: Any) -> Any:
    if row is None:
        return None
    return [sorted(y) if isinstance(y, set | frozenset) else y for y in row]


def _error(status: int, problem: Any, url: str) -> RequestError:
    """Return the problem of an answer as an error."""
    if not isinstance(problem, dict) or "detail" not in problem:
        return RequestError(
            status=status, where=url, expected="a server of tagloom", found=f"status {status}"
        )
    names = ("where", "found", "expected", "parameter")
    detail = str(problem["detail"]).removeprefix(f"{problem.get('where')}: ")
    hint = None
    if status == 401:
        hint = "Pass it as Client(url, token=...); `tagloom tag` takes it from TAGLOOM_TOKEN."
    return RequestError(detail, status=status, hint=hint, **{n: problem.get(n) for n in names})
