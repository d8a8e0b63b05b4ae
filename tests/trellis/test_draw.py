"""Pictures of a trellis: the exact text of the worked example, and SVG that any parser reads."""

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import ParameterError, ShapeError
from tagloom.trellis.draw import TrellisView, cell_width, draw_svg, draw_text

SVG = "{http://www.w3.org/2000/svg}"


def fish(**changes):
    """000, Figure 7.1."""
    values = {
        "states": ["N", "V"],
        "tokens": ["they", "can", "fish"],
        "nodes": np.array([[-3.0, -12.0], [-9.0, -5.0], [-9.0, -11.0]]),
        "path": [0, 1, 0],
        "score": -10.0,
    }
    return TrellisView(**values | changes)


def random_view(T, S, seed=0, **changes):
    rng = np.random.default_rng(seed)
    nodes = rng.normal(size=(T, S)) * 10
    values = {
        "states": [f"state {s}" for s in range(S)],
        "tokens": [f"w{t}" * (1 + t % 4) for t in range(T)],
        "nodes": nodes,
        "path": nodes.argmax(axis=1).tolist(),
        "score": 1.5,
    }
    return TrellisView(**values | changes)


def elements(svg, tag, css):
    """All elements of an SVG with a tag and a class."""
    return [
        e for e in ElementTree.fromstring(svg).iter(SVG + tag) if css in e.get("class", "").split()
    ]


# ---- text -----------------------------------------------------------------------------------


def test_they_can_fish_as_text():
    assert draw_text(fish()) == (
        "   start   they    can    fish    stop\n"
        "N   0 ══════[-3]═╗  -9  ╔══[-9]═══ -10\n"
        "V           -12  ╚═[-5]═╝  -11\n"
        "\n"
        "best path (score -10): N V N"
    )


def test_a_path_that_jumps_over_rows():
    view = TrellisView(
        ["a", "b", "c"],
        ["x", "y", "z"],
        np.array([[0.5, 0.25, 0.25], [0, 0, 1], [1, 0, 0]]),
        path=[0, 2, 0],
        score=-1.25,
        show="marginals",
    )
    assert draw_text(view) == (
        "   start     x        y        z      stop\n"
        "a   1 ═════[0.50]═╗  0.00  ╔═[1.00]═══ 1\n"
        "b           0.25  ║  0.00  ║  0.00\n"
        "c           0.25  ╚═[1.00]═╝  0.00\n"
        "\n"
        "best path (score -1.25): a c a"
    )


def test_forbidden_nodes_and_no_path():
    nodes = np.array([[-3.0, -math.inf], [-math.inf, -math.inf], [-math.inf, -math.inf]])
    text = draw_text(fish(nodes=nodes, path=None, score=-math.inf))
    assert text == (
        "   start   they   can    fish   stop\n"
        "N    0      -3     -∞     -∞     -∞\n"
        "V           -∞     -∞     -∞\n"
        "\n"
        "no path is allowed"
    )


def test_an_empty_sequence_is_one_move():
    view = fish(tokens=[], nodes=np.zeros((0, 2)), path=[], score=0.0)
    assert draw_text(view).splitlines() == [
        "   start   stop",
        "N   0 ═════ 0",
        "V",
        "",
        "best path (score 0): (empty)",
    ]
    assert len(elements(draw_svg(view), "path", "tl-best")) == 1


@pytest.mark.parametrize("T", [1, 5, 17, 60])
@pytest.mark.parametrize("width", [40, 80, 132])
def test_text_fits_the_terminal_and_shows_every_column(T, width):
    view = random_view(T, 4)
    lines = draw_text(view, width=width).splitlines()
    assert max(map(cell_width, lines)) <= width
    assert all(line == line.rstrip() for line in lines)
    headers = " ".join(line for line in lines if line.startswith(" " * 9)).split()
    assert headers == ["start", *(token[:14] for token in view.tokens), "stop"]
    assert sum(line.count("[") for line in lines) == T


def test_wide_characters_keep_columns_in_line():
    view = fish(tokens=["東京", "ｋ", "e\u0301te\u0301"], states=["名", "V"])
    _, first, second, *_ = draw_text(view).splitlines()
    assert cell_width(first[: first.index("╗")]) == cell_width(second[: second.index("╚")])
    assert cell_width(first[: first.index("╔")]) == cell_width(second[: second.index("╝")])


def test_color_only_if_asked():
    plain, colored = draw_text(fish()), draw_text(fish(), color=True)
    assert "\x1b" not in plain
    assert "\x1b[1m═[-3]\x1b[0m" in colored
    assert re.sub(r"\x1b\[\dm", "", colored).split() == plain.split()


def test_large_trellises_are_cut_with_a_note():
    text = draw_text(random_view(100, 50))
    assert text.endswith("(60 of 100 positions and 40 of 50 states shown)")
    assert "…" in text
    assert "⋮" in text
    assert "w39" in text
    assert "w40" not in text
    assert "w80" in text
    assert "shown" not in draw_text(random_view(60, 40))
    # states of the path are kept, whatever their number
    text = draw_text(random_view(2, 90, path=[85, 3]))
    assert "state 85" in text
    assert "state 39" not in text


def test_control_characters_do_not_break_the_picture():
    view = fish(tokens=["a\nb", "\x1b[2J", "c\td"])
    assert len(draw_text(view).splitlines()) == 5
    assert "\x1b" not in draw_text(view)
    ElementTree.fromstring(draw_svg(view))


# ---- SVG ------------------------------------------------------------------------------------


def test_they_can_fish_as_svg():
    svg = draw_svg(fish())
    texts = [e.text for e in ElementTree.fromstring(svg).iter(SVG + "text")]
    assert texts == [
        *("start", "they", "can", "fish", "stop"),
        *("N", "V"),
        *("0", "−3", "−12", "−9", "−5", "−9", "−11", "−10"),
        "best path (score -10): N V N",
    ]
    titles = [e.text for e in ElementTree.fromstring(svg).iter(SVG + "title")]
    assert "can / V: score -5" in titles
    assert "best path: N → V" in titles


@pytest.mark.parametrize("T", [1, 2, 7])
def test_best_path_has_one_thick_segment_per_move(T):
    view = random_view(T, 3)
    segments = elements(draw_svg(view), "path", "tl-best")
    assert len(segments) == T + 1  # start and stop are transitions too
    # they join: each begins in the row where the one before ended
    ends = [re.findall(r"[-\d.]+", e.get("d")) for e in segments]
    assert [e[1] for e in ends[1:]] == [e[-1] for e in ends[:-1]]
    rows = {e[-1] for e in ends[:-1]}
    assert len(rows) == len(set(view.path))
    assert len(elements(draw_svg(view), "rect", "tl-on")) == T + 1
    assert not elements(draw_svg(random_view(T, 3, path=None)), "path", "tl-best")


def test_arcs_are_the_transitions_between_nodes_that_exist():
    assert len(elements(draw_svg(fish()), "path", "tl-arc")) == 2 + 4 + 4 + 2
    nodes = np.array([[-3.0, -math.inf], [-9.0, -5.0], [-9.0, -11.0]])
    assert len(elements(draw_svg(fish(nodes=nodes)), "path", "tl-arc")) == 1 + 2 + 4 + 2
    edges = np.zeros((3, 2, 2))
    edges[1, 0, 0] = edges[2, 1, 0] = -math.inf
    svg = draw_svg(fish(edges=edges))
    assert len(elements(svg, "path", "tl-arc")) == 2 + 3 + 3 + 2
    assert "N → V (can): 0" in svg


def test_nodes_are_coloured_by_probability():
    marginals = np.array([[1.0, 0.0], [0.25, 0.75], [0.5, 0.5]])
    for view in (fish(marginals=marginals), fish(nodes=marginals, show="marginals")):
        heat = [float(e.get("fill-opacity")) for e in elements(draw_svg(view), "rect", "tl-heat")]
        assert heat == pytest.approx([0.6, 0.15, 0.45, 0.3, 0.3])
    assert not elements(draw_svg(fish()), "rect", "tl-heat")
    assert "they / N: score -3, probability 1.0000" in draw_svg(fish(marginals=marginals))


@pytest.mark.parametrize("states", [None, tl.StateSpace.order(["N", "V"], 2)])
def test_transitions_of_a_trellis_carry_their_score_or_their_probability(states):
    trellis = tl.Trellis(
        [[-2, -10], [-3, -1], [-3, -3]], [[-3, -1], [-1, -3]], [-1, -2], [-1, -1],
        states=states, labels=["N", "V"],
    )  # fmt: skip
    into = "V" if states is None else "N·V"
    scores = trellis.draw("scores", tokens=["they", "can", "fish"], format="svg")
    assert f"N → {into} (can): -1<" in scores
    xi = trellis.pair_marginals()[1, 0, 1]
    marginals = trellis.draw("marginals", tokens=["they", "can", "fish"], format="svg")
    assert f"N → {into} (can): {xi:.2f}<" in marginals


def test_names_are_escaped():
    nasty = "<b>&\"'</b>"
    svg = draw_svg(fish(states=[nasty, "V"], tokens=[nasty, "]]>", "</svg>"]))
    root = ElementTree.fromstring(svg)
    texts = [e.text for e in root.iter(SVG + "text")]
    assert texts.count(nasty) == 2
    assert "</svg>" in texts
    assert root.get("aria-label") == f"best path (score -10): {nasty} V {nasty}"
    assert "<b>" not in svg


def test_svg_is_self_contained_and_knows_dark_mode():
    svg = draw_svg(fish())
    assert re.findall(r"https?://[^\"' ]+", svg) == ["http://www.w3.org/2000/svg"]
    assert "prefers-color-scheme:dark" in svg
    assert "script" not in svg


def test_large_svgs_are_cut_with_a_note():
    svg = draw_svg(random_view(100, 50))
    assert "(60 of 100 positions and 40 of 50 states shown" in svg
    assert "transitions not drawn)" in svg
    assert len(elements(svg, "rect", "tl-node")) == 60 * 40 + 2
    edges = np.random.default_rng(0).random((20, 20, 20))
    svg = draw_svg(random_view(20, 20, edges=edges))
    arcs = elements(svg, "path", "tl-arc")
    assert len(arcs) == 3000
    assert f"(3000 of {19 * 400 + 40} transitions drawn)" in svg


# ---- mistakes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "expected", "found"),
    [
        ({"nodes": np.zeros((2, 3))}, "(3, 2) for 3 tokens", "(2, 3)"),
        ({"edges": np.zeros((3, 2))}, "(3, 2, 2)", "(3, 2)"),
        ({"path": [0, 1]}, "3 states", "2"),
        ({"show": "colours"}, "'scores', 'marginals'", "'colours'"),
    ],
)
def test_mistakes_are_named(changes, expected, found):
    error = ParameterError if "show" in changes else ShapeError
    with raises(error, parameter=next(iter(changes)), expected=expected, found=found):
        fish(**changes)


def test_improbable_states_can_be_left_out():
    rng = np.random.default_rng(0)
    emit = rng.normal(size=(3, 5))
    emit[:, [1, 3]] -= 20
    emit[0, 0] -= 20  # no start in a
    trellis = tl.Trellis(emit, labels=list("abcde"))
    whole, part = trellis.draw("marginals"), trellis.draw("marginals", min_prob=0.01)
    assert part.endswith("(3 of 5 states shown)")

    def rows(text):
        lines = [line for line in text.splitlines() if re.match("[a-e] ", line)]
        return {line[0]: re.findall(r"\d\.\d\d", line) for line in lines}

    assert rows(part) == {name: row for name, row in rows(whole).items() if name in "ace"}
    assert trellis.draw("marginals", min_prob=0.0) == whole
    # the best path stays, however improbable
    assert trellis.draw("marginals", min_prob=1.0).count("[") == 3
    svg = trellis.draw("marginals", min_prob=0.01, format="svg")
    assert svg.count('class="tl-best"') == 4
    assert "3 of 5 states shown" in svg
    pairs = trellis.pair_marginals()[1:]
    gamma = trellis.marginals()
    ends = (gamma[0] >= 0.01).sum() + (gamma[-1] >= 0.01).sum()  # from the start, and to the stop
    assert ends == 5
    assert svg.count('class="tl-arc"') == (pairs >= 0.01).sum() + ends
    with raises(ParameterError, parameter="min_prob", found="2"):
        trellis.draw(min_prob=2)
