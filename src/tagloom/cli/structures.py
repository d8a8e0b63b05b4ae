"""Models of structures on the command line: what parsers and role labellers share.

A module such as ``parsing`` or ``roles`` describes one of them as a `Structured`: its name, how its
files are read, and how ``tag`` and ``eval`` use it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from tagloom import models, storage
from tagloom.checks import plural
from tagloom.cli.models import is_model
from tagloom.cli.reading import Reading
from tagloom.cli.wording import size
from tagloom.models import Capability
from tagloom.models.files import find_kind


@dataclass(frozen=True)
class Structured:
    """A kind of model whose predictions are not labels of tokens.

    Attributes
    ----------
    name : str
        After ``tagloom train``.
    noun : str
        For messages: "a parser".
    capability : Capability
    model : str
        Name of the class in `tagloom.models`.
    summary, train_file, examples : str
        For the help of ``tagloom train``.
    labels, measure : str
        What the summary of training calls the labels, and the development score.
    counts : tuple of str
        Nouns of the sizes in the training record.
    read : callable
        From a path and an encoding to labelled sentences.
    tag : callable
        ``tag(model, source, output, reading)`` writes predictions.
    evaluate : callable
        ``evaluate(gold, predicted, n_bootstrap, random_state)`` scores sentences.
    """

    name: str
    noun: str
    capability: Capability
    model: str
    summary: str
    train_file: str
    examples: str
    labels: str
    measure: str
    counts: tuple[str, ...]
    read: Callable[[str, str], Any]
    tag: Callable[[Any, str, str, Reading], None]
    evaluate: Callable[[Any, Any, int, int], Any]

    @property
    def cls(self) -> Any:
        """The class of the model."""
        return getattr(models, self.model)

    def train_command(self) -> click.Command:
        """Return the command that trains it."""
        command = click.Command(
            self.name,
            callback=self._train,
            short_help=self.summary,
            help=f"{self.summary}\n\nTRAIN is {self.train_file}; - is stdin. Ctrl-C saves the best "
            "model so far.",
            epilog=self.examples,
            params=[
                click.Argument(["train_file"], metavar="TRAIN"),
                click.Option(
                    ["-o", "--output"], metavar="MODEL", required=True, help="File to save to."
                ),
                click.Option(
                    ["--dev"], metavar="FILE", help="Development data: keep the best iteration."
                ),
                click.Option(
                    ["--checkpoint"],
                    metavar="FILE",
                    help="Save the run to FILE, or resume it from there.",
                ),
                click.Option(
                    ["--encoding"], default="utf-8", show_default=True, help="Of the files."
                ),
                click.Option(
                    ["--json", "as_json"], is_flag=True, help="Print the summary as JSON."
                ),
                click.Option(["--quiet", "-q"], is_flag=True, help="Print no progress or summary."),
            ],
        )
        from tagloom.cli.options import model_options  # here, for a quick start

        command.params += model_options(self.cls)
        return command

    def _train(
        self,
        *,
        train_file: str,
        output: str,
        dev: str | None,
        checkpoint: str | None,
        encoding: str,
        as_json: bool,
        quiet: bool,
        **options: Any,
    ) -> None:
        """Read the files, train, save, and print a summary."""
        from tagloom.cli.options import read_values
        from tagloom.cli.train import check_writable

        model = self.cls(**read_values(self.cls, options))
        for path in (output, checkpoint):
            if path is not None:
                check_writable(path)
        train = self.read(train_file, encoding)
        held_out = None if dev is None else self.read(dev, encoding)
        model.fit(train, dev=held_out, progress=False if quiet else None, checkpoint=checkpoint)
        model.save(output)
        summary = {"model": self.model, "path": output, "bytes": os.path.getsize(output)}
        summary |= {"labels": len(model.labels_), **model.training_}
        if as_json:
            click.echo(json.dumps(summary, ensure_ascii=False))
        elif not quiet:
            click.echo(self._show(summary))
        if summary["stopped"] == "interrupted":
            click.get_current_context().exit(130)

    def _show(self, summary: dict[str, Any]) -> str:
        counts = [plural(summary[f"{noun}s"], noun) for noun in self.counts]
        dev = summary["dev"]
        rows = [
            ("trained on", ", ".join(counts)),
            (self.labels, str(summary["labels"])),
            ("iterations", str(summary["iterations"])),
            ("dev", "" if dev is None else f"{self.measure} {dev:.4f}"),
            ("seconds", f"{summary['seconds']:.1f}"),
            ("saved in", f"{summary['path']}, {size(summary['bytes'])}"),
        ]
        return "\n".join(f"{name:12}{value}" for name, value in rows if value)

    def compare(
        self,
        gold: Any,
        other: str,
        reading: Reading,
        n_bootstrap: int,
        random_state: int,
        as_json: bool,
    ) -> None:
        """Score a model on gold data, or predictions (a path) against gold data (a path)."""
        from tagloom.cli.scoring import show

        if isinstance(gold, str):
            first, second = (self.read(path, reading.encoding) for path in (gold, other))
        else:
            first = self.read(other, reading.encoding)
            second = gold.annotate(first)
        result = self.evaluate(first, second, n_bootstrap, random_state)
        files = [one for one in (first, second) if hasattr(one, "notice")]
        show(result, files, as_json)


def kinds() -> list[Structured]:
    """Return all kinds, in the order of ``tagloom train --help``."""
    from tagloom.cli import parsing, roles

    return [parsing.PARSER, roles.ROLES]


def find(path: str) -> tuple[Structured, Any] | None:
    """Return the model of a file, and its kind, if it predicts a structure."""
    if not is_model(path) or not storage.is_model(path):
        return None
    cls: Any = find_kind(str(storage.read(path, verify=False)[0].get("model")))
    if cls is None or cls.family == "tagger":  # before the imports of `kinds`, for a quick start
        return None
    kind = kind_of(cls)
    return None if kind is None else (kind, cls.load(path))


def kind_of(model: Any) -> Structured | None:
    """Return the kind of a model or of its class, if it predicts a structure."""
    capabilities = getattr(model, "capabilities", ())
    return next((kind for kind in kinds() if kind.capability in capabilities), None)
