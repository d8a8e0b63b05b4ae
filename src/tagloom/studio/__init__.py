"""The local page of ``tagloom studio``: see the trellis, correct labels, retrain, find errors.

``journals`` and ``projects`` keep the edits of a corpus, ``training`` learns from them in the
background, ``queues`` ranks what to ask next, ``trellises``, ``mistakes`` and ``facts`` turn models
into plain data, ``examples`` has the worked examples; ``app`` answers the requests of the page,
whose files are in ``page``; ``notebooks`` opens it from Python.
"""

from typing import TYPE_CHECKING

from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom.studio.journals import Journal
    from tagloom.studio.projects import EditedCorpus
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {"journals": ["Journal"], "projects": ["EditedCorpus"]},
    )

__all__ = ["EditedCorpus", "Journal"]
