"""Ready-made lists of templates for common tasks: ``features="pos"``.

All except "chunk-pos" read only tokens, so they work on any corpus. They can be extended:
``[*PRESETS["ner"], "col(pos)[-1..1]"]``. They were chosen on development data of several corpora;
docs/templates.md has the gain of each group of templates.
"""

from __future__ import annotations

PRESETS: dict[str, list[str]] = {
    # The word itself, as in a hidden Markov model.
    "words": ["word"],
    # Parts of speech and morphology: the surrounding words, and the spelling of this one.
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
    # The same for data with parts of speech in a column named pos.
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
