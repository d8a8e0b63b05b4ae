"""Parquet files and Arrow tables, in and out, judged by pyarrow."""

import io
import json
import random

import pytest

import tagloom as tl
from commands import run
from raising import raises
from tagloom.errors import FormatError
from tagloom.sequences.corpora import relabel

pytestmark = pytest.mark.peers
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

TOKENS = [["They", "can", "fish"], [], ["Zoë", "😀"]]
LABELS = [["N", None, "V"], [], ["N", "X"]]


def table(**columns):
    return pa.table({"tokens": TOKENS, "labels": LABELS, **columns})


def stored(table, format, stream=False):
    out = io.BytesIO()
    if format == "parquet":
        pq.write_table(table, out, row_group_size=2)
    else:
        make = pa.ipc.new_stream if stream else pa.ipc.new_file
        with make(out, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    return out.getvalue()


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_what_is_written_is_read(format, tmp_path):
    path = tmp_path / f"corpus.{format}"
    tl.write(tl.Corpus(TOKENS, LABELS), path)
    theirs = pq.read_table(path) if format == "parquet" else pa.ipc.open_file(path).read_all()
    assert theirs.to_pydict() == {"tokens": TOKENS, "labels": LABELS}
    corpus = tl.read(path)
    assert (corpus.format, corpus.label) == (format, "labels")
    assert (corpus.tokens, corpus.labels) == (TOKENS, LABELS)
    assert [sentence.line for sentence in corpus] == [1, 2, 3]
    assert corpus[0].source is None
    tl.write([], path)
    assert len(tl.read(path)) == 0


@pytest.mark.parametrize(
    ("format", "stream"), [("parquet", False), ("arrow", False), ("arrow", True)]
)
def test_the_first_bytes_say_what_a_file_is(format, stream):
    class Trickle(io.BytesIO):
        """A pipe that delivers a few bytes at a time."""

        def read1(self, size=-1):
            return super().read1(min(size, 3))

    data = stored(table(), format, stream)
    for file in (io.BytesIO(data), Trickle(data)):
        sentences = tl.stream(file)
        assert sentences.format == format
        assert [s.tokens for s in sentences] == TOKENS
    (other,) = tl.read(io.StringIO("PAR1/N fish/V\n"), "slash")
    assert other.tokens == ["PAR1", "fish"]
    assert tl.read(io.StringIO("P\tN\n")).format == "conll"


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_other_columns_of_a_table_are_kept(format, tmp_path):
    words = pa.array(TOKENS, pa.large_list(pa.large_string()))
    ids = pa.array([7, None, 9], pa.uint16())
    source = pa.table({"id": ids, "words": words, "pos": [["A", "B", "C"], [], ["D", "E"]]})
    (tmp_path / "in").write_bytes(stored(source, format))
    corpus = tl.read(tmp_path / "in", labelled=False)
    assert corpus[2].columns["pos"] == ["D", "E"]
    new = [["X"] * len(words) for words in TOKENS]
    chosen = [corpus.with_labels(new)[i] for i in (2, 0)]
    tl.write(chosen, tmp_path / "out.parquet")
    written = pq.read_table(tmp_path / "out.parquet")
    assert written.column("id").to_pylist() == [9, 7]
    assert written.schema.field("id").type == pa.uint16()
    assert written.schema.field("words").type == pa.large_list(pa.large_string())
    assert written.column("labels").to_pylist() == [["X", "X"], ["X", "X", "X"]]
    corpus[0].tokens[1] = "cannot"
    assert corpus.to_arrow().column("words").to_pylist()[0] == ["They", "cannot", "fish"]


def test_numbered_labels():
    tags = [[1, -100, 0], [], [0, 1]]
    plain = pa.table({"tokens": TOKENS, "ner_tags": tags})
    with raises(FormatError, hint="Pass the names of numbered labels as {label_names}."):
        tl.read(io.BytesIO(stored(plain, "parquet")))
    feature = {"feature": {"names": ["O", "B-PER"], "_type": "ClassLabel"}, "_type": "Sequence"}
    info = {"info": {"features": {"tokens": {}, "ner_tags": feature}}}
    named = plain.replace_schema_metadata({"huggingface": json.dumps(info)})
    for corpus in (
        tl.read(io.BytesIO(stored(plain, "arrow")), label_names=["O", "B-PER"]),
        tl.read(io.BytesIO(stored(named, "arrow", stream=True))),
    ):
        assert corpus.labels == [["B-PER", None, "O"], [], ["O", "B-PER"]]
        assert corpus.to_arrow().column("ner_tags").to_pylist() == tags
    out = io.BytesIO()
    tl.write(tl.Corpus([["a"]], [["O"]]), out, "parquet", label="tags", label_names=["X", "O"])
    assert pq.read_table(out).to_pydict() == {"tokens": [["a"]], "tags": [[1]]}


def test_text_and_spans():
    texts = ["Ann Lee left. She met Bo.", "Nobody", None]
    kind = pa.list_(pa.struct([("start", pa.int32()), ("end", pa.int32()), ("label", pa.string())]))
    spans = pa.array([[{"start": 0, "end": 7, "label": "PER"}], [], []], kind)
    source = pa.table({"text": texts[:2], "spans": spans[:2], "id": ["a", "b"]})
    corpus = tl.read(io.BytesIO(stored(source, "parquet")))
    assert corpus[0].labels[:3] == ["B-PER", "I-PER", "O"]
    assert len(corpus) == 2
    corpus = tl.read(io.BytesIO(stored(source, "arrow")), tokenize=tl.Tokenizer())
    assert len(corpus) == 3
    corpus[1].labels[2] = "B-PER"
    again = corpus.to_arrow()
    assert again.schema.field("spans").type == kind
    assert again.column("id").to_pylist() == ["a", "b"]
    assert [(s["start"], s["end"]) for s in again.column("spans").to_pylist()[0]] == [
        (0, 7),
        (22, 24),
    ]
    only = tl.read(io.BytesIO(stored(pa.table({"text": texts[:2]}), "parquet")))
    assert only[1].labels is None
    with raises(FormatError, where="<file>, row 2", found="None"):
        tl.read(io.BytesIO(stored(pa.table({"text": texts}), "parquet")))


def test_one_row_per_token():
    rows = pa.table(
        {
            "sentence_id": [1, None, 1, 2, 2, 3],
            "word": pa.array(["a", "b", "c", "d", "e", "f"]).dictionary_encode(),
            "tag": ["X", "Y", None, "X", "Y", "Z"],
        }
    )
    file = stored(rows, "arrow")  # two rows a batch
    corpus = tl.read(io.BytesIO(file))
    assert corpus.tokens == [["a", "b", "c"], ["d", "e"], ["f"]]
    assert corpus.labels == [["X", "Y", None], ["X", "Y"], ["Z"]]
    assert tl.read(io.BytesIO(file), labelled=False)[0].labels is None
    with raises(FormatError, where="<file>, row 2", expected="a token in column 'tag'"):
        tl.read(io.BytesIO(file), label="word", token="tag")


class Exported:
    """An object of another library that exports an Arrow stream."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def test_tables_in_memory():
    corpus = tl.Corpus.from_arrow(Exported(table(n=[1, 2, 3])))
    assert (corpus.tokens, corpus.labels) == (TOKENS, LABELS)
    assert corpus.to_arrow().equals(table(n=[1, 2, 3]))
    assert tl.Corpus([["a"]]).to_arrow().to_pydict() == {"tokens": [["a"]]}
    with raises(FormatError, parameter="table"):
        tl.Corpus.from_arrow([["a"]])


CASES = {
    "null tokens": (pa.table({"tokens": [["a"], None]}), {}, {"where": "<file>, row 1"}),
    "a null token": (pa.table({"tokens": [["a", None]]}), {}, {"where": "<file>, row 0"}),
    "labels": (
        pa.table({"tokens": [["a"]], "labels": [["X", "Y"]]}),
        {},
        {"where": "<file>, row 0", "found": "2"},
    ),
    "a column": (table(), {"label": "upos"}, {"parameter": "label", "found": "'upos'"}),
    "a number": (table(), {"token": 0}, {"parameter": "token", "found": "0"}),
    "no columns of use": (pa.table({"x": [1]}), {}, {"found": "x (int64)"}),
    "two label columns": (table(tags=LABELS), {}, {"found": "'labels' and 'tags'"}),
    "an encoding": (table(), {"encoding": "latin-1"}, {"parameter": "encoding"}),
    "an option": (table(), {"sep": "x"}, {"parameter": "sep"}),
}


@pytest.mark.parametrize("case", CASES)
def test_mistakes(case):
    source, options, fields = CASES[case]
    with raises(FormatError, **fields):
        tl.read(io.BytesIO(stored(source, "parquet")), **options)


def test_sentences_that_do_not_fit():
    with raises(FormatError, where="sentence 0, token 0"):
        tl.Corpus([["a"]], [[{"X", "Y"}]]).to_arrow()
    one = tl.Corpus.from_arrow(table())[0]
    with raises(FormatError, where="sentence 1", found="tokens"):
        tl.write([one, tl.Sentence(["a"])], io.BytesIO(), "arrow")
    corpus = tl.Corpus([["a", "b"]], [["X", "Y"]])
    corpus[0].labels[0] = {"X", "Y"}
    for format in ("parquet", "arrow"):
        with raises(FormatError, where="sentence 0, token 0", found="one of {X,Y}"):
            tl.write(corpus, io.BytesIO(), format)


@pytest.mark.parametrize(
    ("format", "stream"), [("parquet", False), ("arrow", False), ("arrow", True)]
)
def test_damaged_files_are_refused(format, stream):
    data = stored(table(), format, stream)
    rng = random.Random(0)
    n_refused = 0
    for _ in range(150):
        damaged = bytearray(data)
        if rng.random() < 0.3:
            del damaged[rng.randrange(len(damaged)) :]
        for _ in range(rng.choice([1, 3])):
            if damaged:
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            tl.read(io.BytesIO(bytes(damaged)), format)
        except FormatError:
            n_refused += 1
    assert n_refused > 20


def test_commands(tmp_path):
    words = [["They", "fish"], ["Fish", "swim"]]
    tl.CRF().fit(words, [["N", "V"], ["N", "V"]]).save(tmp_path / "model.tagloom")
    pq.write_table(pa.table({"id": [1, 2], "tokens": words}), tmp_path / "in.parquet")
    result = run(tmp_path, "tag", "model.tagloom", "in.parquet", "-o", "out.parquet")
    assert result.returncode == 0, result.stderr
    tagged = pq.read_table(tmp_path / "out.parquet").to_pydict()
    assert tagged == {"id": [1, 2], "tokens": words, "labels": [["N", "V"], ["N", "V"]]}
    result = run(tmp_path, "convert", "out.parquet", "-", "--to", "jsonl", "-q")
    assert json.loads(result.stdout.splitlines()[0]) == {"tokens": words[0], "labels": ["N", "V"]}
    result = run(tmp_path, "eval", "model.tagloom", "out.parquet")
    assert result.returncode == 0, result.stderr


TABLES = {
    "tokens": {"tokens": [["a", "b"], [], ["c"]]},
    "labelled": {"id": [1, 2], "tokens": [["a"], ["b", "c"]], "labels": [["X"], ["Y", "Z"]]},
    "empty": {"tokens": pa.array([], pa.list_(pa.string()))},
}


@pytest.mark.parametrize("format", ["parquet", "arrow"])
@pytest.mark.parametrize("name", TABLES)
def test_relabelled_tables_are_what_write_writes(format, name, tmp_path):
    """Labels may go into a table without its sentences being made."""
    source = tmp_path / f"in.{format}"
    table = pa.table(TABLES[name])
    if format == "parquet":
        pq.write_table(table, source)
    else:
        with pa.ipc.new_file(source, table.schema) as out:
            out.write_table(table.slice(0, 1))
            out.write_table(table.slice(1))  # its offsets do not begin at 0

    def label_all(batch):
        return [[f"L{len(tokens)}" for _ in tokens] for tokens in batch]

    ours, theirs = tmp_path / f"ours.{format}", tmp_path / f"theirs.{format}"
    assert relabel(tl.stream(source), ours, label_all, ["L1", "L2"], append=True)
    sentences = tl.stream(source)
    tl.write(
        sentences.through(
            lambda batch: map(tl.Sentence.with_labels, batch, label_all([s.tokens for s in batch]))
        ),
        theirs,
        append=True,
    )
    if format == "parquet":
        assert ours.read_bytes() == theirs.read_bytes()
    else:  # the bytes of a slice are its own
        tables = [pa.ipc.open_file(path.read_bytes()).read_all() for path in (ours, theirs)]
        assert tables[0].equals(tables[1], check_metadata=True)
    assert [s.labels for s in tl.read(ours)] == label_all([s.tokens for s in tl.read(source)])


def test_tables_that_need_sentences_are_left_to_write(tmp_path):
    def label_all(batch):
        return [["L"] * len(tokens) for tokens in batch]

    for name, columns in {
        "text": {"text": ["They fish"]},
        "rows": {"sentence_id": [1, 1], "token": ["a", "b"], "label": ["X", "Y"]},
    }.items():
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
        with tl.stream(tmp_path / f"{name}.parquet") as stream:
            assert not relabel(stream, tmp_path / "out.parquet", label_all, ["L"], append=True)
    pq.write_table(pa.table({"tokens": [["a"], None]}), tmp_path / "null.parquet")
    with pytest.raises(FormatError) as caught:
        relabel(tl.stream(tmp_path / "null.parquet"), tmp_path / "o.parquet", label_all, ["L"])
    assert "row 1" in caught.value.where


def test_lists_that_pandas_made(tmp_path):
    lists = pa.table({"Word": [["a", "b"]], "POS": [["N", "V"]], "Tag": [["O", "B"]]})
    pq.write_table(lists, tmp_path / "k.parquet")
    corpus = tl.read(tmp_path / "k.parquet")
    assert (corpus.tokens, corpus.labels) == ([["a", "b"]], [["O", "B"]])
    tl.write(corpus.with_labels([["B", "O"]]), tmp_path / "k2.parquet")
    assert pq.read_table(tmp_path / "k2.parquet")["Tag"].to_pylist() == [["B", "O"]]


def test_check_reads_tables(tmp_path):
    spans = [[{"start": 0, "end": 2, "label": "PER"}]]
    pq.write_table(pa.table({"text": ["Ann left"], "spans": spans}), tmp_path / "a.parquet")
    done = run(tmp_path, "check", "a.parquet", "--ignore", "rare")
    assert (done.returncode, done.stderr) == (1, "")
    assert "a.parquet: a Parquet file, 1 sentence, 2 tokens" in done.stdout
    assert "row 0: span 0:2 'PER' ('An') cuts the token" in done.stdout
