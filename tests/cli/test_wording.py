"""The texts of commands: help, sizes and lists."""

import click
import pytest

from tagloom import cli
from tagloom.cli import groups
from tagloom.cli.wording import size, some


def all_commands(command, path="tagloom"):
    """Yield every command with its path."""
    yield path, command
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            yield from all_commands(command.get_command(ctx, name), f"{path} {name}")


def test_help_texts_are_sentences():
    """Every help text begins with a capital and ends with a full stop."""
    texts = [(name, help) for name, (_, help) in cli.COMMANDS.items()]
    for path, command in all_commands(groups.group):
        texts.append((path, command.help))
        options = [p for p in command.params if isinstance(p, click.Option)]
        texts += [(f"{path} {option.opts[0]}", option.help) for option in options]
    starts = [(name, text) for name, text in texts if not text[:1].isupper()]
    ends = [(name, text) for name, text in texts if not text.rstrip().endswith(".")]
    assert len(texts) > 100
    assert not starts
    assert not ends


def test_sizes():
    assert [size(n) for n in (2_400, 999_999, 1e6, 1.25e9)] == [
        "2 kB",
        "1000 kB",
        "1.0 MB",
        "1,250.0 MB",
    ]


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["A"], "'A'"),
        (["A", "B"], "'A' or 'B'"),
        (["A", "B", "C", "D"], "'A', 'B', 'C' or 'D'"),
        (["A", "B", "C", "D", "E"], "'A', 'B', 'C' or 2 others"),
    ],
)
def test_names(names, shown):
    assert some(names, "or") == shown
