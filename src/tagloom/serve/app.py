"""The routes of the server.

``POST /v1/tag`` is the hot path: one decode, one call of the native core, one encode. A request of
up to 2,000 tokens is answered on the event loop; larger ones, and streams, in threads.
"""

from __future__ import annotations

import functools
import time
from collections.abc import AsyncIterator, Callable

import msgspec

from tagloom.errors import RequestError
from tagloom.serve import openapi, streams
from tagloom.serve.jobs import Jobs
from tagloom.serve.metrics import ROUTES, Metrics
from tagloom.serve.registry import Registry, Served
from tagloom.serve.schemas import (
    ExplainRequest,
    ModelInfo,
    ModelList,
    Status,
    TagReply,
    TagRequest,
    TokenRequest,
)
from tagloom.serve.settings import Settings
from tagloom.serve.tagging import (
    answer,
    as_known,
    as_sentence,
    check,
    cost,
    count_tokens,
    too_many_tokens,
)
from tagloom.web import App, Pages, Request, Response, Route, Stream, reply
from tagloom.web.messages import JSON, check_type, decode
from tagloom.web.problems import problem

ON_LOOP = 2000  # tokens, or work worth as much, that are answered on the event loop
COMPRESSED = 800  # bytes of a request whose answer may be long enough to be compressed
MOST_EXPLAINED = 300  # tokens; the time to explain grows with their square

_STRICT = msgspec.json.Decoder(TokenRequest)
_GENERAL = msgspec.json.Decoder(TagRequest)
_EXPLAIN = msgspec.json.Decoder(ExplainRequest)
_ENCODER = msgspec.json.Encoder()

_ROUTE_IDS = {
    "/v1/tag": ROUTES.index("tag"),
    "/v1/explain": ROUTES.index("explain"),
    "/v1/models": ROUTES.index("models"),
    "/healthz": ROUTES.index("health"),
    "/readyz": ROUTES.index("health"),
    "/metrics": ROUTES.index("metrics"),
    "/openapi.json": ROUTES.index("docs"),
    "/docs": ROUTES.index("docs"),
}


def make_app(registry: Registry, settings: Settings, metrics: Metrics) -> App:
    """Make the application of a server.

    Parameters
    ----------
    registry : Registry
        The models; they may be loaded later.
    settings : Settings
    metrics : Metrics

    Returns
    -------
    App
    """
    return _Service(registry, settings, metrics).app


class _Service:
    """The handlers, with what they share."""

    def __init__(self, registry: Registry, settings: Settings, metrics: Metrics) -> None:
        self.registry = registry
        self.settings = settings
        self.metrics = metrics
        self.jobs = Jobs(settings.timeout)
        self.pages = Pages("tagloom.serve", "page")
        self.app = App(
            [
                Route("POST", "/v1/tag", self.tag, self.tag_at_once),
                Route("POST", "/v1/explain", self.explain),
                Route("GET", "/v1/models", self.models),
                Route("GET", "/v1/models/{name}", self.model),
                Route("GET", "/healthz", self.health),
                Route("GET", "/readyz", self.ready),
                Route("GET", "/metrics", self.show_metrics),
                Route("GET", "/openapi.json", self.openapi),
                Route("GET", "/docs", self.docs),
                Route("GET", "/docs/{path*}", self.docs),
            ],
            loopback_only=settings.loopback_only,
            access=settings.access,
            origins=settings.origins,
            max_body=settings.max_body,
            observer=self.observe,
            compress=True,
        )
        self.app.on_stop.append(self.stop)
        self.refusal = problem(
            RequestError(
                status=429,
                where="server",
                expected=f"at most {settings.max_in_flight} requests at the same time",
                found="more",
                retry_after=1,
                hint="Try again later.",
            )
        )

    async def stop(self) -> None:
        self.jobs.stop()

    def observe(self, request: Request, status: int, seconds: float) -> None:
        route = _ROUTE_IDS.get(request.path)
        if route is None:
            known = request.path.startswith("/v1/models/")
            route = ROUTES.index("models" if known else "other")
        self.metrics.count_request(request.about or "", route, status, seconds)
        self.metrics.set("in_flight", self.app.count_in_flight())
        self.metrics.set("queue_depth", self.jobs.waiting)

    def is_full(self) -> bool:
        """Whether there is too much work already; to refuse more costs less than to let it wait."""
        n = self.app.count_in_flight() + self.app.turn
        return n > self.settings.max_in_flight

    def busy(self) -> Response:
        """Return the answer to a request that is refused because of others."""
        made = self.refusal
        return Response(made.body, made.status, made.content_type, made.headers)

    # ---- tagging ---------------------------------------------------------------------------

    async def tag(self, request: Request) -> Response:
        if self.is_full():
            return self.busy()
        if request.headers.get(b"content-type") != JSON:  # it may have a charset, or be a stream
            kind = check_type(request, "application/json", streams.NDJSON, streams.CONLLU_TYPE)
            if kind != "application/json":
                return await self.stream(request, kind)
        if request.scope["query_string"]:
            request.query([])  # options of JSON are in its body
        data = await request.body()
        wanted, served, n_tokens = self.read(request, data)
        max_tokens = self.settings.max_tokens
        if cost(wanted, served, n_tokens) <= ON_LOOP:
            found = answer(wanted, served, max_tokens)
            body = _ENCODER.encode(found)
        else:
            found, body = await self.jobs.run(
                request, lambda still_wanted: _encoded(wanted, served, max_tokens, still_wanted)
            )
        self.count(found, served, n_tokens)
        return Response(body)

    def tag_at_once(self, request: Request, data: bytes) -> Response | None:
        """Answer a small request in JSON; None for others."""
        headers = request.headers
        if headers.get(b"content-type") != JSON or b"content-encoding" in headers:
            return None
        if len(data) > self.settings.max_body:
            return None
        if len(data) > COMPRESSED and b"accept-encoding" in headers:
            return None  # the answer is likely to be compressed
        if self.is_full():
            return self.busy()
        wanted, served, n_tokens = self.read(request, data)
        if cost(wanted, served, n_tokens) > ON_LOOP:
            return None
        found = answer(wanted, served, self.settings.max_tokens)
        self.count(found, served, n_tokens)
        return Response(_ENCODER.encode(found))

    def read(self, request: Request, data: bytes) -> tuple[TokenRequest | TagRequest, Served, int]:
        """Return the request in a body, its model, and the number of its tokens."""
        wanted = read_request(data)
        served = self.registry.get(wanted.model)
        request.about = served.name
        check(wanted, served)
        n_tokens = count_tokens(wanted)
        if n_tokens > self.settings.max_tokens:
            raise too_many_tokens(self.settings.max_tokens)
        return wanted, served, n_tokens

    def count(self, found: TagReply, served: Served, n_tokens: int) -> None:
        """Count the tokens of an answer."""
        if found.documents is not None:
            n_tokens = sum(len(s.tokens) for d in found.documents for s in d.sentences)
        self.metrics.count_tokens(served.name, n_tokens)

    async def stream(self, request: Request, kind: str) -> Response:
        options = streams.read_options(request)
        served = self.registry.get(options.model)
        request.about = served.name
        request.max_body = self.settings.max_body
        apart = functools.partial(self.stream_piece, served)
        stream = streams.ndjson if kind == streams.NDJSON else streams.conllu
        pieces: AsyncIterator[bytes] = stream(request, served, options, apart)
        headers = [
            (b"tagloom-model", served.name.encode()),
            (b"tagloom-version", served.version.encode()),
        ]
        content_type = kind.encode() + (b"; charset=utf-8" if kind.startswith("text/") else b"")
        return Stream(pieces, content_type=content_type, headers=headers)

    async def stream_piece(
        self, served: Served, function: Callable[[bytes], tuple[bytes, int]], data: bytes
    ) -> bytes:
        if len(data) < 4 * ON_LOOP:
            result, n_tokens = function(data)
        else:
            result, n_tokens = await self.jobs.run_piece(function, data)
        self.metrics.count_tokens(served.name, n_tokens)
        return result

    async def explain(self, request: Request) -> Response:
        if self.is_full():
            return self.busy()
        wanted = await request.json(_EXPLAIN)
        served = self.registry.get(wanted.model)
        request.about = served.name
        sentence = as_sentence(wanted.sentence)
        if len(sentence) > MOST_EXPLAINED:
            raise too_many_tokens(MOST_EXPLAINED)
        known = as_known(wanted.known)

        def work(still_wanted: Callable[[], None]) -> bytes:
            found = served.tagger.explain(sentence, known=known).to_dict()
            return _ENCODER.encode({"model": served.name, "version": served.version, **found})

        return Response(await self.jobs.run(request, work))

    # ---- models ----------------------------------------------------------------------------

    async def models(self, request: Request) -> Response:
        request.query([])
        models = self.registry.models
        return reply(ModelList([describe(models[n]) for n in self.registry.names if n in models]))

    async def model(self, request: Request) -> Response:
        request.query([])
        served = self.registry.get(request.parameters["name"])
        request.about = served.name
        about = describe(served)
        about.description = served.tagger.describe()
        return reply(about)

    # ---- operation -------------------------------------------------------------------------

    async def health(self, request: Request) -> Response:
        return reply(Status("alive"))

    async def ready(self, request: Request) -> Response:
        if self.app.is_draining:
            return reply(Status("draining"), 503, [(b"retry-after", b"1")])
        if not self.registry.is_ready:
            return reply(Status("loading"), 503, [(b"retry-after", b"1")])
        return reply(Status("ready"))

    async def show_metrics(self, request: Request) -> Response:
        self.metrics.set("in_flight", self.app.count_in_flight())
        self.metrics.set("queue_depth", self.jobs.waiting)
        text = self.metrics.render(self.registry)
        return Response(text, content_type=b"text/plain; version=1.0.0; charset=utf-8")

    async def openapi(self, request: Request) -> Response:
        return Response(openapi.document(self.settings))

    async def docs(self, request: Request) -> Response:
        return self.pages.get(request, request.parameters.get("path", "docs.html"))


def read_request(data: bytes) -> TokenRequest | TagRequest:
    """Decode a request; tokens are decoded strictly, other forms of sentences are for the model."""
    try:
        return _STRICT.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decode(data, _GENERAL)


def _encoded(
    request: TokenRequest | TagRequest,
    served: Served,
    max_tokens: int,
    still_wanted: Callable[[], None],
) -> tuple[TagReply, bytes]:
    found = answer(request, served, max_tokens, still_wanted)
    return found, _ENCODER.encode(found)


def describe(served: Served) -> ModelInfo:
    """Describe a model for a list of models."""
    loaded = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(served.loaded))
    return ModelInfo(
        name=served.name,
        kind=served.tagger.kind,
        version=served.version,
        labels=served.labels,
        loaded=loaded,
        tokenizer=served.tokenizer,
        reads_only_tokens=served.tagger.reads_only_tokens,
        scheme=getattr(served.tagger, "scheme_", None),
    )
