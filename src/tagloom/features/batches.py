"""The input and output of an extractor: sentences, and arrays of attribute ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tagloom import _native, checks
from tagloom.errors import SentenceError
from tagloom.numeric import np
from tagloom.sequences import Corpus, Sentence

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Encoded(NamedTuple):
    """Sentences as attribute ids, flat: rows of a sparse matrix, one per token.

    Tokens of sentence i are ``offsets[i]:offsets[i+1]``; attributes of token t are
    ``ids[indptr[t]:indptr[t+1]]``, with ``values`` at the same places, or 1.0 if that is None. The
    edge arrays hold the same for edge attributes, which are tied to (previous label, label); None
    without edge templates.
    """

    offsets: NDArray[np.int64]  # [N + 1]
    indptr: NDArray[np.int64]  # [T + 1]
    ids: NDArray[np.int32]  # [nnz]
    values: NDArray[np.float32] | None  # [nnz]
    edge_indptr: NDArray[np.int64] | None = None
    edge_ids: NDArray[np.int32] | None = None
    edge_values: NDArray[np.float32] | None = None


_TEXT = "UO"  # kinds of NumPy types that may hold str


def sum_values(attributes: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Map the attributes of a token to their values; the values of equal names are summed."""
    values: dict[str, float] = {}
    for name, value in attributes:
        values[name] = values.get(name, 0.0) + value
    return values


def read_tokens(X: Any) -> list[Sequence[str]]:
    """Return the tokens of every sentence; the native reader checks that they are str."""
    if isinstance(X, Corpus):
        return list(X.tokens)
    if isinstance(X, list) and _native.is_nested_list(X):
        return X  # lists only, the common case
    return [_tokens(sentence, i) for i, sentence in enumerate(checks.sentences(X))]


def _tokens(sentence: Any, i: int) -> Sequence[str]:
    if isinstance(sentence, Sentence):
        return sentence.tokens
    if isinstance(sentence, list | tuple):
        return sentence
    if isinstance(sentence, np.ndarray) and sentence.dtype.kind in _TEXT:
        tokens: list[str] = sentence.tolist()
        return tokens
    raise SentenceError(
        where=checks.place(i),
        expected="a list of str or a Sentence, which templates read",
        found=checks.show_type(sentence),
    )
