"""The values that ``features=`` accepts, and functions that show the resulting features."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from tagloom import checks
from tagloom._native import Index
from tagloom.errors import LabelError, ParameterError
from tagloom.features.batches import Encoded
from tagloom.features.items import Function, Items
from tagloom.features.presets import PRESETS
from tagloom.features.templates import Templates

#: Names for the label before the first and after the last one.
START, STOP = "<start>", "<stop>"
#: Name of the weight of a label pair among the features of a labelled sentence.
TRANSITION = "transition"


class FeatureExtractor(Protocol):
    """The interface of every kind of features: sentences in, attribute ids out."""

    transitions: bool

    def encode(
        self, X: Any, index: Index, edge_index: Index | None = None, *, grow: bool = False
    ) -> Encoded:
        """Turn sentences into attribute ids."""

    def extract(self, sentence: Any, *, edges: bool = False) -> list[dict[str, float]]:
        """Show the attributes of one sentence by name."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-compatible copy, which `from_dict` turns back into the extractor."""


# Names of the classes in model files.
_KINDS = {
    "templates": "Templates",
    "crfpp": "CRFppTemplates",
    "wapiti": "WapitiTemplates",
    "items": "Items",
    "attributes": "AttributeRows",
}


def make(features: Any = None, **resources: Any) -> FeatureExtractor:
    r"""Make an extractor from the value of ``features=``.

    Parameters
    ----------
    features : str, path, iterable of str, callable, extractor or None
        The name of a preset; a CRF++ or Wapiti file; template expressions; a function of a
        sentence; an extractor, which is returned unchanged; None for sentences whose tokens are
        features already; or "attributes" for tokens in CRFsuite's notation, see `AttributeRows`.
    **resources
        ``lexicons``, ``clusters`` and ``lists``; see `Templates`.

    Returns
    -------
    Templates, Items or Function

    Raises
    ------
    ParameterError
        If the value has another type.
    TemplateError
        If a template is malformed.

    Examples
    --------
    >>> from tagloom.features import make
    >>> make(["word", "suffix(3)"])
    Templates(['word', 'suffix(3)'])
    >>> make(None)
    Items()
    >>> make("words").templates
    ['word']
    """
    if isinstance(features, str) and features in PRESETS:
        return Templates(PRESETS[features], **resources)
    if isinstance(features, list | tuple | set | frozenset):
        return Templates(features, **resources)
    if resources:
        raise ParameterError(
            parameter="features",
            expected=f"templates or a preset, which alone use {', '.join(sorted(resources))}",
            found=checks.show(features),
        )
    if features is None:
        return Items()
    if isinstance(features, str) and features == "attributes":
        from tagloom.features.attributes import AttributeRows  # it imports this module

        return AttributeRows()
    if isinstance(features, str | os.PathLike):
        return _read_file(features)
    if all(hasattr(features, name) for name in ("encode", "extract", "to_dict")):
        extractor: FeatureExtractor = features
        return extractor
    if callable(features):
        return Function(features)
    raise ParameterError(
        parameter="features",
        expected=f"a preset ({', '.join(PRESETS)}), a list of templates, a function, or None if "
        "the tokens are features already",
        found=checks.show(features),
    )


def _read_file(path: str | os.PathLike[str]) -> Templates:
    """Read a CRF++ or Wapiti file, recognised by its commands."""
    from difflib import get_close_matches  # here, for a quick start

    from tagloom.features import read_crfpp, read_wapiti
    from tagloom.sequences.files import read_lines

    if not os.path.isfile(path):
        close = get_close_matches(str(path), PRESETS, 1)
        advice = "A template goes into a list: features=[...]."
        if close and not set("[(&") & set(str(path)):
            advice = f"Did you mean {close[0]!r}?"
        raise ParameterError(
            parameter="features",
            expected=f"a preset ({', '.join(PRESETS)}) or a file",
            found=repr(os.fspath(path)),
            hint=advice,
        )
    lines = [line for line in read_lines(path) if line.strip() and not line.startswith("#")]
    is_wapiti = any(line[0] in "ub*" for line in lines) or any(
        command in line for line in lines for command in ("%X", "%t", "%T", "%m", "%M", "[@", "[*")
    )
    return read_wapiti(path) if is_wapiti else read_crfpp(path)


def from_dict(data: Mapping[str, Any], function: Any = None) -> FeatureExtractor:
    """Make an extractor from the result of its ``to_dict``.

    Parameters
    ----------
    data : mapping
    function : callable, optional
        The feature function, if the features come from one.

    Returns
    -------
    Templates, Items or Function

    Raises
    ------
    ParameterError
        If a feature function is required but missing, or given but not used.

    Examples
    --------
    >>> from tagloom.features import from_dict, make
    >>> from_dict(make(["word[-1]"]).to_dict())
    Templates(['word[-1]'])
    """
    from tagloom import features  # a circular import at module level

    if data["kind"] == "function":
        if function is None:
            raise ParameterError(
                f"The features come from the function {data['name']}, which is not saved.",
                parameter="features",
                expected=f"the function {data['name']}",
                found="None",
                hint="Pass it: features=that_function.",
            )
        return function if isinstance(function, Function) else Function(function)
    if function is not None:
        raise ParameterError(
            "The features do not come from a function.",
            parameter="features",
            expected="None, as the features do not come from a function",
            found=checks.show(function),
            hint="Leave features= out.",
        )
    if data["kind"] not in _KINDS:
        raise ParameterError(
            parameter="features",
            expected=f"one of the kinds {', '.join(_KINDS)}",
            found=checks.show(data["kind"]),
        )
    extractor: FeatureExtractor = getattr(features, _KINDS[data["kind"]]).from_dict(data)
    return extractor


def extract(sentence: Any, features: Any = "pos", **resources: Any) -> list[dict[str, float]]:
    """Return the features of a sentence by name.

    Parameters
    ----------
    sentence : list of str, Sentence, or another input that ``features`` accepts
    features : str, path, iterable of str, callable, extractor or None, optional
        See `make`.
    **resources
        ``lexicons``, ``clusters`` and ``lists``; see `Templates`.

    Returns
    -------
    list of dict
        For each token, name to value, including edge templates.

    Examples
    --------
    >>> import tagloom as tl
    >>> tl.features.extract(["the", "toves"], ["word", "word[-1] & word", "suffix(2)"])[1]
    {'word=toves': 1.0, 'word[-1]&word=the|toves': 1.0, 'suffix(2)=es': 1.0}
    """
    extractor = make(features, **resources)
    nodes, edges = extractor.extract(sentence), extractor.extract(sentence, edges=True)
    return [{**node, **edge} for node, edge in zip(nodes, edges, strict=True)]


def global_vector(
    sentence: Any,
    labels: Iterable[str],
    features: Any = "words",
    *,
    start: bool = True,
    stop: bool = True,
    **resources: Any,
) -> Counter[tuple[str, ...]]:
    r"""Count the features of a labelled sentence: the global feature vector Φ(x, y).

    Φ(x, y) = Σ_t φ(x, y[t-1], y[t], t), its score is θ·Φ(x, y)

    Parameters
    ----------
    sentence : list of str, Sentence, or another input that ``features`` accepts
    labels : iterable of str
        One per token.
    features : str, path, iterable of str, callable, extractor or None, optional
        See `make`.
    start, stop : bool, optional
        Whether to count the transitions into the first label and out of the last one.
    **resources
        ``lexicons``, ``clusters`` and ``lists``; see `Templates`.

    Returns
    -------
    Counter
        ``(attribute, label)``, for edge templates ``(attribute, previous label, label)`` and for
        pairs of labels ``("transition", previous label, label)``, each to the sum of its values.
        The labels before the first and after the last token are ``<start>`` and ``<stop>``.

    Raises
    ------
    LabelError
        If a label is not a str, or their number is not that of the tokens.

    Examples
    --------
    The seven features of *they can fish*:

    >>> import tagloom as tl
    >>> for feature in tl.features.global_vector(["they", "can", "fish"], ["N", "V", "V"]):
    ...     print(*feature)
    transition <start> N
    word=they N
    transition N V
    word=can V
    transition V V
    word=fish V
    transition V <stop>
    """
    extractor = make(features, **resources)
    nodes, edges = extractor.extract(sentence), extractor.extract(sentence, edges=True)
    path = list(labels) if not isinstance(labels, str) else []
    if len(path) != len(nodes):
        raise LabelError(
            parameter="labels",
            expected=f"{len(nodes)} labels, one per token",
            found=checks.show(labels),
        )
    for t, label in enumerate(path):
        if not isinstance(label, str):
            raise LabelError(
                where=f"token {t}",
                expected="a label for every token, which Φ(x, y) needs",
                found=checks.show(label),
            )
    counts: Counter[tuple[str, ...]] = Counter()
    for t, label in enumerate(path):
        if extractor.transitions and (t or start):
            counts[TRANSITION, path[t - 1] if t else START, label] += 1
        for attribute, value in nodes[t].items():
            counts[attribute, label] += _count(value)
        for attribute, value in edges[t].items() if t else ():
            counts[attribute, path[t - 1], label] += _count(value)
    if extractor.transitions and path and stop:
        counts[TRANSITION, path[-1], STOP] += 1
    return counts


def _count(value: float) -> Any:
    """Return an int where the value is integral, so that counts print as counts."""
    return int(value) if value.is_integer() else value
