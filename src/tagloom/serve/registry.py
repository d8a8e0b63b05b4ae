"""The models of a server: loaded from private copies, watched, and swapped by one reference.

A file is copied into memory, verified completely and loaded from the copy, so that whoever
replaces, overwrites or truncates it cannot harm the model in use. A changed file is noticed by its
inode, time and size, and loaded once these are still the same at the next look. A file that cannot
be loaded is refused, and the model in use stays.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from tagloom.errors import ModelFileError, ParameterError, RequestError, TagloomError
from tagloom.models import Tagger, load
from tagloom.models.constraints import look_like_spans
from tagloom.storage import Copy

logger = logging.getLogger("tagloom.serve")

#: Seconds between two looks at the files.
INTERVAL = 0.5
VERSION_DIGITS = 16  # of the SHA-256 of a file

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: Models without a file: name → label column of the embedded corpus.
EMBEDDED = {"pos": "upos", "chunk": "chunk", "ner": "entity"}


class Source(NamedTuple):
    """The name of a model and its file; without a file it is trained on the embedded corpus."""

    name: str
    path: str | None


class Served:
    """A model that is ready to answer.

    Attributes
    ----------
    name : str
    version : str
        The first 16 digits of the SHA-256 of its file.
    tagger : Tagger
    labels : list of str
    has_spans : bool
        Whether the labels mark spans.
    tokenizer : str
        ``rules``, ``whitespace``, ``characters`` or ``learnt``.
    loaded : float
        When, in seconds since 1970.
    """

    def __init__(self, name: str, version: str, tagger: Tagger) -> None:
        self.name = name
        self.version = version
        self.tagger = tagger
        self.labels: list[str] = tagger.labels_.tolist()
        self.label_ids = {label: y for y, label in enumerate(self.labels)}
        self.has_spans = look_like_spans(self.labels)
        splitter = tagger.tokenizer_
        self.tokenizer = "learnt" if splitter.is_learnt else splitter.preset
        self.loaded = time.time()
        tagger.predict([], n_threads=1)  # lays out the weights, before the first request needs them


def parse_sources(arguments: Iterable[str]) -> list[Source]:
    """Read the models of a command line: ``pos.tagloom``, or ``name=path``.

    Raises
    ------
    ParameterError
        If a name occurs twice, or cannot stand in a URL.

    Examples
    --------
    >>> parse_sources(["models/pos.tagloom", "names=ner.tagloom"])
    [Source(name='pos', path='models/pos.tagloom'), Source(name='names', path='ner.tagloom')]
    """
    sources: list[Source] = []
    for argument in arguments:
        name, equals, path = argument.partition("=")
        if not equals or os.sep in name:
            name, path = os.path.basename(argument).partition(".")[0], argument
        if not _NAME.fullmatch(name):
            raise ParameterError(
                parameter="models",
                expected="a name of letters, digits, '.', '_' and '-'",
                found=repr(name),
                hint="Give the model a name: name=FILE.",
            )
        if any(source.name == name for source in sources):
            raise ParameterError(
                parameter="models",
                expected="different names",
                found=f"{name!r} twice",
                hint="Give one of them another name: name=FILE.",
            )
        sources.append(Source(name, path))
    return sources or [Source(name, None) for name in EMBEDDED]


def load_copy(name: str, copy: Copy) -> Served:
    """Load a model from a private copy of its file, and verify all of it.

    Raises
    ------
    ModelFileError
        If the copy is damaged, or the model does not tag.
    """
    model = load(copy, verify=True)
    if not isinstance(model, Tagger):
        raise ModelFileError(where=copy.name, expected="a tagger", found=f"a {model.kind}")
    return Served(name, copy.digest()[:VERSION_DIGITS], model)


def train_embedded(name: str) -> Served:
    """Train a tagger on the corpus that comes with the package."""
    from tagloom import datasets  # here, for a quick start of servers that have files
    from tagloom.models import CRF

    tagger = CRF().fit(datasets.load("english", "train", label=EMBEDDED[name]))
    return Served(name, tagger.digest(), tagger)


class Registry:
    """The models in use, by name.

    Parameters
    ----------
    names : iterable of str
        The models that there will be; the first answers requests that name none.

    Attributes
    ----------
    names : tuple of str
    models : mapping of str to Served
        Replaced as a whole, never changed: a request that has begun keeps its model.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self.models: Mapping[str, Served] = {}
        self._lock = threading.Lock()

    def put(self, served: Served) -> None:
        """Use a model from now on."""
        with self._lock:
            self.models = {**self.models, served.name: served}

    @property
    def is_ready(self) -> bool:
        """Whether all models are loaded."""
        return len(self.models) == len(self.names)

    def get(self, name: str | None) -> Served:
        """Return a model by name; without a name, the first.

        Raises
        ------
        RequestError
            404 if there is none of this name, 503 if it is not loaded yet.
        """
        wanted = self.names[0] if name is None else name
        served = self.models.get(wanted)
        if served is not None:
            return served
        if wanted in self.names:
            raise RequestError(
                f"the model {wanted!r} is being loaded.", status=503, retry_after=1, where="model"
            )
        raise RequestError(
            status=404,
            where="model",
            expected=f"one of {', '.join(self.names)}",
            found=repr(wanted[:100]),
        )


#: Called with a new model and its copy; the copy is closed afterwards.
Publish = Callable[[Served, Copy | None], None]
#: Called with the name of a model and "loaded" or "refused".
Report = Callable[[str, str], None]


class Loader:
    """Loads the models of a server, and loads them again when their files change.

    Parameters
    ----------
    sources : list of Source
    publish : function
        Called with each new model.
    report : function
        Called with the result of each reload.
    """

    def __init__(
        self,
        sources: list[Source],
        publish: Publish,
        report: Report = lambda name, result: None,
    ) -> None:
        self._files = [source for source in sources if source.path is not None]
        self._embedded = [source.name for source in sources if source.path is None]
        self._publish = publish
        self._report = report
        self._loaded: dict[str, Any] = {}  # name → state of its file when it was loaded
        self._seen: dict[str, Any] = {}  # name → state at the last look
        self._versions: dict[str, str] = {}

    def load_all(self) -> None:
        """Load every model for the first time.

        Raises
        ------
        ModelFileError, OSError
            If one cannot be loaded.
        """
        for name, path in self._files:
            self._loaded[name] = self._seen[name] = _state(path)
            self._load(name, path)
        for name in self._embedded:
            self._publish(train_embedded(name), None)

    def look(self, *, force: bool = False) -> None:
        """Look at all files, and load those that have changed and are at rest.

        Parameters
        ----------
        force : bool
            Whether to load every file, changed or not.
        """
        for name, path in self._files:
            state = _state(path)
            before, self._seen[name] = self._seen.get(name), state
            if not force and (state != before or state == self._loaded.get(name)):
                continue
            if state is None:  # removed, perhaps to be replaced; the model in use stays
                continue
            self._loaded[name] = state
            try:
                is_new = self._load(name, path)
            except (TagloomError, OSError, MemoryError) as error:
                logger.error("%s: refused, the model in use stays: %s", name, error)
                self._report(name, "refused")
                continue
            if is_new:
                logger.warning("%s: now version %s", name, self._versions[name])
                self._report(name, "loaded")

    def _load(self, name: str, path: str | None) -> bool:
        """Load a model; False if it is the one in use."""
        assert path is not None
        with Copy.of(path) as copy:
            version = copy.digest()[:VERSION_DIGITS]
            if version == self._versions.get(name):
                return False
            served = load_copy(name, copy)
            self._publish(served, copy)
        self._versions[name] = version
        return True


def _state(path: str | None) -> tuple[int, int, int] | None:
    """Return what changes when a file is replaced or written; None if it does not exist."""
    assert path is not None
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


class Watcher:
    """A thread that loads models, and looks at their files until it is stopped.

    Parameters
    ----------
    loader : Loader
    on_error : function
        Called with the error if a model cannot be loaded for the first time.
    """

    def __init__(self, loader: Loader, on_error: Callable[[Exception], None]) -> None:
        self._loader = loader
        self._on_error = on_error
        self._wake = threading.Event()
        self._is_stopped = False
        self._is_forced = False
        self._thread = threading.Thread(target=self._run, name="models", daemon=True)

    def start(self) -> None:
        """Begin to load."""
        self._thread.start()

    def reload(self) -> None:
        """Load all files again now."""
        self._is_forced = True
        self._wake.set()

    def stop(self) -> None:
        """Stop looking."""
        self._is_stopped = True
        self._wake.set()

    def _run(self) -> None:
        try:
            self._loader.load_all()
        except Exception as error:
            self._on_error(error)
            return
        while not self._is_stopped:
            self._wake.wait(INTERVAL)
            self._wake.clear()
            force, self._is_forced = self._is_forced, False
            if not self._is_stopped:
                self._loader.look(force=force)
