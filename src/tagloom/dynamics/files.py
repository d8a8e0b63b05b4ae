"""A linear Gaussian model as a file: its parts as arrays, checked when they are read.

The parameters of the constructor go along, so that a loaded model can be fitted again: parts that
were given as arrays ``given.<name>``, masks and priors in the header.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tagloom.dynamics.parameters import SHAPES, Parameters, check_diffuse, check_part
from tagloom.dynamics.priors import InverseWishart, Normal
from tagloom.storage import File
from tagloom.training import Record

_PRIORS = {"Normal": Normal, "InverseWishart": InverseWishart}


class Contents(NamedTuple):
    """What a file contains."""

    params: dict[str, Any]
    parameters: Parameters
    varying: frozenset[str]
    training: dict[str, Any]
    history: list[Record]


def pack_model(
    params: Mapping[str, Any],
    parameters: Parameters,
    varying: frozenset[str],
    training: Mapping[str, Any],
    history: list[Record],
) -> File:
    """Return a file of a model.

    Parameters
    ----------
    params : mapping
        Those of the constructor.
    parameters : Parameters
    varying : frozenset of str
        Parts that must be passed with every series.
    training : mapping
    history : list of Record
    """
    arrays = {name: getattr(parameters, name) for name in SHAPES}
    arrays["diffuse"] = parameters.diffuse
    plain = {name: value for name, value in params.items() if name not in SHAPES}
    for name in SHAPES:
        if params[name] is not None:
            arrays[f"given.{name}"] = np.ascontiguousarray(params[name], dtype=np.float64)
    plain["diffuse"] = np.asarray(params["diffuse"]).tolist()
    fixed = params["fixed"]
    plain["fixed"] = (
        {name: np.asarray(mask).tolist() for name, mask in fixed.items()}
        if isinstance(fixed, Mapping)
        else ([fixed] if isinstance(fixed, str) else list(fixed))
    )
    plain["prior"] = {
        name: {"kind": type(prior).__name__} | {k: _listed(v) for k, v in vars(prior).items()}
        for name, prior in (params["prior"] or {}).items()
    }
    header = {
        "params": plain,
        "varying": sorted(varying),
        "training": dict(training),
        "history": [record.to_row() for record in history],
    }
    return File(header, arrays)


def unpack_model(file: File) -> Contents:
    """Return what `pack_model` packed.

    Raises
    ------
    ValueError, KeyError, TypeError
        If an array is missing, has the wrong shape, is not finite, or is not a covariance.
    """
    arrays, header = file.arrays, file.header
    n, m = arrays["initial_mean"].shape[-1], arrays["observation"].shape[-2]
    sizes = {"n": n, "m": m, "k": arrays["transition_input"].shape[-1]}
    parts = {name: np.array(check_part(name, arrays[name], sizes)) for name in SHAPES}
    parameters = Parameters(**parts, diffuse=check_diffuse(np.array(arrays["diffuse"]), n))
    params = dict(header["params"])
    for name in SHAPES:
        given = f"given.{name}"
        params[name] = check_part(name, arrays[given], sizes) if given in arrays else None
    if isinstance(params["diffuse"], list):
        params["diffuse"] = np.array(params["diffuse"])
    if isinstance(params["fixed"], dict):
        params["fixed"] = {
            name: True if mask is True else np.array(mask) for name, mask in params["fixed"].items()
        }
    priors = {name: _prior(dict(fields)) for name, fields in params["prior"].items()}
    params["prior"] = priors or None
    varying = frozenset(str(name) for name in header["varying"])
    if varying - set(SHAPES):
        raise ValueError(f"no parts {sorted(varying - set(SHAPES))}")
    history = [Record.from_row(row) for row in header["history"]]
    return Contents(params, parameters, varying, dict(header["training"]), history)


def _prior(fields: dict[str, Any]) -> Normal | InverseWishart:
    kind: Any = _PRIORS[fields.pop("kind")]
    values = {k: np.array(v) if isinstance(v, list) else v for k, v in fields.items()}
    prior: Normal | InverseWishart = kind(**values)
    return prior


def _listed(value: Any) -> Any:
    return np.asarray(value).tolist() if np.ndim(value) else float(value)
