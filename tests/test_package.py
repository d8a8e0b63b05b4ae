"""The package as a whole: its layers, its face, its stub."""

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import tagloom as tl

SOURCE = Path(tl.__file__).parent
FOLDERS = sorted(p.name for p in SOURCE.iterdir() if p.is_dir() and p.name != "__pycache__")
FILES = sorted(p.stem for p in SOURCE.glob("*.py"))

# Data flows from left to right; a folder may import those before it, never those after it.
# See CONTRIBUTING.md.
LAYERS = [
    "exports",
    "records",
    "numeric",
    "renames",
    "registries",
    "errors",
    "notebooks",
    "checks",
    "parameters",
    "schemes",
]
LAYERS += ["storage", "text", "sequences"]
LAYERS += ["features", "trellis", "scores", "labels", "evaluation", "training", "cluster"]
LAYERS += ["learners", "torch", "neural", "models", "language", "dynamics", "datasets", "web"]
LAYERS += ["serve"]
# May know everything; nothing knows them.
ANYTHING = {"cli", "interop", "studio", "__init__", "__main__"}
# Layers that are more narrowly confined than their place in the line.
CONFINED = {
    "text": {"exports", "errors", "checks"},  # characters: nothing of sentences or models
    "storage": {
        "records",
        "numeric",
        "errors",
        "checks",
    },  # arrays and JSON: models say what they mean
    "trellis": {"exports", "renames", "errors", "checks", "schemes"},  # arrays only: no words
    "cluster": {"exports", "errors", "checks"},  # calls and arrays: models say what they mean
    "evaluation": {"exports", "errors", "checks", "notebooks", "schemes", "sequences", "labels"},
}

# Packages of an extra without which a folder cannot be imported.
EXTRAS = {"neural": ["torch"], "torch": ["torch"], "web": ("msgspec", "uvicorn")}
EXTRAS |= {"serve": ("msgspec", "uvicorn")}


def imports_of(path: Path) -> set[str]:
    """Folders and files of tagloom that a file imports, at any depth of the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: import from tagloom, not from dots"
            assert node.module is not None
            names = [node.module]
            if node.module == "tagloom":
                names = [f"tagloom.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            # The package itself has everything behind its dots.
            whole = [alias.name for alias in node.names]
            names = ["tagloom.__init__" if name == "tagloom" else name for name in whole]
        found |= {name.split(".")[1] for name in names if name.startswith("tagloom.")}
    return found - {"_native"}


@pytest.mark.parametrize("layer", [*FOLDERS, *FILES])
def test_imports_follow_the_flow_of_data(layer):
    paths = [*(SOURCE / layer).rglob("*.py")] if layer in FOLDERS else [SOURCE / f"{layer}.py"]
    assert paths
    found = {path: imports_of(path) for path in paths}
    if layer in ANYTHING:
        return
    assert layer in LAYERS, f"{layer} has no place in the line of layers; see CONTRIBUTING.md"
    allowed = CONFINED.get(layer, set(LAYERS[: LAYERS.index(layer)])) | {layer}
    for path, imported in found.items():
        assert imported <= allowed, path


def test_imports_inside_functions_are_seen(tmp_path):
    path = tmp_path / "late.py"
    path.write_text(
        "from tagloom import labels\n"
        "def f():\n    from tagloom.models.crf import CRF\n    import tagloom.cli.tag\n"
    )
    assert imports_of(path) == {"labels", "models", "cli"}
    path.write_text("def f():\n    import tagloom as tl\n")
    assert imports_of(path) == {"__init__"}


@pytest.mark.parametrize("line", ["from ..models import crf", "from .. import models"])
def test_relative_imports_are_refused(tmp_path, line):
    path = tmp_path / "near.py"
    path.write_text(f"import tagloom.labels\ndef f():\n    {line}\n")
    with pytest.raises(AssertionError, match=r"near\.py:3: import from tagloom, not from dots"):
        imports_of(path)


@pytest.mark.parametrize("folder", ["", *(f".{folder}" for folder in FOLDERS if folder != "cli")])
def test_everything_exported_exists(folder):
    for package in EXTRAS.get(folder.strip("."), ()):
        pytest.importorskip(package)
    module = importlib.import_module(f"tagloom{folder}")
    assert sorted(module.__all__) == sorted(set(module.__all__))
    assert set(module.__all__) <= set(dir(module))
    for exported in module.__all__:
        assert hasattr(module, exported), exported


def test_stub_of_the_native_module_is_what_the_generator_writes():
    from nanobind.stubgen import StubGen

    from tagloom import _native

    generator = StubGen(_native)
    generator.put(_native)
    committed = (SOURCE / "_native.pyi").read_text(encoding="utf-8")
    assert generator.get().strip() == committed.strip(), "run `make stubs`"


def modules_after(code: str) -> set[str]:
    """Names of the modules that a new process imports for some code, besides those of NumPy."""
    code = f"import sys, numpy; first = {{*sys.modules}}; {code}; print(*{{*sys.modules}} - first)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_importing_stays_light():
    """NumPy and our own modules: nothing that the command line or an extra needs."""
    found = modules_after("import tagloom; [getattr(tagloom, n) for n in tagloom.__all__]")
    assert "tagloom.models.crf" in found
    heavy = {"click", "rich", "torch", "sklearn", "scipy", "pandas", "hypothesis", "zstandard"}
    heavy |= {"uvicorn", "msgspec", "asyncio", "ray", "tagloom.cluster"}
    assert not heavy & found


def test_importing_loads_nothing_before_it_is_used():
    code = "import tagloom; tagloom.nothing"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "module 'tagloom' has no attribute 'nothing'" in run.stderr
    code = "import sys, tagloom; print('numpy' in sys.modules, 'CRF' in dir(tagloom))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "True"]


def test_tagging_loads_only_what_tags(tmp_path):
    """A program that loads a model and predicts does not import what it does not use."""
    path = tmp_path / "small.model"
    tl.CRF(features=["word", "suffix(2)"]).fit([["they", "fish"]], [["N", "V"]]).save(path)
    found = modules_after(f"import tagloom as tl; tl.load({str(path)!r}).predict([['they']])")
    assert {"tagloom.models.crf", "tagloom.scores.linear"} <= found
    unused = ("cli", "datasets", "evaluation.", "labels.spans")
    unused += ("features.crfpp", "features.wapiti", "models.hmm", "models.explanations")
    unused += ("models.calibration", "models.compaction", "training.fitting", "trellis.draw")
    assert [name for name in found if name.startswith(tuple(f"tagloom.{u}" for u in unused))] == []
    assert not found & {"hashlib", "importlib.metadata", "threading"}
    assert not found & {"click", "copy", "dataclasses", "inspect", "numbers"}


TAGGERS = [tl.CRF, tl.StructuredPerceptron]


@pytest.mark.parametrize("model", TAGGERS)
def test_tagging_words_does_not_import_numpy(model, tmp_path):
    """NumPy's import takes longer than loading a model and tagging a sentence."""
    path, source = tmp_path / "small.model", tmp_path / "source"
    X, y = [["they", "fish"], ["fish"]], [["N", "V"], ["N"]]
    tagger = model(["word", "suffix(2)", "word[-1]"]).fit(X, y)
    tagger.save(path)
    show = "print('numpy' in sys.modules, 'tagloom.trellis.trellis' in sys.modules)"
    code = f"import sys, tagloom as tl; print(tl.load({str(path)!r}).predict({X})); {show}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [str(tagger.predict(X)), "False False"]
    for text in ("they fish\nfish\n", "they\nfish\n\nfish\n"):
        source.write_text(text)
        command = ["tagloom", "tag", str(path), str(source), "-o", str(tmp_path / "out")]
        show_all = f"{show[:-1]}, 'click' in sys.modules)"
        code = f"import atexit, sys; atexit.register(lambda: {show_all}); sys.argv = {command}; "
        code += "from tagloom.cli import main; main()"
        command = [sys.executable, "-c", code]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        assert run.stdout.split() == ["False", "False", "False"]
        assert (tmp_path / "out").read_text().split()


def test_tagging_starts_quickly(tmp_path):
    """What is imported besides NumPy takes 0.05 s; a heavy library would take ten times as long."""
    path = tmp_path / "small.model"
    tl.CRF(features=["word", "suffix(2)"]).fit([["they", "fish"]], [["N", "V"]]).save(path)
    code = "import time, numpy; began = time.process_time(); import tagloom as tl; "
    code += f"tl.load({str(path)!r}).predict([['they']]); print(time.process_time() - began)"
    command = [sys.executable, "-c", code]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(3)]
    assert min(float(run.stdout) for run in runs) < 0.5  # on a busy machine, too


MODELS = [getattr(tl, name) for name in tl.__all__ if isinstance(getattr(tl, name), type)]
MODELS = [cls for cls in MODELS if issubclass(cls, tl.Tagger) and cls is not tl.Tagger]


NEEDS_TORCH = pytest.param(tl.NeuralTagger, marks=pytest.mark.peers)  # to train, not to tag


@pytest.mark.parametrize(
    "model", [*(cls for cls in MODELS if cls is not tl.NeuralTagger), NEEDS_TORCH]
)
def test_a_model_file_alone_says_what_tagging_loads(model, tmp_path):
    path = tmp_path / "small.model"
    model().fit([["they", "fish"], ["fish"]], [["N", "V"], ["N"]]).save(path)
    found = modules_after(f"import tagloom as tl; tl.load({str(path)!r}).predict([['they']])")
    assert f"tagloom.models.{model.__module__.rpartition('.')[2]}" in found
    # What takes long to import, and is for learning, messages and other people's files.
    assert not found & {"difflib", "hashlib", "numpy.random", "pathlib", "random", "threading"}
    assert not found & {"tagloom.evaluation.evaluations", "tagloom.training.fitting", "torch"}


def test_version_is_told_once():
    pyproject = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{tl.__version__}"' in pyproject


@pytest.mark.tree
def test_a_native_type_is_defined_once():
    """Two of one name are one to the linker, which then keeps either's destructor for both."""
    names = Counter(
        name
        for path in (Path(__file__).parents[1] / "src" / "cpp").glob("*/*.hpp")
        for name in re.findall(r"^(?:struct|class|enum class) (\w+)[^;]*$", path.read_text(), re.M)
        # Specialisations of templates have one name: of our own, and of nanobind's.
        if path.name not in ("vectors.hpp", "casters.hpp")
    )
    assert len(names) > 40
    assert [name for name, n in names.items() if n > 1] == []
