"""A tagger as a component of a spaCy pipeline.

::

    nlp.add_pipe("tagloom", config={"model": "ner.tagloom"})

spaCy finds the factory by an entry point of this package, so programs need not import it. The
component reads the tokens of a doc, sentence by sentence if a component before it has set them, and
writes entities, or tags.
"""

# Without `from __future__ import annotations`: spaCy checks a config by the types of the factory.
import os
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tagloom import checks, labels
from tagloom.errors import ModelFileError, ParameterError
from tagloom.models.taggers import Tagger

_ASSIGN = ("auto", "ents", "tag", "pos")
_UPOS = {
    *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM"),
    *("PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X"),
}
_SPAN = re.compile(r"O|[BIELSU]-.+")
_FILE = "model.tagloom"


class TaggerComponent:
    """A component that labels docs with a tagger of words.

    Parameters
    ----------
    model : path, or Tagger
        A model of tagloom; of CRF++ or Wapiti if it reads words only.
    assign : {"auto", "ents", "tag", "pos"}
        Where labels go: ``doc.ents``, ``token.tag_`` or ``token.pos_``. "auto" is "ents" for labels
        of spans, such as B-PER, "pos" for universal parts of speech, and otherwise "tag".

    Raises
    ------
    ParameterError
        If ``assign`` is none of these, or does not fit the labels.
    """

    def __init__(self, model: Any, assign: str = "auto") -> None:
        if assign not in _ASSIGN:
            raise ParameterError(
                parameter="assign", expected=f"one of {', '.join(_ASSIGN)}", found=repr(assign)
            )
        self.assign = assign
        self._path = None if isinstance(model, Tagger) else os.fspath(model)
        self._tagger = model if isinstance(model, Tagger) else None
        # A pipeline that is loaded elsewhere has its own copy, which from_disk reads.
        if self._path is not None and os.path.exists(self._path):
            self._tagger = Tagger.load(self._path)
        if self._tagger is not None:
            self._target = _target(self._tagger, assign)

    @property
    def tagger(self) -> Tagger:
        """The tagger."""
        if self._tagger is None:
            raise ModelFileError(
                where=str(self._path), expected="a model file", found="no file of this name"
            )
        return self._tagger

    def __call__(self, doc: Any) -> Any:
        """Label one doc."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Any], *, batch_size: int = 128) -> Iterator[Any]:
        """Label docs in batches, which is many times as fast as one by one."""
        tagger, batch = self.tagger, []
        for doc in stream:
            batch.append(doc)
            if len(batch) == batch_size:
                yield from self._label(tagger, batch)
                batch = []
        yield from self._label(tagger, batch)

    def _label(self, tagger: Tagger, docs: list[Any]) -> list[Any]:
        """Predict the labels of a batch, and write them."""
        sentences = [(doc, span) for doc in docs for span in _sentences(doc) if len(span)]
        predicted = tagger.predict([[token.text for token in span] for _, span in sentences])
        entities: dict[int, list[Any]] = {id(doc): [] for doc in docs}
        scheme = getattr(tagger, "scheme_", None)
        for (doc, span), path in zip(sentences, predicted, strict=True):
            if self._target == "ents":
                for found in labels.to_spans(path, scheme):
                    entity = doc[span.start + found.start : span.start + found.end]
                    entity.label_ = found.type
                    entities[id(doc)].append(entity)
                continue
            for token, label in zip(span, path, strict=True):
                setattr(token, f"{self._target}_", label)
        if self._target == "ents":
            for doc in docs:
                doc.ents = entities[id(doc)]
        return docs

    # ---- files -----------------------------------------------------------------------------

    def to_disk(self, path: Any, *, exclude: Iterable[str] = ()) -> None:
        """Write the model into a folder, for ``nlp.to_disk``."""
        Path(path).mkdir(parents=True, exist_ok=True)
        self.tagger.save(Path(path) / _FILE)

    def from_disk(self, path: Any, *, exclude: Iterable[str] = ()) -> "TaggerComponent":
        """Read the model from a folder, for ``spacy.load``."""
        self._tagger = Tagger.load(Path(path) / _FILE)
        self._target = _target(self._tagger, self.assign)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the model as bytes, for ``nlp.to_bytes``."""
        return self.tagger.to_bytes()

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "TaggerComponent":
        """Read the model from bytes, for ``nlp.from_bytes``."""
        self._tagger = Tagger.load(data)
        self._target = _target(self._tagger, self.assign)
        return self


def _sentences(doc: Any) -> Iterable[Any]:
    """Return the sentences of a doc; the whole doc if they are not set."""
    return doc.sents if doc.has_annotation("SENT_START") else (doc[:],)


def _target(tagger: Tagger, assign: str) -> str:
    """Return where labels go: ents, pos or tag."""
    names = tagger.labels_.tolist()
    are_spans = getattr(tagger, "scheme_", None) is not None or all(map(_SPAN.fullmatch, names))
    if assign == "auto":
        return "ents" if are_spans else "pos" if set(names) <= _UPOS else "tag"
    if assign == "ents" and not are_spans:
        raise ParameterError(
            parameter="assign",
            expected="'tag' or 'pos' for labels that are not spans",
            found=f"'ents' for {checks.show(names)}",
        )
    if assign == "pos" and not set(names) <= _UPOS:
        raise ParameterError(
            parameter="assign",
            expected="'tag' for labels that are not universal parts of speech",
            found=f"'pos' for {checks.show(names)}",
        )
    return assign


def make_component(nlp: Any, name: str, model: str, assign: str) -> TaggerComponent:
    """Make the component, for ``nlp.add_pipe("tagloom", config={"model": path})``."""
    return TaggerComponent(model, assign)


if find_spec("spacy") is not None:
    import_module("spacy.language").Language.factory(
        "tagloom",
        default_config={"assign": "auto"},
        assigns=["doc.ents", "token.tag", "token.pos"],
        func=make_component,
    )
