"""Text models of CRF++, as ``crf_learn -t`` writes them beside the binary ones.

::

    version: 100
    cost-factor: 1
    maxid: 53154
    xsize: 2
                        (an empty line after each part)
    B-NP …              the labels
    U00:%x[-1,0] …      the templates
    0 B                 the attributes: index of the first weight, name
    324 U00:the …
    -0.0123 …           maxid weights: y for U…, y_prev·Y + y for B…

CRF++ multiplies all weights by the cost factor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import ModelFileError, TemplateError
from tagloom.features import CRFppTemplates
from tagloom.interop import sources
from tagloom.interop.attributes import Attributes, make_scores
from tagloom.interop.sources import Source, check_labels, damaged
from tagloom.models.crf import CRF

MAGIC = b"version: "
_HEADER = ("version", "cost-factor", "maxid", "xsize")


def read_crfpp_model(
    source: Source, *, features: Any = None, encoding: str = "utf-8", where: str | None = None
) -> CRF:
    r"""Read a text model of CRF++; `tagloom.load` does the same.

    The templates are in the model. Sentences need the columns that they read, as in CRF++.

    Parameters
    ----------
    source : str, path, bytes or file object
        The file that ``crf_learn -t`` writes with the ending ``.txt``.
    features : None
        Not used: the templates are in the model.
    encoding : str
        Encoding of the model: that of the training data.
    where : str, optional
        Name of the file in errors.

    Returns
    -------
    CRF

    Raises
    ------
    ModelFileError
        If the file is not such a model, or is damaged.

    Examples
    --------
    >>> import tagloom as tl
    >>> model = b"version: 100\ncost-factor: 1\nmaxid: 4\nxsize: 1\n\nN\nV\n\nU0:%x[0,0]\n\n"
    >>> model += b"0 U0:they\n2 U0:fish\n\n1.5\n-1.5\n-0.5\n0.5\n"
    >>> tl.load(model).predict([["they", "fish"]])
    [['N', 'V']]
    """
    data, where = sources.read_bytes(source, where)
    if features is not None:
        raise ModelFileError(
            where=where,
            parameter="features",
            expected="left out: the templates are in the model",
            found=checks.show(features),
        )
    parts = _split(sources.decode(data, where, encoding), where)
    labels = check_labels(parts[1], f"{where}: labels", len(data))
    try:
        templates = CRFppTemplates(parts[2])
    except TemplateError as error:
        raise damaged(f"{where}: templates", str(error.expected), str(error.found)) from error
    header = _read_header(parts[0], where)
    attributes = _read_attributes(parts[3], where)
    weights = _read_weights(parts[4], int(header["maxid"]), where)
    if header["cost-factor"] != 1:
        weights *= header["cost-factor"]
    constants = {line for line in parts[2] if line.startswith("B") and "%" not in line}
    positions = np.flatnonzero(weights)
    given = positions, weights[positions]
    scores = make_scores(labels, templates, constants, attributes, given, where)
    return CRF.from_scores(
        scores,
        training={"tool": "CRF++"},
        features=templates,
        labels=list(labels),
        algorithm="lbfgs",
        combinations="all",
        boundaries=False,
        constraints=None,
    )


def load_foreign(source: Source, features: Any, where: str) -> CRF:
    """Read a model for `tagloom.load`."""
    return read_crfpp_model(source, features=features, where=where)


def _split(text: str, where: str) -> list[list[str]]:
    """Split a model into its five parts, each a list of lines."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    lines = [line.removesuffix("\r") for line in lines]
    parts: list[list[str]] = []
    at = 0
    while len(parts) < 4:
        try:
            end = lines.index("", at)
        except ValueError:
            names = "header, labels, templates, attributes and weights"
            raise damaged(
                where, f"{names}, with empty lines between", f"{len(parts) + 1} parts"
            ) from None
        parts.append(lines[at:end])
        at = end + 1
    return [*parts, lines[at:]]


def _read_header(lines: list[str], where: str) -> dict[str, float]:
    entries = dict(line.partition(": ")[::2] for line in lines)
    header = {}
    for name in _HEADER:
        text = entries.get(name, "")
        try:
            header[name] = float(text) if name == "cost-factor" else int(text)
        except ValueError:
            header[name] = -1
        if not 0 <= header[name] < float("inf"):
            raise damaged(f"{where}: header", f"a number as {name}", checks.show(text))
    if header["version"] != 100:
        raise damaged(f"{where}: header", "version 100", f"version {header['version']:.0f}")
    return header


def _read_attributes(lines: list[str], where: str) -> Attributes:
    names, starts = [], []
    for line in lines:
        number, _, name = line.partition(" ")
        if not (number.isascii() and number.isdigit() and len(number) < 16 and name):
            raise damaged(f"{where}: attributes", "a number and a name", checks.show(line))
        if name[0] not in "UB":
            raise damaged(f"{where}: attributes", "names with U or B", checks.show(name))
        names.append(name)
        starts.append(int(number))
    places = np.array(starts, np.int64)
    order = np.argsort(places, kind="stable")
    ordered = [names[a] for a in order.tolist()]
    is_edge = np.array([name[0] == "B" for name in ordered], bool)
    return Attributes(ordered, is_edge, places[order])


def _read_weights(lines: list[str], count: int, where: str) -> npt.NDArray[np.float64]:
    if len(lines) != count:
        raise damaged(f"{where}: weights", f"{count:,}, as in the header", f"{len(lines):,}")
    try:
        return np.array(list(map(float, lines)), np.float64)
    except ValueError as error:
        raise damaged(f"{where}: weights", "numbers", str(error)) from error
