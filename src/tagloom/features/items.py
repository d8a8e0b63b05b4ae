"""Features made by the user: dicts, lists and arrays, or a function that returns them.

Tokens have CRFsuite's form, so a ``word2features`` written for CRFsuite works unchanged:

=============================  ===========================  ==================
``["a", "b"]``                 ``a``, ``b``                 with value 1
``{"a": "b"}``                 ``a:b``                      with value 1
``{"a": 0.5, "b": True}``      ``a``, ``b``                 with that value
``{"a": {"b": "c"}}``          ``a:b:c``                    nested to any depth
``{"a": ["b", "c"]}``          ``a:b``, ``a:c``             with value 1
=============================  ===========================  ==================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from tagloom import checks
from tagloom._native import Index, encode_arrays, encode_items, is_nested_list, item_names
from tagloom.errors import FeatureError, ParameterError, SentenceError, ShapeError, from_native
from tagloom.features.batches import Encoded, sum_values
from tagloom.numeric import np
from tagloom.sequences import Sentence


@runtime_checkable
class ItemExtractor(Protocol):
    """An extractor whose features are items, dicts and lists of features or rows of numbers."""

    def items(self, X: Any) -> list[Any]:
        """Return the items of every sentence; the native reader checks their contents."""


class Items:
    """Ready-made features: each token is a dict or list of features, or a row of numbers.

    A feature with value 0 or False adds nothing to a score and is left out; in training it still
    counts as seen with its label, as in CRFsuite. A row of an array ``[T, D]`` has the features
    ``x[0]`` to ``x[D-1]``, without zeros.

    Attributes
    ----------
    transitions : bool
        True: label bigrams have weights.

    Examples
    --------
    >>> from tagloom.features import Items
    >>> Items().extract([{"word": "They", "is_title": True, "length": 4}, ["fish", "plural"]])
    [{'word:They': 1.0, 'is_title': 1.0, 'length': 4.0}, {'fish': 1.0, 'plural': 1.0}]
    """

    transitions = True

    def encode(
        self, X: Any, index: Index, edge_index: Index | None = None, *, grow: bool = False
    ) -> Encoded:
        """Turn the features of sentences into attribute ids.

        Parameters
        ----------
        X : iterable of list of dict or list, or of ndarray of shape (T, D)
            The sentences.
        index : Index
            Maps attributes to ids.
        edge_index : Index, optional
            Unused: items are never edge features.
        grow : bool, optional
            Whether new attributes get an id, as in training, or are left out.

        Returns
        -------
        Encoded

        Raises
        ------
        SentenceError
            If a sentence or a feature is malformed; names the sentence and token.
        FeatureError
            If the value of a feature is NaN or infinite; names the feature.
        ShapeError
            If arrays differ in the number of columns.

        Examples
        --------
        >>> from tagloom._native import Index
        >>> from tagloom.features import Items
        >>> encoded = Items().encode([[{"a": "b", "c": 0.5}, ["a:b"]]], Index(), grow=True)
        >>> encoded.ids, encoded.values
        (array([0, 1, 0], dtype=int32), array([1. , 0.5, 1. ], dtype=float32))
        """
        sentences = self.items(X)
        if sentences and isinstance(sentences[0], np.ndarray):
            return Encoded(*_native(encode_arrays, sentences, index, grow))
        encoded = Encoded(*_native(encode_items, sentences, index, grow))
        _check_values(encoded)
        return encoded

    def extract(self, sentence: Any, *, edges: bool = False) -> list[dict[str, float]]:
        """Return the attributes of one sentence by name.

        Parameters
        ----------
        sentence : list of dict or list, or ndarray of shape (T, D)
        edges : bool, optional
            Whether to return edge attributes instead, of which items have none.

        Returns
        -------
        list of dict
            For each token, name to value.
        """
        (read,) = self.items([sentence])
        if edges:
            return [{} for _ in read]
        if isinstance(read, np.ndarray):
            read = [{f"x[{d}]": value for d, value in enumerate(row)} for row in read]
        return [sum_values(attributes) for attributes in _native(item_names, [read])]

    def items(self, X: Any) -> list[Any]:
        """Check that all sentences are of one kind; the native reader checks their contents.

        Parameters
        ----------
        X : iterable of list of dict or list, or of ndarray of shape (T, D)

        Returns
        -------
        list of list, tuple or ndarray
        """
        if isinstance(X, list) and is_nested_list(X):
            return X  # lists only, the common case
        sentences = []
        for i, sentence in enumerate(checks.sentences(X)):
            if isinstance(sentence, Sentence):
                raise SentenceError(
                    where=checks.place(i),
                    expected="the features of each token",
                    found="a Sentence, whose tokens are words",
                    hint="For words choose templates, such as {features}.",
                    options={"features": "pos"},
                )
            if isinstance(sentence, np.ndarray) and sentence.dtype.kind in "fiub":
                if sentence.ndim != 2:
                    raise ShapeError(
                        where=checks.place(i),
                        expected="an array of shape (T, D)",
                        found=f"shape {sentence.shape}",
                    )
                sentence = np.ascontiguousarray(sentence, dtype=np.float64)
            elif not isinstance(sentence, list | tuple):
                sentence = _as_list(sentence, i)
            sentences.append(sentence)
            _check_alike(sentences[0], sentence, i)
        return sentences

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-compatible copy.

        Returns
        -------
        dict
        """
        return {"kind": "items"}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Items:
        """Make the extractor from the result of `to_dict`.

        Parameters
        ----------
        data : mapping

        Returns
        -------
        Items
        """
        return cls()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return "Items()"


class Function:
    """Features from a user's function.

    The function is called with a sentence and returns one item per token; or, if it takes two
    arguments, with a sentence and the index of a token, and returns the item of that token. See
    `Items` for the form of an item.

    A model file stores only the name of the function, never its code, and nothing is imported by
    that name. To load such a model, pass the function again.

    Parameters
    ----------
    function : callable
        ``function(sentence)`` or ``function(sentence, t)``.

    Raises
    ------
    ParameterError
        If the function cannot be called with one or two arguments.

    Examples
    --------
    >>> from tagloom.features import Function
    >>> def word2features(sentence, t):
    ...     return {"word": sentence[t], "first": t == 0}
    >>> Function(word2features).extract(["They", "fish"])
    [{'word:They': 1.0, 'first': 1.0}, {'word:fish': 1.0}]
    """

    transitions = True

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise ParameterError(
                parameter="features",
                expected="a function of a sentence",
                found=checks.show(function),
            )
        self.function = function
        self.name = _name_of(function)
        import inspect  # here, for a quick start

        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):  # some built-ins have no signature; pass the sentence
            parameters = ()  # type: ignore[assignment]
        needed = [
            p
            for p in parameters
            if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        if len(needed) > 2:
            raise ParameterError(
                parameter="features",
                expected="function(sentence) or function(sentence, t)",
                found=f"{self.name}, which needs {len(needed)} arguments",
            )
        self._per_token = len(needed) == 2
        self._items = Items()

    def encode(
        self, X: Any, index: Index, edge_index: Index | None = None, *, grow: bool = False
    ) -> Encoded:
        """Call the function for every sentence and turn its results into attribute ids.

        Parameters
        ----------
        X : iterable of sentences
            Anything that the function accepts, except a str.
        index : Index
            Maps attributes to ids.
        edge_index : Index, optional
            Unused: items are never edge features.
        grow : bool, optional
            Whether new attributes get an id, as in training, or are left out.

        Returns
        -------
        Encoded

        Raises
        ------
        SentenceError
            If a sentence is a str, or the function does not return one item per token.
        FeatureError
            If the value of a feature is NaN or infinite; names the feature.
        """
        return self._items.encode(self.items(X), index, edge_index, grow=grow)

    def items(self, X: Any) -> list[Any]:
        """Call the function for every sentence; see `encode`.

        Parameters
        ----------
        X : iterable of sentences

        Returns
        -------
        list
        """
        return [self._call(sentence, i) for i, sentence in enumerate(checks.sentences(X))]

    def extract(self, sentence: Any, *, edges: bool = False) -> list[dict[str, float]]:
        """Return the attributes of one sentence by name.

        Parameters
        ----------
        sentence : list or Sentence
        edges : bool, optional
            Whether to return edge attributes instead, of which items have none.

        Returns
        -------
        list of dict
            For each token, name to value.
        """
        return self._items.extract(self._call(sentence, 0), edges=edges)

    def _call(self, sentence: Any, i: int) -> Any:
        checks.tokens_of(sentence, i)
        if self._per_token:
            return [self.function(sentence, t) for t in range(len(sentence))]
        items = self.function(sentence)
        if isinstance(items, str | bytes):
            raise SentenceError(
                where=checks.place(i),
                expected=f"one dict or list of features per token from the function {self.name}",
                found=checks.show(items),
            )
        if not hasattr(items, "__len__"):
            items = list(items)
        if len(items) != len(sentence):
            raise SentenceError(
                where=checks.place(i),
                expected=f"{len(sentence)} items, one per token, from the function {self.name}",
                found=str(len(items)),
            )
        return items

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-compatible copy, which holds only the name of the function.

        Returns
        -------
        dict
        """
        return {"kind": "function", "name": self.name}

    def __repr__(self) -> str:
        return f"Function({self.name})"


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', None) or '?'}.{name}"


def _as_list(sentence: Any, i: int) -> list[Any]:
    try:
        return list(sentence)
    except TypeError:
        raise SentenceError(
            where=checks.place(i),
            expected="a list with the features of each token",
            found=checks.show_type(sentence),
        ) from None


def _check_alike(first: Any, sentence: Any, i: int) -> None:
    if isinstance(sentence, np.ndarray) != isinstance(first, np.ndarray):
        raise SentenceError(
            where=checks.place(i),
            expected=f"{_kind(first)}, as in sentence 0",
            found=_kind(sentence),
        )
    if isinstance(sentence, np.ndarray) and sentence.shape[1] != first.shape[1]:
        raise ShapeError(
            where=checks.place(i),
            expected=f"{first.shape[1]} numbers per token, as in sentence 0",
            found=str(sentence.shape[1]),
        )


def _kind(sentence: Any) -> str:
    return "an array of numbers" if isinstance(sentence, np.ndarray) else "a list of features"


def _check_values(encoded: Encoded) -> None:
    """Raise for a value that is finite as a Python float, but not in 32 bits."""
    if encoded.values is None or np.isfinite(encoded.values).all():
        return
    at = int(np.flatnonzero(~np.isfinite(encoded.values))[0])
    token = int(np.searchsorted(encoded.indptr, at, side="right")) - 1
    i = int(np.searchsorted(encoded.offsets, token, side="right")) - 1
    raise FeatureError(
        where=checks.place(i, token - int(encoded.offsets[i])),
        expected="values of features below 3.4e38",
        found="a larger one",
        hint="Scale the values to about 1.",
    )


def _native(call: Any, *arguments: Any) -> Any:
    """Call the native reader; a malformed item becomes a SentenceError or FeatureError."""
    try:
        return call(*arguments)
    except TypeError as error:
        is_word = "of type str" in str(error)
        hint = (
            "For words choose a preset or templates, such as features='pos'." if is_word else None
        )
        raise from_native(SentenceError, error, hint) from None
    except ValueError as error:
        raise from_native(FeatureError, error) from None
    except RecursionError:
        raise SentenceError(
            expected="features nested in at most a few hundred dicts and lists",
            found="more levels, or a dict that contains itself",
        ) from None
