"""Kinds are found in this process, in tagloom, and in other packages."""

import sys

from tagloom.registries import Registry

GROUP = "tagloom.tests"


def test_a_later_class_replaces_an_earlier_one():
    registry = Registry(GROUP, {})
    registry.add("number", int)
    registry.add("number", float)
    assert registry.find("number") is float


def test_a_module_is_imported_on_demand(tmp_path, monkeypatch):
    (tmp_path / "registered_late.py").write_text("import registry_of_test as r; r.add('late', str)")
    registry = Registry(GROUP, {"late": "registered_late"})
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "registry_of_test", registry)
    assert registry.names() == ["late"]
    assert "registered_late" not in sys.modules
    assert registry.find("late") is str
    monkeypatch.delitem(sys.modules, "registered_late")


def test_entry_points_of_other_packages(tmp_path, monkeypatch):
    info = tmp_path / "other-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nother.Path = pathlib:Path\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry(GROUP, {})
    assert registry.names() == ["other.Path"]
    assert registry.find("other.Path").__name__ == "Path"
    assert registry.find("another") is None
