"""The summary that ``tagloom train`` prints about a trained model, as text or JSON."""

from __future__ import annotations

import os
from typing import Any

from tagloom.checks import plural
from tagloom.cli.wording import size
from tagloom.models import Capability

_STOPPED = {
    "converged": "converged",
    "max_iterations": "the maximum",
    "early": "stopped early",
    "interrupted": "interrupted",
}


def summarise(tagger: Any, path: str) -> dict[str, Any]:
    """Return a summary of a trained model as plain data."""
    about = tagger.describe()
    sizes = {name: about[name] for name in ("attributes", "weights", "words") if name in about}
    if tagger.can(Capability.FEATURES):
        sizes["scheme"] = about["scheme"]
    records = ("sentences", "tokens", "iterations", "best_iteration", "stopped")
    return {
        "model": type(tagger).__name__,
        "path": path,
        "bytes": os.path.getsize(path),
        "labels": len(about["labels"]),
        **sizes,
        **{name: about["training"].get(name) for name in (*records, "loss", "dev", "seconds")},
        "temperature": about["temperature"],
    }


def show_summary(summary: dict[str, Any]) -> str:
    """Format a summary as text."""
    scheme, loss, dev, seconds = (summary.get(x) for x in ("scheme", "loss", "dev", "seconds"))
    sizes = [(summary.get(f"{noun}s"), noun) for noun in ("sentence", "token")]
    trained_on = ", ".join(plural(n, noun) for n, noun in sizes if n is not None)
    weights = [(summary.get(noun), noun) for noun in ("attributes", "weights")]
    stopped = _STOPPED.get(summary["stopped"], "")
    best = f" in iteration {summary['best_iteration']}" if summary["best_iteration"] else ""
    measure = "span F1" if scheme else "accuracy"
    saved = f"{summary['path']}, {size(summary['bytes'])}"
    rows = [
        ("trained on", trained_on),
        ("labels", f"{summary['labels']}" + (f", {scheme}" if scheme else "")),
        ("words", f"{summary['words']:,}" if "words" in summary else ""),
        ("features", ", ".join(f"{n:,} {noun}" for n, noun in weights if n is not None)),
        ("iterations", f"{summary['iterations']}, {stopped}" if summary["iterations"] else ""),
        ("loss", f"{loss:,.6g}" if loss is not None else ""),
        ("dev", f"{measure} {dev:.4f}{best}" if dev is not None else ""),
        ("temperature", "" if summary["temperature"] == 1 else f"{summary['temperature']:.4g}"),
        ("seconds", f"{seconds:.1f}" if seconds is not None else ""),
        ("saved in", saved),
    ]
    return "\n".join(f"{name:12}{value}" for name, value in rows if value)
