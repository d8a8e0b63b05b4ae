"""A plain extractor to judge the native one: slow, obvious, and written against Python's str."""

import re
import unicodedata

DATE = re.compile(
    r"[12][0-9]{3}"
    r"|([0-9]{1,2}|[0-9]{4})([-/.])[0-9]{1,2}\2([0-9]{1,2}|[0-9]{4})"
    r"|[0-9]{1,2}\.[0-9]{1,2}\."
)


def shape(word):
    out = ""
    for c in word:
        if c.isupper() or c.istitle():
            out += "X"
        elif c.islower() or c.isalpha():
            out += "x"
        elif c.isdigit():
            out += "d"
        else:
            out += c
    return out


def short_shape(word):
    return re.sub(r"(.)\1+", r"\1", shape(word), flags=re.DOTALL)


def is_punctuation(word):
    return word != "" and all(unicodedata.category(c)[0] in "PS" for c in word)


FLAGS = {
    "digit": lambda w: any(c.isdigit() for c in w),
    "digits": str.isdigit,
    "decimal": str.isdecimal,
    "numeric": str.isnumeric,
    "alpha": str.isalpha,
    "alnum": str.isalnum,
    "ascii": str.isascii,
    "upper": str.isupper,
    "lowercase": str.islower,
    "title": str.istitle,
    "punctuation": is_punctuation,
    "hyphen": lambda w: any(c in w for c in "-\u2010\u2011"),
    "date": lambda w: DATE.fullmatch(w) is not None,
}
TEXTS = {
    "value": lambda w, _: w,
    "lower": lambda w, _: w.lower(),
    "prefix": lambda w, n: w[:n] if len(w) >= n else None,
    "suffix": lambda w, n: w[len(w) - n :] if len(w) >= n else None,
    "lower_prefix": lambda w, n: TEXTS["prefix"](w.lower(), n),
    "lower_suffix": lambda w, n: TEXTS["suffix"](w.lower(), n),
    "listed_prefix": lambda w, x: max((p for p in x if w.startswith(p)), key=len, default=None),
    "listed_suffix": lambda w, x: max((p for p in x if w.endswith(p)), key=len, default=None),
    "shape": lambda w, _: shape(w),
    "short_shape": lambda w, _: short_shape(w),
    "length": lambda w, _: str(len(w)),
    "python": lambda w, function: function(w),
}
KINDS = [*FLAGS, *TEXTS]


def value(kind, argument, word):
    """The value of one atom: a str, or None."""
    if kind in FLAGS:
        return "" if FLAGS[kind](word) else None
    return TEXTS[kind](word, argument)


def names(program, columns, numeric=()):
    """As Extractor.names, for program = (atoms, boundary, templates, before, after)."""
    atoms, boundary, templates, before, after = program

    def factor(sentence, t, atom, offset):
        column, kind, argument = atoms[atom]
        words, at = columns[column][sentence], t + offset
        if 0 <= at < len(words):
            return value(kind, argument, words[at])
        strings, distance = (before, -at) if at < 0 else (after, at - len(words) + 1)
        if not boundary[atom] or not strings:
            return None
        return strings[min(distance, len(strings)) - 1]

    out, flat = [], 0
    for sentence in range(len(columns[0])):
        for t in range(len(columns[0][sentence])):
            found = []
            for literals, factors, number in templates:
                values = [factor(sentence, t, *one) for one in factors]
                if None in values:
                    continue
                name = literals[0] + "".join(
                    v + l for v, l in zip(values, literals[1:], strict=True)
                )
                found.append((name, 1.0 if number < 0 else float(numeric[number][flat])))
            out.append(found)
            flat += 1
    return out
