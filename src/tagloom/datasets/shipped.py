"""Corpora that are shipped with the package as column files, one folder each.

A folder holds ``train.conll``, ``dev.conll`` and ``test.conll`` with the same columns.
``docs/datasets.md`` describes the English corpus and what it must not be used for.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, overload

from tagloom import checks
from tagloom.errors import DatasetError
from tagloom.sequences import Corpus, read

# name -> the columns that can serve as labels
SHIPPED = {"english": ("upos", "chunk", "entity")}


class Splits(NamedTuple):
    """The three parts of a corpus.

    Attributes
    ----------
    train, dev, test : Corpus
        For training, for choosing parameters, and for one final evaluation.

    Examples
    --------
    >>> import tagloom as tl
    >>> splits = tl.datasets.load("english")
    >>> len(splits.train), len(splits.dev), len(splits.test)
    (495, 99, 105)
    """

    train: Corpus
    dev: Corpus
    test: Corpus


@overload
def load(name: str = ..., split: None = ..., *, label: str = ...) -> Splits: ...
@overload
def load(name: str = ..., split: str = ..., *, label: str = ...) -> Corpus: ...
def load(
    name: str = "english", split: str | None = None, *, label: str = "upos"
) -> Splits | Corpus:
    """Read a corpus that comes with the package.

    Parameters
    ----------
    name : {"english"}
        The corpus. "english" has 699 sentences of eight genres, written for this project.
    split : {"train", "dev", "test"}, optional
        One part; by default all three.
    label : {"upos", "chunk", "entity"}
        The column that becomes the labels: parts of speech, phrases in BIO, names in BIO. The
        other columns stay in ``sentence.columns``; the genre is in ``sentence.comments``.

    Returns
    -------
    Corpus or Splits
        One part, or a named tuple of ``train``, ``dev`` and ``test``.

    Raises
    ------
    DatasetError
        If the corpus, split or label does not exist.

    Examples
    --------
    >>> import tagloom as tl
    >>> train, dev, test = tl.datasets.load("english")
    >>> len(train), len(dev), len(test)
    (495, 99, 105)
    >>> names = tl.datasets.load("english", "dev", label="entity")
    >>> names[0].columns["upos"][:3]
    ['NUM', 'ADV', 'PUNCT']
    """
    if not isinstance(name, str) or name not in SHIPPED:
        raise DatasetError(
            parameter="name",
            expected=f"a corpus that comes with tagloom: {', '.join(SHIPPED)}",
            found=checks.show(name),
            hint="Worked examples are in classic(); to read a file, use tagloom.read(path).",
        )
    if label not in SHIPPED[name]:
        raise DatasetError(
            parameter="label",
            expected=f"one of {', '.join(SHIPPED[name])} for {name!r}",
            found=checks.show(label),
        )
    if split is not None and split not in Splits._fields:
        raise DatasetError(
            parameter="split",
            expected=f"one of {', '.join(Splits._fields)}, or left out for all three",
            found=checks.show(split),
        )
    if split is None:
        return Splits(*(_read(name, part, label) for part in Splits._fields))
    return _read(name, split, label)


def _read(name: str, split: str, label: str) -> Corpus:
    path = Path(__file__).parent / name / f"{split}.conll"
    return read(path, "conll", label=label, header=True, sep="\t", comment="#")
