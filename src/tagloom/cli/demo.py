"""``tagloom demo``: train, evaluate and try taggers on the included corpus."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tagloom.evaluation.evaluations import Evaluation
    from tagloom.models import Labelling, Tagger
    from tagloom.sequences import Corpus

SENTENCES = [
    "They can fish .",
    "They refuse to permit us a permit .",
    "Please book a room for two nights .",
]
N_REASONS = 6
NEXT = """
  tagloom train crf TRAIN --dev DEV -o MODEL  train a tagger on your data
  tagloom tag MODEL < TEXT                    tag a text with it
  tagloom eval MODEL TEST                     score it, with intervals
  tagloom inspect MODEL                       show its labels and weights
  tagloom explain MODEL < TEXT                explain its decisions
  tagloom check FILES                         find problems in a corpus
  python                                      import tagloom as tl; help(tl.CRF)"""


@click.command(
    epilog="""\b
Examples:
  tagloom demo
"""
)
def command() -> None:
    """Train and try a tagger on the included corpus."""
    import tagloom as tl

    train, _, test = tl.datasets.load("english", label="upos")
    tagger = show_models(train, test)
    show_evaluation(tagger, train, test)
    show_tagging(tagger)
    show_trellis(tagger, SENTENCES[0].split())
    show_reasons(tagger, SENTENCES[0].split(), 1)
    show_file(tagger)
    click.echo("\n" + heading("What to type next") + activation() + NEXT)


def activation() -> str:
    """Return the line that activates the environment, if the shell does not find tagloom."""
    script = os.path.join(sys.prefix, "bin", "activate")
    if shutil.which("tagloom") or not os.path.exists(script):
        return ""
    return f"\n  {f'source {os.path.relpath(script)}':44}put tagloom and python on the path"


def show_models(train: Corpus, test: Corpus) -> Tagger:
    """Train four models for parts of speech, chunks and names; return the CRF for the first."""
    import tagloom as tl
    from tagloom.evaluation.tables import Table

    click.echo(heading("Train four models: tl.HMM, StructuredPerceptron, StructuredSVM, CRF"))
    click.echo(
        f"  {len(train)} sentences, {train.n_tokens:,} tokens; scores in percent on the test set\n"
    )
    models: tuple[type[Tagger], ...] = (
        tl.HMM,
        tl.StructuredPerceptron,
        tl.StructuredSVM,
        tl.CRF,
    )
    rows = []
    for kind in models:
        began = time.perf_counter()
        tagger, speech = train_and_score(kind, "upos")
        spans = [train_and_score(kind, label)[1].f1 for label in ("chunk", "entity")]
        seconds = time.perf_counter() - began
        scores = (speech.accuracy, speech.accuracy_unknown, *spans)
        shown = [f"{100 * (score or 0):.1f}" for score in scores]
        rows.append([kind.__name__, *shown, f"{seconds:.1f}", f"{file_size(tagger) / 1000:,.0f}"])
    header = ["model", "accuracy", "new words", "chunk F1", "name F1", "seconds", "kB"]
    text = Table(header, rows).text()
    click.echo("\n".join("  " + line for line in text.splitlines()))
    click.echo("\n  accuracy: parts of speech, all and new words; seconds: all three tasks")
    return tagger  # the last one is the CRF


def train_and_score(kind: type[Tagger], label: str) -> tuple[Tagger, Evaluation]:
    """Train a model for one label column and score it on the test set."""
    import tagloom as tl
    from tagloom.models import Capability

    train, _, test = tl.datasets.load("english", label=label)
    features = {"upos": "pos", "chunk": "chunk", "entity": "ner"}[label]
    takes_features = Capability.FEATURES in kind.capabilities
    options = {"features": features} if takes_features else {}
    tagger = kind.from_options(options).fit(train)
    predicted = test.with_labels(tagger.predict(test))
    return tagger, tl.evaluate(test, predicted, train=train, spans=label != "upos", n_bootstrap=0)


def file_size(tagger: Tagger) -> int:
    """Return the size of the tagger's file in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "english.tagloom")
        tagger.save(path)
        return os.path.getsize(path)


def show_evaluation(tagger: Tagger, train: Corpus, test: Corpus) -> None:
    """Score the tagger on the test set."""
    import tagloom as tl

    click.echo("\n" + heading("Evaluate the CRF: tl.evaluate(gold, predicted, train=train)"))
    result = tl.evaluate(test, test.with_labels(tagger.predict(test)), train=train)
    low, high = result.intervals["accuracy"]
    click.echo(
        f"  {len(test)} sentences, accuracy {result.accuracy:.1%} "
        f"(95 % between {low:.1%} and {high:.1%})"
    )
    click.echo(
        f"  words seen in training {result.accuracy_known:.1%}, "
        f"never seen {result.accuracy_unknown:.1%}"
    )


def show_tagging(tagger: Tagger) -> None:
    """Tag the example sentences."""
    click.echo("\n" + heading("Tag: tagger.predict(sentences)"))
    tokens = [sentence.split() for sentence in SENTENCES]
    for words, labels in zip(tokens, tagger.predict(tokens), strict=True):
        click.echo("  " + " ".join(f"{w}/{y}" for w, y in zip(words, labels, strict=True)))


def show_trellis(tagger: Any, words: list[str]) -> None:
    """Draw the trellis of one sentence, with its likely labels only."""
    import numpy as np

    import tagloom as tl

    trellis = tagger.trellis([words])[0]
    gamma = trellis.marginals()  # [T, Y]
    likely = np.flatnonzero(gamma.max(axis=0) > 0.01)
    click.echo("\n" + heading("How sure is it? tagger.trellis([words])[0].draw('marginals')"))
    click.echo("Each node shows the probability of a label; labels below 1 % are left out.\n")
    small = tl.Trellis(
        trellis.emit[:, likely],
        tagger.scores_.trans[np.ix_(likely, likely)],
        tagger.scores_.start[likely],
        tagger.scores_.stop[likely],
        labels=[tagger.labels_[y] for y in likely],
    )
    drawn = small.draw("marginals", tokens=words, color=has_colour())
    click.echo("\n".join(line.rstrip() for line in drawn.splitlines()))
    click.echo("\n" + heading("The three best labellings: tagger.predict_nbest([words], 3)"))
    show_labellings(tagger.predict_nbest([words], 3)[0])


def show_labellings(labellings: list[Labelling]) -> None:
    """Print labellings with bars proportional to their probabilities."""
    width = max(len(" ".join(x.labels)) for x in labellings)
    for labels, prob, _ in labellings:
        bar = "█" * round(24 * prob)
        click.echo(f"  {' '.join(labels):{width}}  {prob:6.4f}  {bar}".rstrip())


def show_reasons(tagger: Tagger, words: list[str], t: int) -> None:
    """Print why one token has its label."""
    decision = tagger.explain(words)[t]
    click.echo(
        "\n"
        + heading(f"Why is {words[t]!r} {decision.label}? tagger.explain(words)[{t}]")
        + f"\n  {decision.label} {decision.prob:.2f}, {decision.runner_up} "
        f"{decision.runner_up_prob:.2f}; the path with {decision.runner_up} scores "
        f"{decision.margin:.2f} less, of which"
    )
    for reason in decision.reasons[:N_REASONS]:
        labels = f"{reason.label}, not {reason.rival}"
        click.echo(f"  {reason.value:+6.2f}  {reason.name:28.28}  {labels}".rstrip())
    rest = sum(reason.value for reason in decision.reasons[N_REASONS:])
    click.echo(f"  {rest:+6.2f}  {len(decision.reasons) - N_REASONS} others")


def show_file(tagger: Tagger) -> None:
    """Save the tagger and load it again."""
    import tagloom as tl

    click.echo("\n" + heading("Save it: tagger.save(path), tl.load(path)"))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "english.tagloom")
        tagger.save(path)
        size = os.path.getsize(path)
        words = [sentence.split() for sentence in SENTENCES]
        same = tl.load(path).predict(words) == tagger.predict(words)
    result = "the same labels" if same else "OTHER labels"
    click.echo(f"  english.tagloom, {size / 1000:,.0f} kB; the loaded model predicts {result}")


def heading(text: str) -> str:
    """Return a heading, bold in a terminal."""
    return click.style(text, bold=True) if has_colour() else text


def has_colour() -> bool:
    """Whether stdout is a terminal and NO_COLOR is not set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
