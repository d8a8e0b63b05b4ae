"""Test the wheel with every Python from 3.11 on that can be found. `make test-pythons` runs this.

python tools/pythons.py [--wheel FILE ...] [--root FOLDER ...] [--only 3.12 ...]
                        [-- ARGUMENTS OF PYTEST]

Looks for python3.11, python3.12 ... on the path, and in folders that contain another system, such
as `debootstrap trixie FOLDER` makes; for these it must run as root. A wheel that a version accepts
is taken from --wheel, else from dist/, else it is built by that interpreter. Each interpreter gets
an environment with the wheel and what the tests need, without the source tree. The last lines tell
for each version what happened; the exit code is 1 if tests failed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ["3.11", "3.12", "3.13", "3.14"]
FREE_THREADED = ["3.13t", "3.14t"]
MARKS = "not peers and not scripts and not soak and not tree and not slow and not serve"
MARKS += " and not browser and not cluster"
UNPACKED = ["tests", "docs", "examples", "benchmarks", "deploy", "share", "tools", "licences"]
UNPACKED += ["README.md"]
UNPACKED += ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "LICENSE"]
UNPACKED += ["pyproject.toml"]


@dataclass(frozen=True)
class Interpreter:
    """A Python, here or in another system."""

    version: str
    path: str
    root: Path | None = None

    def command(self, *arguments: str, inside: str | None = None, at: str = "/") -> list[str]:
        """Return the command that runs Python, or a program of the other system, in a folder."""
        words = ["sh", "-c", 'cd "$0" && exec "$@"', at, inside or self.path, *arguments]
        if self.root is None:
            return words
        # Mounts of its own, which end with the process: some tests read /proc or open terminals.
        script = 'mount -t proc proc "$0/proc"; mount -t devpts -o newinstance,ptmxmode=666 '
        script += 'devpts "$0/dev/pts"; exec chroot "$0" "$@"'
        return ["unshare", "--mount", "sh", "-c", script, str(self.root), *words]


def find(roots: list[Path]) -> list[Interpreter]:
    """Return one interpreter of each version, in order."""
    found = {}
    for version in [*VERSIONS, *FREE_THREADED]:
        name = f"python{version}"
        path = shutil.which(name)
        if path and runs(path):
            found[version] = Interpreter(version, path)
        for root in roots:
            if version not in found and (root / "usr/bin" / name).exists():
                found[version] = Interpreter(version, f"/usr/bin/{name}", root)
    here = "{}.{}".format(*sys.version_info)
    found.setdefault(here, Interpreter(here, sys.executable))
    return [found[version] for version in sorted(found)]


def runs(python: str) -> bool:
    """Return whether a program runs: pyenv has one for versions that are not switched on, too."""
    return subprocess.run([python, "-c", ""], capture_output=True).returncode == 0


def fits(wheel: Path, version: str) -> bool:
    """Return whether a wheel is for a version, by its tags: its own, or the stable ABI."""
    _, _, python, abi, _ = wheel.stem.split("-")
    minor = int(version.removesuffix("t").split(".")[1])
    if python == abi.removesuffix("t"):
        return abi == f"cp{version.replace('.', '')}"
    return abi == "abi3" and not version.endswith("t") and int(python.removeprefix("cp3")) <= minor


def environment(interpreter: Interpreter, folder: Path, wheel: Path) -> tuple[str, list[str]]:
    """Make an environment with the wheel and the packages of the tests.

    Returns its Python, and the packages that it lacks.
    """
    inside = f"{folder}/env"
    run(interpreter.command("-m", "venv", "--without-pip", inside))
    outside = Path(f"{interpreter.root or ''}{inside}")
    (packages,) = outside.glob("lib/python3*/site-packages")
    # Our pip installs for it: the other system has perhaps none, and no way to the index.
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    pip += ["--python-version", interpreter.version.removesuffix("t"), "--only-binary", ":all:"]
    pip += ["--implementation", "cp", "--target", str(packages)]
    run([*pip, str(wheel)])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted, missing = [*extras["test"], *extras["serve"]], []
    for requirement in (x for x in wanted if not x.startswith("tagloom")):
        done = subprocess.run([*pip, requirement], capture_output=True, text=True)
        if done.returncode and not install_source(requirement, pip):
            print(f"  {requirement}: has no wheel for {interpreter.version}", flush=True)
            missing.append(re.split(r"[^\w.-]", requirement)[0])
    command = outside / "bin/tagloom"  # pip makes commands for its own Python
    command.write_text(f"#!{inside}/bin/python\nfrom tagloom.cli import main\n\nmain()\n")
    command.chmod(0o755)
    return f"{inside}/bin/python", missing


def without(packages: list[str]) -> list[str]:
    """Return the arguments of pytest that leave out files, pages and modules with packages."""
    uses = re.compile(rf"^[> ]*(from|import) ({'|'.join(packages)})\b", re.MULTILINE)

    def using(folder: str, pattern: str) -> list[Path]:
        paths = sorted((ROOT / folder).rglob(pattern))
        return [path for path in paths if uses.search(path.read_text(encoding="utf-8"))]

    pages = [path.relative_to(ROOT) for path in using("docs", "*.md")]
    modules = [path.relative_to(ROOT / "src").with_suffix("") for path in using("src", "*.py")]
    names = [f"test_page[{page}]" for page in pages]
    names += [f"test_docstrings[{'.'.join(module.parts)}]" for module in modules]
    return [
        *(f"--ignore={path.relative_to(ROOT)}" for path in using("tests", "test_*.py")),
        *(f"--deselect=tests/docs/test_docs.py::{name}" for name in names),
    ]


def install_source(requirement: str, pip: list[str]) -> bool:
    """Install a package without wheels if it is plain Python, such as seqeval."""
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
        subprocess.run([*build, "-w", folder, requirement], capture_output=True)
        plain = [*map(str, Path(folder).glob("*-none-any.whl"))]
        return bool(plain) and subprocess.run([*pip, *plain]).returncode == 0


def test(interpreter: Interpreter, wheels: list[Path], arguments: list[str]) -> str:
    """Install and test; return what happened in a few words."""
    base = Path(f"{interpreter.root or ''}{tempfile.gettempdir()}")
    base.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tagloom-python-", dir=base) as name:
        outside = Path(name)
        inside = Path(tempfile.gettempdir(), outside.name)
        wheel = next((wheel for wheel in wheels if fits(wheel, interpreter.version)), None)
        if wheel is None:
            if interpreter.root is not None or interpreter.version.endswith("t"):
                return "no wheel for it; give one by --wheel"
            command = [interpreter.path, "-m", "pip", "wheel", "-q", "--no-deps", "-w", name]
            run([*command, str(ROOT)])
            (wheel,) = outside.glob("*.whl")
        python, missing = environment(interpreter, inside, wheel)
        tree = outside / "tree"
        tree.mkdir()
        for source in (ROOT / part for part in UNPACKED):
            if source.is_dir():
                shutil.copytree(source, tree / source.name)
            else:
                shutil.copy(source, tree)
        command = ["-m", "pytest", "-q", "-m", MARKS, *(arguments or ["tests"])]
        command += without(missing) if missing else []
        env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        env["PATH"] = f"{inside}/env/bin:{env.get('PATH', os.defpath)}"
        done = subprocess.run(
            interpreter.command(*command, inside=python, at=f"{inside}/tree"),
            env=env,
            capture_output=True,
            text=True,
        )
        lines = done.stdout.strip().splitlines() or [done.stderr.strip()[-500:]]
        if done.returncode:
            print("\n".join([*lines[-40:], done.stderr[-2000:]]))
        where = f" in {interpreter.root.name}" if interpreter.root else ""
        return f"{wheel.name}{where}: {lines[-1].strip('= ')}"


def run(command: list[str]) -> None:
    """Run a command and stop if it fails."""
    done = subprocess.run(command)
    if done.returncode:
        sys.exit(f"{' '.join(command[:8])} … failed with exit code {done.returncode}")


def main() -> None:
    """Try every interpreter that can be found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", type=Path, action="extend", nargs="+", default=[])
    parser.add_argument("--root", type=Path, action="extend", nargs="+", default=[])
    parser.add_argument(
        "--only", action="extend", nargs="+", help="versions to try; others are left out"
    )
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    options = parser.parse_args()
    wheels = [*options.wheel, *(ROOT / "dist").glob("*.whl")]
    tried = [x for x in find(options.root) if x.version in (options.only or [x.version])]
    results = {x.version: test(x, wheels, options.pytest) for x in tried}
    for version in [*VERSIONS, *FREE_THREADED]:
        print(f"{version:<6}{results.get(version, 'not found, or left out')}")
    bad = (" failed", " error", "no tests ran")
    sys.exit(any(word in text for text in results.values() for word in bad))


if __name__ == "__main__":
    main()
