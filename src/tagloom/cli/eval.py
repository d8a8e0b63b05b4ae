"""``tagloom eval``: score predicted labels against gold ones."""

from __future__ import annotations

import click

from tagloom.cli.scoring import read_labels, read_train, scoring_options, show


@click.command()
@click.argument("gold")
@click.argument("predicted")
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
    """Score the labels of PREDICTED against those of GOLD.

    Both files hold the same sentences in any format that tagloom reads; - is stdin. Span F1 equals
    conlleval; with --strict it equals seqeval's strict mode.
    """
    from tagloom.evaluation import evaluate

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
