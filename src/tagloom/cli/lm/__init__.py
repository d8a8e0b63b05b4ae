"""``tagloom lm``: n-gram language models, one file per command."""

import click

from tagloom.cli.lm.generate import generate
from tagloom.cli.lm.restore import restore
from tagloom.cli.lm.score import score
from tagloom.cli.lm.train import train
from tagloom.cli.mistakes import Group


@click.group(
    "lm",
    cls=Group,
    epilog="""\b
Examples:
  tagloom lm train train.conllu -o english.tagloom
  tagloom lm score english.tagloom text.txt --total
  echo "one of _ _ ." | tagloom lm restore english.tagloom
  tagloom lm generate english.tagloom -n 3 --random-state 1
""",
)
def command() -> None:
    """Language models: train, score sentences, restore gaps, generate text.

    A text is a file with a sentence per line and spaces between tokens. MODEL is a file of
    `tagloom lm train`, or an ARPA file of any tool.
    """


for _command in (train, score, restore, generate):
    command.add_command(_command)
