"""The interface of sklearn-crfsuite over tagloom: change the import, keep the programme.

::

    from tagloom.interop import sklearn_crfsuite               # was: import sklearn_crfsuite
    from tagloom.interop.sklearn_crfsuite import CRF, metrics  # was: from sklearn_crfsuite import …

Parameters, methods and attributes have the same names and forms. New programs are better off with
`tagloom.CRF`, which also has constraints, n-best lists, spans and files that are mapped.
"""

from typing import TYPE_CHECKING

from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom.interop.sklearn_crfsuite import metrics, scorers, utils
    from tagloom.interop.sklearn_crfsuite.estimators import CRF
else:
    __getattr__, __dir__ = lazily(
        __name__, {"estimators": ["CRF"], "metrics": [], "scorers": [], "utils": []}
    )

__all__ = ["CRF", "metrics", "scorers", "utils"]
