"""Sizes and lists in what commands say."""

import pytest

from tagloom.cli.wording import size, some


def test_sizes():
    assert [size(n) for n in (2_400, 999_999, 1e6, 1.25e9)] == [
        "2 kB",
        "1000 kB",
        "1.0 MB",
        "1,250.0 MB",
    ]


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["A"], "'A'"),
        (["A", "B"], "'A' or 'B'"),
        (["A", "B", "C", "D"], "'A', 'B', 'C' or 'D'"),
        (["A", "B", "C", "D", "E"], "'A', 'B', 'C' or 2 others"),
    ],
)
def test_names(names, shown):
    assert some(names, "or") == shown
