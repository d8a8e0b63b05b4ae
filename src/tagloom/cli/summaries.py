"""What ``tagloom train`` prints about the model it has trained, for people and for machines."""

from __future__ import annotations

import os
from typing import Any

from tagloom.checks import plural
from tagloom.cli.wording import size

_STOPPED = {
    "converged": "converged",
    "max_iterations": "as many as allowed",
    "early": "stopped early",
    "interrupted": "interrupted",
}


def summarise(tagger: Any, path: str) -> dict[str, Any]:
    """Say what was learnt, for machines."""
    record, about = tagger.training_, tagger.describe()
    return {
        "model": type(tagger).__name__,
        "path": path,
        "bytes": os.path.getsize(path),
        "labels": len(tagger.labels_),
        **{name: about[name] for name in ("attributes", "weights", "words") if name in about},
        **({"scheme": about["scheme"]} if "words" not in about else {}),
        **{
            name: record.get(name)
            for name in ("sentences", "tokens", "iterations", "best_iteration", "stopped")
        },
        **{name: record.get(name) for name in ("loss", "dev", "seconds")},
        "temperature": tagger.temperature_,
    }


def show_summary(summary: dict[str, Any]) -> str:
    """Lay out for people what was learnt."""
    scheme, loss, dev = (summary.get(name) for name in ("scheme", "loss", "dev"))
    rows = [
        (
            "learnt from",
            f"{plural(summary['sentences'], 'sentence')}, {plural(summary['tokens'], 'token')}",
        ),
        ("labels", f"{summary['labels']}" + (f", {scheme}" if scheme else "")),
    ]
    if "words" in summary:
        rows.append(("words", f"{summary['words']:,}"))
    if "attributes" in summary:
        sizes = f"{summary['attributes']:,} attributes, {summary['weights']:,} weights"
        rows.append(("features", sizes))
    if summary["iterations"] is not None:
        stopped = _STOPPED.get(summary["stopped"], "")
        rows.append(("iterations", f"{summary['iterations']}, {stopped}"))
        rows.append(("loss", f"{loss:,.6g}" if loss is not None else ""))
    if dev is not None:
        measure = "span F1" if scheme else "accuracy"
        best = summary["best_iteration"]
        rows.append(("dev", f"{measure} {dev:.4f}" + (f" in iteration {best}" if best else "")))
    if summary["temperature"] != 1:
        rows.append(("temperature", f"{summary['temperature']:.4g}"))
    saved = f"{summary['path']}, {size(summary['bytes'])}"
    rows += [("seconds", f"{summary['seconds']:.1f}"), ("saved in", saved)]
    return "\n".join(f"{name:12}{value}" for name, value in rows if value)
