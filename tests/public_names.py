"""Write the public names of the present version: names, parameters, commands, options.

Run once for each release: ``python tests/public_names.py``. tests/test_stability.py checks that
everything that a release had still works.
"""

import importlib
import inspect
from enum import Enum
from pathlib import Path

import click

FILE = Path(__file__).with_name("public_names.txt")
# Packages that need an extra are left out: what is public must not depend on what is installed.
PACKAGES = ["", "errors", "cluster", "datasets", "dynamics", "evaluation", "features", "interop"]
PACKAGES += ["labels", "language", "learners", "models", "scores", "sequences", "storage"]
PACKAGES += ["text", "training", "trellis"]
# Methods that every model has in its own way, beside those whose docstring has an example.
COMMON = {"fit", "partial_fit", "predict", "predict_nbest", "predict_marginals", "score"}
COMMON |= {"save", "load", "describe", "trellis", "evaluate", "get_params", "set_params"}


def described(path, value):
    """Yield the path of a name, with the parameters if it is called."""
    if isinstance(value, type) and issubclass(value, Enum):  # its parameters are Python's
        yield path
        return
    try:
        names = [x for x in inspect.signature(value).parameters if x[0] != "_" and x != "self"]
    except (TypeError, ValueError):  # not callable, or without a signature
        names = []
    yield f"{path}({', '.join(names)})" if names else path


def members(path, cls):
    """Yield the methods of a class that have an example, or are `COMMON`."""
    for name, member in inspect.getmembers(cls, inspect.isroutine):
        has_example = ">>>" in (inspect.getdoc(member) or "")
        if name in COMMON or (has_example and not name.startswith("_")):
            yield from described(f"{path}.{name}", member)


def python_names():
    """Yield everything in ``__all__`` of the packages; of the first one, methods, too."""
    for package in PACKAGES:
        module = importlib.import_module(f"tagloom.{package}".rstrip("."))
        for name in sorted(getattr(module, "__all__", None) or _classes(module)):
            value, path = getattr(module, name), f"{module.__name__}.{name}"
            yield from described(path, value)
            if package == "" and isinstance(value, type):
                yield from members(path, value)


def _classes(module):
    classes = ((name, x) for name, x in vars(module).items() if isinstance(x, type))
    return [name for name, x in classes if x.__module__ == module.__name__]


def command_names(command, path="tagloom"):
    """Yield each command, and each of its options."""
    yield f"$ {path}"
    for option in sorted({x for p in command.params for x in (*p.opts, *p.secondary_opts)}):
        if option.startswith("-"):
            yield f"$ {path} {option}"
    if isinstance(command, click.Group):
        for name in command.list_commands(None):
            yield from command_names(command.get_command(None, name), f"{path} {name}")


def main():
    from tagloom.cli.groups import group

    lines = [*python_names(), *command_names(group)]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
