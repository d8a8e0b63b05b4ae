"""The same features for both sides: a typical word2features, and equivalent templates.

The peers get Python code of the kind that their users write; tagloom gets templates. Both use
tagloom's attribute names, so that `check_same` can compare them in the jobs that rely on it.
"""

from __future__ import annotations

from collections.abc import Sequence

TEMPLATES = [
    "bias",
    "word",
    "lower[-2..2]",
    "lower[-1] & lower",
    "lower & lower[1]",
    "prefix(1..3)",
    "suffix(1..3)",
    "upper",
    "title",
    "digits",
]


def word2features(words: Sequence[str], lower: Sequence[str], t: int) -> list[str]:
    """Return the attributes of a token; `lower` has two extra tokens on either side."""
    word, here = words[t], t + 2
    before, this, after = lower[here - 1], lower[here], lower[here + 1]
    features = [
        "bias",
        "word=" + word,
        "lower[-2]=" + lower[here - 2],
        "lower[-1]=" + before,
        "lower=" + this,
        "lower[1]=" + after,
        "lower[2]=" + lower[here + 2],
        "lower[-1]&lower=" + before + "|" + this,
        "lower&lower[1]=" + this + "|" + after,
        "prefix(1)=" + word[:1],
        "suffix(1)=" + word[-1:],
    ]
    if len(word) > 1:
        features += ["prefix(2)=" + word[:2], "suffix(2)=" + word[-2:]]
    if len(word) > 2:
        features += ["prefix(3)=" + word[:3], "suffix(3)=" + word[-3:]]
    if word.isupper():
        features.append("upper")
    if word.istitle():
        features.append("title")
    if word.isdigit():
        features.append("digits")
    return features


def sent2features(words: Sequence[str]) -> list[list[str]]:
    """Return the attributes of every token of a sentence."""
    lower = ["<-2>", "<-1>", *(word.lower() for word in words), "<+1>", "<+2>"]
    return [word2features(words, lower, t) for t in range(len(words))]


def check_same(sentences: Sequence[Sequence[str]]) -> float:
    """Check that the templates give the same attributes; return their mean number per token."""
    import tagloom as tl

    templates = tl.features.Templates(TEMPLATES)
    n_tokens = n_attributes = 0
    for words in sentences:
        for ours, theirs in zip(templates.extract(words), sent2features(words), strict=True):
            if set(ours) != set(theirs) or set(ours.values()) != {1.0}:
                raise AssertionError(f"templates give {ours}, word2features {theirs}")
            n_tokens += 1
            n_attributes += len(theirs)
    return n_attributes / n_tokens
