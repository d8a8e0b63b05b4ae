"""The examples of the page and of the docstrings run."""

import doctest
import logging
import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

import tagloom.sequences

MODULES = [module.name for module in pkgutil.iter_modules(tagloom.sequences.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    result = doctest.testmod(import_module(f"tagloom.sequences.{name}"))
    assert result.failed == 0


def test_public_functions_have_examples():
    for name in tagloom.sequences.__all__:
        public = getattr(tagloom.sequences, name)
        if callable(public) and name not in ("Label", "Stream"):
            assert ">>>" in public.__doc__, name


def test_page(caplog):
    caplog.set_level(logging.ERROR)  # the span that does not fit is meant
    page = Path(__file__).parents[2] / "docs" / "corpora.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert (result.failed, result.attempted > 15) == (0, True)
