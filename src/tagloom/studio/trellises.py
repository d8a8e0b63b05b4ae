"""Trellises as plain data: what the page draws, and no more than that.

A sentence of 40 tokens and 17 labels has 11,560 transitions, but about a hundred have a
probability that can be seen. Labels that are improbable at every token can be left out, too.
Numbers are rounded in float64: rounded float32 prints many digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom.errors import ParameterError
from tagloom.models import Tagger
from tagloom.trellis import Trellis

LEAST_MOVE = 0.001  # probability of a transition that is drawn
MOST_MOVES = 16  # transitions that are drawn for each token on average, the most probable ones
LIKELY = 0.01  # probability that a label must have at some token, if there are many labels
MANY = 20  # labels, above which only the likely ones are sent
MOST_TOKENS = 1000  # a longer sentence is not drawn


def view_trellis(
    tagger: Tagger,
    sentence: Any,
    force: Mapping[int, str] | None = None,
    *,
    n_best: int = 5,
    show_all: bool = False,
) -> dict[str, Any]:
    """Return everything that the page shows of the trellis of a sentence.

    Parameters
    ----------
    tagger : Tagger
    sentence : sentence
        One, in any form that ``predict`` takes a list of.
    force : mapping of int to str, optional
        Tokens whose label is given.
    n_best : int
        Number of labellings.
    show_all : bool
        Whether to include labels that are improbable everywhere.

    Returns
    -------
    dict
        ``labels`` (names of the Y rows that are sent), ``path`` (a row for each token), ``gamma``
        [T][Y], ``moves`` ([t, row before, row, probability], t counted from 1), ``nbest``,
        ``log_z``, ``prob``, ``n_hidden`` (number of labels that are not sent).
    """
    trellis = trellis_of(tagger, sentence, force)
    names = tagger.labels_.tolist()
    best = trellis.viterbi()
    path, gamma = best.path, np.asarray(trellis.marginals(), dtype=np.float64)  # [T], [T, Y]
    log_z = float(trellis.log_partition())
    rows = _shown_rows(gamma, path, set((force or {}).values()), names, show_all)
    row_of = {y: k for k, y in enumerate(rows.tolist())}
    return {
        "labels": [names[y] for y in rows],
        "path": [row_of[y] for y in path.tolist()],
        "gamma": _rounded(gamma[:, rows], 5),
        "moves": _moves(trellis, row_of),
        "nbest": _nbest(trellis, names, n_best, log_z),
        "log_z": round(log_z, 4),
        "score": round(float(best.score), 4),
        "prob": math.exp(min(float(best.score) - log_z, 0.0)),
        "n_hidden": len(names) - len(rows),
    }


def view_nodes(
    tagger: Tagger, sentence: Any, force: Mapping[int, str] | None, position: int
) -> dict[str, Any]:
    """Return forward and backward scores of the nodes of one token, in log space.

    Returns
    -------
    dict
        ``alpha`` and ``beta``, by label; both empty if the states are not labels.
    """
    trellis = trellis_of(tagger, sentence, force)
    names = tagger.labels_.tolist()
    if not 0 <= position < len(trellis.emit):
        raise ParameterError(
            parameter="position",
            expected=f"a token from 0 to {len(trellis.emit) - 1}",
            found=str(position),
        )
    if trellis.states.n_states != len(names):
        return {"alpha": {}, "beta": {}}
    alpha, beta = trellis.forward()[position], trellis.backward()[position]  # [Y] each
    return {
        "alpha": dict(zip(names, _rounded(alpha, 3), strict=True)),
        "beta": dict(zip(names, _rounded(beta, 3), strict=True)),
    }


def trellis_of(tagger: Tagger, sentence: Any, force: Mapping[int, str] | None = None) -> Trellis:
    """Return the trellis of one sentence, with forced labels.

    Raises
    ------
    ParameterError
        If a forced token does not exist, or the sentence is too long or has no tokens.
    LabelError
        If a forced label does not exist.
    """
    n = len(sentence)
    if not 0 < n <= MOST_TOKENS:
        raise ParameterError(
            parameter="tokens", expected=f"1 to {MOST_TOKENS} tokens", found=str(n)
        )
    known: list[str | None] | None = None
    if force:
        known = [None] * n
        for t, label in force.items():
            if not 0 <= t < n:
                raise ParameterError(
                    parameter="force", expected=f"tokens from 0 to {n - 1}", found=str(t)
                )
            known[t] = label
    trellis = tagger.trellis([sentence], known=None if known is None else [known])[0]
    if not isinstance(trellis, Trellis):
        raise ParameterError(
            parameter="model",
            expected="a tagger of label sequences",
            found=type(trellis).__name__,
        )
    return trellis


def view_scores(tagger: Tagger, sentence: Any) -> dict[str, Any]:
    """Return the scores of a sentence, for going through the recursions by hand.

    Returns
    -------
    dict
        ``labels``, ``emit`` [T][Y], ``trans`` [T][Y][Y] (those of transitions into position t; of
        position 0 unused), ``start`` and ``stop`` [Y]. A forbidden one is None.

    Raises
    ------
    ParameterError
        If a label depends on more than the one before it.
    """
    trellis = trellis_of(tagger, sentence)
    names = tagger.labels_.tolist()
    if trellis.states.n_states != len(names):
        raise ParameterError(
            parameter="model",
            expected="labels that depend on one label before",
            found=f"{trellis.states.n_states} states",
            hint="The steps are those of a first-order chain.",
        )
    trans, start, stop = trellis.label_transitions
    emit = np.asarray(trellis.emit, dtype=np.float64)  # [T, Y]
    moves = np.broadcast_to(trans, (len(emit), *trans.shape))  # [T, Y, Y]
    if trellis.edge is not None:
        moves = moves + np.asarray(trellis.edge, dtype=np.float64)
    return {
        "labels": names,
        "emit": _scores(emit),
        "trans": _scores(moves),
        "start": _scores(start),
        "stop": _scores(stop),
    }


def _shown_rows(
    gamma: npt.NDArray[Any],
    path: npt.NDArray[Any],
    forced: set[str],
    names: Sequence[str],
    show_all: bool,
) -> npt.NDArray[np.intp]:
    """Choose the labels to show: all of few, otherwise those that are likely somewhere."""
    if show_all or len(names) <= MANY:
        return np.arange(len(names))
    shown = gamma.max(axis=0) >= LIKELY
    shown[path] = True
    for y, name in enumerate(names):
        shown[y] |= name in forced
    return np.flatnonzero(shown)


def _moves(trellis: Trellis, row_of: Mapping[int, int]) -> list[list[float]]:
    if len(trellis.emit) < 2:
        return []
    xi = np.asarray(trellis.pair_marginals(), dtype=np.float64)  # [T, Y, Y]; its first is 0
    t, y_prev, y = np.nonzero(xi >= LEAST_MOVE)
    probs = xi[t, y_prev, y]
    most = MOST_MOVES * len(trellis.emit)
    if len(probs) > most:
        kept = np.sort(np.argpartition(-probs, most)[:most])
        t, y_prev, y, probs = t[kept], y_prev[kept], y[kept], probs[kept]
    return [
        [t, row_of[a], row_of[b], p]
        for t, a, b, p in zip(
            t.tolist(), y_prev.tolist(), y.tolist(), probs.round(4).tolist(), strict=True
        )
        if a in row_of and b in row_of
    ]


def _nbest(trellis: Trellis, names: Sequence[str], n: int, log_z: float) -> list[dict[str, Any]]:
    paths, scores, _ = trellis.nbest(n)
    return [
        {"labels": [names[y] for y in path], "prob": math.exp(min(float(score) - log_z, 0.0))}
        for path, score in zip(paths.tolist(), scores, strict=True)
    ]


def _rounded(values: npt.NDArray[Any], digits: int) -> list[Any]:
    """Round numbers for JSON; −inf, which it does not have, becomes None."""
    return _plain(np.round(np.asarray(values, dtype=np.float64), digits))


def _scores(values: npt.NDArray[Any]) -> list[Any]:
    return _plain(np.asarray(values, dtype=np.float64))


def _plain(values: npt.NDArray[Any]) -> list[Any]:
    if np.isfinite(values).all():
        plain: list[Any] = values.tolist()
        return plain
    boxed = values.astype(object)
    boxed[~np.isfinite(values)] = None
    result: list[Any] = boxed.tolist()
    return result
