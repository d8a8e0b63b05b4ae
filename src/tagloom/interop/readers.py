"""The readers of foreign model files, chosen by contents."""

from __future__ import annotations

from typing import Any

from tagloom import checks
from tagloom.errors import ModelFileError
from tagloom.interop import crfpp, crfsuite, sources, wapiti
from tagloom.interop.sources import Source
from tagloom.models.linear import LinearTagger

_READERS = {
    crfsuite.MAGIC: crfsuite.read_crfsuite,
    crfpp.MAGIC: crfpp.read_crfpp_model,
    wapiti.MAGIC: wapiti.read_wapiti_model,
}


def read_foreign(source: Source, *, features: Any = None, encoding: str = "utf-8") -> LinearTagger:
    r"""Read a model of CRFsuite, CRF++ or Wapiti, as `tagloom.load` does, in any encoding.

    Parameters
    ----------
    source : str, path, bytes or file object
    features : callable, optional
        The feature function; only for CRFsuite.
    encoding : str
        Encoding of labels and attributes.

    Returns
    -------
    LinearTagger

    Raises
    ------
    ModelFileError
        If it is none of these, or is damaged.

    Examples
    --------
    >>> import tagloom as tl
    >>> model = "#mdl#2#1\n#rdr#1/1/0\n9:u:%x[0,0],\n#qrk#1\n1:é,\n#qrk#1\n3:u:a,\n0=0x1p+0\n"
    >>> tl.interop.read_foreign(model.encode("latin-1"), encoding="latin-1").labels_.tolist()
    ['é']
    """
    data, where = sources.read_bytes(source)
    for magic, read in _READERS.items():
        if data.startswith(magic):
            return read(data, features=features, encoding=encoding, where=where)
    raise ModelFileError(
        where=where,
        expected="a model of CRFsuite, CRF++ (text) or Wapiti",
        found=f"a file that begins with {checks.show(data[:16])}",
    )
