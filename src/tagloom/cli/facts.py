"""The facts of an installation: what `tagloom --version` prints, for people and for bug reports."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

import tagloom
from tagloom import _native
from tagloom.checks import ALL_THREADS

# Required and optional packages whose versions explain most reports.
PACKAGES = ["numpy", "click", "rich", "torch", "ray", "pyarrow", "starlette", "uvicorn"]
PACKAGES += ["scikit-learn", "matplotlib", "spacy"]


def installation_facts() -> dict[str, Any]:
    """Return versions and machine as plain data; a package that is not installed has None.

    Examples
    --------
    >>> import tagloom as tl
    >>> facts = installation_facts()
    >>> facts["tagloom"] == tl.__version__, facts["instruction_sets"][0]
    (True, 'baseline')
    """
    return {
        "tagloom": tagloom.__version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()).strip() or None,
        "compiler": _native.compiler(),
        "instruction_set": _native.instruction_set(),
        "instruction_sets": _native.instruction_sets(),
        "threads": ALL_THREADS,
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
