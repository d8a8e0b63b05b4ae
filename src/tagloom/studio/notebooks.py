"""The studio from Python: in a thread of this process, and a trellis to click in a notebook cell.

`tagger.studio()` and `tagger.explore(sentence)` lead here.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from html import escape
from importlib.resources import files
from types import TracebackType
from typing import Any, Self

from tagloom.errors import MissingExtraError, ParameterError
from tagloom.models import Tagger
from tagloom.sequences import Corpus, Sentence
from tagloom.studio import trellises

MOST_TOKENS = 200  # of a trellis in a cell


class Studio:
    """A studio that runs in a thread of this process; `Tagger.studio` opens one.

    Attributes
    ----------
    url : str
        The address to open. Only somebody who has it can see the page.
    """

    def __init__(
        self,
        tagger: Tagger,
        corpus: str | None = None,
        *,
        test: Corpus | None = None,
        read_only: bool = False,
        port: int = 0,
        **options: Any,
    ) -> None:
        try:
            from tagloom.studio.app import COOKIE, make_app
            from tagloom.web import Access, background
        except ImportError as error:
            if isinstance(error, MissingExtraError) or error.name not in ("uvicorn", "msgspec"):
                raise
            raise MissingExtraError(
                f"the page needs the package {error.name}.",
                hint="Install it with: pip install 'tagloom[studio]'",
            ) from None
        from tagloom.studio.sessions import Session

        access = Access(cookie=COOKIE)
        with contextlib.ExitStack() as stack:
            session = Session(tagger, None, corpus, options=options, test=test, read_only=read_only)
            stack.callback(session.close)
            base = stack.enter_context(background(make_app(session, access), port=port))
            self.url = f"{base}/?token={access.token}"
            self._stack = stack.pop_all()

    def close(self) -> None:
        """Stop the studio; edits that are not saved stay in the journal of the corpus."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Studio({self.url!r})"

    def _repr_html_(self) -> str:
        link = escape(self.url)
        return f'<a href="{link}" target="_blank" rel="noreferrer">Open the studio</a>'


def open_studio(
    tagger: Tagger, corpus: str | None = None, *, browser: bool = True, **options: Any
) -> Studio:
    """Open a tagger in the studio; see `Tagger.studio`."""
    studio = Studio(tagger, corpus, **options)
    if browser:
        import webbrowser

        webbrowser.open(studio.url)
    return studio


class TrellisCell:
    """A trellis that can be clicked; what a notebook shows of it needs neither server nor network.

    Attributes
    ----------
    scores : dict
        Tokens, labels and scores, as plain data.
    """

    def __init__(self, tagger: Tagger, sentence: Any) -> None:
        if isinstance(sentence, str):
            cut = tagger.tokenizer_.split(sentence)
            sentence = Sentence([token for part in cut for token in part.tokens])
        if len(sentence) > MOST_TOKENS:
            raise ParameterError(
                parameter="sentence",
                expected=f"at most {MOST_TOKENS} tokens",
                found=str(len(sentence)),
            )
        view = trellises.view_scores(tagger, sentence)
        has_edges = tagger.trellis([sentence])[0].edge is not None
        self.scores = {
            "tokens": [
                word if isinstance(word, str) else str(t) for t, word in enumerate(sentence)
            ],
            **view,
            "trans": view["trans"] if has_edges else view["trans"][0],
        }

    def __repr__(self) -> str:
        n, labels = len(self.scores["tokens"]), len(self.scores["labels"])
        return f"TrellisCell({n} tokens, {labels} labels; shown in notebooks)"

    def _repr_html_(self) -> str:
        data = json.dumps(self.scores).replace("<", "\\u003c")
        # The same cell twice in a page finds its own element: each script takes the first unused.
        name = "tagloom-" + hashlib.sha256(data.encode()).hexdigest()[:12]
        return (
            f'<style>{_STYLE}</style><div class="tagloom-cell" data-cell="{name}"></div>'
            f"<script>(() => {{\n{_script()}\n"
            f"const root = document.querySelector('[data-cell=\"{name}\"]:empty');\n"
            f"if (root) showCell(root, {data});\n}})();</script>"
        )


def _script() -> str:
    """Return the modules of the cell as one script; notebooks have no place for modules."""
    folder = files("tagloom.studio") / "page"
    texts = [(folder / name).read_text("utf-8") for name in ("recursions.js", "cell.js")]
    lines = "\n".join(texts).splitlines()
    kept = [line.removeprefix("export ") for line in lines if not line.startswith("import ")]
    return "\n".join(line for line in kept if not line.startswith("//"))


_STYLE = """
.tagloom-cell { font: 14px/1.4 system-ui, sans-serif; --accent: #0d7f84; }
.tagloom-cell { font-variant-numeric: tabular-nums; }
.tagloom-cell > div { overflow-x: auto; }
.tagloom-cell text { fill: currentColor; font-size: 12px; }
.tagloom-cell .word { text-anchor: middle; font-size: 13px; font-weight: 550; }
.tagloom-cell .quiet { opacity: 0.7; }
.tagloom-cell .move { fill: none; stroke: currentColor; }
.tagloom-cell .move.best { stroke: var(--accent); stroke-width: 2.6; }
.tagloom-cell .node { cursor: pointer; outline: none; }
.tagloom-cell .node rect { fill: transparent; rx: 6px; }
.tagloom-cell .node:hover rect { stroke: var(--accent); }
.tagloom-cell .node:focus-visible rect { stroke: var(--accent); stroke-width: 2; }
.tagloom-cell .node circle { fill: color-mix(in srgb, var(--accent) 30%, transparent); }
.tagloom-cell .node.best circle { fill: var(--accent); }
.tagloom-cell .node text { text-anchor: middle; font-size: 11px; pointer-events: none; }
.tagloom-cell .node.best text { fill: white; font-weight: 600; }
.tagloom-cell .node.forced rect { stroke: var(--accent); stroke-width: 2; stroke-dasharray: 4 3; }
.tagloom-cell p { margin: 6px 4px; white-space: pre-wrap; opacity: 0.9; }
"""
