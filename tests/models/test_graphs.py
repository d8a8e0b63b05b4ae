"""The transition graph: one arrow for each transition, valid SVG, the right shares."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import NotFittedError, ParameterError
from tagloom.models import draw_transitions
from tagloom.models.graphs import draw_graph, long_run_shares, state_colours

SVG = "{http://www.w3.org/2000/svg}"


def parts(svg, tag):
    return list(ET.fromstring(svg).iter(SVG + tag))


@pytest.mark.parametrize("Y", [1, 2, 3, 9, 45])
def test_one_arrow_for_each_transition(Y):
    rng = np.random.default_rng(Y)
    trans = rng.dirichlet(np.ones(Y), Y)
    names = [f"state {y}" for y in range(Y)]
    svg = draw_graph(names, trans, np.ones(Y) / Y, np.zeros(Y), 0.01)
    assert svg.count('class="tl-arrow"') == (trans >= 0.01).sum()
    titles = [part.text for part in parts(svg, "title")]
    from_, to = (int(y) for y in np.argwhere(trans >= 0.01)[0])
    assert f"state {from_} → state {to}: {trans[from_, to]:.4f}" in titles
    hidden = int((trans < 0.01).sum())
    assert (f"{hidden} below 0.01 not drawn" in svg) == (hidden > 0)
    assert "nan" not in svg


def test_wider_arrows_are_more_probable():
    trans = np.array([[0.2, 0.8], [1.0, 0.0]])
    svg = draw_graph(["a", "b"], trans, np.array([1.0, 0]), np.zeros(2), 0.0)
    widths = [float(path.get("stroke-width")) for path in parts(svg, "path")]
    assert widths == sorted(widths)  # the widest is on top
    assert len(widths) == 3


def test_the_picture_of_a_model():
    X, y = [["they", "fish"], ["they", "can", "fish"]], [["<N>", "V&V"], ["<N>", "V&V", "V&V"]]
    svg = draw_transitions(tl.HMM().fit(X, y))
    names = {text.text for text in parts(svg, "text")}
    assert {"<N>", "V&V"} <= names  # escaped, and read back
    assert any("ends with" in part.text for part in parts(svg, "title"))


def test_models_that_cannot_be_drawn():
    with raises(ParameterError, parameter="order", found="2"):
        draw_transitions(tl.HMM(order=2).fit([["a", "b"]], [["A", "B"]]))
    with raises(ParameterError, parameter="min_prob"):
        draw_transitions(tl.HMM().fit([["a", "b"]], [["A", "B"]]), min_prob=2)
    with pytest.raises(NotFittedError):
        draw_transitions(tl.HMM())


@pytest.mark.parametrize("has_stop", [False, True])
def test_long_run_shares_equal_a_long_run(has_stop):
    rng = np.random.default_rng(0)
    start, trans = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4), 4)
    stop = rng.uniform(0.1, 0.5, 4) if has_stop else np.zeros(4)
    trans = trans * (1 - stop)[:, None]
    onward = trans + np.outer(stop, start)
    expected = np.linalg.matrix_power(onward, 200)[0]
    np.testing.assert_allclose(long_run_shares(trans, start, stop), expected, rtol=1e-10)


def test_colours_are_different():
    assert len(set(state_colours(60))) == 60
    assert state_colours(3) == state_colours(60)[:3]
