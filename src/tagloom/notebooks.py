"""What notebooks show: results as data frames, labelled sentences as coloured HTML.

The functions here take plain data, so that every layer can use them: sentences, models and
evaluations say what they contain, this file how it looks. pandas is imported by `data_frame` alone.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from tagloom.errors import MissingExtraError

T = TypeVar("T")

# A label of a span scheme: its letter before or after its type.
_SPAN = r"(?s:([BIESLUMWH])-(.+)|(.+)-([BIESLUMWH]))"  # compiled at first use
_CONTINUES = frozenset("IELM")
_N_COLORS = 12


def is_notebook() -> bool:
    """Whether the code runs in a notebook, whose output is HTML and not a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


# ---- data frames -------------------------------------------------------------------------------


def data_frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> Any:
    """Return a data frame of pandas with one row per mapping.

    Parameters
    ----------
    rows : sequence of mapping
    columns : sequence of str, optional
        The columns and their order; those of the rows by default.

    Raises
    ------
    MissingExtraError
        If pandas is not installed.
    """
    try:
        pandas: Any = importlib.import_module("pandas")
    except ImportError:
        raise MissingExtraError(
            "to_frame needs the package pandas.", hint="Install it with: pip install pandas"
        ) from None
    return pandas.DataFrame(list(rows), columns=columns if columns or not rows else None)


class Rows(list[T]):
    """A list of results that also converts to a data frame.

    Its members are named tuples, such as feature weights and records of training, or lists of them,
    one for each sentence, such as spans and n-best labellings.

    Examples
    --------
    >>> import tagloom as tl
    >>> tagger = tl.CRF("words").fit([["they", "fish"]], [["N", "V"]])
    >>> spans = tagger.predict_nbest([["they", "fish"]], n=2)
    >>> spans.to_frame()  # doctest: +SKIP
       sentence  rank  labels  prob  score
    0         0     0  [N, V]  ...
    """

    def to_frame(self) -> Any:
        """Return a data frame of pandas with one row per result.

        Returns
        -------
        DataFrame
            Its columns are the fields of the results. For results by sentence, ``sentence`` and
            ``rank`` come first, both counted from 0.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        rows: list[dict[str, Any]] = []
        for i, item in enumerate(self):
            if hasattr(item, "_asdict"):
                rows.append(item._asdict())
            elif isinstance(item, Iterable):
                rows += [
                    {"sentence": i, "rank": rank, **result._asdict()}
                    for rank, result in enumerate(item)
                ]
        return data_frame(rows)


# ---- HTML --------------------------------------------------------------------------------------


def tokens_html(tokens: Sequence[str], labels: Sequence[Any] | None) -> str:
    """Show a sentence; spans and other labels are coloured by their type.

    Parameters
    ----------
    tokens : sequence of str
    labels : sequence of str, None or frozenset, or None
        None is an unknown label, a set one of several.

    Returns
    -------
    str
        One ``<div>`` that needs no style sheet.

    Examples
    --------
    >>> "PER" in tokens_html(["Ada", "Lovelace", "wrote"], ["B-PER", "I-PER", "O"])
    True
    """
    from html import escape

    parts = []
    for words, label in _runs(tokens, labels):
        text = escape(" ".join(words))
        if label is None:
            parts.append(text)
            continue
        hue = 360 * (sum(map(ord, label)) % _N_COLORS) // _N_COLORS
        parts.append(
            f'<mark style="background: hsl({hue} 70% 88%); color: #222; padding: 0.1em 0.3em; '
            f'border-radius: 0.3em">{text} <small style="opacity: 0.7">{escape(label)}</small>'
            "</mark>"
        )
    return f'<div class="tagloom-sentence" style="line-height: 2">{" ".join(parts)}</div>'


def _runs(
    tokens: Sequence[str], labels: Sequence[Any] | None
) -> Iterable[tuple[list[str], str | None]]:
    """Join the tokens of each span; other tokens stand alone."""
    runs: list[tuple[list[str], str | None]] = []
    for token, label in zip(tokens, labels or [None] * len(tokens), strict=False):
        if isinstance(label, frozenset | set):
            label = " or ".join(sorted(label))
        match = re.fullmatch(_SPAN, label) if isinstance(label, str) else None
        if match is not None:
            letter, kind = match[1] or match[4], match[2] or match[3]
            if letter in _CONTINUES and runs and runs[-1][1] == kind:
                runs[-1][0].append(token)
                continue
            label = kind
        runs.append(([token], None if label == "O" else label))
    return runs


def rows_html(title: str, rows: Mapping[str, Any]) -> str:
    """Show names and values as a table with two columns.

    Examples
    --------
    >>> rows_html("CRF", {"labels": 17})
    '<table><caption>CRF</caption><tbody><tr><th>labels</th><td>17</td></tr></tbody></table>'
    """
    from html import escape

    body = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>"
        for name, value in rows.items()
    )
    return f"<table><caption>{escape(title)}</caption><tbody>{body}</tbody></table>"
