"""Everything about networks that needs torch: modules, losses, the learner, transformers.

Nothing here is imported by a saved model of words and characters, which tags without torch; see
`tagloom.scores.networks`.
"""

from typing import TYPE_CHECKING

from tagloom.errors import MissingExtraError
from tagloom.exports import lazily

try:
    import torch as torch
except ImportError as error:
    raise MissingExtraError(
        "Training a network and running a transformer need the package torch.",
        hint="Install it with: pip install 'tagloom[neural]'",
    ) from error

if TYPE_CHECKING:
    from tagloom.neural import heads, learners, making, modules, native
else:
    __getattr__, __dir__ = lazily(
        __name__, {"heads": [], "learners": [], "making": [], "modules": [], "native": []}
    )

__all__ = ["heads", "learners", "making", "modules", "native"]
