"""``tagloom eval``: score a model, or predicted labels, against gold labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from tagloom.cli import parsing, roles, structures
from tagloom.cli.models import is_model
from tagloom.cli.reading import Reading, as_column
from tagloom.cli.scoring import (
    label_with,
    read_gold,
    read_train,
    scoring_options,
    show,
)
from tagloom.records import replace

if TYPE_CHECKING:
    from tagloom.evaluation import Evaluation
    from tagloom.models import Tagger
    from tagloom.sequences import Corpus


@click.command(
    epilog="""\b
Examples:
  tagloom eval pos.tagloom test.conllu
  tagloom eval pos.tagloom test.conllu --train train.conllu --json
  tagloom eval test.conllu tagged.conllu
  tagloom eval test.conllu induced.conllu --clusters
  tagloom eval test.conllu parsed.conllu --trees
  tagloom eval test.jsonl arguments.jsonl --frames
  tagloom eval pos.tagloom test.conllu --train train.conllu --report report.html
"""
)
@click.argument("gold", metavar="MODEL|GOLD")
@click.argument("predicted", metavar="GOLD|PREDICTED")
@click.option(
    "--predicted-label",
    callback=lambda _ctx, _option, name: as_column(name),
    help="Column of the labels in PREDICTED; by default --label.",
)
@click.option(
    "--report", metavar="FILE", help="Also write a page: mistakes, reliability, worst sentences."
)
@click.option(
    "--clusters",
    is_flag=True,
    help="Score induced labels: many-to-one, one-to-one, V-measure, variation of information.",
)
@click.option(
    "--trees", is_flag=True, help="Score dependency trees: UAS, LAS, scores of each label."
)
@click.option(
    "--frames", is_flag=True, help="Score arguments of predicates: F1, illegal frames, each role."
)
@scoring_options
def command(
    gold: str,
    predicted: str,
    predicted_label: str | int | None,
    report: str | None,
    clusters: bool,
    trees: bool,
    frames: bool,
    strict: bool,
    scheme: str | None,
    spans: bool | None,
    train: str | None,
    n_bootstrap: int,
    random_state: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Score the labels that MODEL predicts, or those of PREDICTED, against GOLD.

    By default GOLD is read like the model's training data; options override this. GOLD and
    PREDICTED hold the same sentences, in any format that tagloom reads; - is stdin. Span F1 equals
    conlleval's; with --strict it equals that of seqeval's strict mode. With --clusters the names of
    predicted labels mean nothing: they are mapped to gold labels. Parsers are scored by UAS and LAS
    of all words, role labellers by F1 of arguments, with bootstrap intervals.
    """
    from tagloom.evaluation import evaluate, evaluate_clusters

    reading = Reading.of(options)
    structured = structures.find(gold)
    if structured is None and (trees or frames):
        structured = (parsing.PARSER if trees else roles.ROLES), gold
    if structured is not None:
        kind, first = structured
        kind.compare(first, predicted, reading, n_bootstrap, random_state, as_json)
        return
    if clusters:
        others = {"--strict": strict, "--scheme": scheme, "--spans": spans, "--train": train}
        refuse_beside_clusters(others | {"--report": report})
    tagger = None
    if is_model(predicted):
        raise click.UsageError(f"The model comes first: tagloom eval {predicted} {gold}.")
    if is_model(gold):
        if predicted_label is not None:
            raise click.UsageError("--predicted-label needs a file of predicted labels.")
        corpus, models = read_gold(predicted, [gold], reading, same_labels=not clusters)
        tagger = models[gold]
        files = (corpus, label_with(tagger, corpus))
    else:
        other = reading if predicted_label is None else replace(reading, label=predicted_label)
        files = (read_gold(gold, [], reading)[0], other.read(predicted))
    if clusters:
        show(evaluate_clusters(*files), files, as_json)
        return
    words = read_train(train, reading)
    result = evaluate(
        *files,
        strict=strict,
        scheme=scheme,
        spans=spans,
        train=words,
        n_bootstrap=n_bootstrap,
        random_state=random_state,
    )
    if report is not None:
        write_report(report, result, files, tagger, words, f"{gold} on {predicted}")
    show(result, [*files, words], as_json)


def refuse_beside_clusters(options: Mapping[str, Any]) -> None:
    """Raise if an option is set that does not apply to clusters."""
    for name, value in options.items():
        if value is not None and value is not False:
            raise click.UsageError(f"{name} does not apply to --clusters.")


def write_report(
    path: str,
    result: Evaluation,
    files: tuple[Corpus, Corpus],
    tagger: Tagger | None,
    words: Corpus | None,
    title: str,
) -> None:
    """Write the report; the file appears under its name only when it is complete."""
    from tagloom.cli.reports import Case, make_report
    from tagloom.evaluation.evaluations import training_words
    from tagloom.models.data import gold_labels
    from tagloom.sequences.files import open_output

    train_words = None if words is None else training_words(words)
    gold, predicted = (gold_labels(file, file, None) for file in files)
    page = make_report(Case(result, files[0], gold, predicted, tagger, train_words), title)
    with open_output(path) as out:
        out.write(page.encode())
