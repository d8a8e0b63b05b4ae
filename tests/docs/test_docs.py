"""Everything that is shown runs: the blocks of README.md and docs/*.md, and every docstring.

This is the one place where examples are run. In a page the blocks share one namespace and one
empty folder, and run from top to bottom:

    ```python     with >>>: a doctest, output compared; without: executed
    ```console    every `$ command` runs in a shell, and what follows it must be what it prints
"""

import ast
import doctest
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import tagloom as tl

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
NEED_PEERS = {"spacy.md", "nltk.md", "torch.md", "pytorch-crf.md", "pomegranate.md"}
NEED_PEERS |= {"networks.md", "ncrfpp.md", "flair.md"}
NEED_TORCH = ("tagloom.torch", "tagloom.neural")
MODULES = ["tagloom", *(m.name for m in pkgutil.walk_packages(tl.__path__, "tagloom."))]
# What users call: these say how with an example.
FACES = [tl, tl.emissions, tl.trellis, tl.semirings, tl.labels, tl.features, tl.datasets]
FACES += [
    importlib.import_module(name)
    for name in (
        "tagloom.sequences",
        "tagloom.interop",
        "tagloom.evaluation",
        "tagloom.storage",
        "tagloom.language",
        "tagloom.dynamics",
    )
]


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str
    line: int  # of its first line of text, counted from 1


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page that say what language they are in."""
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield Block(match[1], match[2], text.count("\n", 0, match.start(2)) + 1)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def is_run(block: Block) -> bool:
    return block.language in ("python", "console")


def run_doctest(block: Block, page: Path, names: dict) -> None:
    test = doctest.DocTestParser().get_doctest(
        block.text, names, page.name, str(page), block.line - 1
    )
    said = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append, clear_globs=False)
    names.update(test.globs)
    if said:
        pytest.fail("".join(said), pytrace=False)


def run_python(block: Block, page: Path, names: dict) -> None:
    tree = ast.parse(block.text, str(page))
    ast.increment_lineno(tree, block.line - 1)
    exec(compile(tree, str(page), "exec"), names)


def run_console(block: Block, page: Path) -> None:
    """Run each command; what a terminal would show, stdout and stderr, must be what is printed."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    shown: list[str] = []
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        n = 1  # a command goes on while a line ends in a backslash
        while lines[n - 1].endswith("\\\n"):
            n += 1
        command = "".join(lines[:n])
        done = subprocess.run(
            ["bash", "-c", command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PATH": path, "PYTHONWARNINGS": "error"},
            check=False,
        )
        shown.append(f"$ {command}{done.stdout}")
    assert "".join(shown) == block.text, f"{page.name}:{block.line}"


def as_case(page: Path):
    """Mark the pages that need a heavy library; `make test-peers` runs them."""
    return pytest.param(page, marks=pytest.mark.peers) if page.name in NEED_PEERS else page


@pytest.mark.parametrize(
    "page", [as_case(p) for p in PAGES if any(map(is_run, blocks(p)))], ids=name_of
)
def test_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language == "console":
            if os.name == "nt":
                pytest.skip("console blocks are written for a POSIX shell")
            run_console(block, page)
        elif ">>>" in block.text and block.language == "python":
            run_doctest(block, page, names)
        elif block.language == "python":
            run_python(block, page, names)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_fence_is_closed_and_names_a_language_we_know(page):
    """A block with a misspelt language would silently not run."""
    fences = re.findall(r"^```(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(fences) % 2 == 0
    known = {"python", "console", "sh", "text", "cpp", "js", ""}
    for opening, closing in zip(fences[::2], fences[1::2], strict=True):
        assert opening in known or opening.startswith("{"), opening
        assert closing == "", closing


def headings(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub and Sphinx make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def dead_links(page: Path) -> list[str]:
    """Return the links of a page to files and headings that do not exist."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not link.startswith("https:") and (
            not target.is_file() or (anchor and anchor not in headings(target))
        ):
            dead.append(link)
    return dead


@pytest.mark.tree  # pictures of the benchmarks are not in the sdist
@pytest.mark.parametrize("page", [*PAGES, ROOT / "SECURITY.md", ROOT / "CHANGELOG.md"], ids=name_of)
def test_links_to_pages_and_headings(page):
    assert dead_links(page) == []


def test_dead_links_are_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A `b` c\n[1](#a-b-c) [2](#d) [3](page.md#a-b-c) [4](other.md) [5](page.md)")
    assert dead_links(page) == ["#d", "other.md"]


@pytest.mark.parametrize(
    "name",
    [pytest.param(m, marks=pytest.mark.peers) if m.startswith(NEED_TORCH) else m for m in MODULES],
)
def test_docstrings(name):
    try:
        module = importlib.import_module(name)
    except tl.errors.MissingExtraError as error:
        pytest.skip(str(error))
    said = []
    runner = doctest.DocTestRunner(verbose=False)
    for test in doctest.DocTestFinder().find(module):
        runner.run(test, out=said.append)
    if said:
        pytest.fail("".join(said), pytrace=False)


def callables() -> dict[str, object]:
    """Return what users call: public functions and classes, and the methods of the classes."""
    found = {}
    for face in FACES:
        for name in face.__all__:
            public = getattr(face, name)
            if inspect.isfunction(public) or inspect.isclass(public):
                found[f"{public.__module__}.{name}"] = public
    for cls in (tl.Trellis, tl.StateSpace):
        for name, method in inspect.getmembers(cls, callable):
            if not name.startswith("_"):
                found[f"{cls.__name__}.{name}"] = method
    return found


def is_only_data(public: object) -> bool:
    """Whether it is a result or a protocol, which users get and do not make."""
    return inspect.isclass(public) and (
        hasattr(public, "_fields") or getattr(public, "_is_protocol", False)
    )


def test_everything_public_has_an_example():
    without = [
        name
        for name, public in callables().items()
        if ">>>" not in (doc := inspect.getdoc(public) or "")
        and not doc.startswith("Old name of ")
        and not is_only_data(public)
    ]
    assert not without


@pytest.mark.tree
def test_the_architecture_has_every_folder_and_every_file_of_the_core():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    folders = {path.name for path in (ROOT / "src" / "tagloom").iterdir() if path.is_dir()}
    assert folders - {"__pycache__"} == set(re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE))
    (native,) = (block.text for block in blocks(ROOT / "docs" / "architecture.md")
                 if "src/cpp/core/" in block.text)  # fmt: skip
    for part, listed in zip(("bind", "core"), native.split("src/cpp/core/"), strict=True):
        files = {path.stem for path in (ROOT / "src" / "cpp" / part).iterdir()}
        assert files == set(re.findall(r"\b(\w+)\.(?:\*|[ch]pp)", listed))


def test_the_mechanism_notices_what_is_wrong(tmp_path):
    """The tests above can fail: wrong output of Python and of a command, and an exception."""
    page = tmp_path / "page.md"
    page.write_text(
        "```python\n>>> 1 + 1\n3\n```\n```python\n1 / 0\n```\n```console\n$ echo a\nb\n```\n",
        encoding="utf-8",
    )
    wrong, fails, says = blocks(page)
    with pytest.raises(pytest.fail.Exception, match=r"Expected:\n    3\nGot:\n    2"):
        run_doctest(wrong, page, {})
    with pytest.raises(ZeroDivisionError):
        run_python(fails, page, {})
    if os.name != "nt":
        with pytest.raises(AssertionError, match=r"page\.md:9"):
            run_console(says, page)


def test_the_tests_that_pages_name_exist():
    page = (ROOT / "docs" / "coming-from" / "index.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]*test_\w+\.py)`", page)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / "tests" / name).is_file()] == []
