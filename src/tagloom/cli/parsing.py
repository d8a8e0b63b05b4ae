"""Dependency parsers on the command line: ``train parser``, and ``tag`` and ``eval`` with one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tagloom.cli.structures import Structured
from tagloom.errors import SentenceError
from tagloom.models import Capability
from tagloom.models.parser_data import DEPREL
from tagloom.sequences import Corpus, read, stream, write

if TYPE_CHECKING:
    from tagloom.cli.reading import Reading
    from tagloom.models import DependencyParser

_EXAMPLES = """\b
Examples:
  tagloom train parser train.conllu --dev dev.conllu -o english.tagloom
  tagloom train parser train.conllu -o english.tagloom --loss svm --tags upos
  tagloom tag english.tagloom tagged.conllu > parsed.conllu
  tagloom eval english.tagloom test.conllu
"""


def read_trees(path: str, encoding: str = "utf-8") -> Corpus:
    """Read a CoNLL-U file with heads and labels."""
    corpus = read(path, format="conllu", label=DEPREL, encoding=encoding)
    if corpus.n_tokens == 0:
        raise SentenceError(where=corpus.path, expected="at least one sentence", found="none")
    return corpus


def tag(parser: DependencyParser, source: str, output: str, reading: Reading) -> None:
    """Write the sentences of a CoNLL-U file with predicted heads and labels."""
    sentences = stream(
        source, format="conllu", label=DEPREL, labelled=False, encoding=reading.encoding
    )
    write(sentences.through(parser.annotate), output, encoding=reading.encoding)


def evaluate(gold: Any, predicted: Any, n_bootstrap: int, random_state: int) -> Any:
    """Score predicted trees against gold trees."""
    from tagloom.evaluation import evaluate_trees

    return evaluate_trees(gold, predicted, n_bootstrap=n_bootstrap, random_state=random_state)


PARSER = Structured(
    name="parser",
    noun="a parser",
    capability=Capability.TREES,
    model="DependencyParser",
    summary="A dependency parser: the best tree over scores of arcs, then labels.",
    train_file="a CoNLL-U file with heads and labels",
    examples=_EXAMPLES,
    labels="labels",
    measure="LAS",
    counts=("sentence", "token"),
    read=read_trees,
    tag=tag,
    evaluate=evaluate,
)
