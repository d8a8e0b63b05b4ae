"""Shell completion and ``python -m tagloom``."""

import os
import shutil
import subprocess
import sys

import pytest

import tagloom


def tagloom_command(*arguments, **environment):
    command = [sys.executable, "-m", "tagloom", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=os.environ | environment, check=False
    )


def test_python_runs_the_package():
    done = tagloom_command("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert tagloom.__version__ in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_installing_completion_twice_changes_the_startup_file_once(shell, tmp_path):
    home = {"HOME": str(tmp_path), "SHELL": f"/bin/{shell}", "XDG_DATA_HOME": ""}
    home["XDG_CONFIG_HOME"] = ""
    for _ in range(2):
        done = tagloom_command("completion", "--install", **home)
        assert (done.returncode, done.stdout) == (0, "")
    if shell == "fish":
        script = tmp_path / ".config/fish/completions/tagloom.fish"
    else:
        script = tmp_path / f".local/share/tagloom/complete.{shell}"
        startup = (tmp_path / f".{shell}rc").read_text(encoding="utf-8")
        assert startup == f'. "{script}"\n'
    assert "_TAGLOOM_COMPLETE" in script.read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_and_options(tmp_path):
    script = tmp_path / "complete.bash"
    script.write_text(tagloom_command("completion", "bash").stdout, encoding="utf-8")
    # The script calls tagloom by its name.
    (tmp_path / "tagloom").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tagloom "$@"\n')
    (tmp_path / "tagloom").chmod(0o755)
    ask = f"""
    PATH="{tmp_path}:$PATH"; . "{script}"
    COMP_WORDS=($1 $2 $3); COMP_CWORD=$(( $# - 1 )); _tagloom_completion tagloom
    echo "${{COMPREPLY[@]}}"
    """
    for words, expected in [
        (["tagloom", "conv"], "convert convert-model"),
        (["tagloom", "tag", "--nb"], "--nbest"),
    ]:
        done = subprocess.run(
            ["bash", "-c", ask, "bash", *words], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == expected


def test_an_unknown_shell_is_a_mistake(is_mistake):
    assert is_mistake(tagloom_command("completion", SHELL="/bin/tcsh"), "'tcsh'", "zsh")
