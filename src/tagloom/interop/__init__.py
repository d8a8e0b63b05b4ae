"""Models and objects of other tools: read without retraining, and written back.

`tagloom.load` recognises foreign model files by their contents and calls the readers of this
package, one file per tool: `crfsuite`, `crfpp`, `wapiti`. `convert` takes fitted objects of other
Python packages. `pycrfsuite` and `sklearn_crfsuite` have the classes of the packages of these
names; ``spacy`` has a pipeline component.

Nothing outside this package depends on it. A foreign file is not trusted: damage raises a
`ModelFileError`, and memory is bounded by the size of the file.
"""

from typing import TYPE_CHECKING

from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom.interop import pycrfsuite, sklearn_crfsuite
    from tagloom.interop.crfpp import read_crfpp_model
    from tagloom.interop.crfsuite import read_crfsuite, to_crfsuite
    from tagloom.interop.objects import convert
    from tagloom.interop.readers import read_foreign
    from tagloom.interop.wapiti import read_wapiti_model
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "crfpp": ["read_crfpp_model"],
            "crfsuite": ["read_crfsuite", "to_crfsuite"],
            "objects": ["convert"],
            "pycrfsuite": [],
            "readers": ["read_foreign"],
            "sklearn_crfsuite": [],
            "wapiti": ["read_wapiti_model"],
        },
    )

__all__ = [
    "convert",
    "pycrfsuite",
    "read_crfpp_model",
    "read_crfsuite",
    "read_foreign",
    "read_wapiti_model",
    "sklearn_crfsuite",
    "to_crfsuite",
]
