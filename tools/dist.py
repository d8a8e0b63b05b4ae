"""Build what would be published and test it as users get it. `make dist` runs this.

1. sdist from the tree; wheel from that sdist, in an isolated environment; both again: same bytes.
2. `twine check`, `cffconvert --validate`, `auditwheel show`, and the contents of both archives.
3. A new environment with the wheel alone: the tests run in a folder without the source tree, but
   those that are slow, need programs or peers, or read the tree.

python tools/dist.py [--python PYTHON] [--skip-tests] [-- ARGUMENTS OF PYTEST]

The result is in dist/. Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from pythons import MARKS

ROOT = Path(__file__).resolve().parents[1]
CITATION = ROOT / "CITATION.cff"
# Files that an installed package must have, beside its modules.
NEEDED = ["_native.pyi", "py.typed", "datasets/english/train.conll", "studio/page/index.html"]
LICENCES = ["LICENSE", "licences/nanobind.txt"]
# Files that pip puts below the prefix of the environment.
SHARED = ["man/man1/tagloom.1", "man/man1/tagloom-train-crf.1"]
SHARED += ["bash-completion/completions/tagloom", "zsh/site-functions/_tagloom"]
SHARED += ["fish/vendor_completions.d/tagloom.fish"]
# What must never be in an archive.
UNWANTED = (".venv", "__pycache__", ".git/", "build/", ".pytest_cache")


def main() -> None:
    """Build, compare, inspect and test; stop at the first fault."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--skip-tests", action="store_true")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    options = parser.parse_args()
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="tagloom-dist-") as name:
        folder = Path(name)
        # The commit of now: the branch may move while this runs.
        commit = output("git", "-C", str(ROOT), "rev-parse", "HEAD").strip()
        print(f"commit {commit[:12]}", flush=True)
        first, second = (build(folder / f"build{i}", commit, options.python) for i in (1, 2))
        for one, other in zip(first, second, strict=True):
            if not filecmp.cmp(one, other, shallow=False):
                sys.exit(f"{one.name}: two builds differ; the archive is not reproducible")
        print("two builds of each archive have the same bytes")
        dist.mkdir()
        sdist, wheel = (Path(shutil.copy(path, dist)) for path in first)
        inspect(sdist, wheel)
        if not options.skip_tests:
            test(sdist, wheel, folder / "installed", options.python, options.pytest)
    print(f"dist/{sdist.name}  {sdist.stat().st_size / 1e6:.2f} MB")
    print(f"dist/{wheel.name}  {wheel.stat().st_size / 1e6:.2f} MB")


def build(folder: Path, commit: str, python: str) -> tuple[Path, Path]:
    """Build the sdist of a commit, and the wheel from that sdist."""
    folder.mkdir()
    tree = str(folder / "tree")
    run("git", "clone", "-q", "--no-checkout", str(ROOT), tree)
    run("git", "-C", tree, "checkout", "-q", "--detach", commit)
    epoch = output("git", "-C", tree, "log", "-1", "--format=%ct").strip()
    env = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    if (folder.parent / "source").exists():  # ccache must not answer from the first build
        env["CCACHE_RECACHE"] = "1"
    run(sys.executable, "-m", "build", "-q", "--sdist", "-o", str(folder), tree, env=env)
    (sdist,) = folder.glob("*.tar.gz")
    # Both builds use the same path: compilers write the names of files into assertions.
    source = folder.parent / "source"
    shutil.rmtree(source, ignore_errors=True)
    with tarfile.open(sdist) as archive:
        archive.extractall(source, filter="data")
    (unpacked,) = source.iterdir()
    run(python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(unpacked), env=env)
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


def inspect(sdist: Path, wheel: Path) -> None:
    """Check the description, the platform tag and the contents of the archives."""
    run(sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel))
    run(str(Path(sys.executable).with_name("cffconvert")), "--validate", "-i", str(CITATION))
    if sys.platform == "linux":
        print(output(sys.executable, "-m", "auditwheel", "show", str(wheel)).strip())
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    with tarfile.open(sdist) as archive:
        sources = [member.name for member in archive if member.isfile()]
    prefix = f"{sdist.name.removesuffix('.tar.gz')}/src/"
    package = [x.removeprefix(prefix) for x in sources if x.startswith(f"{prefix}tagloom/")]
    needed = {*package, *(f"tagloom/{name}" for name in NEEDED)}
    absent = [name for name in sorted(needed) if name not in names]
    absent += [x for x in LICENCES if not any(y.endswith(f"/licenses/{x}") for y in names)]
    absent += [name for name in SHARED if not any(x.endswith(f"data/share/{name}") for x in names)]
    unwanted = [name for name in names + sources if any(part in name for part in UNWANTED)]
    if absent or unwanted:
        sys.exit(f"{wheel.name}: absent {absent}, unwanted {unwanted[:5]}")


def test(sdist: Path, wheel: Path, folder: Path, python: str, arguments: list[str]) -> None:
    """Run the tests against the installed wheel, in a folder without ``src``."""
    run(python, "-m", "venv", str(folder / "env"))
    inside = str(folder / "env" / "bin" / "python")
    pip = [inside, "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    run(*pip, "setuptools", "wheel", "setuptools_scm")  # build seqeval, which has no wheel
    run(*pip, f"{wheel}[test]")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.glob("tagloom-*")
    shutil.rmtree(tree / "src")
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    run(inside, "-m", "pytest", "-q", "-n", "2", "-m", MARKS, *arguments, cwd=tree, env=env)


def run(*command: str, **options: object) -> None:
    """Run a command and stop if it fails."""
    done = subprocess.run(command, **options)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"{' '.join(command[:6])} … failed with exit code {done.returncode}")


def output(*command: str) -> str:
    """Return what a command prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
