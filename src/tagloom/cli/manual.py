"""Manual pages in the format of man(7), generated from the commands and their options.

``python -m tagloom.cli.manual FOLDER`` writes a page for `tagloom` and one for each command,
``man/man1/tagloom-train-crf.1`` and so on, and the scripts of ``tagloom completion`` where shells
look for them. `make man` writes them to ``share/``, which a wheel installs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

import tagloom


def manual_pages() -> dict[str, str]:
    """Return the source of each page by its file name.

    Examples
    --------
    >>> pages = manual_pages()
    >>> pages["tagloom-tag.1"].splitlines()[1]
    '.SH NAME'
    >>> "tagloom-train-crf.1" in pages
    True
    """
    from tagloom.cli.groups import group

    context = click.Context(group, info_name="tagloom")
    return {f"{path.replace(' ', '-')}.1": page for path, page in _pages(context)}


def _pages(context: click.Context) -> Iterator[tuple[str, str]]:
    """Yield the path of a command, such as ``tagloom lm train``, and its page; then those below."""
    yield context.command_path, _page(context)
    command = context.command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from _pages(click.Context(below, info_name=name, parent=context))


def _page(context: click.Context) -> str:
    command, path = context.command, context.command_path
    title = path.replace(" ", "-")
    lines = [f'.TH "{title.upper()}" "1" "" "tagloom {tagloom.__version__}" "tagloom"']
    lines += [".SH NAME", f"{title} \\- {_escape(command.get_short_help_str(200))}"]
    usage = " ".join(command.collect_usage_pieces(context))
    lines += [".SH SYNOPSIS", f".B {path}", _escape(usage)]
    lines += [".SH DESCRIPTION", *_prose(command.help or "")]
    options = [
        record
        for parameter in command.get_params(context)
        if (record := parameter.get_help_record(context)) is not None and record[1]
    ]
    if options:
        lines.append(".SH OPTIONS")
        for names, text in options:
            lines += [".TP", f"\\fB{_escape(names)}\\fP", _escape(text)]
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                summary = _escape(below.get_short_help_str(200))
                lines += [".TP", f"\\fB{title}-{name}\\fP(1)", summary]
    lines += _prose(command.epilog or "")
    return "\n".join(lines) + "\n"


def _prose(text: str) -> Iterator[str]:
    """Yield paragraphs; one that click must not wrap keeps its lines."""
    for paragraph in text.split("\n\n"):
        rows = paragraph.strip("\n").splitlines()
        if not rows:
            continue
        yield ".PP"
        if rows[0].strip() == "\b":
            yield from (".nf", *(_escape(row) for row in rows[1:]), ".fi")
        else:
            yield _escape(" ".join(row.strip() for row in rows))


def _escape(text: str) -> str:
    """Escape what has a meaning in man(7): backslashes, hyphens, and dots that begin a line."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def shared_files() -> dict[str, str]:
    """Return the files that are installed below ``share``: manual pages and completion.

    Examples
    --------
    >>> sorted(name for name in shared_files() if "man1" not in name)[0]
    'bash-completion/completions/tagloom'
    """
    from tagloom.cli.completion import script

    pages = {f"man/man1/{name}": page for name, page in manual_pages().items()}
    return pages | {path: script(shell) + "\n" for shell, path in _COMPLETIONS.items()}


# shell -> the script that it loads when a command is completed for the first time
_COMPLETIONS = {
    "bash": "bash-completion/completions/tagloom",
    "zsh": "zsh/site-functions/_tagloom",
    "fish": "fish/vendor_completions.d/tagloom.fish",
}


def main() -> None:
    """Write all files below the folder that the command line names."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tagloom.cli.manual FOLDER")
    for name, text in shared_files().items():
        path = Path(sys.argv[1], name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
