"""Command-line options from the declared parameters of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from tagloom import models
from tagloom.cli.templates import split_templates
from tagloom.models.files import find_kind, known_kinds
from tagloom.parameters import MISSING, Choice, Count, Flag, Names, Number, Parameter, Path

# The commands of our models; models of other packages have the name of their kind.
_COMMANDS = {
    "CRF": "crf",
    "HMM": "hmm",
    "MEMM": "memm",
    "NeuralTagger": "neural",
    "SemiCRF": "semicrf",
    "StructuredPerceptron": "perceptron",
    "StructuredSVM": "svm",
    "TokenClassifier": "token",
    "MostFrequentTag": "baseline",
}
_ALIASES = {"n_threads": ["--threads"]}
# Functions that split the text of a list, by separator.
_SPLIT: dict[str, Callable[[str], list[str]]] = {
    ",": lambda text: text.split(","),
    ";": split_templates,
}


def find_taggers() -> dict[str, type[models.Tagger]]:
    """Return every kind of tagger by the name of its command, also those of other packages."""
    taggers = {}
    for kind in known_kinds():
        cls: Any = find_kind(kind)
        if cls is not None and cls.family == models.Tagger.family:
            taggers[_COMMANDS.get(kind, kind)] = cls
    return taggers


def model_options(cls: type[models.Model]) -> Iterator[click.Option]:
    """Yield an option for each parameter of a class that can be one."""
    for declared in cls.parameters.values():
        if declared.is_option:
            option = _make_option(declared)
            if option is not None:
                yield option


def _make_option(declared: Parameter) -> click.Option | None:
    name = declared.name
    option = "--" + name.replace("_", "-")
    about: dict[str, Any] = {
        "help": declared.help,
        "default": declared.default,
        "show_default": declared.default is not None,
    }
    spellings = [name, option, *_ALIASES.get(name, ())]
    match declared:
        case Flag():
            return click.Option([name, f"{option}/--no-{name.replace('_', '-')}"], **about)
        case Choice():
            choices = [choice or "none" for choice in declared.choices]
            kind: click.ParamType[Any] = click.Choice(choices)
            if declared.free is not MISSING:
                kind = _ChoiceOr(choices, declared.free)
            return click.Option(spellings, type=kind, **about)
        case Count():
            return click.Option(spellings, type=int, **about)
        case Number():
            return click.Option(spellings, type=float, **about)
        case Names():
            metavar = declared.separator.join(("A", "B", "…"))
            if declared.default:
                about["default"] = declared.separator.join(declared.default)
            return click.Option(spellings, metavar=metavar, **about)
        case Path():
            return click.Option(spellings, metavar=declared.metavar, **about)
    return None  # its values cannot be written as text


class _ChoiceOr(click.Choice[str]):
    """One of several names, or a text that a type reads."""

    def __init__(self, choices: list[str], free: type) -> None:
        super().__init__(choices)
        self.free = free

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "[" + "|".join([*self.choices, self.free.__name__.upper()]) + "]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return value if value in self.choices else self.free(value)
        except ValueError:
            names = ", ".join(map(repr, self.choices))
            self.fail(f"{value!r} is not one of {names}, or a {self.free.__name__}.", param, ctx)


def read_values(cls: type[models.Model], options: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the values of options to values of parameters."""
    values = {}
    for name, value in options.items():
        match cls.parameters.get(name):
            case Choice() if value == "none":
                value = None
            case Names() as declared if value is not None:
                value = _SPLIT[declared.separator](value)
        values[name] = value
    return values
