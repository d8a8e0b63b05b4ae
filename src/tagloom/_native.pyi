"""The native core of tagloom."""

import numpy as np
from numpy.typing import NDArray

class ColumnScanner:
    """Finds sentences in the bytes of a column file."""

    def __init__(
        self,
        sep: str,
        n_columns: int,
        token: int,
        label: int,
        label_tail: int,
        id: int,
        comment: str,
        guess_comments: bool,
        unknown: str | None,
    ) -> None: ...
    def scan(
        self, data: bytes, final: bool
    ) -> tuple[
        list[tuple[bytes, list[str], list[str | frozenset[str] | None] | None, int]],
        int,
        int,
        tuple[str, int, int, int, int] | None,
    ]: ...
    def rows(self, data: bytes) -> list[tuple[int, int, int]]: ...
    def columns(self, data: bytes) -> list[list[str]]: ...

def count_spans(
    gold: NDArray[np.int32],
    predicted: NDArray[np.int32],
    offsets: NDArray[np.int64],
    letter: NDArray[np.uint8],
    type: NDArray[np.int32],
    K: int,
    gold_action: NDArray[np.uint8],
    gold_closing: NDArray[np.uint8],
    predicted_action: NDArray[np.uint8],
    predicted_closing: NDArray[np.uint8],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Count spans, gold, predicted and correct: (by type [K, 3], by sentence [N, 3])."""

def count_tokens(
    gold: NDArray[np.int32],
    predicted: NDArray[np.int32],
    offsets: NDArray[np.int64],
    Y: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Count tokens: (confusion [Y, Y], correct [N])."""

def first_bad_byte(data: bytes) -> int:
    """The offset of the first NUL or byte that is not UTF-8, or the length."""

def instruction_sets() -> tuple[str, ...]: ...
def intern(
    rows: list[list[str]], table: dict[str, int]
) -> tuple[NDArray[np.int32], NDArray[np.int64]] | None:
    """Number the strings of a list of lists: (ids [T], offsets [N + 1]), or None."""

def resample(rows: NDArray[np.int32], replicates: int, seed: int) -> NDArray[np.int64]:
    """Sum rows drawn with replacement: [replicates, S]."""

def toss(
    rows: NDArray[np.int32], copies: NDArray[np.int64], replicates: int, seed: int
) -> NDArray[np.int64]:
    """Sum rows times heads of as many coins as copies: [replicates, S]."""
