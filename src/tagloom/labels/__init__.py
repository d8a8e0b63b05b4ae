"""Label schemes as tables: labels to spans and back, conversion, detection and validity.

The tables are in `tagloom.schemes`; ``spans`` reads and writes with them, ``validity`` reports
illegal labels, ``label_lists`` checks arguments.
"""

from typing import TYPE_CHECKING

from tagloom.exports import lazily
from tagloom.schemes import (
    SCHEMES,
    LegalMoves,  # noqa: F401  # an old name
    LegalTransitions,
    Scheme,
    get_scheme,
    legal_moves,  # noqa: F401  # an old name
    legal_transitions,
)

if TYPE_CHECKING:
    from tagloom.labels.spans import Span, SpanRules, convert, from_spans, span_rules, to_spans
    from tagloom.labels.validity import (
        Detection,
        Problem,
        ValidityReport,
        detect,
        state_space,
        validate,
    )
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "spans": ["Span", "SpanRules", "convert", "from_spans", "span_rules", "to_spans"],
            "validity": [
                "Detection",
                "Problem",
                "ValidityReport",
                "detect",
                "state_space",
                "validate",
            ],
        },
    )

__all__ = [
    "SCHEMES",
    "Detection",
    "LegalTransitions",
    "Problem",
    "Scheme",
    "Span",
    "SpanRules",
    "ValidityReport",
    "convert",
    "detect",
    "from_spans",
    "get_scheme",
    "legal_transitions",
    "span_rules",
    "state_space",
    "to_spans",
    "validate",
]
