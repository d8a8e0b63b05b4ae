"""Linear regressions on states that are known up to a Gaussian: the M step of EM.

Both equations of a linear Gaussian model are regressions, x_t on (x_{t−1}, u_t, 1) and y_t on
(x_t, u_t, 1). Given the smoothed states, the best coefficients W and the best covariance S of

    target = W z + noise,  noise ~ N(0, S)

depend on the expected products of target and z. These are kept as means, row by row, and sums of
covariances: residuals are computed from the rows, so that large means do not cancel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tagloom.dynamics.parameters import Floats
from tagloom.dynamics.priors import InverseWishart
from tagloom.errors import ParameterError

Mask = npt.NDArray[np.bool_]
Block = npt.NDArray[np.int64]

# Steps whose products are formed at once, so that they stay in the cache.
_CHUNK = 4096


def _chunks(count: int) -> Iterator[slice]:
    """Go through the steps in chunks."""
    for start in range(0, count, _CHUNK):
        yield slice(start, start + _CHUNK)


@dataclass(frozen=True, eq=False)
class Regression:
    """A regression of targets [N, p] on z [N, q], both uncertain.

    Attributes
    ----------
    targets, z : ndarray, shapes (N, p) and (N, q)
        Their means at each step.
    target_cov, cross_cov, z_cov : ndarray, shapes (p, p), (p, q) and (q, q)
        Sums over steps of Cov[target], Cov[target, z] and Cov[z].
    """

    targets: Floats
    z: Floats
    target_cov: Floats
    cross_cov: Floats
    z_cov: Floats

    def products(self) -> tuple[Floats, Floats]:
        """Return Σ E[target z'] and Σ E[z z'], shapes (p, q) and (q, q)."""
        xz, zz = self.cross_cov.copy(), self.z_cov.copy()
        for span in _chunks(len(self.z)):
            z = self.z[span]
            xz += self.targets[span].T @ z
            zz += z.T @ z
        return xz, zz

    def residual(self, W: Floats) -> Floats:
        """Return Σ E[(target − W z)(target − W z)'], shape (p, p)."""
        cross = W @ self.cross_cov.T
        total = self.target_cov - cross - cross.T + W @ self.z_cov @ W.T
        for span in _chunks(len(self.z)):
            errors = self.targets[span] - self.z[span] @ W.T
            total += errors.T @ errors
        symmetric: Floats = (total + total.T) / 2
        return symmetric


@dataclass(frozen=True, eq=False)
class Weighted:
    """Normal equations H vec(W) = g of a regression whose noise differs from step to step.

    Attributes
    ----------
    H : ndarray, shape (p q, p q)
        Σ_t S_t⁻¹ ⊗ E[z z'].
    g : ndarray, shape (p, q)
        Σ_t S_t⁻¹ E[target z'].
    """

    H: Floats
    g: Floats


def weigh(
    weights: Floats, targets: Floats, z: Floats, cross_covs: Floats, z_covs: Floats
) -> Weighted:
    """Add up the normal equations of all steps.

    Parameters
    ----------
    weights : ndarray, shape (N, p, p)
        S_t⁻¹.
    targets, z : ndarray, shapes (N, p) and (N, q)
    cross_covs, z_covs : ndarray, shapes (N, p, q) and (N, q, q)
    """
    p, q = targets.shape[1], z.shape[1]
    H, g = np.zeros((p, q, p, q)), np.zeros((p, q))
    for span in _chunks(len(z)):
        zz = z[span, :, None] * z[span, None, :] + z_covs[span]
        xz = targets[span, :, None] * z[span, None, :] + cross_covs[span]
        H += np.einsum("tik,tjl->ijkl", weights[span], zz, optimize=True)
        g += np.einsum("tik,tkj->ij", weights[span], xz, optimize=True)
    return Weighted(H.reshape(p * q, p * q), g)


def solve_coefficients(
    regression: Regression,
    W: Floats,
    S: Floats,
    free: Mask,
    mean: Floats,
    precision: Floats,
    weighted: Weighted | None = None,
) -> Floats:
    """Return the coefficients with the largest expected log density, given S.

    Parameters
    ----------
    regression : Regression
    W : ndarray, shape (p, q)
        Present coefficients; entries that are not free keep their values.
    S : ndarray, shape (p, p)
        Present covariance of the noise.
    free : ndarray of bool, shape (p, q)
    mean, precision : ndarray, shape (p, q)
        Of normal priors on the entries; a precision of 0 is a flat prior.
    weighted : Weighted, optional
        The normal equations, where S differs from step to step.
    """
    if not free.any():
        return W
    if weighted is not None:
        return _solve_rows(weighted.H, weighted.g, W, free, mean, precision)
    xz, zz = regression.products()
    if free.all() and not precision.any():
        return solve_symmetric(zz, xz.T).T
    new = W.copy()
    for block in connected(S != 0):  # rows with independent noise are independent regressions
        noise = S[np.ix_(block, block)]
        if np.linalg.matrix_rank(noise, hermitian=True) < len(block):
            continue  # without noise the targets follow W exactly: nothing to learn
        inverse = np.linalg.inv(noise)
        H, g = np.kron(inverse, zz), inverse @ xz[block]
        new[block] = _solve_rows(H, g, W[block], free[block], mean[block], precision[block])
    return new


def _solve_rows(
    H: Floats, g: Floats, W: Floats, free: Mask, mean: Floats, precision: Floats
) -> Floats:
    """Solve H vec(W) = vec(g) for the free entries, with priors; the others keep their values."""
    here, fixed = free.ravel(), ~free.ravel()
    if not here.any():
        return W
    H = H + np.diag(precision.ravel())
    g = g + precision * mean
    values = W.ravel().copy()
    target = g.ravel()[here] - H[np.ix_(here, fixed)] @ values[fixed]
    values[here] = solve_symmetric(H[np.ix_(here, here)], target)
    solved: Floats = values.reshape(W.shape)
    return solved


def solve_symmetric(M: Floats, target: Floats) -> Floats:
    """Solve M x = target for a positive semi-definite M, least squares where M is singular."""
    scale = np.sqrt(np.maximum(np.diag(M), 0))
    scale = np.where(scale > 0, scale, 1.0)
    columns = scale if target.ndim == 1 else scale[:, None]
    scaled = M / np.outer(scale, scale)
    inverse = np.linalg.pinv(scaled, rcond=1e-14, hermitian=True)
    x = inverse @ (target / columns)
    x += inverse @ (target / columns - scaled @ x)  # one step of refinement
    solution: Floats = x / columns
    return solution


# ---- covariances with fixed entries ------------------------------------------------------------


def connected(links: Mask) -> list[Block]:
    """Return the groups of rows that a symmetric matrix of links connects."""
    left = set(range(len(links)))
    groups = []
    while left:
        group, new = set(), {min(left)}
        while new:
            group |= new
            new = {j for i in new for j in np.flatnonzero(links[i]).tolist()} - group
        left -= group
        groups.append(np.array(sorted(group), dtype=np.int64))
    return groups


def free_blocks(name: str, value: Floats, free: Mask) -> list[Block]:
    """Return the blocks of a covariance that are learnt.

    Raises
    ------
    ParameterError
        If fixed entries cut through a block: then no closed form has its maximum.
    """
    if not free.any():
        return []
    blocks = []
    for block in connected((value != 0) | free | free.T):
        inside = free[np.ix_(block, block)]
        if inside.all():
            blocks.append(block)
        elif inside.any():
            i, j = block[np.argwhere(~inside)[0]]
            raise ParameterError(
                parameter="fixed",
                where=name,
                expected="a mask that leaves whole blocks free, zeros fixed between them",
                found=f"a fixed entry ({i}, {j}) within a free block",
            )
    return blocks


def solve_covariance(
    value: Floats,
    residual: Floats,
    count: float,
    blocks: list[Block],
    prior: InverseWishart | None,
    name: str,
) -> Floats:
    """Return the covariance with the largest expected log density.

    Parameters
    ----------
    value : ndarray, shape (p, p)
        The present one.
    residual : ndarray, shape (p, p)
        Sum of expected squares.
    count : float
        Their number.
    blocks : list of ndarray
        Blocks to change.
    prior : InverseWishart, optional
    name : str
        Of the part, for errors.
    """
    new = value.copy()
    for block in blocks:
        index = np.ix_(block, block)
        squares, number = residual[index], count
        if prior is not None:
            squares = squares + prior.check(name, len(value))[index]
            number = number + prior.degrees + len(block) + 1
        if number > 0:
            new[index] = _positive(squares / number)
    return new


def _positive(S: Floats) -> Floats:
    """Return S with negative eigenvalues, which are rounding, set to 0."""
    values, vectors = np.linalg.eigh(S)
    if values[0] >= 0:
        return S
    clipped: Floats = (vectors * np.maximum(values, 0)) @ vectors.T
    return (clipped + clipped.T) / 2
