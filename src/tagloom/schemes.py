"""Label schemes as tables. All rules about BIO and similar schemes are in this module.

It lies below both packages that need the rules: `trellis` builds state spaces from them
(`StateSpace.bio`), `labels` reads and writes spans.

A label is a letter and a type, ``B-PER``, or ``O``. Each row of a scheme defines a letter::

          continues  otherwise        may    is written as          beside a span
          after      opens            end    first mid last single  of its type
    bio
      B   -          anywhere         yes    B     I   I    B       the same
      I   B I        never            yes
    iob1
      B   -          beside same      yes    I     I   I    I       B     I   I    B
      I   B I        anywhere         yes
    io
      I   I          anywhere         yes    I     I   I    I       cannot be written
    bioes
      B   -          anywhere         no     B     I   E    S       the same
      I   B I        never            no
      E   B I        never            yes
      S   -          anywhere         yes

    ioe2
      I   I          anywhere         no     I     I   E    E       the same
      E   I          anywhere         yes
    ioe1
      I   I          anywhere         yes    I     I   I    I       the same; the span before it
      E   I          anywhere         yes                           is then written  I I E E

A letter continues a span only after a token of the same type; "beside same" means right after such
a token. In ioe1 an E must stand before a span of its type. bilou is bioes with L for E and U for S;
bmes has M for I; bmewo has M for I and W for S. A label may also have its letter last, ``PER-B``;
``bio-suffix`` and the like write such labels. The spans of a label sequence, the legal
transitions and the validity reports all follow from these rows. The lenient reading of the CoNLL
shared tasks, ``CONLLEVAL``, is another such table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from tagloom import checks
from tagloom.errors import SchemeError
from tagloom.numeric import np
from tagloom.records import Record, replace
from tagloom.renames import renamed_function, warn_renamed

if TYPE_CHECKING:
    from numpy.typing import NDArray

OUTSIDE = "O"
FIND_SCHEME = "tagloom.labels.detect lists the schemes that fit."  # a hint in errors
# Codes of the letters, the same in every scheme: index into these strings. bilou spells the codes
# 3 and 4 as L and U, bmewo the codes 2 and 4 as M and W.
CODES = "OBIES"
_CODE_OF = {"B": 1, "I": 2, "M": 2, "E": 3, "L": 3, "S": 4, "U": 4, "W": 4}
NONE, OPEN, CONTINUE = 0, 1, 2  # actions of a token, as coded in the tables for native code


class Row(NamedTuple):
    """The rule for one letter: one row of the table above."""

    continues: str
    opens: str


class Scheme(Record):
    """A convention for writing spans as labels.

    Attributes
    ----------
    name : str
    rows : dict of str to Row
        The rule for each letter of ``"BIES"`` that the scheme has.
    closes : str
        The letters that may end a span.
    writes : str
        The letters of the first, a middle and the last token of a span, and of a one-token span.
    beside : str
        The same for a span right after another of its type; empty if the scheme cannot separate
        the two.
    letters : str
        How the scheme spells ``"OBIES"``; further letters are accepted in reading.
    before : str
        The letters of a span right before another of its type, if they differ from ``writes``.
    only_before : str
        The letters that may only stand right before a span of their type.
    marks : str
        Letters that tell the scheme from another one; `tagloom.labels.detect` names the scheme
        only if one of them occurs.
    is_suffix : bool
        Whether labels are written with the letter last, ``PER-B``. All schemes read both forms.

    Examples
    --------
    >>> from tagloom.schemes import get_scheme
    >>> bilou = get_scheme("bilou")
    >>> bilou.parse("U-PER"), bilou.join(4, "PER"), bilou.parse("S-PER")
    ((4, 'PER'), 'U-PER', None)
    """

    name: str
    rows: dict[str, Row]
    closes: str
    writes: str
    beside: str
    letters: str = CODES
    before: str = ""
    only_before: str = ""
    marks: str = ""
    is_suffix: bool = False

    def __str__(self) -> str:
        return self.name

    def parse(self, label: str) -> tuple[int, str] | None:
        """Split a label into the code of its letter and its type; None if it does not fit.

        A bare letter, ``B``, has the empty type. In ``io`` a label without a letter, ``PER``, is
        read as ``I-PER``.

        Examples
        --------
        >>> get_scheme("bio").parse("I-PER"), get_scheme("bio").parse("E-PER")
        ((2, 'PER'), None)
        """
        if label == OUTSIDE:
            return 0, ""
        split = split_label(label)
        if split is not None and self._spells(split[0]):
            return _CODE_OF[split[0]], split[1]
        is_type = split is None or not label.startswith((split[0], f"{split[0]}-"))
        if self.name == "io" and is_type and label:
            return _CODE_OF["I"], label
        return None

    def _spells(self, letter: str) -> bool:
        return letter in self.letters and CODES[_CODE_OF[letter]] in self.rows

    def join(self, code: int, type: str) -> str:
        """Return the label for a code and a type: the inverse of :meth:`parse`.

        Examples
        --------
        >>> get_scheme("bilou").join(3, "PER")
        'L-PER'
        """
        if code == 0:
            return OUTSIDE
        letter = self.letters[code]
        if not type:
            return letter
        return f"{type}-{letter}" if self.is_suffix else f"{letter}-{type}"

    @cached_property
    def actions(self) -> NDArray[np.uint8]:
        """Action of a token after another: ``[same, previous, current]``, shape (2, 5, 5).

        0: outside any span, 1: opens a span, 2: continues one; ``same`` is 1 if both tokens have
        the same type. The start of a sentence counts as O.
        """
        table = np.zeros((2, 5, 5), dtype=np.uint8)  # [same, previous, current]
        for letter, row in self.rows.items():
            current = CODES.index(letter)
            for previous, before in enumerate(CODES):
                for same in (0, 1):
                    beside = same == 1 and previous > 0
                    if beside and before in row.continues:
                        table[same, previous, current] = CONTINUE
                    elif row.opens == "anywhere" or (row.opens == "beside" and beside):
                        table[same, previous, current] = OPEN
        return table

    @property
    def forms(self) -> list[str]:
        """The forms of its labels, in quotes: ``'O'``, ``'B-…'``, ``'I-…'``."""
        letters = [self.letters[CODES.index(c)] for c in CODES if c in self.rows]
        shown = [f"…-{x}" if self.is_suffix else f"{x}-…" for x in letters]
        return [f"'{OUTSIDE}'", *(f"'{form}'" for form in shown)]

    @cached_property
    def closing(self) -> NDArray[np.uint8]:
        """Whether each letter may end a span, shape (5,); 1 for O."""
        return np.array([c == OUTSIDE or c in self.closes for c in CODES], dtype=np.uint8)

    @cached_property
    def legal(self) -> NDArray[np.bool_]:
        """The legal transitions, ``[same, previous, current]``, shape (2, 5, 5).

        A transition is legal if the current token continues the span before it; or if it opens a
        span or is O, and the span before it, if any, may end there. The edges of a sentence count
        as O.
        """
        action, closing = self.actions, self.closing.astype(bool)
        used = np.array([c == OUTSIDE or c in self.rows for c in CODES])  # [5]
        outside = np.zeros(5, dtype=bool)
        outside[0] = True
        table = ((action == OPEN) | outside) & closing[:, None] | (action == CONTINUE)
        for letter in self.only_before:
            table[0, CODES.index(letter), :] = False
            table[1, CODES.index(letter), 0] = False
        return np.asarray(table & used & used[:, None], dtype=np.bool_)


_BIO = {"B": Row("", "anywhere"), "I": Row("BI", "never")}
_BIOES = _BIO | {"E": Row("BI", "never"), "S": Row("", "anywhere")}
_IOE = {"I": Row("I", "anywhere"), "E": Row("I", "anywhere")}

SCHEMES = {
    scheme.name: scheme
    for scheme in (
        Scheme("bio", _BIO, "BI", "BIIB", "BIIB"),
        Scheme("iob1", {"B": Row("", "beside"), "I": Row("BI", "anywhere")}, "BI", "IIII", "BIIB"),
        Scheme("io", {"I": Row("I", "anywhere")}, "I", "IIII", ""),
        Scheme("bioes", _BIOES, "ES", "BIES", "BIES"),
        Scheme("bilou", _BIOES, "ES", "BIES", "BIES", letters="OBILU"),
        Scheme("bmes", _BIOES, "ES", "BIES", "BIES", letters="OBMES", marks="M"),
        Scheme("bmewo", _BIOES, "ES", "BIES", "BIES", letters="OBMEW", marks="W"),
        Scheme("ioe2", _IOE, "E", "IIEE", "IIEE", marks="E"),
        Scheme("ioe1", _IOE, "IE", "IIII", "IIII", before="IIEE", only_before="E", marks="E"),
    )
}
# The same schemes with the letter last, PER-B.
SUFFIXED = {
    f"{name}-suffix": replace(scheme, name=f"{name}-suffix", is_suffix=True)
    for name, scheme in SCHEMES.items()
}
# BIOES in either spelling: L and U are read as E and S.
BIOES_OR_BILOU = Scheme("bioes", _BIOES, "ES", "BIES", "BIES", letters="OBIESLU")
ALIASES = {"iob2": "bio", "iobes": "bioes"}

# How conlleval reads any labels, legal or not: a span is a maximal run of one type; B or S starts
# a new one, and so does any token after E or S. L and U are read as E and S.
CONLLEVAL = Scheme(
    "conlleval",
    {
        "B": Row("", "anywhere"),
        "I": Row("BI", "anywhere"),
        "E": Row("BI", "anywhere"),
        "S": Row("", "anywhere"),
    },
    closes="BIES",
    writes="BIIB",
    beside="BIIB",
)


def get_scheme(name: str | Scheme, parameter: str = "scheme") -> Scheme:
    """Look up a scheme by name.

    Parameters
    ----------
    name : str or Scheme
        ``bio`` (also ``iob2``), ``iob1``, ``bioes`` (also ``iobes``), ``bilou``, ``bmes``,
        ``bmewo``, ``ioe1``, ``ioe2`` or ``io``, in any case. With ``-suffix``, as in
        ``bio-suffix``, labels are written with the letter last.
    parameter : str
        Name of the parameter, for the error.

    Returns
    -------
    Scheme

    Raises
    ------
    SchemeError
        If the scheme does not exist.

    Examples
    --------
    >>> get_scheme("IOB2").name
    'bio'
    """
    if isinstance(name, Scheme):
        return name
    key = str(name).lower()
    key = ALIASES.get(key, key)
    if (scheme := SCHEMES.get(key) or SUFFIXED.get(key)) is None:
        names = ", ".join([*SCHEMES, *ALIASES])
        raise SchemeError(parameter=parameter, expected=f"one of {names}", found=checks.show(name))
    return scheme


@lru_cache(maxsize=4096)  # a corpus has few labels and many tokens
def split_label(label: str) -> tuple[str, str] | None:
    """Split a label other than O into its letter and its type: ``B-PER``, or ``PER-B``.

    Examples
    --------
    >>> split_label("B-PER"), split_label("PER-B"), split_label("NOUN")
    (('B', 'PER'), ('B', 'PER'), None)
    """
    if label[:1] in _CODE_OF and label[1:2] in ("", "-"):
        return label[0], label[2:]
    if len(label) > 2 and label[-2] == "-" and label[-1] in _CODE_OF:
        return label[-1], label[:-2]
    return None


def parse_label(label: str) -> tuple[int, str] | None:
    """Split a label into the code of its letter and its type, in any scheme.

    The type is the text after the first hyphen, including further hyphens, or, in labels such as
    ``PER-B``, the text before the last one. A bare letter has the empty type. Returns None if the
    label has no letter of a scheme.

    Examples
    --------
    >>> parse_label("B-GPE-LOC"), parse_label("O"), parse_label("NOUN"), parse_label("PER-B")
    ((1, 'GPE-LOC'), (0, ''), None, (1, 'PER'))
    """
    if label == OUTSIDE:
        return 0, ""
    split = split_label(label)
    return None if split is None else (_CODE_OF[split[0]], split[1])


class LegalTransitions(NamedTuple):
    """The legal transitions among ``Y`` labels, as masks.

    Attributes
    ----------
    start : ndarray of bool, shape (Y,)
        Whether a label may begin a sentence.
    transitions : ndarray of bool, shape (Y, Y)
        Whether a label may follow another: ``[from, to]``.
    stop : ndarray of bool, shape (Y,)
        Whether a label may end a sentence.

    Examples
    --------
    >>> legal_transitions(["O", "B-PER", "E-PER"], "bioes").stop.tolist()
    [True, False, True]
    """

    start: NDArray[np.bool_]
    transitions: NDArray[np.bool_]
    stop: NDArray[np.bool_]

    @property
    def moves(self) -> NDArray[np.bool_]:
        """Old name of `transitions`."""
        warn_renamed("LegalTransitions.moves", "transitions")
        return self.transitions


def legal_transitions(labels: Sequence[str], scheme: str | Scheme) -> LegalTransitions:
    """Return which labels may begin a sentence, follow each other and end it.

    Parameters
    ----------
    labels : sequence of str
        The label set, ``Y`` labels.
    scheme : str or Scheme

    Returns
    -------
    LegalTransitions

    Raises
    ------
    SchemeError
        If a label does not belong to the scheme.

    Examples
    --------
    >>> start, transitions, stop = legal_transitions(["O", "B-PER", "I-PER"], "bio")
    >>> start.tolist()
    [True, True, False]
    >>> transitions.astype(int).tolist()
    [[1, 1, 0], [1, 1, 1], [1, 1, 1]]
    """
    table = get_scheme(scheme)
    splits = []
    for y, label in enumerate(labels):
        if (split := table.parse(label)) is None:
            raise SchemeError(
                where=f"labels[{y}]",
                expected=f"a label of {table.name}: {', '.join(table.forms)}",
                found=repr(label),
                hint=FIND_SCHEME,
            )
        splits.append(split)
    codes = np.array([code for code, _ in splits], dtype=np.intp)  # [Y]
    types = np.array([type for _, type in splits], dtype=object)  # [Y]
    same = (types[:, None] == types[None, :]).astype(np.intp)  # [Y, Y]
    # The edges of a sentence count as O without a type, which differs from every other type.
    return LegalTransitions(
        start=table.legal[0, 0, codes],
        transitions=table.legal[same, codes[:, None], codes[None, :]],
        stop=table.legal[0, codes, 0],
    )


LegalMoves = LegalTransitions  # the old name
legal_moves = renamed_function("legal_moves", legal_transitions)
