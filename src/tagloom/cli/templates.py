"""Read the options ``--features``, ``--lexicon`` and ``--clusters``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from tagloom import features
from tagloom.errors import ParameterError
from tagloom.sequences.files import read_lines

Resources: TypeAlias = Mapping[str, Mapping[str, str]]  # "lexicons" or "clusters": name -> path

_FUNCTIONS = {"lexicons": "lexicon", "clusters": "cluster"}  # the template function for each kind
_FILE_NAME = re.compile(r"[^\s(;&[]*[/\\.][^\s(;&[]*")
_FOREIGN = re.compile(r"%[xXtTmM]|^[Bb*]$")  # a line of a CRF++ or Wapiti file


def read_features(spec: str, resources: Resources) -> Any:
    """Read the value of ``--features``: a preset, a file of templates, templates, or none."""
    resources = {kind: names for kind, names in resources.items() if names}
    if spec == "auto" or (spec in features.PRESETS and not resources):
        return spec
    if spec == "none":
        _check_used([], resources)
        return None
    if spec in features.PRESETS:
        templates = [*features.PRESETS[spec], *_lookups(resources)]
    elif os.path.isfile(spec) or _FILE_NAME.fullmatch(spec):
        templates = _read_templates(spec)
        if any(_FOREIGN.search(line) for line in templates):
            return features.make(spec, **resources)
    else:
        templates = split_templates(spec)
    _check_used(templates, resources)
    return features.make(templates, **resources)


def _lookups(resources: Resources) -> Iterator[str]:
    """Yield a template for each lexicon and each set of clusters."""
    for kind, names in resources.items():
        yield from (f"{_FUNCTIONS[kind]}({name})" for name in names)


def _read_templates(path: str) -> list[str]:
    lines = [line.strip() for line in read_lines(path)]
    return [line for line in lines if line and not line.startswith("#")]


def _check_used(templates: Sequence[str], resources: Resources) -> None:
    """Raise if no template uses a resource."""
    joined = ["".join(template.split()) for template in templates]
    for kind, names in resources.items():
        for name in names:
            lookup = f"{_FUNCTIONS[kind]}({name}"
            if not any(lookup in template for template in joined):
                raise ParameterError(
                    parameter="features",
                    expected=f"templates with {lookup}), which reads the {kind} {name!r}",
                    found="none",
                )


def split_templates(text: str) -> list[str]:
    """Split at line ends and semicolons, but not within parentheses or quotes."""
    parts, depth, quote = [""], 0, ""
    for c in text:
        if c in "'\"" and quote in ("", c):
            quote = "" if quote else c
        elif not quote:
            depth += (c == "(") - (c == ")")
            if c in ";\n" and depth <= 0:
                parts.append("")
                continue
        parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def read_resources(pairs: Sequence[str]) -> dict[str, str]:
    """Read ``NAME=FILE`` pairs of an option."""
    resources = {}
    for pair in pairs:
        name, sep, path = pair.partition("=")
        if not sep or not name or not path:
            raise ParameterError(expected="NAME=FILE, such as cities=cities.txt", found=repr(pair))
        resources[name] = path
    return resources
