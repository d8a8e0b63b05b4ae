"""``tagloom demo``: train, evaluate and try a tagger on the corpus that is shipped."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tagloom.models import Labelling
    from tagloom.models.linear import LinearTagger
    from tagloom.sequences import Corpus

SENTENCES = [
    "They can fish .",
    "They refuse to permit us a permit .",
    "Please book a room for two nights .",
]
NEXT = """
  tagloom train crf TRAIN --dev DEV -o MODEL  a tagger for labels of your own
  tagloom tag MODEL < TEXT                    what it makes of a text
  tagloom eval MODEL TEST                     scores with intervals
  tagloom inspect MODEL                       what it has learnt
  tagloom check FILES                         what is wrong in a corpus
  python                                      import tagloom as tl; help(tl.CRF)"""


@click.command(
    epilog="""\b
Examples:
  tagloom demo
"""
)
def command() -> None:
    """Train a tagger on the corpus that comes along, and try it."""
    import tagloom as tl

    train, _, test = tl.datasets.load("english", label="upos")
    tagger = show_training(train)
    show_evaluation(tagger, train, test)
    show_tagging(tagger)
    show_trellis(tagger, SENTENCES[0].split())
    show_file(tagger)
    click.echo("\n" + heading("What to type next") + NEXT)


def show_training(train: Corpus) -> LinearTagger:
    """Learn parts of speech."""
    import tagloom as tl

    click.echo(heading("Learn parts of speech: tl.CRF().fit(train)"))
    began = time.perf_counter()
    tagger = tl.CRF().fit(train, progress=False)
    seconds = time.perf_counter() - began
    click.echo(f"  {len(train)} sentences, {train.n_tokens:,} tokens, {len(tagger.labels_)} labels")
    weights = tagger.scores_.n_weights
    click.echo(f"  {weights:,} weights, learnt in {seconds:.1f} seconds")
    return tagger


def show_evaluation(tagger: LinearTagger, train: Corpus, test: Corpus) -> None:
    """Score the tagger on sentences that it has not seen."""
    import tagloom as tl

    click.echo("\n" + heading("Measure it on other sentences: tl.evaluate(gold, predicted)"))
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


def show_tagging(tagger: LinearTagger) -> None:
    """Tag sentences of our own."""
    click.echo("\n" + heading("Tag: tagger.predict(sentences)"))
    tokens = [sentence.split() for sentence in SENTENCES]
    for words, labels in zip(tokens, tagger.predict(tokens), strict=True):
        click.echo("  " + " ".join(f"{w}/{y}" for w, y in zip(words, labels, strict=True)))


def show_trellis(tagger: LinearTagger, words: list[str]) -> None:
    """Show one sentence as a trellis of the labels that are not out of the question."""
    import numpy as np

    import tagloom as tl

    trellis = tagger.trellis([words])[0]
    gamma = trellis.marginals()  # [T, Y]
    likely = np.flatnonzero(gamma.max(axis=0) > 0.01)
    click.echo("\n" + heading("How sure is it? tagger.trellis([words])[0].draw('marginals')"))
    click.echo("In each node stands the probability of a label; those below 1 % are left out.\n")
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
    """Print labellings with bars as long as their probabilities."""
    width = max(len(" ".join(x.labels)) for x in labellings)
    for labels, prob, _ in labellings:
        bar = "█" * round(24 * prob)
        click.echo(f"  {' '.join(labels):{width}}  {prob:6.4f}  {bar}".rstrip())


def show_file(tagger: LinearTagger) -> None:
    """Save the tagger and load it again."""
    import tagloom as tl

    click.echo("\n" + heading("Keep it: tagger.save(path), tl.load(path)"))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "english.tagloom")
        tagger.save(path)
        size = os.path.getsize(path)
        words = [sentence.split() for sentence in SENTENCES]
        same = tl.load(path).predict(words) == tagger.predict(words)
    answers = "the same answers" if same else "OTHER answers"
    click.echo(f"  english.tagloom, {size / 1000:,.0f} kB; loaded again it gives {answers}")


def heading(text: str) -> str:
    """Return a heading, bold in a terminal."""
    return click.style(text, bold=True) if has_colour() else text


def has_colour() -> bool:
    """Whether stdout is a terminal whose user has not asked for plain text."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
