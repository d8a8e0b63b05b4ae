"""From sentences to their best labels in one native call, without arrays of scores in between.

A decoder combines the weights of a model and its transitions; it reads words by templates, or
features that the user computed. It finds the best labels of ordinary sentences, the most frequent
call. Everything else is left to a `Trellis`, which finds the same labels and raises precise errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tagloom import _native
from tagloom.features import Templates

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tagloom.features.items import ItemExtractor
    from tagloom.scores.subtags import Subtags
    from tagloom.trellis.pruning import Pruning

    Marginals = list[npt.NDArray[np.float32]]


class Decoder(Protocol):
    """Finds labels and probabilities of ordinary sentences; None where a trellis must answer."""

    def decode_few(self, X: Any, n_threads: int) -> list[list[str]] | None:
        """Find the best labels of a few lists of tokens with the least overhead.

        None for anything else, and where `decode` returns None.
        """

    def decode(self, sentences: Sequence[Any], n_threads: int) -> list[list[str]] | None:
        """Find the best labels.

        None if a sentence has no path, a score is NaN or +inf, or a token is malformed: a trellis
        then raises a precise error.
        """

    def decode_with_probs(
        self, sentences: Sequence[Any], temperature: float, n_threads: int
    ) -> tuple[list[list[str]], list[list[float]]] | None:
        """Find the best labels and the probability of each, with scores divided by a temperature.

        None where `decode` returns None, and where probabilities need log space.
        """

    def marginals_of_few(self, X: Any) -> Marginals | None:
        """Compute the probability of each label [T, Y] at each token of a few lists of tokens.

        None for anything else, and where `decode_with_probs` returns None.
        """


class WordDecoder:
    """A native decoder of words, by templates.

    Parameters
    ----------
    templates : Templates
        The templates from which the scorers were compiled.
    scorer : _native.Scorer
        Scores of labels [T, Y].
    transitions : _native.Dense
        Scores of transitions, starts and stops; −inf if forbidden.
    labels : sequence of str
        The Y labels.
    edges : _native.Scorer, optional
        Scores of pairs of labels [T, Y, Y].
    normaliser : _native.LocalNormaliser, optional
        Turns the scores into log probabilities of a local model.
    pruning : Pruning, optional
        Decode over candidate labels; see `Trellis.prune`. Probabilities are left to a trellis.
    trigrams : _native.TrigramScores, optional
        Weights of label trigrams, over candidates.
    subtags : Subtags, optional
        The sub-tags of labels; scores are then those of labels and sub-tags [T, Y + S].
    """

    def __init__(
        self,
        templates: Templates,
        scorer: _native.Scorer,
        transitions: _native.Dense,
        labels: Sequence[str],
        *,
        edges: _native.Scorer | None = None,
        normaliser: _native.LocalNormaliser | None = None,
        pruning: Pruning | None = None,
        trigrams: _native.TrigramScores | None = None,
        subtags: Subtags | None = None,
    ) -> None:
        self._templates = templates
        rule = None if pruning is None else pruning.native
        native = None if subtags is None else subtags.native
        self._native = _native.Decoder(
            scorer, transitions, list(labels), edges, normaliser, rule, trigrams, native
        )
        self._takes_lists = templates.reads_only_tokens

    def decode_few(self, X: Any, n_threads: int) -> list[list[str]] | None:
        """See `Decoder`."""
        try:
            return self._native.decode_few(X, n_threads) if self._takes_lists else None
        except (TypeError, ValueError):
            return None

    def decode(self, sentences: Sequence[Any], n_threads: int) -> list[list[str]] | None:
        """See `Decoder`."""
        columns, numbers = self._templates.columns(sentences)
        try:
            return self._native.decode(columns, numbers, n_threads)
        except (TypeError, ValueError):
            return None

    def decode_with_probs(
        self, sentences: Sequence[Any], temperature: float, n_threads: int
    ) -> tuple[list[list[str]], list[list[float]]] | None:
        """See `Decoder`."""
        columns: Sequence[Any] = [sentences]
        numbers: Sequence[Any] = []
        if not (self._takes_lists and _native.is_nested_list(sentences)):
            columns, numbers = self._templates.columns(sentences)
        try:
            return self._native.decode_with_probs(columns, numbers, temperature, n_threads)
        except (TypeError, ValueError):
            return None

    def marginals_of_few(self, X: Any) -> Marginals | None:
        """See `Decoder`."""
        try:
            return self._native.marginals_of_few(X) if self._takes_lists else None
        except (TypeError, ValueError):
            return None


class ItemDecoder:
    """A native decoder of items: features that the user, or a user's function, computed.

    Parameters
    ----------
    extractor : ItemExtractor
        Reads the items of sentences.
    index : _native.Index
        Maps attributes to the rows of weights.
    rows : _native.WeightRows
    transitions : _native.Dense
        Scores of transitions, starts and stops; −inf if forbidden.
    labels : sequence of str
        The Y labels.
    normaliser : _native.LocalNormaliser, optional
        Turns the scores into log probabilities of a local model.
    pruning : Pruning, optional
        Decode over candidate labels; see `Trellis.prune`. Probabilities are left to a trellis.
    trigrams : _native.TrigramScores, optional
        Weights of label trigrams, over candidates.
    subtags : Subtags, optional
        The sub-tags of labels; scores are then those of labels and sub-tags [T, Y + S].
    """

    def __init__(
        self,
        extractor: ItemExtractor,
        index: _native.Index,
        rows: _native.WeightRows,
        transitions: _native.Dense,
        labels: Sequence[str],
        *,
        normaliser: _native.LocalNormaliser | None = None,
        pruning: Pruning | None = None,
        trigrams: _native.TrigramScores | None = None,
        subtags: Subtags | None = None,
    ) -> None:
        from tagloom.features import Items  # here, for a quick start

        self._extractor = extractor
        rule = None if pruning is None else pruning.native
        native = None if subtags is None else subtags.native
        self._native = _native.ItemDecoder(
            index, rows, transitions, list(labels), normaliser, rule, trigrams, native
        )
        self._takes_items = isinstance(extractor, Items)

    def decode_few(self, X: Any, n_threads: int) -> list[list[str]] | None:
        """See `Decoder`."""
        try:
            return self._native.decode_few(X, n_threads) if self._takes_items else None
        except (TypeError, ValueError, RecursionError):
            return None

    def decode(self, sentences: Sequence[Any], n_threads: int) -> list[list[str]] | None:
        """See `Decoder`."""
        items = self._extractor.items(sentences)
        try:
            return self._native.decode(items, n_threads)
        except (TypeError, ValueError, RecursionError):
            return None

    def decode_with_probs(
        self, sentences: Sequence[Any], temperature: float, n_threads: int
    ) -> tuple[list[list[str]], list[list[float]]] | None:
        """See `Decoder`."""
        items = self._extractor.items(sentences)
        try:
            return self._native.decode_with_probs(items, temperature, n_threads)
        except (TypeError, ValueError, RecursionError):
            return None

    def marginals_of_few(self, X: Any) -> Marginals | None:
        """See `Decoder`."""
        try:
            return self._native.marginals_of_few(X) if self._takes_items else None
        except (TypeError, ValueError, RecursionError):
            return None
