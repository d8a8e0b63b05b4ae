"""Priors on the parts of a linear Gaussian model; EM maximises likelihood times prior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom.dynamics.parameters import Floats, as_floats
from tagloom.errors import ParameterError, ShapeError

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Normal:
    """Independent normal priors on the entries of a matrix or an offset.

    Parameters
    ----------
    mean : float or array_like
        One for all entries, or one for each.
    sd : float or array_like
        Standard deviations, above 0.

    Examples
    --------
    >>> from tagloom.dynamics import Normal
    >>> Normal(sd=2.0)
    Normal(mean=0.0, sd=2.0)
    """

    mean: Any = 0.0
    sd: Any = 1.0

    def check(self, name: str, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Return means and precisions, both of the shape of a part.

        Raises
        ------
        ShapeError, ParameterError
        """
        try:
            mean = np.broadcast_to(as_floats(self.mean, "mean"), shape)
            sd = np.broadcast_to(as_floats(self.sd, "sd"), shape)
        except ValueError as error:
            if isinstance(error, ParameterError):
                raise
            raise ShapeError(
                parameter="prior",
                where=name,
                expected=f"numbers or arrays of shape {shape}",
                found=f"{self!r}",
            ) from None
        if not (np.isfinite(mean).all() and (sd > 0).all()):
            raise ParameterError(
                parameter="prior",
                where=name,
                expected="finite means, sd above 0",
                found=f"{self!r}",
            )
        return mean, 1 / sd**2

    def log_density(self, name: str, value: Floats, free: Mask) -> float:
        """Return the log density of the free entries of a part."""
        mean, precision = self.check(name, value.shape)
        terms = np.log(precision / (2 * math.pi)) - precision * (value - mean) ** 2
        return 0.5 * float(terms[free].sum())


@dataclass(frozen=True, eq=False)
class InverseWishart:
    """An inverse Wishart prior on a covariance matrix S.

    ``p(S) ∝ det(S)^(−(degrees + p + 1) / 2) exp(−tr(scale S⁻¹) / 2)``, which is largest at
    ``scale / (degrees + p + 1)``. If parts of S are fixed, each free block has a prior with its
    block of ``scale``.

    Parameters
    ----------
    scale : float or array_like, shape (p, p)
        A number stands for that number times the identity.
    degrees : float
        Degrees of freedom, above p − 1.

    Examples
    --------
    >>> from tagloom.dynamics import InverseWishart
    >>> InverseWishart(0.1, degrees=3)
    InverseWishart(scale=0.1, degrees=3)
    """

    scale: Any
    degrees: float

    def check(self, name: str, p: int) -> Floats:
        """Return the scale as a matrix.

        Raises
        ------
        ShapeError, ParameterError
        """
        scale = as_floats(self.scale, "scale")
        scale = np.eye(p) * scale if scale.ndim == 0 else scale
        if scale.shape != (p, p):
            raise ShapeError(
                parameter="prior",
                where=name,
                expected=f"a number or a matrix of shape {(p, p)} as scale",
                found=f"shape {scale.shape}",
            )
        is_symmetric = np.isfinite(scale).all() and np.array_equal(scale, scale.T)
        if not (is_symmetric and np.linalg.eigvalsh(scale).min(initial=1.0) > 0):
            raise ParameterError(
                parameter="prior",
                where=name,
                expected="a symmetric, positive definite scale",
                found=f"{self.scale!r}",
            )
        if not self.degrees > p - 1:
            raise ParameterError(
                parameter="prior",
                where=name,
                expected=f"degrees above {p - 1}",
                found=f"{self.degrees!r}",
            )
        return scale

    def log_density(self, name: str, value: Floats, blocks: list[npt.NDArray[np.int64]]) -> float:
        """Return the log density of the free blocks of a covariance."""
        scale = self.check(name, len(value))
        total = 0.0
        for block in blocks:
            p, index = len(block), np.ix_(block, block)
            sign, log_det = np.linalg.slogdet(value[index])
            if sign <= 0:
                return -math.inf
            nu = self.degrees
            log_gamma = p * (p - 1) / 4 * math.log(math.pi) + sum(
                math.lgamma((nu - j) / 2) for j in range(p)
            )
            total += 0.5 * nu * float(np.linalg.slogdet(scale[index])[1]) - log_gamma
            total -= 0.5 * (nu * p * math.log(2) + (nu + p + 1) * float(log_det))
            total -= 0.5 * float(np.trace(np.linalg.solve(value[index], scale[index])))
        return total


Prior = Normal | InverseWishart
