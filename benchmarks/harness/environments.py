"""Environments with one package and what it needs, as users install them: for the time of a start.

The environments of the developers have more: hooks of editable installations, and start-up files of
other packages, which every start of Python reads. Both sides get a new environment without them.
"""

from __future__ import annotations

import compileall
import importlib
import importlib.metadata
import shutil
import venv
from collections.abc import Sequence
from pathlib import Path


def make_environment(folder: Path, packages: Sequence[str], script: str | None = None) -> None:
    """Make an environment with copies of installed packages.

    Parameters
    ----------
    folder : Path
    packages : sequence of str
        Names of modules that can be imported here.
    script : str, optional
        ``module:function`` of a command, which gets the name of the first package, as by pip.
    """
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    (site,) = folder.glob("lib/python*/site-packages")
    distributions = importlib.metadata.packages_distributions()
    for name in packages:
        for source in map(Path, importlib.import_module(name).__path__):
            ignored = shutil.ignore_patterns("__pycache__", "*.pyi")
            shutil.copytree(source, site / name, ignore=ignored, dirs_exist_ok=True)
        # An editable installation has compiled modules elsewhere.
        for file in importlib.metadata.files(distributions.get(name, [name])[0]) or ():
            if file.parts[0] == name and file.suffix in (".so", ".pyd"):
                shutil.copy(file.locate(), site / Path(*file.parts))
    compileall.compile_dir(site, quiet=1)
    if script is not None:
        module_name, _, function = script.partition(":")
        path = folder / "bin" / packages[0]
        path.write_text(
            f"#!{python}\nimport sys\nfrom {module_name} import {function}\n"
            f"if __name__ == '__main__':\n    sys.exit({function}())\n",
            encoding="utf-8",
        )
        path.chmod(0o755)


def python_of(folder: Path) -> str:
    """Return the interpreter of an environment."""
    return str(folder / "bin" / "python")
