"""The licences of what `pip install tagloom` brings along."""

import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import licences

# Extras of users; those that are not installed here are left out.
EXTRAS = {"zstd", "plot", "serve", "studio", "arrow", "neural", "ray"}


@pytest.mark.parametrize(
    ("extras", "some"), [(set(), {"numpy", "click", "rich"}), (EXTRAS, {"msgspec", "uvicorn"})]
)
def test_dependencies_have_permissive_licences(extras, some):
    packages = licences.closure("tagloom", extras)
    assert some <= set(packages)
    declared = {name: licences.licence(name) for name in packages}
    assert [name for name, text in declared.items() if not licences.is_permissive(text)] == []


@pytest.mark.parametrize(
    "text",
    ["BSD-3-Clause", "MIT OR GPL-2.0-only", "GPL-2.0 OR MIT", "MIT, ISC License (ISCL)", "MPL-2.0"],
)
def test_permissive_licences(text):
    assert licences.is_permissive(text)


@pytest.mark.parametrize(
    "text",
    ["GNU General Public License v3 (GPLv3)", "", "GPL-2.0-only AND MIT", "MIT, LGPLv3", "UNKNOWN"],
)
def test_other_licences_are_noticed(text):
    assert not licences.is_permissive(text)


@pytest.mark.tree
def test_licence_of_the_code_inside_the_module():
    """nanobind is compiled into it; its licence must go with the wheel."""
    (theirs,) = (x for x in metadata.files("nanobind") if x.name == "LICENSE")
    root = Path(__file__).parents[1]
    assert (root / "licences" / "nanobind.txt").read_text() == theirs.read_text()
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert project["license-files"] == ["LICENSE", "licences/*.txt"]
