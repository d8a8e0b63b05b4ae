"""NumPy, imported when it is first used: ``from tagloom.numeric import np``.

NumPy's import takes most of the start of a short program. Modules on the way from a model file to
labels import it from here, so that `tagloom tag` can run without it. Types of arrays are for type
checkers only.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
else:

    class _Numpy(ModuleType):
        """Stands for NumPy; an attribute that was used once is found without a call."""

        def __getattr__(self, name: str) -> Any:
            value = getattr(import_module("numpy"), name)
            setattr(self, name, value)
            return value

    np = _Numpy("numpy")

__all__ = ["is_array", "np"]


def is_array(value: object) -> bool:
    """Check whether a value is a NumPy array, without an import of NumPy.

    Parameters
    ----------
    value : object

    Returns
    -------
    bool
        False if NumPy has not been imported, since no array can exist then.

    Examples
    --------
    >>> import numpy as np
    >>> from tagloom.numeric import is_array
    >>> is_array([1.0]), is_array(np.zeros(1))
    (False, True)
    """
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)
