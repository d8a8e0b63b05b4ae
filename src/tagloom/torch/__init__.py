"""A CRF layer for PyTorch networks, over the native trellis.

`CRF` has the interface of pytorch-crf and more: partial labels, constraints, higher orders,
marginals, n-best, samples. Importing this package imports PyTorch, which is an extra::

    pip install 'tagloom[neural]'
"""

from typing import TYPE_CHECKING

from tagloom.errors import MissingExtraError
from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom.torch.layer import CRF

__all__ = ["CRF"]

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise MissingExtraError(
        "tagloom.torch needs PyTorch.", hint="Install it with: pip install 'tagloom[neural]'"
    ) from None

__getattr__, __dir__ = lazily(__name__, {"layer": ["CRF"]})
