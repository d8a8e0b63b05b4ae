"""Lists of templates that serve a task as they are: ``features="pos"``.

All but "chunk-pos" see the tokens only, so that they work on any corpus; a list of your own starts
from one of these: ``[*PRESETS["ner"], "col(pos)[-1..1]"]``. They were chosen on development data of
several corpora; docs/templates.md says what each group of templates earns.
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
        "prefix(1..5, lower)",
        "suffix(1..6, lower)",
        "short_shape[-1..1]",
        "short_shape[-1] & short_shape",
        "short_shape & short_shape[1]",
        "digit",
        "upper",
        "hyphen",
    ],
    # Phrases that cover most of a sentence: words, endings and their pairs.
    "chunk": [
        "bias",
        "word",
        "lower[-2..2]",
        "lower[-1] & lower",
        "lower & lower[1]",
        "suffix(1..4)",
        "suffix(2..3)[-1]",
        "suffix(2..3)[1]",
        "lower[-1] & suffix(3)",
        "suffix(3) & lower[1]",
        "suffix(2)[-1] & suffix(2)",
        "suffix(2) & suffix(2)[1]",
        "short_shape",
        "digit",
        "upper",
        "hyphen",
    ],
    # The same where a column named pos has parts of speech.
    "chunk-pos": [
        "bias",
        "word",
        "lower[-2..2]",
        "lower[-1] & lower",
        "lower & lower[1]",
        "suffix(1..3)",
        "col(pos)[-2..2]",
        "col(pos)[-1] & col(pos)",
        "col(pos) & col(pos)[1]",
        "col(pos)[-2] & col(pos)[-1] & col(pos)",
        "col(pos)[-1] & col(pos) & col(pos)[1]",
        "col(pos) & col(pos)[1] & col(pos)[2]",
        "lower[-1] & col(pos)",
        "col(pos) & lower[1]",
    ],
    # Names: how this word and its neighbours are written.
    "ner": [
        "bias",
        "word",
        "lower[-2..2]",
        "lower[-1] & lower",
        "lower & lower[1]",
        "lower[-1] & lower[1]",
        "prefix(1..5, lower)",
        "suffix(1..5, lower)",
        "shape",
        "short_shape[-2..2]",
        "digit",
        "upper",
        "title",
        "hyphen",
        "punctuation",
    ],
}
