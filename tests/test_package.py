"""The package as a whole: its layers, its face, its stub."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import tagloom as tl

SOURCE = Path(tl.__file__).parent

# Data flows from left to right; a folder may import those before it, never those after it.
# See CONTRIBUTING.md.
LAYERS = ["errors", "storage", "text", "sequences", "features", "trellis", "scores", "labels"]
LAYERS += ["evaluation", "training", "models", "datasets"]
ANYTHING = {"cli"}  # may know everything; nothing knows it
# Layers that are more narrowly confined than their place in the line.
CONFINED = {
    "storage": {"errors"},  # arrays and JSON: models say what they mean
    "trellis": {"errors"},  # arrays only: no words
    "evaluation": {"errors", "sequences", "labels"},  # never models
}


def imports_of(path: Path) -> set[str]:
    """Folders of tagloom that a file imports, at any depth of the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
            if node.module == "tagloom":
                names = [f"tagloom.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("tagloom.")}
    return found - {"_native"}


@pytest.mark.parametrize(
    "folder", sorted(p.name for p in SOURCE.iterdir() if p.is_dir() and p.name != "__pycache__")
)
def test_imports_follow_the_flow_of_data(folder):
    if folder in ANYTHING:
        return
    assert folder in LAYERS, f"{folder} has no place in the line of layers; see CONTRIBUTING.md"
    allowed = CONFINED.get(folder, set(LAYERS[: LAYERS.index(folder)])) | {folder}
    for path in (SOURCE / folder).rglob("*.py"):
        assert imports_of(path) <= allowed, path


def test_everything_exported_exists():
    for folder in ["", ".trellis", ".labels", ".features", ".datasets"]:
        name = f"tagloom{folder}"
        module = importlib.import_module(name)
        assert sorted(module.__all__) == sorted(set(module.__all__))
        for exported in module.__all__:
            assert hasattr(module, exported), f"{name}.{exported}"


def test_stub_of_the_native_module_is_what_the_generator_writes():
    from nanobind.stubgen import StubGen

    from tagloom import _native

    generator = StubGen(_native)
    generator.put(_native)
    committed = (SOURCE / "_native.pyi").read_text(encoding="utf-8")
    assert generator.get().strip() == committed.strip(), "run `make stubs`"


def test_importing_stays_light():
    """NumPy and our own modules: nothing that the command line or an extra needs."""
    code = (
        "import sys, tagloom; [getattr(tagloom, n) for n in tagloom.__all__]; print(*sys.modules)"
    )
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {"click", "rich", "torch", "sklearn", "scipy", "pandas", "hypothesis", "zstandard"}
    assert not heavy & set(modules)


def test_importing_loads_nothing_before_it_is_used():
    code = "import tagloom; tagloom.nothing"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "module 'tagloom' has no attribute 'nothing'" in run.stderr
    code = "import sys, tagloom; print('numpy' in sys.modules, 'CRF' in dir(tagloom))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "True"]


def test_version_is_told_once():
    pyproject = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{tl.__version__}"' in pyproject
