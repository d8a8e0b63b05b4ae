"""Label schemes as tables: labels to spans and back, conversion, detection and validity.

``schemes`` holds the tables, ``spans`` reads and writes with them, ``validity`` says what is legal,
``rows`` checks what users pass in.
"""

from typing import TYPE_CHECKING

from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom.labels.schemes import SCHEMES, Scheme, get_scheme
    from tagloom.labels.spans import Span, SpanRules, convert, from_spans, span_rules, to_spans
    from tagloom.labels.validity import (
        Detection,
        LegalMoves,
        Problem,
        ValidityReport,
        detect,
        legal_moves,
        validate,
    )
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "schemes": ["SCHEMES", "Scheme", "get_scheme"],
            "spans": ["Span", "SpanRules", "convert", "from_spans", "span_rules", "to_spans"],
            "validity": [
                "Detection",
                "LegalMoves",
                "Problem",
                "ValidityReport",
                "detect",
                "legal_moves",
                "validate",
            ],
        },
    )

__all__ = [
    "SCHEMES",
    "Detection",
    "LegalMoves",
    "Problem",
    "Scheme",
    "Span",
    "SpanRules",
    "ValidityReport",
    "convert",
    "detect",
    "from_spans",
    "get_scheme",
    "legal_moves",
    "span_rules",
    "to_spans",
    "validate",
]
