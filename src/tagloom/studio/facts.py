"""A model as plain data: facts, weights, transitions, tables of a hidden Markov model."""

from __future__ import annotations

from typing import Any

import numpy as np

from tagloom.models import HMM, Capability, Tagger
from tagloom.scores.emissions import Categorical
from tagloom.studio.mistakes import short

MOST_LABELS = 60  # rows of the heat map
MOST_WORDS = 8  # of a state


def view_model(tagger: Tagger) -> dict[str, Any]:
    """Return the facts of a model and its table of transitions.

    Returns
    -------
    dict
        The fields of ``tagger.describe()``; ``transitions`` has ``labels`` and ``weights`` [Y][Y],
        from → to (None if the model has none); ``states`` is given for hidden Markov models: for
        each state its name, start and stop probability, share in the long run, and most probable
        words with their probabilities.
    """
    about = tagger.describe()
    names = about["labels"]
    result: dict[str, Any] = {
        "kind": about["model"],
        "labels": names,
        "parameters": {k: _plain(v) for k, v in about["parameters"].items() if v is not None},
        "training": {k: _plain(v) for k, v in about["training"].items()},
        "facts": {
            key: about[key]
            for key in ("scheme", "temperature", "features", "attributes", "weights", "words")
            if about.get(key) is not None
        },
        "has_weights": tagger.can(Capability.WEIGHTS),
        "transitions": None,
        "states": _view_states(tagger) if isinstance(tagger, HMM) else None,
    }
    trans = getattr(tagger, "transitions_", None)
    if trans is not None and len(names):
        values = np.asarray(trans, dtype=np.float64)[:MOST_LABELS, :MOST_LABELS]
        is_probs = isinstance(tagger, HMM)
        if is_probs:
            values = np.exp(values)
        shown = np.where(np.isfinite(values), np.round(values, 4), 0.0)
        result["transitions"] = {
            "labels": names[:MOST_LABELS],
            "weights": shown.tolist(),
            "is_probs": is_probs,
        }
    return result


def _view_states(hmm: HMM) -> list[dict[str, Any]]:
    """Return the tables of a hidden Markov model, state by state."""
    names = hmm.labels_.tolist()[:MOST_LABELS]
    start, share = hmm.startprob_, hmm.stationary_distribution()  # [Y]
    stop = None if hmm.log_stop_ is None else np.exp(hmm.log_stop_)  # [Y]
    return [
        {
            "name": name,
            "start": round(float(start[y]), 4),
            "stop": None if stop is None else round(float(stop[y]), 4),
            "share": round(float(share[y]), 4),
            "words": _likely_words(hmm, y, name),
        }
        for y, name in enumerate(names)
    ]


def _likely_words(hmm: HMM, y: int, name: str) -> list[list[Any]]:
    """Return the most probable words of a state, if it emits words, with their probabilities."""
    emission = hmm.emission_
    if isinstance(emission, Categorical):
        probs = emission.probs_[y, :-1]  # the last one is of words never seen
        best = np.argsort(-probs, kind="stable")[:MOST_WORDS]
        pairs = [(str(emission.symbols_[v]), float(probs[v])) for v in best]
    else:
        weights = hmm.feature_weights("word=*", label=name, n=MOST_WORDS)
        pairs = [(w.attribute.removeprefix("word="), float(np.exp(w.weight))) for w in weights]
    return [[short(word), round(prob, 4)] for word, prob in pairs]


def view_weights(
    tagger: Tagger, pattern: str | None, label: str | None, n: int
) -> list[dict[str, Any]]:
    """Return the strongest weights that match a shell pattern, of one label or of all.

    Raises
    ------
    LabelError
        If the label does not exist.
    """
    if not tagger.can(Capability.WEIGHTS):
        return []
    listed: Any = tagger
    if label is not None or pattern is not None:
        weights = listed.feature_weights(pattern or None, label=label, n=n)
    else:
        weights = listed.feature_weights(n=n)
    return [
        {"attribute": short(w.attribute, 200), "label": w.label, "weight": round(w.weight, 5)}
        for w in weights
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return short(repr(value), 200)
