"""What EM learns: which entries are free, under which priors.

`LinearGaussian` takes ``fixed`` and ``prior`` as users write them; a `Plan` has them checked, with
a mask for every part.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tagloom import checks
from tagloom.dynamics.parameters import COVARIANCES, SHAPES, Floats, Parameters
from tagloom.dynamics.priors import InverseWishart, Normal, Prior
from tagloom.dynamics.regressions import Block, Mask, free_blocks
from tagloom.errors import ParameterError, ShapeError


@dataclass(frozen=True, eq=False)
class Plan:
    """What is learnt, and under which priors.

    Attributes
    ----------
    free : mapping of str to ndarray of bool
        For each part, which entries are learnt.
    priors : mapping of str to Normal or InverseWishart
    tolerance : float
        The run has converged when the objective rises by less than this per observed number.
    """

    free: Mapping[str, Mask]
    priors: Mapping[str, Prior]
    tolerance: float

    def log_prior(self, parameters: Parameters) -> float:
        """Return the log density of the learnt entries under their priors."""
        total = 0.0
        for name, prior in self.priors.items():
            value = getattr(parameters, name)
            if isinstance(prior, InverseWishart):
                total += prior.log_density(name, value, self.blocks(name, value))
            else:
                total += prior.log_density(name, value, self.free[name])
        return total

    def blocks(self, name: str, value: Floats) -> list[Block]:
        """Return the blocks of a covariance that are learnt."""
        return free_blocks(name, value, self.free[name])

    def wishart(self, name: str) -> InverseWishart | None:
        """Return the prior on a covariance."""
        prior = self.priors.get(name)
        return prior if isinstance(prior, InverseWishart) else None


def make_plan(
    start: Parameters,
    constant: Collection[str],
    fixed: Any,
    priors: Mapping[str, Prior] | None,
    tolerance: float,
) -> Plan:
    """Check what is fixed and the priors, and make the plan.

    Parameters
    ----------
    start : Parameters
        Where EM starts.
    constant : collection of str
        Names of parts that are not learnt whatever ``fixed`` contains.
    fixed : collection of str, or mapping of str to True or a mask
    priors : mapping of str to Normal or InverseWishart, optional
    tolerance : float

    Raises
    ------
    ShapeError, ParameterError
    """
    entries = read_fixed(fixed)
    free = {}
    for name in SHAPES:
        shape = getattr(start, name).shape
        is_fixed = _mask(name, entries.get(name, False), shape)
        free[name] = np.full(shape, name not in constant) & ~is_fixed
    free["initial_mean"] &= ~start.diffuse
    free["initial_covariance"] &= ~(start.diffuse[:, None] | start.diffuse)
    plan = Plan(free, dict(priors or {}), tolerance)
    for name in COVARIANCES:
        if name not in constant:
            plan.blocks(name, getattr(start, name))
    for name, prior in plan.priors.items():
        _check_prior(name, prior, start, free)
    return plan


def read_fixed(fixed: Any) -> dict[str, Any]:
    """Return what is fixed by part: True, or a mask.

    Raises
    ------
    ParameterError
        If a name is not that of a part.
    """
    entries = dict(fixed) if isinstance(fixed, Mapping) else None
    if entries is None:
        names = [fixed] if isinstance(fixed, str) else fixed
        if not isinstance(names, Collection):
            raise ParameterError(
                parameter="fixed",
                expected="names of parts, or a mapping of names to masks",
                found=checks.show_type(fixed),
            )
        entries = dict.fromkeys(names, True)
    for name in entries:
        checks.choice(name, "fixed", SHAPES)
    return {name: mask for name, mask in entries.items() if mask is not False}


def _mask(name: str, fixed: Any, shape: tuple[int, ...]) -> Mask:
    """Return which entries of a part are fixed."""
    if fixed is True or fixed is False:
        return np.full(shape, fixed)
    mask = np.asarray(fixed)
    if mask.shape != shape or mask.dtype.kind != "b":
        raise ShapeError(
            parameter="fixed",
            where=name,
            expected=f"True, or bools of shape {shape}",
            found=checks.show(fixed),
        )
    if name in COVARIANCES and (mask != mask.T).any():
        raise ParameterError(
            parameter="fixed", where=name, expected="a symmetric mask", found=checks.show(fixed)
        )
    return mask


def _check_prior(name: str, prior: Any, start: Parameters, free: Mapping[str, Mask]) -> None:
    checks.choice(name, "prior", SHAPES)
    shape = getattr(start, name).shape
    expected = InverseWishart if name in COVARIANCES else Normal
    if not isinstance(prior, expected):
        raise ParameterError(
            parameter="prior",
            where=name,
            expected=f"{expected.__name__} for this part",
            found=checks.show_type(prior),
        )
    if not free[name].any():
        raise ParameterError(
            parameter="prior",
            where=name,
            expected="priors on parts that are learnt",
            found="one on a part that is fixed",
        )
    if isinstance(prior, InverseWishart):
        prior.check(name, shape[0])
    else:
        prior.check(name, shape)
