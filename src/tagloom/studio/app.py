"""The requests of the page: routes, what they take and what they answer.

Requests that change something carry the version that the page shows (``If-Match``), and pass the
checks of `tagloom.web`: a loopback Host, the cookie, the same origin, JSON, and a header that other
sites cannot send. The page never sends a path: only files named on the command line are used.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from tagloom.errors import ConflictError, ParameterError
from tagloom.studio.sessions import Session
from tagloom.web import (
    Access,
    App,
    Pages,
    Request,
    Response,
    Route,
    Stream,
    check_same_origin,
    in_thread,
    reply,
)
from tagloom.web.problems import document

MARKER = "X-Tagloom-Studio"
COOKIE = "tagloom-studio"
_PING = 15.0  # seconds between signs of life of the event stream


class About(msgspec.Struct, forbid_unknown_fields=True):
    """The sentence that a request is about, and labels that are forced."""

    text: str | None = None
    tokens: list[str] | None = None
    sentence: int | None = None
    force: dict[int, str] = {}  # msgspec copies it
    position: int = 0
    show_all: bool = False
    n_best: int = 5


class Span(msgspec.Struct, forbid_unknown_fields=True):
    """Tokens that become one span."""

    start: int
    end: int
    type: str | None = None


class Edit(msgspec.Struct, forbid_unknown_fields=True):
    """New labels of a sentence."""

    labels: dict[int, str | None] = {}  # msgspec copies it
    accept: bool = False
    span: Span | None = None
    leave: list[int] = []  # msgspec copies it


class Everywhere(msgspec.Struct, forbid_unknown_fields=True):
    """A new label for the same word everywhere."""

    sentence: int
    token: int
    label: str | None


class Name(msgspec.Struct, forbid_unknown_fields=True):
    """A new label."""

    name: str


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """No fields."""


_ABOUT, _EDIT = msgspec.json.Decoder(About), msgspec.json.Decoder(Edit)
_EVERYWHERE, _NAME = msgspec.json.Decoder(Everywhere), msgspec.json.Decoder(Name)
_NOTHING = msgspec.json.Decoder(Nothing)


def make_app(session: Session, access: Access | None = None) -> App:
    """Make the application of a studio.

    Parameters
    ----------
    session : Session
    access : Access, optional
        Checks the token; a new one by default.

    Returns
    -------
    App
    """
    handlers = _Handlers(session)
    access = Access(cookie=COOKIE) if access is None else access
    app = App(
        handlers.routes(),
        loopback_only=True,
        access=access,
        checks=[lambda request: check_same_origin(request, MARKER)],
    )
    handlers.app = app
    return app


class _Handlers:
    app: App

    def __init__(self, session: Session) -> None:
        self.session = session
        self.pages = Pages("tagloom.studio", "page")

    def routes(self) -> list[Route]:
        session = self.session
        return [
            Route("GET", "/", self.index),
            Route("GET", "/page/{name*}", self.page),
            Route("GET", "/api/events", self.events),
            Route("GET", "/api/state", self._view(session.state)),
            Route("GET", "/api/examples", self._view(session.view_examples)),
            Route("GET", "/api/queue", self.queue),
            Route("GET", "/api/search", self.search),
            Route("GET", "/api/same", self.same),
            Route("GET", "/api/sentences/{index}", self.sentence),
            Route("PUT", "/api/sentences/{index}", self.edit),
            Route("GET", "/api/test/{index}", self.test_sentence),
            Route("GET", "/api/confusion", self._view(session.view_confusion)),
            Route("GET", "/api/mistakes", self.mistakes),
            Route("GET", "/api/comparison", self._view(session.view_comparison)),
            Route("GET", "/api/suspects", self._view(session.view_suspects)),
            Route("GET", "/api/calibration", self._view(lambda: session.judgement().calibration())),
            Route("GET", "/api/model", self._view(session.view_model)),
            Route("GET", "/api/weights", self.weights),
            Route("POST", "/api/trellis", self.trellis),
            Route("POST", "/api/scores", self.scores),
            Route("POST", "/api/nodes", self.nodes),
            Route("POST", "/api/why", self.why),
            Route("POST", "/api/everywhere", self.everywhere),
            Route("POST", "/api/names", self.add_name),
            Route("POST", "/api/undo", self._do(session.undo)),
            Route("POST", "/api/redo", self._do(lambda: session.undo(redo=True))),
            Route("POST", "/api/save", self._do(session.save)),
            Route("POST", "/api/save-model", self._do(lambda: {"name": session.save_model()})),
            Route("POST", "/api/retrain", self._do(session.trainer.request)),
            Route("POST", "/api/suspects", self._do(session.forget_suspects)),
        ]

    def _view(self, function: Callable[[], Any]) -> Any:
        async def handler(request: Request) -> Response:
            request.query(())
            return reply(await in_thread(function))

        return handler

    def _do(self, function: Callable[[], Any]) -> Any:
        async def handler(request: Request) -> Response:
            await request.json(_NOTHING)
            return reply(await in_thread(function) or {})

        return handler

    # ---- the page --------------------------------------------------------------------------

    async def index(self, request: Request) -> Response:
        return self.pages.get(request, "index.html")

    async def page(self, request: Request) -> Response:
        return self.pages.get(request, request.parameters["name"])

    async def events(self, request: Request) -> Response:
        """Send events to a page as they happen, until it leaves."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

        def listener(event: dict[str, Any]) -> None:
            loop.call_soon_threadsafe(waiting.put_nowait, event)

        end = self.session.listen(listener)
        stopping = self.app.stopping

        async def pieces() -> AsyncIterator[bytes]:
            gone = [loop.create_task(request.left()), loop.create_task(stopping.wait())]
            try:
                yield b"retry: 500\n\n"
                while True:
                    coming = loop.create_task(waiting.get())
                    done, _ = await asyncio.wait(
                        [coming, *gone], timeout=_PING, return_when=asyncio.FIRST_COMPLETED
                    )
                    if done & set(gone):
                        coming.cancel()
                        return
                    if coming in done:
                        yield b"data: " + msgspec.json.encode(coming.result()) + b"\n\n"
                    else:
                        coming.cancel()
                        yield b": still here\n\n"
            finally:
                end()
                for task in gone:
                    task.cancel()

        await request.body()
        return Stream(pieces(), content_type=b"text/event-stream")

    # ---- sentences -------------------------------------------------------------------------

    async def _about(self, request: Request, view: Callable[[About, Any], Any]) -> Response:
        """Answer with a view of the sentence that a request is about.

        A view of a short sentence takes less time than the way to a thread and back.
        """
        about = await request.json(_ABOUT)
        session = self.session

        def work() -> Any:
            return view(about, session.sentence(about.text, about.tokens, about.sentence))

        if about.text is not None:
            n_tokens = len(about.text) // 3
        elif about.tokens is not None:
            n_tokens = len(about.tokens)
        else:
            n_tokens = session.length_of(about.sentence)
        return reply(work() if session.is_quick(n_tokens) else await in_thread(work))

    async def trellis(self, request: Request) -> Response:
        def view(about: About, sentence: Any) -> dict[str, Any]:
            n_best = min(max(about.n_best, 1), 50)
            return self.session.view_trellis(sentence, about.force, n_best, about.show_all)

        return await self._about(request, view)

    async def scores(self, request: Request) -> Response:
        return await self._about(request, lambda _, sentence: self.session.view_scores(sentence))

    async def nodes(self, request: Request) -> Response:
        def view(about: About, sentence: Any) -> dict[str, Any]:
            return self.session.view_nodes(sentence, about.force, about.position)

        return await self._about(request, view)

    async def why(self, request: Request) -> Response:
        def view(about: About, sentence: Any) -> dict[str, Any]:
            return self.session.view_why(sentence, about.force, about.position)

        return await self._about(request, view)

    async def queue(self, request: Request) -> Response:
        query = request.query(("n", "kind", "skip"))
        n = min(_number(query.get("n", "6"), "n"), 100)
        skip = _number(query["skip"], "skip") if "skip" in query else None
        kind = query.get("kind", "doubt")
        return reply(await in_thread(self.session.view_queue, n, kind, skip))

    async def search(self, request: Request) -> Response:
        word = request.query(("q",)).get("q", "")
        return reply(await in_thread(self.session.search, word, 50) if word else [])

    async def same(self, request: Request) -> Response:
        query = request.query(("sentence", "token"))
        numbers = [_number(query.get(name, ""), name) for name in ("sentence", "token")]
        return reply(await in_thread(self.session.find_same, *numbers))

    async def sentence(self, request: Request) -> Response:
        index = _number(request.parameters["index"], "sentence")
        return reply(await in_thread(self.session.view_sentence, index))

    async def test_sentence(self, request: Request) -> Response:
        index = _number(request.parameters["index"], "sentence")
        return reply(await in_thread(self.session.test_sentence, index))

    # ---- edits -----------------------------------------------------------------------------

    async def edit(self, request: Request) -> Response:
        """Change a sentence; 409 with both versions if it has changed meanwhile."""
        index = _number(request.parameters["index"], "sentence")
        edit = await request.json(_EDIT)
        version = request.header("if-match")
        if version is None:
            raise ParameterError(
                where="If-Match", parameter="version", expected="that of the page", found="none"
            )
        span = None if edit.span is None else (edit.span.start, edit.span.end, edit.span.type)

        def change() -> dict[str, Any]:
            return self.session.change(
                index,
                edit.labels,
                version.strip('"'),
                accept=edit.accept,
                span=span,
                leave=edit.leave,
            )

        try:
            return reply(await in_thread(change))
        except ConflictError as error:
            theirs = await in_thread(self.session.view_sentence, index)
            yours = {str(t): label for t, label in edit.labels.items()}
            return reply({**document(error), "yours": yours, "theirs": theirs}, 409)

    async def everywhere(self, request: Request) -> Response:
        edit = await request.json(_EVERYWHERE)
        return reply(
            await in_thread(self.session.change_everywhere, edit.sentence, edit.token, edit.label)
        )

    async def add_name(self, request: Request) -> Response:
        name = await request.json(_NAME)
        await in_thread(self.session.add_name, name.name)
        return reply({})

    # ---- errors and facts ------------------------------------------------------------------

    async def mistakes(self, request: Request) -> Response:
        query = request.query(("gold", "predicted", "offset"))
        offset = _number(query.get("offset", "0"), "offset")

        def find() -> dict[str, Any]:
            judgement = self.session.judgement()
            return judgement.mistakes(query.get("gold"), query.get("predicted"), offset, 100)

        return reply(await in_thread(find))

    async def weights(self, request: Request) -> Response:
        query = request.query(("q", "label"))
        return reply(
            await in_thread(
                self.session.view_weights, query.get("q") or None, query.get("label") or None, 200
            )
        )


def _number(text: str, parameter: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ParameterError(parameter=parameter, expected="a whole number", found=repr(text[:40]))
    return int(text)
