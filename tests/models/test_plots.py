"""Pictures of models: what is drawn is what the model computes."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import ParameterError, ShapeError
from tagloom.models import plot_emissions, plot_history, plot_states
from tagloom.models.graphs import state_colours

matplotlib.use("Agg")
rng = np.random.default_rng(0)
SIGNAL = rng.normal(np.repeat([0.0, 5.0, 0.0, 5.0], 20)[:, None] * [1, -1], 0.5)  # [80, 2]
SIGNAL[5:8] = np.nan


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture(scope="module")
def gaussian():
    return tl.HMM(n_states=2, emissions=tl.emissions.Gaussian("full"), restarts=3).fit([SIGNAL])


def colour_of(patch):
    return matplotlib.colors.to_hex(patch.get_facecolor())


def test_states_over_a_signal(gaussian):
    times = np.arange(80) / 2
    ax = plot_states(gaussian, SIGNAL, times=times)
    for line, column in zip(ax.lines, SIGNAL.T, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), column)
        np.testing.assert_array_equal(line.get_xdata(), times)
    path = [int(y) for y in gaussian.predict([SIGNAL])[0]]
    begins = [t for t in range(80) if t == 0 or path[t] != path[t - 1]]
    bands = [patch for patch in ax.patches if patch.get_alpha() == 0.16]
    assert [colour_of(band) for band in bands] == [state_colours(2)[path[t]] for t in begins]
    assert [text.get_text() for text in ax.get_legend().get_texts()][:2] == ["0", "1"]
    (ribbon,) = ax.child_axes
    gamma = gaussian.predict_marginals([SIGNAL])[0]
    for y, patch in enumerate(ribbon.patches):
        drawn = patch.get_data()
        np.testing.assert_allclose(drawn.values - drawn.baseline, gamma[:, y], atol=1e-6)


def test_states_of_words():
    hmm = tl.HMM(n_states=2).fit([["a", "b", "a", "b"]] * 3)
    ax = plot_states(hmm, ["a", "b", "b"])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "b", "b"]
    assert len(ax.texts) == 3


def test_history_has_a_line_for_each_start(gaussian):
    ax = plot_history(gaussian)
    curves = [line for line in ax.lines if len(line.get_xdata()) > 1]
    assert len(curves) == 3
    bold = max(curves, key=lambda line: line.get_linewidth())
    assert bold.get_ydata()[-1] == max(gaussian.training_["objectives"])
    assert bold.get_ydata().tolist() == [record.objective for record in gaussian.history_]
    with raises(ParameterError, parameter="hmm"):
        plot_history(tl.HMM().fit([["a", "b"]], [["A", "B"]]))


def test_regions_contain_their_share(gaussian):
    ax = plot_emissions(gaussian, SIGNAL)
    draws = np.asarray(gaussian.emission_.generate(np.zeros(4000, int), np.random.default_rng(1)))
    lines = next(c for c in ax.collections if c.get_linewidth()[0] == 1.3)
    outer, inner = sorted(lines.get_paths(), key=lambda path: -np.ptp(path.vertices[:, 0]))
    assert 0.92 < outer.contains_points(draws).mean() < 0.98
    assert 0.45 < inner.contains_points(draws).mean() < 0.55


def test_density_of_one_component(gaussian):
    ax = plot_emissions(gaussian, components=[1])
    for y, line in enumerate(ax.lines):
        x, density = line.get_data()
        np.testing.assert_allclose(np.trapezoid(density, x), 1, atol=0.02)
        mean = gaussian.emission_.means_[y, 1]
        assert abs(x[density.argmax()] - mean) < 0.1


def test_bars_of_counts():
    counts = np.random.default_rng(0).poisson(np.repeat([1, 9], 30)).astype(float)[:, None]
    hmm = tl.HMM(n_states=2, emissions=tl.emissions.Poisson()).fit([counts])
    ax = plot_emissions(hmm, counts)
    bars = [bar for bar in ax.patches if bar.get_alpha() == 0.85]
    np.testing.assert_allclose(sum(bar.get_height() for bar in bars), 2, atol=0.05)


def test_points_of_columns_of_different_kinds():
    counts = np.random.default_rng(0).poisson(np.repeat([1, 9, 1, 9], 20)).astype(float)[:, None]
    both = tl.emissions.Independent([tl.emissions.Gaussian(), tl.emissions.Poisson()])
    X = np.hstack([SIGNAL[:, :1], counts])
    ax = plot_emissions(tl.HMM(n_states=2, emissions=both, restarts=2).fit(X))
    clouds = [np.round(line.get_ydata()) for line in ax.lines]
    assert [len(cloud) for cloud in clouds] == [300, 300]
    means = sorted(text.xy[1] for text in ax.texts)
    assert means[0] < 3 < 7 < means[1]


def test_bars_of_symbols():
    hmm = tl.HMM.from_probs(
        ["A", "B"], ["u", "v", "w"],
        start=[0.5, 0.5], trans=[[0.5, 0.5]] * 2, emit=[[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]],
    )  # fmt: skip
    ax = plot_emissions(hmm, n_words=2)
    assert [round(bar.get_width(), 6) for bar in ax.patches[:2]] == [0.7, 0.2]
    assert {"u", "v"} <= {text.get_text() for text in ax.texts}


def test_an_axes_may_be_passed(gaussian):
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    assert plot_states(gaussian, SIGNAL, ax=ax) is ax
    assert plot_history(gaussian, ax=ax) is ax
    assert plot_emissions(gaussian, ax=ax) is ax


def test_wrong_arguments(gaussian):
    with raises(ShapeError, parameter="times"):
        plot_states(gaussian, SIGNAL, times=[1, 2])
    with raises(ParameterError, parameter="components"):
        plot_states(gaussian, SIGNAL, components=[2])
    with raises(ParameterError, parameter="components"):
        plot_emissions(gaussian, components=[0, 1, 0])
    with raises(ParameterError, parameter="x"):
        plot_states(gaussian, SIGNAL[:0])


def test_without_matplotlib_the_install_line_is_shown():
    code = """
import sys; sys.modules["matplotlib"] = None
import tagloom as tl
from tagloom.models import plot_emissions
hmm = tl.HMM().fit([["a", "b"]], [["A", "B"]])
try:
    plot_emissions(hmm)
except tl.errors.MissingExtraError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'tagloom[plot]'" in done.stdout
