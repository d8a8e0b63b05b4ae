r"""Template files of CRF++, read unchanged.

    U01:%x[-1,0]/%x[0,0]     tied to the label:  "U01:" + token before + "/" + token
    B                        every pair of labels has a weight
    B02:%x[0,1]              tied to (previous label, label)

``%x[row,column]`` is the value of a column of the data at an offset from the current token. Every
other character stands for itself, so attributes have the same names as in CRF++. The values before
the first token are ``_B-1``, ``_B-2``, ..., after the last one ``_B+1``, ...
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from tagloom import checks
from tagloom.errors import TemplateError
from tagloom.features.expressions import QUOTED, Atom, Factor, Template
from tagloom.features.templates import Templates
from tagloom.sequences.files import read_lines

_MACRO = re.compile(r"%x\[(-?\d+),(\d+)\]")


class CRFppTemplates(Templates):
    r"""The templates of a CRF++ file.

    Parameters
    ----------
    lines : iterable of str
        Lines of the file, with or without line ends.
    path : str, optional
        Name of the file, for messages.

    Raises
    ------
    TemplateError
        If a line does not start with U, B or #, or has a % that is not ``%x[row,col]``.

    Examples
    --------
    >>> from tagloom.features import CRFppTemplates
    >>> CRFppTemplates(["U01:%x[-1,0]/%x[0,0]", "B"]).extract(["the", "toves"])
    [{'U01:_B-1/the': 1.0}, {'U01:the/toves': 1.0}]
    """

    def __init__(self, lines: Iterable[str], path: str | None = None) -> None:
        kept = [line.rstrip("\n") for line in lines]
        records = []
        transitions = False
        for number, line in enumerate(kept, start=1):
            line = line.rstrip("\r")
            if not line.strip() or line.startswith("#"):
                continue
            where = f"{path}:{number}" if path else f"line {number}"
            if line[0] not in "UB":
                raise TemplateError(
                    where=where,
                    expected="a line that starts with U (one label), B (two labels) or # (comment)",
                    found=checks.show(line, QUOTED),
                )
            record = _read_line(line, where)
            if record.edge and not record.factors and not transitions:
                transitions = True  # the same for all tokens: a weight for the pair of labels
            else:  # also a second B: CRF++ gives each of them its own weights
                records.append(record)
        saved = {"kind": "crfpp", "lines": kept}
        self._build(records, saved, "_B{:+d}".format, transitions=transitions)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CRFppTemplates:
        """Make templates from the result of `to_dict`.

        Parameters
        ----------
        data : mapping

        Returns
        -------
        CRFppTemplates
        """
        return cls(data["lines"])


def _read_line(line: str, where: str) -> Template:
    literals, factors, place = [""], [], 0
    while place < len(line):
        if line[place] != "%":
            literals[-1] += line[place]
            place += 1
            continue
        match = _MACRO.match(line, place)
        if match is None:
            raise TemplateError(
                where=f"{where}, {checks.show(line, QUOTED)}, character {place + 1}",
                expected="%x[row,column] with integers, such as %x[-1,0]",
                found=repr(line[place : place + 8]),
                hint="If the file is a Wapiti pattern, use read_wapiti().",
            )
        factors.append(Factor(Atom(int(match[2])), int(match[1])))
        literals.append("")
        place = match.end()
    return Template(line, tuple(literals), tuple(factors), None, line[0] == "B")


def read_crfpp(path: str | os.PathLike[str]) -> CRFppTemplates:
    r"""Read a CRF++ template file.

    Columns are numbered as in the file, as in CRF++. In a Sentence made in Python, column 0 is the
    tokens and the others follow.

    Parameters
    ----------
    path : path

    Returns
    -------
    CRFppTemplates

    Raises
    ------
    TemplateError
        If a line is malformed; the error names file, line and character.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from tagloom.features import read_crfpp
    >>> path = pathlib.Path(tempfile.mkdtemp(), "template")
    >>> _ = path.write_text("# words\nU00:%x[0,0]\nB\n")
    >>> read_crfpp(path)
    CRFppTemplates(['U00:%x[0,0]'])
    """
    return CRFppTemplates(read_lines(path), os.fspath(path))
