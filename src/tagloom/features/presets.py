"""Lists of templates that serve a task as they are: ``features="pos"``.

They see the tokens only, so that they work on any corpus; a list of your own starts from one of
these: ``[*PRESETS["ner"], "col(pos)[-1..1]"]``.
"""

from __future__ import annotations

PRESETS: dict[str, list[str]] = {
    # The word itself: what a hidden Markov model looks at.
    "words": ["word"],
    # Parts of speech and morphology: the words around, and the spelling of this one.
    "pos": [
        "bias",
        "word",
        "lower[-2..2]",
        "lower[-1] & lower",
        "lower & lower[1]",
        "prefix(1..4)",
        "suffix(1..5)",
        "short_shape[-1..1]",
        "short_shape[-1] & short_shape",
        "short_shape & short_shape[1]",
        "digit",
        "upper",
        "hyphen",
    ],
    # Phrases that cover most of a sentence: words and pairs of words in a window.
    "chunk": [
        "bias",
        "word",
        "lower[-2..2]",
        "lower[-2] & lower[-1]",
        "lower[-1] & lower",
        "lower & lower[1]",
        "lower[1] & lower[2]",
        "prefix(3)",
        "suffix(1..4)",
        "suffix(2..3)[-1]",
        "suffix(2..3)[1]",
        "short_shape[-1..1]",
        "digit",
        "punctuation[-1..1]",
    ],
    # Names: how this word and its neighbours are written.
    "ner": [
        "bias",
        "word",
        "lower[-2..2]",
        "lower[-1] & lower",
        "lower & lower[1]",
        "prefix(1..4)",
        "suffix(1..4)",
        "shape[-1..1]",
        "short_shape[-2..2]",
        "short_shape[-1] & short_shape",
        "short_shape & short_shape[1]",
        "digit",
        "upper",
        "title[-1..1]",
        "hyphen",
        "date",
    ],
}
