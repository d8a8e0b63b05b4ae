"""``tagloom completion``: commands, options and file names completed by the Tab key."""

from __future__ import annotations

import os
from pathlib import Path

import click

# shell -> its start-up file, below the home folder; fish reads a folder of scripts instead
_STARTUP = {"bash": ".bashrc", "zsh": ".zshrc", "fish": None}


@click.command(
    epilog="""\b
Examples:
  tagloom completion --install
  tagloom completion zsh > ~/.zfunc/_tagloom
"""
)
@click.argument("shell", type=click.Choice(list(_STARTUP)), required=False)
@click.option(
    "--install", is_flag=True, help="Set completion up for new shells, instead of printing it."
)
def command(shell: str | None, install: bool) -> None:
    """Complete commands, options and files by the Tab key.

    Prints the script for SHELL, by default the one named by $SHELL. --install writes it to
    ~/.local/share/tagloom and adds a line to ~/.bashrc or ~/.zshrc, or writes it to the
    completions of fish.
    """
    shell = shell or _login_shell()
    text = script(shell)
    if not install:
        click.echo(text)
        return
    path = _script_path(shell)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", encoding="utf-8")
    click.echo(f"Wrote {path}.", err=True)
    startup = _STARTUP[shell]
    if startup is not None and _add_line(Path.home() / startup, f'. "{path}"'):
        click.echo(f"Added a line to {Path.home() / startup}.", err=True)
    click.echo("Open a new shell to use it.", err=True)


def _login_shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in _STARTUP:
        raise click.UsageError(
            f"expected {', '.join(_STARTUP)} as the shell, but $SHELL is {name or 'not set'!r}. "
            "Name one of them."
        )
    return name


def script(shell: str) -> str:
    """Return the script that completes the commands in a shell."""
    from click.shell_completion import get_completion_class

    from tagloom.cli.groups import group

    complete = get_completion_class(shell)
    assert complete is not None
    return complete(group, {}, "tagloom", "_TAGLOOM_COMPLETE").source().strip()


def _script_path(shell: str) -> Path:
    """Return the file for the script: by the XDG variables, else below the home folder."""
    if shell == "fish":
        base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        return Path(base) / "fish" / "completions" / "tagloom.fish"
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "tagloom" / f"complete.{shell}"


def _add_line(path: Path, line: str) -> bool:
    """Append a line to a start-up file, unless the file has it; return whether it was added."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if line in text.splitlines():
        return False
    with path.open("a", encoding="utf-8") as file:
        file.write(("" if not text or text.endswith("\n") else "\n") + line + "\n")
    return True
