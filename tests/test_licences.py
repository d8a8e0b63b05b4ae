"""The licences of what `pip install tagloom` brings along."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import licences


def test_dependencies_have_permissive_licences():
    packages = licences.closure("tagloom", set())
    assert {"numpy", "click", "rich"} <= set(packages)
    declared = {name: licences.licence(name) for name in packages}
    assert [name for name, text in declared.items() if not licences.is_permissive(text)] == []


def test_other_licences_are_noticed():
    assert not licences.is_permissive("GNU General Public License v3 (GPLv3)")
    assert not licences.is_permissive("")
    assert licences.is_permissive("BSD-3-Clause")
