"""Arguments that are read without click have the values that click gives them."""

import click
import pytest

from tagloom.cli.declarations import argument, choice, command, integer, option
from tagloom.cli.tag import command as tag


def by_click(declared, arguments):
    """The values of click, None for an error."""
    try:
        return declared.click().make_context("tag", list(arguments)).params
    except click.ClickException:
        return None


ORDINARY = [
    ["model"],
    ["model", "-"],
    ["model", "a", "b", "-o", "out/"],
    ["-o", "out", "model", "a"],
    ["model", "--output=out", "--marginals", "--nbest", "3"],
    ["model", "--threads", "2", "--text", "-q"],
    ["model", "--n-threads=2", "--label", "upos", "--columns", "form,pos"],
    ["model", "--header", "--format", "conll"],
    ["model", "--no-header", "--sep", r"\t", "--quiet"],
    ["model", "--header", "--no-header"],
    ["model", "--label", "-1"],
    ["model", "--label", "a", "--label", "b"],
    ["model", "--label", ""],
    ["model", "--label="],
    ["model", "--columns=a=b"],
]
LEFT_TO_CLICK = [
    [],
    ["--help"],
    ["model", "--lable", "upos"],
    ["model", "-oout"],
    ["model", "-qo", "out"],
    ["model", "--nbest", "0"],
    ["model", "--nbest", "+3"],
    ["model", "--nbest", "three"],
    ["model", "--format", "CONLL"],
    ["model", "--quiet=yes"],
    ["model", "-o=out"],
    ["model", "--output"],
    ["model", "--", "-file"],
]


@pytest.mark.parametrize("arguments", ORDINARY, ids=" ".join)
def test_ordinary_arguments_are_read_as_by_click(arguments):
    values = tag.read(arguments)
    assert values is not None
    assert values == by_click(tag, arguments)


@pytest.mark.parametrize("arguments", LEFT_TO_CLICK, ids=" ".join)
def test_other_arguments_are_left_to_click(arguments):
    assert tag.read(arguments) is None


def test_defaults_and_arguments():
    @command()
    @argument("path")
    @option("--format", type=choice(["a", "b"]), default="a")
    @option("--n", "n_lines", type=integer(1))
    @option("--all", is_flag=True)
    def show(**values): ...

    assert show.read(["x"]) == {"path": "x", "format": "a", "n_lines": None, "all": False}
    assert show.read(["x"]) == by_click(show, ["x"])
    for arguments in (["x", "y"], ["x", "--format", "c"], ["x", "--n", "0"]):
        assert show.read(arguments) is None
        assert by_click(show, arguments) is None
