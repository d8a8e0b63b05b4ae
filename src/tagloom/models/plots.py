"""Pictures of hidden Markov models, drawn by matplotlib, the extra ``[plot]``.

Each function returns the Axes that it drew on. matplotlib is imported when a picture is drawn. The
transition graph, which needs no library, is in `graphs`; a state has the same colour in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import MissingExtraError, ParameterError, ShapeError
from tagloom.models.graphs import PALETTE, chain_names, state_colours

if TYPE_CHECKING:
    from tagloom.models.hmm import HMM

Float64 = npt.NDArray[np.float64]

# More names than this do not fit into a legend.
_MOST_NAMES = 12


def _new_axes(width: float, height: float) -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtraError(
            "Plots need matplotlib. Install it with: pip install 'tagloom[plot]'"
        ) from None
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


# ---- states over the signal ----------------------------------------------------------------------


def plot_states(
    hmm: HMM,
    x: Any,
    *,
    components: Sequence[int] | None = None,
    times: Any = None,
    ax: Any = None,
) -> Any:
    """Draw a sequence, its most probable states as bands, and the posterior below as a ribbon.

    In the ribbon the height of a colour is the probability of its state. Words are written below
    the ribbon, which has the names of the states.

    Parameters
    ----------
    hmm : HMM
        Fitted.
    x : sequence
        One sequence: an array of shape (T,) or (T, D), or a list of words.
    components : sequence of int, optional
        Columns of the array to draw; all by default.
    times : array_like, shape (T,), optional
        Values on the horizontal axis; by default 0 … T − 1.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes
        That of the signal; the ribbon is a child of it.

    Raises
    ------
    ShapeError, ParameterError
        If the arguments do not fit each other.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import tagloom as tl
    >>> from tagloom.models import plot_states
    >>> hmm = tl.HMM.from_probs(
    ...     ["calm", "storm"], ["low", "high"],
    ...     start=[0.9, 0.1], trans=[[0.9, 0.1], [0.2, 0.8]], emit=[[0.8, 0.2], [0.1, 0.9]],
    ... )
    >>> ax = plot_states(hmm, ["low", "low", "high", "high"])
    >>> [text.get_text() for text in ax.texts]
    ['calm', 'calm', 'storm', 'storm']
    """
    T = len(x)
    if T == 0:
        raise ParameterError(parameter="x", expected="at least one token", found="none")
    signal = _signal(x, components)  # [T, D], or None for words
    t = np.arange(T) if times is None else np.asarray(times)
    if t.shape != (T,):
        raise ShapeError(parameter="times", expected=f"shape ({T},)", found=f"shape {t.shape}")
    path = _path(hmm, x)  # [T]
    gamma = np.asarray(hmm.predict_marginals([x])[0], dtype=np.float64)  # [T, Y]
    names, colours = chain_names(hmm), state_colours(gamma.shape[1])
    if ax is None:
        width = 9.0 if signal is not None else min(max(0.55 * T + 1.5, 4), 16)
        ax = _new_axes(width, 4.2 if signal is not None else 2.2)
    edges = _edges(t)
    if signal is None:
        _draw_ribbon(ax, edges, gamma, colours)
        _write_states(ax, _middles(edges), gamma, names)
        ax.set_xticks(_middles(edges), [str(word) for word in getattr(x, "tokens", x)])
        if T > 12:
            ax.tick_params(axis="x", rotation=60)
        return ax
    _draw_bands(ax, edges, path, colours)
    _draw_signal(ax, t, signal, components)
    ribbon = ax.inset_axes((0, -0.24, 1, 0.14), sharex=ax)
    _draw_ribbon(ribbon, edges, gamma, colours)
    ax.tick_params(axis="x", labelbottom=False)
    used = sorted(set(path.tolist())) if len(names) > _MOST_NAMES else range(len(names))
    _state_legend(ax, [(names[y], colours[y]) for y in used])
    return ax


def _signal(x: Any, components: Sequence[int] | None) -> Float64 | None:
    """Return the numbers to draw [T, n]; None for words."""
    tokens = getattr(x, "tokens", x)
    if hasattr(tokens, "to_numpy"):
        tokens = tokens.to_numpy()
    array = np.asarray(tokens)
    if array.dtype.kind not in "iufb":
        return None
    if array.ndim not in (1, 2):
        raise ShapeError(
            parameter="x", expected="one sequence, of shape (T,) or (T, D)", found=str(array.shape)
        )
    signal = array.reshape(len(array), -1).astype(np.float64)
    if components is None:
        return signal
    for c in components:
        if not 0 <= checks.count(c, "components") < signal.shape[1]:
            raise ParameterError(
                parameter="components",
                expected=f"integers below {signal.shape[1]}",
                found=checks.show(c),
            )
    return np.asarray(signal[:, list(components)])


def _path(hmm: HMM, x: Any) -> npt.NDArray[np.intp]:
    number = {name: y for y, name in enumerate(chain_names(hmm))}
    return np.array([number[str(label)] for label in hmm.predict([x])[0]], dtype=np.intp)


def _edges(t: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the T + 1 borders between times: halfway between neighbours."""
    if len(t) == 1:
        return np.array([t[0] - 0.5, t[0] + 0.5])
    half = (t[1:] - t[:-1]) / 2
    return np.concatenate([[t[0] - half[0]], t[:-1] + half, [t[-1] + half[-1]]])


def _middles(edges: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray(edges[:-1] + (edges[1:] - edges[:-1]) / 2)


def _draw_bands(
    ax: Any, edges: npt.NDArray[Any], path: npt.NDArray[np.intp], colours: Sequence[str]
) -> None:
    """Shade the background by the state of the best path."""
    begins = np.flatnonzero(np.diff(path, prepend=-1))  # where a run of one state begins
    ends = np.append(begins[1:], len(path))
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        colour = colours[path[begin]]
        ax.axvspan(edges[begin], edges[end], color=colour, alpha=0.16, linewidth=0)


def _draw_signal(
    ax: Any, t: npt.NDArray[Any], signal: Float64, components: Sequence[int] | None
) -> None:
    """Draw each component as a line, with points: between missing values a line would vanish."""
    n = signal.shape[1]
    shades = np.linspace(0.15, 0.6, n) if n > 1 else [0.2]
    for i, (column, shade) in enumerate(zip(signal.T, shades, strict=True)):
        marker = "." if len(t) <= 400 else None
        label = f"component {i if components is None else components[i]}" if n > 1 else None
        line = {"color": str(shade), "linewidth": 0.9, "marker": marker, "markersize": 3}
        ax.plot(t, column, label=label, **line)
    ax.margins(x=0)


def _draw_ribbon(ax: Any, edges: npt.NDArray[Any], gamma: Float64, colours: Sequence[str]) -> None:
    """Stack the probabilities of the states, from the first state at the top."""
    upper = np.ones(len(gamma))
    for y, colour in enumerate(colours):
        lower = upper - gamma[:, y]
        ax.stairs(upper, edges, baseline=lower, fill=True, color=colour, alpha=0.85, linewidth=0)
        upper = lower
    ax.set(ylim=(0, 1), yticks=[0, 1])
    ax.set_ylabel("posterior", fontsize="small")
    ax.tick_params(axis="y", labelsize="small")
    ax.margins(x=0)


def _write_states(ax: Any, x: npt.NDArray[Any], gamma: Float64, names: Sequence[str]) -> None:
    """Write the name of the most probable state into the ribbon."""
    best = gamma.argmax(axis=1)
    above = 1 - np.cumsum(gamma, axis=1)  # [T, Y] lower edge of each state
    for t, y in enumerate(best.tolist()):
        ax.text(
            x[t], above[t, y] + gamma[t, y] / 2, names[y],
            ha="center", va="center", color="white", weight="bold", fontsize=9,
        )  # fmt: skip


def _state_legend(ax: Any, states: Sequence[tuple[str, str]]) -> None:
    from matplotlib.patches import Patch

    if len(states) <= 2 * _MOST_NAMES:
        handles = [Patch(color=colour, alpha=0.6, label=name) for name, colour in states]
        handles += ax.get_legend_handles_labels()[0]
        ax.legend(
            handles=handles,
            title="state",
            frameon=False,
            loc="upper left",
            bbox_to_anchor=(1, 1.02),
            ncols=1 + (len(states) > _MOST_NAMES),
            fontsize="small",
        )


# ---- convergence ---------------------------------------------------------------------------------


def plot_history(hmm: HMM, *, ax: Any = None) -> Any:
    """Draw the objective of each start over the iterations; the one that was kept is bold.

    Parameters
    ----------
    hmm : HMM
        Learned without labels.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ParameterError
        If the model was not learned in iterations.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import tagloom as tl
    >>> from tagloom.models import plot_history
    >>> hmm = tl.HMM(n_states=2, restarts=3).fit([["a", "b", "a", "a"], ["b", "b", "a"]])
    >>> plot_history(hmm).get_ylabel()
    'log posterior'
    """
    runs = _histories(hmm)
    if not runs:
        raise ParameterError(
            where="plot_history",
            parameter="hmm",
            expected="a model learned in iterations",
            found="a model without a history",
        )
    if ax is None:
        ax = _new_axes(7, 3.8)
    best = max(range(len(runs)), key=lambda i: runs[i][-1])
    for i, run in enumerate(runs):
        style = {"color": PALETTE[0], "linewidth": 2.2, "zorder": 3} if i == best else {}
        line = {"color": "0.65", "linewidth": 1.0} | style
        iterations = np.arange(1, len(run) + 1)
        ax.plot(iterations, run, label=f"start {i + 1}, kept" if i == best else None, **line)
        ax.plot(iterations[-1], run[-1], "o", color=line["color"], markersize=4, zorder=4)
    others = [run for i, run in enumerate(runs) if i != best]
    if others:
        ax.plot([], [], color="0.65", linewidth=1.0, label="other starts")
    _focus(ax, runs)
    measure = hmm.history_[-1].measure if hmm.history_ else "objective"
    ax.set(xlabel="iteration", ylabel=measure.replace("_", " "))
    ax.legend(frameon=False, loc="lower right")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _histories(hmm: HMM) -> list[list[float]]:
    """Return the objective after each iteration of each start."""
    runs = [list(run) for run in hmm.training_.get("histories", []) if len(run)]
    return runs or [[record.objective for record in hmm.history_]][: len(hmm.history_)]


def _focus(ax: Any, runs: Sequence[Sequence[float]]) -> None:
    """Leave the first rise of a long run out of the vertical range: it hides the differences."""
    last = [run[-1] for run in runs]
    early = [run[min(2, len(run) - 1)] for run in runs]
    low, high = min([*early, *last]), max(last)
    if high > low:
        ax.set_ylim(low - 0.05 * (high - low), high + 0.08 * (high - low))


# ---- emissions -----------------------------------------------------------------------------------


def plot_emissions(
    hmm: HMM,
    X: Any = None,
    *,
    components: Sequence[int] = (0, 1),
    n_words: int = 8,
    ax: Any = None,
) -> Any:
    """Draw what each state emits.

    Numbers of one column: a density, or bars for whole numbers. Of several columns: for two of
    them, the regions that contain 50 % and 95 % of each state's emissions, ellipses for a Gaussian;
    if one of the two has whole numbers, tokens drawn from each state.
    Words and other symbols: the most probable ones of each state, as wide as they are probable.

    Parameters
    ----------
    hmm : HMM
        Fitted.
    X : sequences, array or data frame, optional
        Data, drawn behind the regions or densities.
    components : sequence of int, default (0, 1)
        The columns to draw: two, or one.
    n_words : int, default 8
        Number of symbols for each state.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ParameterError
        If the emission cannot draw tokens.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import tagloom as tl
    >>> from tagloom.models import plot_emissions
    >>> hmm = tl.HMM.from_probs(
    ...     ["calm", "storm"], ["low", "high"],
    ...     start=[0.9, 0.1], trans=[[0.9, 0.1], [0.2, 0.8]], emit=[[0.8, 0.2], [0.1, 0.9]],
    ... )
    >>> ax = plot_emissions(hmm)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['calm', 'storm']
    """
    checks.count(n_words, "n_words", least=1)
    emission = hmm.emission_
    Y, rng = len(emission.labels), np.random.default_rng(0)
    if _signal(emission.generate(np.zeros(1, dtype=np.intp), rng), None) is None:
        return _draw_symbols(hmm, _symbols(hmm, rng), n_words, ax)
    draws = [emission.generate(np.full(_N_DRAWS, y), rng) for y in range(Y)]
    samples = np.stack([_columns(draw) for draw in draws])  # [Y, n, D]
    chosen = _check_components(components, samples.shape[2])
    data = None if X is None else _stack(X)[:, chosen]
    ax = _new_axes(6, 5 if len(chosen) == 2 else 3.6) if ax is None else ax
    drawn = samples[:, :, chosen]  # [Y, n, 1 or 2]
    is_whole = (drawn == np.round(drawn)).all(axis=(0, 1))
    if len(chosen) == 2 and is_whole.any():
        _draw_points(ax, hmm, drawn, is_whole, chosen)
    elif len(chosen) == 2:
        _draw_regions(ax, hmm, samples, chosen, data)
    elif is_whole[0]:
        _draw_masses(ax, hmm, samples, chosen, data)
    else:
        _draw_densities(ax, hmm, samples, chosen, data)
    ax.spines[["top", "right"]].set_visible(False)
    _state_legend(ax, list(zip(chain_names(hmm), state_colours(Y), strict=True)))
    return ax


# Tokens that are drawn from each state, to find the range of the picture.
_N_DRAWS = 1000
# Probabilities of the regions of a state.
_LEVELS = (0.95, 0.5)


def _columns(tokens: Any) -> Float64:
    array = np.asarray(tokens, dtype=np.float64)
    return array.reshape(len(array), -1)


def _stack(X: Any) -> Float64:
    from tagloom.models.unlabelled import read_sequences

    return np.concatenate([_columns(x) for x in read_sequences(X)])


def _check_components(components: Sequence[int], D: int) -> list[int]:
    """Return one or two columns; the default means the first if there is only one."""
    chosen = [checks.count(c, "components") for c in components]
    if D == 1 and chosen == [0, 1]:
        chosen = [0]
    if not 1 <= len(chosen) <= 2 or max(chosen) >= D:
        raise ParameterError(
            parameter="components",
            expected=f"one or two integers below {D}",
            found=checks.show(components),
        )
    return chosen


def _density(hmm: HMM, points: Float64, chosen: Sequence[int], D: int) -> Float64:
    """Compute Pr(x | y) of points [n, Y]; other columns are missing, so they are summed out."""
    x = np.full((len(points), D), np.nan)
    x[:, list(chosen)] = points
    return np.exp(np.asarray(hmm.emission_.log_probs([x]), dtype=np.float64))


def _range(values: Float64) -> tuple[float, float]:
    low, high = np.quantile(values, [0.002, 0.998])
    margin = 0.12 * (high - low) or 0.5
    return low - margin, high + margin


def _draw_regions(
    ax: Any, hmm: HMM, samples: Float64, chosen: Sequence[int], data: Float64 | None
) -> None:
    """Draw the smallest regions that contain half and 95 % of each state's emissions."""
    Y, _, D = samples.shape
    pair = samples[:, :, list(chosen)]  # [Y, n, 2]
    if data is not None:
        is_seen = np.isfinite(data).all(axis=1)
        ax.plot(*data[is_seen].T, ".", color="0.75", markersize=2, zorder=0)
    n = 160
    for y, colour in enumerate(state_colours(Y)):
        axes = [np.linspace(*_range(pair[y, :, i]), n) for i in range(2)]
        grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)  # [n · n, 2]
        density = _density(hmm, grid, chosen, D)[:, y].reshape(n, n)
        at_samples = _density(hmm, pair[y], chosen, D)[:, y]
        levels = np.unique([np.quantile(at_samples, 1 - level) for level in _LEVELS])
        ax.contourf(*axes, density, [*levels, np.inf], colors=[colour], alpha=0.14)
        ax.contour(*axes, density, levels, colors=[colour], linewidths=1.3)
        centre = np.median(pair[y], axis=0)
        ax.annotate(
            chain_names(hmm)[y], centre, color=colour, weight="bold", ha="center", va="center"
        )
    everything = pair.reshape(-1, 2)
    ax.set(xlim=_range(everything[:, 0]), ylim=_range(everything[:, 1]))
    ax.set(xlabel=f"component {chosen[0]}", ylabel=f"component {chosen[1]}")


def _draw_points(
    ax: Any, hmm: HMM, drawn: Float64, is_whole: npt.NDArray[np.bool_], chosen: Sequence[int]
) -> None:
    """Draw tokens of each state at random; whole numbers are moved a little, to be seen apart."""
    rng = np.random.default_rng(0)
    for y, colour in enumerate(state_colours(len(drawn))):
        pair = drawn[y, :300]
        points = pair + rng.uniform(-0.3, 0.3, pair.shape) * is_whole
        ax.plot(*points.T, ".", color=colour, alpha=0.4, markersize=4)
        style = {"weight": "bold", "ha": "center", "va": "center", "fontsize": 14}
        ax.annotate(chain_names(hmm)[y], pair.mean(axis=0), color=colour, **style)
    ax.set(xlabel=f"component {chosen[0]}", ylabel=f"component {chosen[1]}")


def _draw_densities(
    ax: Any, hmm: HMM, samples: Float64, chosen: Sequence[int], data: Float64 | None
) -> None:
    Y, _, D = samples.shape
    values = samples[:, :, chosen[0]]
    x = np.linspace(*_range(values), 600)
    density = _density(hmm, x[:, None], chosen, D)  # [n, Y]
    if data is not None:
        seen = data[np.isfinite(data[:, 0]), 0]
        ax.hist(seen, bins=60, range=(x[0], x[-1]), density=True, color="0.88", zorder=0)
    for y, colour in enumerate(state_colours(Y)):
        ax.fill_between(x, density[:, y], color=colour, alpha=0.18, linewidth=0)
        ax.plot(x, density[:, y], color=colour, linewidth=1.5)
    ax.set(xlim=(x[0], x[-1]), ylabel="density", xlabel=f"component {chosen[0]}" if D > 1 else "x")
    ax.set_ylim(bottom=0)


def _draw_masses(
    ax: Any, hmm: HMM, samples: Float64, chosen: Sequence[int], data: Float64 | None
) -> None:
    """Draw bars side by side for whole numbers."""
    Y, _, D = samples.shape
    values = samples[:, :, chosen[0]]
    x = np.arange(values.min(), np.quantile(values, 0.999) + 1)
    mass = _density(hmm, x[:, None], chosen, D)  # [n, Y]
    if data is not None:
        seen = data[np.isfinite(data[:, 0]), 0]
        shares = np.array([(seen == value).mean() for value in x])
        ax.bar(x, shares, width=0.9, color="0.9", zorder=0)
    width = 0.8 / Y
    for y, colour in enumerate(state_colours(Y)):
        ax.bar(x + (y - (Y - 1) / 2) * width, mass[:, y], width, color=colour, alpha=0.85)
    ax.set(ylabel="probability", xlabel=f"component {chosen[0]}" if D > 1 else "x")
    ax.xaxis.get_major_locator().set_params(integer=True)


def _symbols(hmm: HMM, rng: np.random.Generator) -> list[Any]:
    """Return all symbols, or those that states draw if the emission does not list them."""
    emission = hmm.emission_
    listed = getattr(emission, "symbols_", None)
    if listed is not None:
        return list(listed)
    draws = [emission.generate(np.full(300, y), rng) for y in range(len(emission.labels))]
    return list(dict.fromkeys(symbol for draw in draws for symbol in draw))


def _draw_symbols(hmm: HMM, symbols: list[Any], n: int, ax: Any) -> Any:
    """Draw a bar for each state, whose parts are its most probable symbols."""
    names = chain_names(hmm)
    Y = len(names)
    log_probs = np.asarray(hmm.emission_.log_probs([symbols]), dtype=np.float64)  # [n, Y]
    probs = np.exp(log_probs)
    if ax is None:
        ax = _new_axes(9, 0.42 * Y + 1.0)
    for y, colour in enumerate(state_colours(Y)):
        left = 0.0
        outside: list[str] = []  # symbols whose part is too narrow for their name
        for i, v in enumerate(np.argsort(-probs[:, y], kind="stable")[:n]):
            p, shade = float(probs[v, y]), 0.75 if i % 2 == 0 else 0.5
            ax.barh(y, p, left=left, height=0.8, color=colour, alpha=shade, linewidth=0)
            text = str(symbols[v])
            if p >= 0.012 + 0.0085 * len(text) and not outside:
                ax.text(left + p / 2, y, text, ha="center", va="center", fontsize=9)
            else:
                outside.append(text)
            left += p
        ax.text(left + 0.008, y, "  ".join(outside), va="center", fontsize=8.5, color="0.35")
    ax.set_yticks(range(Y), names)
    ax.set(xlim=(0, 1), ylim=(Y - 0.5, -0.5), xlabel=f"probability of the {n} commonest symbols")
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    return ax
