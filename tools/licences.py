"""List the licences of what tagloom installs: its dependencies, and theirs.

python tools/licences.py [EXTRA ...]    a table; exit code 1 if a licence is not permissive

Reads the metadata of the packages installed beside it, so run it with the Python of an environment
that has them. tests/test_licences.py runs it for the dependencies of the core and of the extras for
users. Licences of code inside the wheel are in the folder licences/.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata

# Permissive licences, and the weak copyleft of MPL-2.0 for packages that are used unchanged.
PERMISSIVE = ["mit", "bsd", "apache", "isc", "psf", "python", "zlib", "unlicense", "0bsd"]
PERMISSIVE += ["mpl", "mozilla", "cc0", "cnri", "bsl"]


def closure(package: str, extras: set[str]) -> list[str]:
    """Return the installed packages that a package requires, directly or not, sorted."""
    waiting, seen = [(package, frozenset(extras))], set()
    while waiting:
        name, wanted = waiting.pop()
        for requirement in metadata.requires(name) or []:
            spec, _, marker = requirement.partition(";")
            needed = re.search(r"extra\s*==\s*['\"]([^'\"]+)", marker)
            if needed and needed[1] not in wanted:
                continue
            match = re.match(r"\s*([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?", spec)
            assert match is not None, requirement
            found = re.sub(r"[-_.]+", "-", match[1].lower())
            if found in seen or not is_installed(found):
                continue
            seen.add(found)
            waiting.append((found, frozenset(re.findall(r"[\w.-]+", match[2] or ""))))
    return sorted(seen)


def is_installed(package: str) -> bool:
    """Return whether a package is installed; markers exclude some on this system."""
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def licence(package: str) -> str:
    """Return the licence that a package declares, in its own words, on one line."""
    fields = metadata.metadata(package)
    classifiers = fields.get_all("Classifier") or []
    names = [c.split("::")[-1].strip() for c in classifiers if c.startswith("License ::")]
    text = fields.get("License-Expression") or ", ".join(names) or fields.get("License") or ""
    return next(iter(text.splitlines()), "")


def is_permissive(text: str) -> bool:
    """Return whether every licence that applies is one of `PERMISSIVE`."""
    parts = [part for part in re.split(r"\band\b|[,()]", text.lower()) if part.strip()]
    return bool(parts) and all(any(map(_is_known, re.split(r"\bor\b", part))) for part in parts)


def _is_known(name: str) -> bool:
    words = re.findall(r"[a-z0-9]+", name)
    is_copyleft = any(word.startswith(("gpl", "lgpl", "agpl", "gnu")) for word in words)
    return not is_copyleft and any(word.startswith(tuple(PERMISSIVE)) for word in words)


def main() -> int:
    """Print a line per package; return 1 if one needs a person to look at it."""
    rows = [(name, licence(name)) for name in closure("tagloom", {*sys.argv[1:]})]
    for name, text in rows:
        mark = "" if is_permissive(text) else "   <- look at this one"
        print(f"{name:<24}{metadata.version(name):<12}{text[:80] or 'no licence declared'}{mark}")
    return int(not all(is_permissive(text) for _, text in rows))


if __name__ == "__main__":
    sys.exit(main())
