"""What goes into an extractor and what comes out of it: sentences, and arrays of attribute ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagloom import _native
from tagloom.errors import SentenceError
from tagloom.sequences import Corpus, Sentence


class Encoded(NamedTuple):
    """Sentences as attribute ids, flat: rows of a sparse matrix, one per token.

    Tokens of sentence i are ``offsets[i]:offsets[i+1]``; attributes of token t are
    ``ids[indptr[t]:indptr[t+1]]``, with ``values`` at the same places, or 1.0 if that is None. The
    edge arrays hold the same for what is tied to (previous label, label); None without edge
    templates.
    """

    offsets: NDArray[np.int64]  # [N + 1]
    indptr: NDArray[np.int64]  # [T + 1]
    ids: NDArray[np.int32]  # [nnz]
    values: NDArray[np.float32] | None  # [nnz]
    edge_indptr: NDArray[np.int64] | None = None
    edge_ids: NDArray[np.int32] | None = None
    edge_values: NDArray[np.float32] | None = None


def check_batch(X: Any) -> None:
    """Refuse a str, or something that cannot be gone through, where sentences are expected."""
    if isinstance(X, str | bytes):
        raise SentenceError(
            f"expected a list of sentences, found the {type(X).__name__} {_cut(X)}. "
            "A sentence is a list of tokens: [['They', 'can', 'fish']]."
        )
    if not isinstance(X, Iterable):
        raise SentenceError(f"expected a list of sentences, found {_cut(X)}.")


def check_sentence(sentence: Any, i: int) -> None:
    """Refuse a str where a sentence is expected."""
    if isinstance(sentence, str | bytes):
        raise SentenceError(
            f"sentence {i} is the {type(sentence).__name__} {_cut(sentence)}; expected a list of "
            "tokens. Split it first, for instance with text.split(); and put one sentence into a "
            "list of its own: [tokens]."
        )


_TEXT = "UO"  # kinds of arrays that may hold str


def read_tokens(X: Any) -> list[Sequence[str]]:
    """Find the tokens of every sentence; whether they are str is left to the native reader."""
    if isinstance(X, Corpus):
        return list(X.tokens)
    check_batch(X)
    if isinstance(X, list) and _native.are_rows(X):
        return X  # the common case: no need to look at each
    found: list[Sequence[str]] = []
    for i, sentence in enumerate(X):
        if isinstance(sentence, Sentence):
            found.append(sentence.tokens)
        elif isinstance(sentence, list | tuple):
            found.append(sentence)
        elif isinstance(sentence, np.ndarray) and sentence.dtype.kind in _TEXT:
            found.append(sentence.tolist())
        else:
            check_sentence(sentence, i)
            raise SentenceError(
                f"sentence {i} is {_cut(sentence)}, of type {type(sentence).__name__}; templates "
                "read a list of str or a Sentence."
            )
    return found


def _cut(value: object, width: int = 60) -> str:
    """Show a value in an error message, shortened."""
    shown = repr(value[:width]) if isinstance(value, str | bytes) else repr(value)
    shown = " ".join(shown.split("\n"))  # arrays have several lines
    return shown if len(shown) <= width + 3 else shown[:width] + "…"
