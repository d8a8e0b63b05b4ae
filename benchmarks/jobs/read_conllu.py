"""Read the training part in CoNLL-U. pyconll creates objects for all ten columns; tagloom keeps the
rows and splits the other columns on first access, so both are also timed with access to every
column of every token. tagloom's columns are str; pyconll parses `feats`, `deps` and `misc` into
dicts. Both have read the file once before the clock starts.
"""

from operator import attrgetter
from typing import Any

from harness import Bench, Contestant, Goal, Job

READ, COLUMNS = "read", "read, all columns of all sentences"
LEAST = 0.3  # seconds


def tagloom(bench: Bench) -> None:
    import tagloom as tl

    path = bench.folder / "train.conllu"

    def read() -> Any:
        return tl.read(path, label="upos")

    def read_columns() -> int:
        return sum(len(column) for s in read() for column in s.columns.values())

    n = read().n_tokens
    bench.time(READ, read, n, "tokens", least=LEAST)
    bench.time(COLUMNS, read_columns, n, "tokens", least=LEAST)
    bench.value("tokens", n)


def pyconll(bench: Bench) -> None:
    import pyconll

    path = bench.folder / "train.conllu"
    columns = attrgetter(
        *("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
    )

    def read() -> Any:
        return pyconll.load_from_file(str(path))

    def read_columns() -> int:
        return sum(len(columns(token)) for sentence in read() for token in sentence)

    # A row such as 3-4 is a multiword token, whose words follow. 5.1 is an empty node.
    words = (token for sentence in read() for token in sentence if not token.is_multiword())
    n = sum(not token.is_empty_node() for token in words)
    bench.time(READ, read, n, "tokens", least=LEAST)
    bench.time(COLUMNS, read_columns, n, "tokens", least=LEAST)
    bench.value("tokens", n)


JOB = Job(
    "read CoNLL-U",
    [Contestant("tagloom", tagloom), Contestant("pyconll", pyconll, needs="pyconll")],
    [Goal("times as fast as pyconll", lambda found: found.times("pyconll", READ), at_least=10)],
)
