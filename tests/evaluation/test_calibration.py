"""Reliability tables, the expected calibration error, and the search for a temperature."""

import json
import math

import numpy as np
import pytest

from raising import raises
from tagloom.errors import ParameterError, ShapeError
from tagloom.evaluation import fit_temperature, reliability


def test_a_table_by_hand():
    confidence = [0.0, 0.2, 0.5, 0.55, 0.95, 1.0]
    result = reliability(confidence, [False, True, False, True, True, True], n_bins=2)
    assert [(b.low, b.high, b.n) for b in result.bins] == [(0, 0.5, 3), (0.5, 1, 3)]
    assert result.bins[0].confidence == pytest.approx(0.7 / 3)
    assert result.bins[0].accuracy == pytest.approx(1 / 3)
    assert result.bins[1].confidence == pytest.approx(2.5 / 3)
    assert result.bins[1].accuracy == 1
    assert result.ece == pytest.approx((0.3 / 3 + 0.5 / 3) / 2)
    assert result.n == 6
    assert result.accuracy == pytest.approx(4 / 6)
    assert result.confidence == pytest.approx(3.2 / 6)


def test_those_who_are_never_sure_and_never_right_are_calibrated():
    assert reliability([0.0] * 5, [False] * 5).ece == 0
    assert reliability([1.0] * 5, [True] * 5).ece == 0
    assert reliability([1.0] * 5, [False] * 5).ece == 1
    assert reliability([0.75] * 4, [True, True, True, False]).ece == 0


def test_nothing_to_measure():
    result = reliability([], [])
    assert (result.n, result.ece, result.accuracy) == (0, 0, 0)
    assert len(result.bins) == 10


def test_text_html_and_json():
    result = reliability(np.array([0.9, 0.31], dtype=np.float32), np.array([True, False]))
    assert repr(result) == "Reliability(n=2, ece=0.2050)"
    assert "0.80 to 0.90  1      0.9000    1.0000" in str(result)
    assert "0.00 to 0.10  0\n" in str(result)
    assert '<td>0.80 to 0.90</td><td class="number">1</td>' in result._repr_html_()
    data = json.loads(json.dumps(result.to_dict()))
    assert data["ece"] == result.ece
    assert sum(bin["n"] for bin in data["bins"]) == 2


@pytest.mark.parametrize(
    ("confidence", "is_right", "n_bins", "error", "parameter", "found"),
    [
        ([0.5, 1.2], [True, True], 10, ParameterError, "confidence[1]", "1.2"),
        ([0.5, math.nan], [True, True], 10, ParameterError, "confidence[1]", "nan"),
        ([0.5], [True, True], 10, ShapeError, "is_right", "shape (2,), bool"),
        ([0.5], [1], 10, ShapeError, "is_right", "int64"),
        ([0.5], [True], 0, ParameterError, "n_bins", "0"),
    ],
)
def test_wrong_input(confidence, is_right, n_bins, error, parameter, found):
    with raises(error, parameter=parameter, found=found):
        reliability(confidence, is_right, n_bins=n_bins)


@pytest.mark.parametrize("best", [0.02, 0.3, 0.97, 1.0, 1.4, 37.0, 5e4])
def test_the_bottom_of_a_valley_is_found(best):
    calls = []

    def loss(temperature):
        calls.append(temperature)
        return abs(math.log(temperature / best)) ** 1.5

    assert fit_temperature(loss) == pytest.approx(best, rel=1e-4)
    assert len(calls) < 60


def test_the_search_stays_within_its_limits():
    assert fit_temperature(lambda t: t) == pytest.approx(0.01, rel=1e-3)
    assert fit_temperature(lambda t: -t) == pytest.approx(1e6, rel=1e-3)
    assert fit_temperature(lambda t: 3.0) == 1.0
