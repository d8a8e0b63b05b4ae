"""What a release had still works in the next one, or warns with what to write instead."""

import re
import warnings
from importlib import import_module

import public_names

RECORDED = public_names.FILE.read_text(encoding="utf-8").splitlines()
# What was removed after a release with a warning; the changelog lists it under "Removed".
REMOVED = set()


def parts(line):
    """Return the path of a name and its parameters."""
    path, *rest = re.split(r"[(, )]+", line.strip(")"))
    return path, {name for name in rest if name}


def find(path):
    """Return what a dotted path names, or None; old names may warn."""
    packages = (f"tagloom.{name}".rstrip(".") for name in public_names.PACKAGES)
    package = max((x for x in packages if path.startswith(f"{x}.")), key=len)
    value = import_module(package)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for name in path[len(package) + 1 :].split("."):
            value = getattr(value, name, None)
    return value


def lost(lines):
    """Return names that no longer exist, and those that no longer have a parameter."""
    now, found = dict(map(parts, public_names.python_names())), []
    for path, names in map(parts, lines):
        if path in REMOVED:
            continue
        if find(path) is None:
            found.append(path)
        elif not names <= now.get(path, names):
            found.append(f"{path}: {names - now[path]}")
    return found


def test_public_names_and_parameters_still_work():
    names = [line for line in RECORDED if not line.startswith("$")]
    assert len(names) > 500
    assert lost(names) == []


def test_lost_names_and_parameters_are_noticed():
    lines = [
        "tagloom.CRF(colour)",
        "tagloom.CRF.guess(X)",
        "tagloom.labels.guess",
        "tagloom.CRF",
    ]
    assert lost(lines) == [
        "tagloom.CRF: {'colour'}",
        "tagloom.CRF.guess",
        "tagloom.labels.guess",
    ]


def test_commands_and_options_still_work():
    from tagloom.cli.groups import group

    recorded = {line for line in RECORDED if line.startswith("$")}
    assert len(recorded) > 500
    assert recorded - set(public_names.command_names(group)) - REMOVED == set()
