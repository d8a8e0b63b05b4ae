"""Role labellers on the command line: ``train roles``, and ``tag`` and ``eval`` with one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tagloom.cli.structures import Structured
from tagloom.errors import SentenceError
from tagloom.models import Capability
from tagloom.sequences import FrameSentence, read_frames, write_frames

if TYPE_CHECKING:
    from tagloom.cli.reading import Reading
    from tagloom.models import RoleLabeller

_EXAMPLES = """\b
Examples:
  tagloom train roles train.jsonl --dev dev.jsonl -o roles.tagloom
  tagloom train roles train.jsonl -o roles.tagloom --training local --json
  tagloom tag roles.tagloom predicates.jsonl > arguments.jsonl
  tagloom eval roles.tagloom test.jsonl
"""


def read_sentences(path: str, encoding: str = "utf-8") -> list[FrameSentence]:
    """Read a file of JSON Lines with frames."""
    sentences = read_frames(path, encoding=encoding)
    if not sentences:
        raise SentenceError(where=path, expected="at least one sentence", found="none")
    return sentences


def tag(labeller: RoleLabeller, source: str, output: str, reading: Reading) -> None:
    """Write sentences with the arguments of their frames replaced."""
    sentences = read_frames(source, encoding=reading.encoding)
    write_frames(labeller.annotate(sentences), output, encoding=reading.encoding)


def evaluate(gold: Any, predicted: Any, n_bootstrap: int, random_state: int) -> Any:
    """Score predicted arguments against gold arguments."""
    from tagloom.evaluation import evaluate_roles

    return evaluate_roles(gold, predicted, n_bootstrap=n_bootstrap, random_state=random_state)


ROLES = Structured(
    name="roles",
    noun="a role labeller",
    capability=Capability.ROLES,
    model="RoleLabeller",
    summary="A semantic role labeller: the arguments of predicates, from dependency trees.",
    train_file="a file of JSON Lines with tokens, heads, deprels and frames",
    examples=_EXAMPLES,
    labels="roles",
    measure="F1",
    counts=("sentence", "frame", "argument"),
    read=read_sentences,
    tag=tag,
    evaluate=evaluate,
)
