"""The values that ``HMM(emissions=...)`` accepts: an emission, templates or None; and older forms.

The word options of `HMM` moved to `tagloom.emissions.Words`. The old names work for one release,
with a warning. Files of version 0.1.0, which contain them, still load.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from tagloom.errors import ParameterError
from tagloom.models.data import caller_level
from tagloom.scores.emissions import Emission, Features, Words
from tagloom.scores.emissions.base import to_plain
from tagloom.scores.emissions.features import find_templates

#: Old parameters of `HMM`, and their names in `Words`.
MOVED = {
    "emission_smoothing": "smoothing",
    "unknown": "unknown",
    "max_suffix": "max_suffix",
    "rare": "rare",
    "fold_case": "fold_case",
    "min_count": "min_count",
    "lexical": "lexical",
}


def choose_emission(emissions: Any, old: Mapping[str, Any]) -> Emission:
    """Return the emission that a user chose.

    Parameters
    ----------
    emissions : Emission, list of str, or None
        Templates are a shorthand for `Features`, None for `Words`.
    old : mapping
        Parameters of ``MOVED``; None if they were not given.

    Raises
    ------
    ParameterError
        If it is none of these, or old parameters are given beside an emission.
    """
    words = {MOVED[name]: value for name, value in old.items() if value is not None}
    if isinstance(emissions, Emission):
        for name in words:
            raise ParameterError(
                parameter=name,
                expected="given to the emission",
                found=f"beside emissions={type(emissions).__name__}(...)",
                hint=f"Write {type(emissions).__name__}({name}=...).",
            )
        return emissions
    if emissions is None:
        return Words(**words)
    templates = find_templates(emissions, "emissions")
    if "word" not in templates and "lexical" in words:
        raise ParameterError(
            parameter="lexical",
            expected="None where the emissions leave the word out",
            found=str(words["lexical"]),
            hint="Add 'word' to the emissions.",
        )
    if templates == ["word"]:
        return Words(**words)
    smoothing = {"smoothing": words["smoothing"]} if "smoothing" in words else {}
    has_options = bool(words) and "word" in templates
    return Features(emissions, **smoothing, words=Words(**words) if has_options else None)


def join_nested(emissions: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    """Replace parameters such as ``emissions__rare`` by an emission that has them.

    Parameters
    ----------
    emissions : Emission, list of str, or None
        The emission as it is; it is not changed.
    params : mapping

    Raises
    ------
    ParameterError
        If the emission has no such parameter.
    """
    nested = {name: value for name, value in params.items() if name.startswith("emissions__")}
    joined = {name: value for name, value in params.items() if name not in nested}
    if nested:
        emission = choose_emission(joined.get("emissions", emissions), {})
        names = emission.get_params()
        changes = {name.removeprefix("emissions__"): value for name, value in nested.items()}
        for name in changes:
            if name not in names:
                raise ParameterError(
                    parameter=f"emissions__{name}",
                    expected=f"one of the parameters {', '.join(names)} of {emission.kind}",
                    found=repr(name),
                )
        joined["emissions"] = emission.replace(**changes)
    return joined


def warn_moved(old: Mapping[str, Any]) -> None:
    """Warn about parameters that moved to `Words`."""
    given = {name: value for name, value in old.items() if value is not None}
    if given:
        now = ", ".join(f"{MOVED[name]}={value!r}" for name, value in given.items())
        warnings.warn(
            f"{', '.join(given)}: word options of HMM moved to its emission, and will be removed. "
            f"Write HMM(emissions=tagloom.emissions.Words({now})).",
            DeprecationWarning,
            stacklevel=caller_level(),
        )


def gather_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Replace old parameters of `HMM` by the emission that they describe."""
    old = {name: options[name] for name in MOVED if options.get(name) is not None}
    kept = {name: value for name, value in options.items() if name not in MOVED}
    if old:
        kept["emissions"] = choose_emission(options.get("emissions"), old)
    return kept


def upgrade_header(header: Mapping[str, Any]) -> dict[str, Any]:
    """Write the header of an HMM that version 0.1.0 saved as this version would.

    It describes the fitted state, not the parameters, which may have been changed after fitting.
    """
    params = dict(header["params"])
    old = {name: params.pop(name, None) for name in MOVED}
    has_pairs, fitted = bool(header.get("lexical")), header.get("emissions") or {"words": True}
    old["lexical"] = (old["lexical"] or 1) if has_pairs else None
    templates = fitted["features"]["templates"][1:] if "features" in fitted else []  # [0]: bias
    if fitted["words"]:
        templates = ["word", *templates]
    emission = choose_emission(templates, old)
    params["emissions"] = to_plain(emission)
    tables = {"labels": header["labels"], "features": header["features"]}
    if isinstance(emission, Features):
        linear = {name: value for name, value in fitted.items() if name != "words"}
        tables = {"linear": linear, "words": tables}
    return {**header, "params": params, "emission": to_plain(emission) | tables}
