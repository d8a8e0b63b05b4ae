"""The assignment problem: match rows with columns, one to one, for the largest total."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom.errors import ShapeError


def assign(weights: npt.ArrayLike) -> npt.NDArray[np.intp]:
    """Match the rows of a matrix with different columns, so that the sum of matches is largest.

    The Hungarian method by shortest augmenting paths: exact, in O(n² m) for n ≤ m rows or columns.

    Parameters
    ----------
    weights : array_like, shape (n, m)
        Value of matching row i with column j; finite.

    Returns
    -------
    ndarray of int, shape (n,)
        The column of each row; −1 for the rows left over if there are more rows than columns.

    Raises
    ------
    ShapeError
        If the weights are not a matrix of finite numbers.

    Examples
    --------
    >>> assign([[5, 4], [4, 1]])  # 4 + 4, not 5 + 1
    array([1, 0])
    >>> assign([[1], [3], [2]])
    array([-1,  0, -1])
    """
    matrix = np.asarray(weights, dtype=np.float64)
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise ShapeError(
            parameter="weights",
            expected="finite numbers in rows and columns",
            found=f"shape {matrix.shape}" if matrix.ndim != 2 else "NaN or an infinite number",
        )
    n, m = matrix.shape
    if n <= m:
        return _columns_of_rows(-matrix)
    columns = np.full(n, -1, dtype=np.intp)
    columns[_columns_of_rows(-matrix.T)] = np.arange(m)
    return columns


def _columns_of_rows(cost: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Match each of n rows with a column at the smallest total cost; n ≤ m.

    Row after row is added along the cheapest path of alternating matches. The duals u and v keep
    every reduced cost ``cost[i, j] - u[i] - v[j]`` at least 0, and 0 on matches.
    """
    n, m = cost.shape
    u, v = np.zeros(n), np.zeros(m)
    row_of = np.full(m, -1, dtype=np.intp)  # [m] row matched with each column
    for first in range(n):
        slack = np.full(m, np.inf)  # [m] length of the shortest path to each column
        before = np.full(m, -1, dtype=np.intp)  # [m] the column before it on that path
        is_done = np.zeros(m, dtype=bool)
        row, column = first, -1
        while True:
            reduced = cost[row] - u[row] - v
            is_shorter = ~is_done & (reduced < slack)
            slack[is_shorter], before[is_shorter] = reduced[is_shorter], column
            column = int(np.where(is_done, np.inf, slack).argmin())
            step = slack[column]
            u[first] += step
            u[row_of[is_done]] += step
            v[is_done] -= step
            slack[~is_done] -= step
            is_done[column] = True
            if row_of[column] < 0:
                break
            row = row_of[column]
        while column >= 0:  # shift the matches along the path
            previous = before[column]
            row_of[column] = first if previous < 0 else row_of[previous]
            column = int(previous)
    columns = np.empty(n, dtype=np.intp)
    is_matched = row_of >= 0
    columns[row_of[is_matched]] = np.flatnonzero(is_matched)
    return columns
