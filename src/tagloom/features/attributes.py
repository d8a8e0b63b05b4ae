"""Features that a file lists: each token is a row of attributes in CRFsuite's notation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tagloom import checks
from tagloom._native import Index
from tagloom.errors import FormatError, SentenceError
from tagloom.features.batches import Encoded
from tagloom.features.extractors import make
from tagloom.features.items import Items
from tagloom.sequences import Corpus, Sentence
from tagloom.sequences.attribute_rows import format_attributes, parse_attributes


class AttributeRows:
    r"""Features written in the tokens, as `tagloom.read` finds them in data files of CRFsuite.

    ``features="attributes"`` makes this extractor, and it is the default for such files.

    Attributes
    ----------
    transitions : bool
        True: label bigrams have weights.

    Examples
    --------
    >>> from tagloom.features import AttributeRows
    >>> AttributeRows().extract(["w=They\tlength:4", "w=fish"])
    [{'w=They': 1.0, 'length': 4.0}, {'w=fish': 1.0}]
    """

    transitions = True

    def encode(
        self, X: Any, index: Index, edge_index: Index | None = None, *, grow: bool = False
    ) -> Encoded:
        """Turn the attributes of sentences into ids; see `Items.encode`.

        Parameters
        ----------
        X : iterable of list of str
            The sentences.
        index : Index
        edge_index : Index, optional
            Unused.
        grow : bool, optional
            Whether new attributes get an id.

        Returns
        -------
        Encoded

        Raises
        ------
        SentenceError
            If a token is not a str, or its attributes are malformed; names the token.
        """
        return Items().encode(self.items(X), index, edge_index, grow=grow)

    def items(self, X: Any) -> list[Any]:
        """Parse the attributes of every token; see `encode`.

        Parameters
        ----------
        X : iterable of list of str

        Returns
        -------
        list of list of dict
        """
        return [self._parse(sentence, i) for i, sentence in enumerate(checks.sentences(X))]

    def extract(self, sentence: Any, *, edges: bool = False) -> list[dict[str, float]]:
        """Return the attributes of one sentence by name.

        Parameters
        ----------
        sentence : list of str, or Sentence
        edges : bool, optional
            Whether to return edge attributes instead, of which there are none.

        Returns
        -------
        list of dict
        """
        return Items().extract(self._parse(sentence, 0), edges=edges)

    def _parse(self, sentence: Any, i: int) -> list[dict[str, float]]:
        items = []
        for t, token in enumerate(checks.tokens_of(sentence, i)):
            if not isinstance(token, str):
                raise SentenceError(
                    where=checks.place(i, t),
                    expected="attributes as one str, with tabs between them",
                    found=checks.show_type(token),
                    hint="For dicts of features pass features=None.",
                )
            try:
                items.append(parse_attributes(token))
            except FormatError as error:
                raise SentenceError(
                    where=checks.place(i, t),
                    expected=error.expected,
                    found=error.found,
                    hint=error.hint,
                ) from None
        return items

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-compatible copy.

        Returns
        -------
        dict
        """
        return {"kind": "attributes"}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AttributeRows:
        """Make the extractor from the result of `to_dict`.

        Parameters
        ----------
        data : mapping

        Returns
        -------
        AttributeRows
        """
        return cls()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return "AttributeRows()"


def to_attributes(sentences: Any, features: Any = "pos", **resources: Any) -> Corpus:
    r"""Replace the tokens of sentences by their features, for `tagloom.write` to CRFsuite's format.

    Parameters
    ----------
    sentences : Corpus, or sequence of Sentence
    features : str, path, iterable of str, callable, extractor or None, optional
        See `make`; without edge templates.
    **resources
        ``lexicons``, ``clusters`` and ``lists``; see `Templates`.

    Returns
    -------
    Corpus

    Examples
    --------
    >>> import tagloom as tl
    >>> corpus = tl.Corpus([["They", "fish"]], [["PRON", "VERB"]])
    >>> rows = tl.features.to_attributes(corpus, ["word", "suffix(2)"])
    >>> rows.tokens
    [['word=They\tsuffix(2)=ey', 'word=fish\tsuffix(2)=sh']]
    """
    extractor = make(features, **resources)
    rows = []
    for sentence in sentences:
        items = extractor.extract(sentence)
        labels = sentence.labels if isinstance(sentence, Sentence) else None
        rows.append(Sentence([format_attributes(values) for values in items], labels))
    return Corpus(rows)
