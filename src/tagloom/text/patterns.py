r"""The rules of the preset "rules", as data: word lists and a table of patterns.

A text is first cut at blanks. Each piece between blanks is then cut by the first pattern of
`PATTERNS` that matches at the current place; the match is one token. The lists were chosen on the
training part of a treebank of English web text, but nothing here is specific to its domain.

The patterns never span blanks and are written without nested repetition, so that a piece of n
characters takes at most O(n²) steps; `rules` cuts long pieces by a linear pattern instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

#: Punctuation and symbols. Everything else that is not blank belongs to words: letters, digits and
#: combining marks of any script, which ``\w`` does not cover.
MARKS = (
    r"\x00-\x2f\x3a-\x40\x5b-\x5e`\x7b-\xa9\xab-\xb1\xb4\xb6-\xb8\xbb\xbf\xd7\xf7"  # ASCII, Latin-1
    r"\u0387\u0589\u058a\u05be\u05c0\u05c3\u060c\u061b\u061f\u06d4\u0964\u0965"  # other alphabets
    r"\u0df4\u0e2f\u0e5a\u0e5b\u0f0d-\u0f12\u104a\u104b\u1361-\u1368\u17d4-\u17da"
    r"\u2000-\u200b\u200e-\u2064\u20a0-\u20cf\u2100-\u214f\u2190-\u2bff\u2e00-\u2e7f"
    r"\u3000-\u3004\u3008-\u3020\u3030\u30a0\u30fb\ufe10-\ufe1f\ufe30-\ufe6f\ufeff"
    r"\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\ufff0-\uffff\U0001f000-\U0001faff"
)
#: One character of a word, and one letter.
WORD = rf"[^\s{MARKS}]"
LETTER = rf"[^\s\d_{MARKS}]"


def _words(text: str) -> list[str]:
    return text.split()


#: Abbreviations before a name or number: a sentence does not end after them.
TITLES = _words(
    """
    Mr Mrs Ms Mx Dr Prof Rev Hon Pres Gov Sen Rep Reps Gen Lt Col Maj Capt Cpt Cmdr Adm Sgt Cpl Pvt
    Messrs Mme Mlle Fr Sr Jr St Ste Mt Ft vs No Nos Vol Vols Fig Figs Eq Eqs Sec Ch Art Para pp
    ed eds cf e.g i.e eg ca approx esp Esp incl attn Attn
    """
)
#: Further abbreviations, after which a sentence may end.
ABBREVIATIONS = _words(
    """
    etc al Inc Ltd Co Corp Bros Cos LLC Dept Univ Assn Assoc Ave Blvd Rd Hwy Bldg Ext ext Tel Fax
    Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue Tues Wed Thu Thur Thurs Fri Sat Sun
    Ariz Ark Calif Colo Conn Del Fla Ga Ill Ind Kan Ky La Md Mass Mich Minn Miss Mo Mont Neb Nev
    Okla Ore Pa Penn Tenn Tex Va Vt Wash Wis Wyo Que Ont oz lb lbs hr hrs mins yr yrs sq Ph Sc
    rec dom arrv Arrv lv ps co conf Conf misc Misc
    """
)
#: Units that are cut from the number before them: 5 km, 10 pm.
UNITS = _words(
    """
    am pm a.m p.m AM PM k K m M b B bn mm cm km kg mg g lb lbs oz ft in mi yd sq kb KB MB GB TB Hz
    kHz MHz GHz W kW MW kWh MWh V mph kph C F x hh hrs hr h min mins s sec
    """
)
# Words before a not that lost its apostrophe, and before other such words.
_BEFORE_NOT = _words("do did does is was were would could should have has had are ca wo ai")
_BEFORE_IS, _BEFORE_ARE = _words("that what there here he she"), _words("you they")
#: Words that are two tokens: where the second begins.
FUSED = {"cannot": 3, "gonna": 3, "wanna": 3, "gotta": 3, "gimme": 3, "lemme": 3, "im": 1, "ive": 1}
FUSED |= {f"{word}nt": len(word) for word in _BEFORE_NOT}
FUSED |= {f"{word}s": len(word) for word in _BEFORE_IS}
FUSED |= {f"{word}{end}": len(word) for word in _BEFORE_ARE for end in ("re", "ve")}
#: Prefixes that a hyphen joins to a word: e-mail.
PREFIXES = _words(
    """
    anti bi co counter de e ex extra hyper inter intra macro mega meta mid micro mini multi neo non
    over para poly post pre pro proto pseudo psycho quasi re semi socio sub super trans tri ultra un
    under
    """
)
DOMAINS = _words("com org net edu gov mil int info biz io uk de fr eu ca au us ru nl nz")
FILES = _words(
    """
    doc docx xls xlsx ppt pptx pdf txt csv tsv html htm xml json zip gz tar exe jpg jpeg png gif mp3
    mp4 avi url
    """
)


def any_of(words: Iterable[str], *, folded: bool = False) -> str:
    """Return a pattern that matches one of some words, the longest first."""
    longest_first = sorted(words, key=lambda word: (-len(word), word))
    pattern = "|".join(map(re.escape, longest_first))
    return f"(?i:{pattern})" if folded else f"(?:{pattern})"


def abbreviation_pattern(words: Iterable[str]) -> str:
    """Return the pattern of some abbreviations, given without their full stop."""
    return rf"{any_of(words)}\.(?!{WORD}|\.)"


#: What a hyphen joins, by policy.
HYPHENS = {
    "split": rf"{any_of(PREFIXES, folded=True)}-{LETTER}{WORD}*",
    "keep": rf"{WORD}+(?:-{WORD}+)+",
}


class Pattern(NamedTuple):
    """One row of the table.

    Attributes
    ----------
    name : str
    regex : str
        What a token looks like; it is tried after the patterns before it.
    example : str
        A piece of text that begins with such a token.
    is_contraction : bool
        Whether it is used only if contractions are cut.
    """

    name: str
    regex: str
    example: str
    is_contraction: bool = False


_QUOTE = "['’`´]"  # apostrophes, also as people type them
_CLITIC = "(?i:s|m|d|re|ve|ll)"
_END = rf"(?!{WORD})"  # the end of a word
_URL_END = r"[^\s<>\"“”.,;:!?'’)\]}*|]"
_SYMBOL = r"[\u2190-\u2bff\U0001f000-\U0001faff]"  # where emoji are
_MODIFIER = r"[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff]"

#: The patterns in the order in which they are tried.
PATTERNS = (
    Pattern(
        "url",
        rf"(?i:(?:https?|ftp|file)://|www\d?\.|mailto:)[^\s<>\"“”]*{_URL_END}/?",
        "https://example.org/a?b=1",
    ),
    Pattern("email", rf"{WORD}[\w.+%&-]*@(?:[\w-]+\.)*[\w-]*\w", "ada@example.org"),
    Pattern(
        "domain",
        rf"(?:[\w-]+\.)+{any_of(DOMAINS, folded=True)}(?![\w-])(?:/[^\s<>\"“”]*{_URL_END}/?)?",
        "example.co.uk/path",
    ),
    Pattern("file", rf"[\w#~-]*(?:\.[\w-]+)*\.{any_of(FILES, folded=True)}(?!\w)", "report-2.xls"),
    Pattern("tag", rf"[#@](?=\w*[^\W\d])\w+{_END}", "#topic"),
    Pattern(
        "emoticon",
        r">?[:;]['’]?[-o^]?[()\[\]DPp/\\|*3]+(?![\w/])|=[()\[\]DP](?!\w)|[8xX]-[()D](?!\w)"
        r"|[(\[]+[-o]?[:;=](?!\w)|<3+(?!\d)|\^_+\^|[oO]_[oO](?!\w)",
        ":-)",
    ),
    Pattern(
        "emoji",
        rf"[\U0001f1e6-\U0001f1ff]{{2}}|{_SYMBOL}{_MODIFIER}*(?:\u200d{_SYMBOL}{_MODIFIER}*)*",
        "👩\u200d💻",
    ),
    Pattern(
        "telephone",
        rf"\+?(?:\d{{1,3}}[-.])?\d{{3}}[-./]\d{{3}}[-.]\d{{4}}{_END}|\d{{3}}-\d{{4}}{_END}",
        "713-555-0199",
    ),
    Pattern("date", rf"\d{{1,4}}(?P<date>[-/.])\d{{1,2}}(?P=date)\d{{2,4}}{_END}", "2024-05-17"),
    Pattern("year", rf"['’]\d\ds?{_END}", "'99"),
    Pattern("ordinal", rf"\d+(?:['’]?s|(?i:st|nd|rd|th)){_END}", "1990s"),
    Pattern("quantity", rf"(?:\d+[.,:])*\d+(?={any_of(UNITS)}\.?{_END})", "5km"),
    Pattern("number", rf"(?:\A[+-])?(?:\d+(?:[.,:/]\d+)*|\.\d+)(?!{WORD})", "1,234.5"),
    Pattern("initials", r"(?:[^\W\d_]\.){2,}(?:[^\W\d_](?!\w))?", "U.S."),
    Pattern("abbreviation", abbreviation_pattern([*TITLES, *ABBREVIATIONS]), "Mr."),
    Pattern("initial", rf"[A-Z]\.(?!{WORD}|\.)", "J."),
    Pattern("ellipsis", r"…+\.*|\.{2,}", "..."),
    Pattern("exclamation", r"[!?]{2,}\.?|\.[?!]+", "?!"),
    Pattern("arrow", r"<?[-=]+>|<[-=]+|<{2,}|>{2,}", "->"),
    Pattern("run", r"(?P<run>[-=*_~#+^|$,])(?P=run)+", "----"),
    Pattern("quotes", r"''|``|’’|‘’|‘‘", "''"),
    Pattern("clitic", rf"{_QUOTE}{_CLITIC}{_END}", "'ll", True),
    Pattern("not", rf"(?i:n{_QUOTE}t){_END}", "n't", True),
    Pattern("before not", rf"{LETTER}+?(?=(?i:n{_QUOTE}t){_END})", "don't", True),
    Pattern("hyphenated", HYPHENS["split"], "e-mail"),
    Pattern("ampersand", r"[A-Z]{1,3}(?:&[A-Z]{1,3})+(?![\w&])", "AT&T"),
    Pattern("before clitic", rf"{WORD}+(?={_QUOTE}{_CLITIC}{_END})", "we'll", True),
    Pattern("word", rf"{WORD}+(?:['’]{LETTER}+)*", "O'Brien"),
    Pattern("mark", r"\S", ","),
)
