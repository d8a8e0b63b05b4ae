"""Models of Wapiti, which are text.

::

    #mdl#2#925              kind (0 maxent, 1 memm, 2 crf; older files have none), number of weights
    #rdr#8/1/0              numbers of patterns and of columns, whether "u" is put before features
    14:u:w-1=%x[-1,0],      the patterns, each with its length in bytes
    #qrk#18                 number of labels
    4:B-NP,
    #qrk#358                number of attributes
    10:u:w-1=_x-1,
    2=-0x1.031b7d7e0300bp+1 index and value of each weight that is not zero

The attributes lie one after another in the weight vector, Y weights for ``u``, Y·Y for ``b``, both
for ``*``.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import ModelFileError, TemplateError
from tagloom.features import WapitiTemplates
from tagloom.interop import sources
from tagloom.interop.attributes import Attributes, make_scores
from tagloom.interop.sources import Source, check_labels, damaged
from tagloom.models.crf import CRF
from tagloom.models.linear import LinearTagger
from tagloom.models.memm import MEMM
from tagloom.scores import LinearScores

MAGIC = b"#mdl#"
_MAXENT, _MEMM, _CRF = range(3)
_FIRST = re.compile(rb"#mdl#(?:([0-2])#)?([0-9]{1,15})\n")
_READER = re.compile(rb"#rdr#([0-9]{1,9})/([0-9]{1,9})/([01])\n")
_QUARKS = re.compile(rb"#qrk#([0-9]{1,15})\n")
_LENGTH = re.compile(rb"([0-9]{1,9}):")


def read_wapiti_model(
    source: Source, *, features: Any = None, encoding: str = "utf-8", where: str | None = None
) -> LinearTagger:
    r"""Read a model of Wapiti; `tagloom.load` does the same.

    The patterns are in the model. Sentences need the columns that they read, as in Wapiti.

    Parameters
    ----------
    source : str, path, bytes or file object
    features : None
        Not used: the patterns are in the model.
    encoding : str
        Encoding of the model: that of the training data.
    where : str, optional
        Name of the file in errors.

    Returns
    -------
    CRF or MEMM
        A maximum entropy model of Wapiti becomes a `CRF` without transitions, which is the same.

    Raises
    ------
    ModelFileError
        If the file is not such a model, is damaged, or was trained without patterns.

    Examples
    --------
    >>> import tagloom as tl
    >>> model = b"#mdl#2#3\n#rdr#1/1/0\n9:u:%x[0,0],\n#qrk#2\n1:N,\n1:V,\n"
    >>> model += b"#qrk#2\n6:u:they,\n6:u:fish,\n0=0x1.8p+0\n2=-0x1p-1\n3=0x1p-1\n"
    >>> tl.load(model).predict([["they", "fish"]])
    [['N', 'V']]
    """
    data, where = sources.read_bytes(source, where)
    if features is not None:
        raise ModelFileError(
            where=where,
            parameter="features",
            expected="left out: the patterns are in the model",
            found=checks.show(features),
        )
    reader = _Reader(data, where, encoding)
    kind, n_weights = reader.numbers(_FIRST, "a line #mdl#kind#count")
    n_patterns, _, _ = reader.numbers(_READER, "a line #rdr#patterns/columns/0")
    if not n_patterns:
        raise ModelFileError(
            where=where,
            expected="a model trained with patterns",
            found="none: its data already were features",
            hint="Train a tl.CRF(features=None) with the same features.",
        )
    patterns = reader.strings(n_patterns)
    labels = check_labels(reader.strings(reader.count()), f"{where}: labels", len(data))
    attributes = _lay_out(reader.strings(reader.count()), len(labels), where)
    weights = _read_weights(data[reader.at :], n_weights, where)
    try:
        templates = WapitiTemplates(patterns)
    except TemplateError as error:
        raise damaged(f"{where}: patterns", str(error.expected), str(error.found)) from error
    constants = {p[0].lower() + p[1:] for p in patterns if p[:1] in "bB*" and "%" not in p}
    scores = make_scores(labels, templates, constants, attributes, weights, where)
    return _make_tagger(_CRF if kind is None else kind, scores)


def load_foreign(source: Source, features: Any, where: str) -> LinearTagger:
    """Read a model for `tagloom.load`."""
    return read_wapiti_model(source, features=features, where=where)


def _make_tagger(kind: int, scores: LinearScores) -> LinearTagger:
    options: dict[str, Any] = {
        "training": {"tool": "Wapiti"},
        "features": scores.extractor,
        "labels": list(scores.labels),
        "algorithm": "lbfgs",
        "combinations": "all",
        "constraints": None,
    }
    if kind == _MEMM:
        return MEMM.from_scores(scores, **options)
    return CRF.from_scores(scores, boundaries=False, **options)


class _Reader:
    """Reads the parts of a model one after another.

    Parameters
    ----------
    data : bytes
    where : str
    encoding : str
    """

    def __init__(self, data: bytes, where: str, encoding: str) -> None:
        self.data, self.where, self.encoding = data, where, encoding
        self.at = 0

    def numbers(self, pattern: re.Pattern[bytes], expected: str) -> list[Any]:
        """Read a line of numbers; None for one that is absent."""
        match = pattern.match(self.data, self.at)
        if match is None:
            raise self._damaged(expected)
        self.at = match.end()
        return [None if group is None else int(group) for group in match.groups()]

    def count(self) -> int:
        """Read the number of strings that follow."""
        (n,) = self.numbers(_QUARKS, "a line #qrk#count")
        if 4 * n > len(self.data):  # the shortest string is "0:,\n"
            raise self._damaged(f"fewer than {n:,} strings in {len(self.data):,} bytes")
        return int(n)

    def strings(self, n: int) -> list[str]:
        """Read strings, each as its length in bytes, a colon, its text, a comma and a newline."""
        if 4 * n > len(self.data):
            raise self._damaged(f"fewer than {n:,} strings in {len(self.data):,} bytes")
        data, strings = self.data, []
        for _ in range(n):
            match = _LENGTH.match(data, self.at)
            end = 0 if match is None else match.end() + int(match[1])
            if match is None or data[end : end + 2] != b",\n":
                raise self._damaged("a string, as length:text and a comma")
            strings.append(sources.decode(data[match.end() : end], self.where, self.encoding))
            self.at = end + 2
        return strings

    def _damaged(self, expected: str) -> ModelFileError:
        found = checks.show(self.data[self.at : self.at + 24]) if self.at < len(self.data) else ""
        return damaged(f"{self.where}, byte {self.at}", expected, found or "the end of the file")


def _lay_out(names: list[str], Y: int, where: str) -> Attributes:
    """Return the attributes with their places: those of ``*`` twice, for one label and for two."""
    all_names, is_edge = [], []
    for name in names:
        if name[:1] not in ("u", "b", "*"):
            raise damaged(f"{where}: attributes", "names with u, b or *", checks.show(name))
        for edge in (False, True):
            if name[0] in ("b*" if edge else "u*"):
                all_names.append(name)
                is_edge.append(edge)
    widths = np.where(is_edge, Y * Y, Y).astype(np.int64)
    return Attributes(all_names, np.array(is_edge, bool), np.cumsum(widths) - widths)


def _read_weights(
    data: bytes, count: int, where: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Read lines of index=value; both arrays are in ascending order of the index."""
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    if len(lines) != count:
        raise damaged(f"{where}: weights", f"{count:,}, as in the first line", f"{len(lines):,}")
    positions, values = [], []
    for line in lines:
        number, _, value = line.partition(b"=")
        if not number.isdigit() or len(number) > 15:
            raise damaged(f"{where}: weights", "index=value", checks.show(line))
        try:
            values.append(float.fromhex(value.decode("ascii")))
        except (ValueError, OverflowError) as error:
            raise damaged(f"{where}: weights", "index=value", checks.show(line)) from error
        positions.append(int(number))
    indexes = np.array(positions, np.int64)
    order = np.argsort(indexes, kind="stable")
    return indexes[order], np.array(values, np.float64)[order]
