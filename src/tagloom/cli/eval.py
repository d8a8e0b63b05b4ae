"""``tagloom eval``: score a model, or predicted labels, against gold ones."""

from __future__ import annotations

import click

from tagloom.cli.models import is_model
from tagloom.cli.scoring import (
    label_with,
    read_gold,
    read_labels,
    read_train,
    scoring_options,
    show,
)


@click.command(
    epilog="""\b
Examples:
  tagloom eval pos.tagloom test.conllu
  tagloom eval pos.tagloom test.conllu --train train.conllu --json
  tagloom eval test.conllu tagged.conllu
"""
)
@click.argument("gold", metavar="MODEL|GOLD")
@click.argument("predicted", metavar="GOLD|PREDICTED")
@click.option("--predicted-label", help="Column of the labels in PREDICTED, if it is another one.")
@scoring_options
def command(
    gold: str,
    predicted: str,
    predicted_label: str | None,
    label: str | None,
    format: str | None,
    encoding: str,
    strict: bool,
    scheme: str | None,
    spans: bool | None,
    train: str | None,
    n_bootstrap: int,
    random_state: int,
    as_json: bool,
) -> None:
    """Score the labels that MODEL finds, or those of PREDICTED, against those of GOLD.

    GOLD is read as the model's training data were, unless the options say otherwise. GOLD and
    PREDICTED hold the same sentences in any format that tagloom reads; - is stdin. Span F1 equals
    conlleval; with --strict it equals seqeval's strict mode.
    """
    from tagloom.evaluation import evaluate

    if is_model(predicted):
        raise click.UsageError(f"The model comes first: tagloom eval {predicted} {gold}.")
    if is_model(gold):
        if predicted_label is not None:
            raise click.UsageError("--predicted-label needs a file of predicted labels.")
        corpus, models = read_gold(predicted, [gold], label, format, encoding)
        files = (corpus, label_with(models[gold], corpus))
    else:
        files = (
            read_labels(gold, label, format, encoding),
            read_labels(predicted, predicted_label or label, format, encoding),
        )
    words = read_train(train, encoding)
    result = evaluate(
        *files,
        strict=strict,
        scheme=scheme,
        spans=spans,
        train=words,
        n_bootstrap=n_bootstrap,
        random_state=random_state,
    )
    show(result, [*files, words], as_json)
