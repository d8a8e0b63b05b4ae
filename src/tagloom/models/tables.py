"""The base of taggers that score words by a table, learned by counting."""

from __future__ import annotations

from typing import Any

from tagloom.models.capabilities import Capability
from tagloom.models.data import label_number
from tagloom.models.fitted import Learned
from tagloom.models.taggers import Tagger
from tagloom.models.weights import FeatureWeight
from tagloom.notebooks import Rows
from tagloom.scores.sparse_tables import SparseWordTable
from tagloom.scores.tables import WordTable


class TableTagger(Tagger):
    """A tagger that looks its scores up in a table of words; see `HMM` and `MostFrequentTag`."""

    capabilities = frozenset({Capability.PROBABILITIES, Capability.WEIGHTS})

    table_ = Learned[WordTable | SparseWordTable]()
    training_ = Learned[dict[str, Any]](record=True)

    @property
    def words_(self) -> list[str]:
        """The V known words; none if the tagger has no table."""
        self._check_fitted("words_")
        return self.table_.known_words() if hasattr(self, "table_") else []

    def describe(self) -> dict[str, Any]:
        """Describe the tagger as plain data, ready for JSON.

        Returns
        -------
        dict
            As `Tagger.describe`, with the number of ``words``.
        """
        return super().describe() | {"words": len(self.words_)}

    def feature_weights(
        self, pattern: str | None = None, *, label: str | None = None, n: int | None = None
    ) -> Rows[FeatureWeight]:
        """List the scores of known words, the largest first.

        Parameters
        ----------
        pattern : str, optional
            A shell pattern that the attribute must match, such as ``"word=*ing"``.
        label : str, optional
            Only scores of this label.
        n : int, optional
            Maximum number.

        Returns
        -------
        list of FeatureWeight
            ``attribute``, ``label``, ``weight``: a logarithm of a probability.

        Raises
        ------
        LabelError
            If the label is unknown.

        Examples
        --------
        >>> import tagloom as tl
        >>> tagger = tl.MostFrequentTag().fit([["a", "b", "b"]], [["X", "Y", "Y"]])
        >>> [(w.attribute, w.label) for w in tagger.feature_weights(n=2)]
        [('word=a', 'X'), ('word=b', 'Y')]
        """
        self._check_fitted("feature_weights")
        names = self._label_list
        y = label_number(label, names)
        strongest = self.table_.strongest(pattern, y, n) if hasattr(self, "table_") else ()
        return Rows(
            FeatureWeight(attribute, names[i], weight) for attribute, i, weight in strongest
        )
