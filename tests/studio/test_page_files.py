"""The files of the page: few bytes, nothing from elsewhere, no HTML from text."""

import gzip
import re
from pathlib import Path

import tagloom.studio
from tagloom.web import Pages

FOLDER = Path(tagloom.studio.__file__).parent / "page"
FILES = sorted(FOLDER.iterdir())


def test_size():
    """S15: all files together, each compressed alone, as a browser would get them."""
    assert sum(len(gzip.compress(path.read_bytes(), mtime=0)) for path in FILES) < 60_000


def test_every_file_is_served():
    names = Pages("tagloom.studio", "page").names
    assert sorted(names) == [path.name for path in FILES]
    assert {"index.html", "main.js", "style.css"} <= set(names)


def test_imports_exist():
    for path in FOLDER.glob("*.js"):
        for name in re.findall(r'(?:from|import\()\s*"\./([^"]+)"', path.read_text()):
            assert (FOLDER / name).is_file(), f"{path.name} imports {name}"


def test_no_foreign_address_and_no_html_from_text():
    for path in FILES:
        text = path.read_text()
        addresses = set(re.findall(r"https?://[^\s\"')]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, path
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert word not in text, path
        assert 'setAttribute("style"' not in text


def test_scripts_are_type_checked():
    for path in FOLDER.glob("*.js"):
        assert path.read_text().startswith("// @ts-check\n"), path
