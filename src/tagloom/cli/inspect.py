"""``tagloom inspect``: show the contents of a model."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import click

from tagloom.checks import plural
from tagloom.cli.models import load_model
from tagloom.cli.wording import size
from tagloom.errors import LabelError
from tagloom.models import Capability, Tagger

WIDEST = 20  # labels in a transition table that is still readable


@click.command(
    epilog="""\b
Examples:
  tagloom inspect pos.tagloom
  tagloom inspect pos.tagloom --label VERB --top 10
  tagloom inspect pos.tagloom --pattern 'suffix*' --json
"""
)
@click.argument("model")
@click.option("--pattern", help="Show the weights whose feature matches, such as 'suffix*'.")
@click.option("--label", help="Show only this label.")
@click.option(
    "--top",
    default=5,
    show_default=True,
    type=click.IntRange(1),
    help="Weights to show for each label, or for --pattern.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def command(model: str, pattern: str | None, label: str | None, top: int, as_json: bool) -> None:
    """Show the contents of MODEL.

    Labels, sizes, the training record, the strongest features of each label, and the weights of
    transitions from label to label; or, with --pattern, the features that match it.
    """
    tagger = load_model(model)
    names = tagger.labels_.tolist()
    if label is not None and label not in names:
        raise LabelError(
            where=model,
            parameter="label",
            expected=f"one of {', '.join(names)}",
            found=repr(label),
        )
    contents: dict[str, Any] = {}
    if pattern is None:
        contents = describe(tagger, model)
        contents["transitions"] = [
            {"from": a, "to": b, "weight": weight}
            for (a, b), weight in sorted(_transitions(tagger).items(), key=lambda x: -x[1])
            if label in (None, a, b)
        ]
    shown = [label] if label else names
    contents["weights"] = strongest(tagger, shown, pattern, top)
    if as_json:
        click.echo(json.dumps(contents, ensure_ascii=False))
        return
    if pattern is None:
        click.echo(show_description(contents))
        click.echo()
    if contents["weights"] or pattern is not None:
        show_weights(contents["weights"], pattern)
    if pattern is None and contents["transitions"]:
        click.echo()
        show_transitions(tagger, contents["transitions"], label, top)


def _transitions(tagger: Any) -> dict[tuple[str, str], float]:
    """Return the weights of transitions; a tagger that looks up single words has none."""
    transitions: dict[tuple[str, str], float] = getattr(tagger, "transition_features_", {})
    return transitions


def describe(tagger: Tagger, path: str) -> dict[str, Any]:
    """Return the contents of a model, except its weights."""
    about = tagger.describe()
    if "weights" in about:
        about["weights_in_all"] = about.pop("weights")
    first = {"model": type(tagger).__name__, "path": path, "bytes": os.path.getsize(path)}
    return first | about


def strongest(
    tagger: Any, labels: list[str], pattern: str | None, top: int
) -> list[dict[str, Any]]:
    """Return the largest weights of each label, or of all labels together with a pattern."""
    if not tagger.can(Capability.WEIGHTS):
        return []
    if pattern is not None:
        weights = tagger.feature_weights(pattern, label=labels[0] if len(labels) == 1 else None)
        chosen = [w for w in weights if w.label in labels or " → " in w.label][:top]
    else:
        chosen = []
        for label in labels:
            weights = tagger.feature_weights(label=label, n=top)
            # Log probabilities are never positive: show all of them.
            chosen += [w for w in weights if w.weight > 0] or weights
    return [{"label": w.label, "feature": w.attribute, "weight": w.weight} for w in chosen]


def show_description(contents: dict[str, Any]) -> str:
    """Format the contents of a model as text."""
    training = contents["training"]
    rows = [
        ("model", f"{contents['model']}, {size(contents['bytes'])}"),
        ("labels", f"{len(contents['labels'])}: {_cut(' '.join(contents['labels']))}"),
        ("scheme", contents.get("scheme")),
        ("words", f"{contents['words']:,}" if "words" in contents else ""),
        ("features", _sizes(contents)),
        ("templates", _cut("; ".join(map(str, contents.get("features") or ())))),
        ("trained on", _trained_on(training)),
        ("training", _training(training)),
        ("temperature", "" if contents["temperature"] == 1 else f"{contents['temperature']:.4g}"),
    ]
    return "\n".join(f"{name:12}{value}" for name, value in rows if value)


def _sizes(contents: dict[str, Any]) -> str:
    if "attributes" not in contents:
        return ""
    return f"{contents['attributes']:,} attributes, {contents['weights_in_all']:,} weights"


def _trained_on(training: dict[str, Any]) -> str:
    parts = [
        plural(training[f"{noun}s"], noun)
        for noun in ("sentence", "token")
        if training.get(f"{noun}s")
    ]
    if training.get("label"):
        parts.append(f"labels of {training['label']!r}")
    return ", ".join(parts)


def _training(training: dict[str, Any]) -> str:
    parts = [
        f"{training['iterations']} iterations" if training.get("iterations") else "",
        f"loss {training['loss']:,.6g}" if training.get("loss") is not None else "",
        f"dev {training['dev']:.4f}" if training.get("dev") is not None else "",
        f"{training['seconds']:.1f} s" if training.get("seconds") is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def _cut(text: str, width: int = 300) -> str:
    return text if len(text) <= width else text[:width].rsplit(" ", 1)[0] + " …"


def show_weights(weights: list[dict[str, Any]], pattern: str | None) -> None:
    """Print features with their weights, label by label."""
    if not weights:
        click.echo(f"no feature matches {pattern!r}.")
        return
    width = max(len(w["label"]) for w in weights) + 2
    before = None
    for w in weights:
        name = "" if w["label"] == before and pattern is None else w["label"]
        click.echo(f"{name:{width}}{w['weight']:8.3f}  {w['feature']}")
        before = w["label"]


def show_transitions(
    tagger: Any, transitions: list[dict[str, Any]], label: str | None, top: int
) -> None:
    """Print transition weights: a table if there are few labels, otherwise the strongest."""
    names = tagger.labels_.tolist()
    if label is None and len(names) <= WIDEST and sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(title="from ↓ to →", box=None)
        for name in ("", *names):
            table.add_column(name, justify="right")
        for name, row in zip(names, tagger.transitions_.tolist(), strict=True):
            table.add_row(name, *(f"{weight:.1f}" if weight else "·" for weight in row))
        Console().print(table)
        return
    if label is None and len(names) <= WIDEST:
        width = max(6, *(len(name) + 1 for name in names))
        click.echo("from ↓ to →".ljust(width) + "".join(f"{name:>{width}}" for name in names))
        for name, row in zip(names, tagger.transitions_.tolist(), strict=True):
            cells = "".join(
                f"{weight:{width}.1f}" if weight else "·".rjust(width) for weight in row
            )
            click.echo(f"{name:{max(width, 11)}}{cells}")
        return
    for transition in [*transitions[:top], *transitions[-top:]]:
        click.echo(f"{transition['weight']:8.3f}  {transition['from']} → {transition['to']}")
