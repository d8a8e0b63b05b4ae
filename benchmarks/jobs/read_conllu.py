"""Read the training part in CoNLL-U. pyconll makes objects of all ten columns; tagloom keeps the
rows and splits the other columns when they are asked for, so that it is also timed asking for all.
"""

from harness import Bench, Contestant, Goal, Job, corpora

READ = "read"


def tagloom(bench: Bench) -> None:
    import tagloom as tl

    path = bench.folder / "train.conllu"

    def read_columns() -> int:
        return sum(len(sentence.columns["form"]) for sentence in tl.read(path, label="upos"))

    n = tl.read(path, label="upos").n_tokens
    bench.time(READ, lambda: tl.read(path, label="upos"), n, "tokens", least=0.3)
    bench.value("tokens", n)
    bench.time("read, all columns of all sentences", read_columns, n, "tokens", least=0.3)


def pyconll(bench: Bench) -> None:
    import pyconll

    path = bench.folder / "train.conllu"
    n = corpora.read_conllu(path).n_tokens
    corpus = bench.time(READ, lambda: pyconll.load_from_file(str(path)), n, "tokens")
    # A row such as 3-4 is a multiword token: its words follow. 5.1 is a word that was left out.
    words = (token for sentence in corpus for token in sentence if not token.is_multiword())
    bench.value("tokens", sum(not token.is_empty_node() for token in words))


JOB = Job(
    "read CoNLL-U",
    [Contestant("tagloom", tagloom), Contestant("pyconll", pyconll, needs="pyconll")],
    [Goal("times as fast as pyconll", lambda found: found.times("pyconll", READ), at_least=10)],
)
