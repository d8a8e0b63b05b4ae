"""Streams: NDJSON and CoNLL-U, line by line, with mistakes in the middle."""

import gzip
import http.client
import io
import json

import pytest

import tagloom as tl
from serving import ask, serving

NDJSON = {"Content-Type": "application/x-ndjson"}
CONLLU = {"Content-Type": "text/x-conllu"}


def lines(data):
    return [json.loads(line) for line in data.splitlines()]


def test_ndjson(address, taggers, sentences):
    body = "".join(json.dumps({"id": i, "tokens": x}) + "\n" for i, x in enumerate(sentences))
    status, headers, data = ask(address, "/v1/tag", body, NDJSON)
    assert (status, headers["tagloom-model"]) == (200, "pos")
    assert headers["tagloom-version"] == "version-of-pos"
    want = taggers["pos"].predict(sentences)
    assert lines(data) == [
        {"id": i, "tokens": x, "labels": y}
        for i, (x, y) in enumerate(zip(sentences, want, strict=True))
    ]


def test_ndjson_in_many_chunks_of_any_size(address, taggers, sentences):
    body = "".join(json.dumps(x) + "\n" for x in sentences * 30).encode()
    assert len(body) > 1 << 17

    def chunks():
        for i in range(0, len(body), 7777):
            yield body[i : i + 7777]

    _, _, data = ask(address, "/v1/tag?probs=top&model=ner", chunks(), NDJSON)
    rows = lines(data)
    labels, probs = taggers["ner"].predict_with_probs(sentences * 30)
    assert [row["labels"] for row in rows] == labels
    assert rows[-1]["probs"] == [round(p, 6) for p in probs[-1]]


def test_ndjson_with_mistakes_goes_on(address):
    body = '["They"]\n[3]\n\nnonsense\n{"text": "They fish. Why?"}\n{"tokens": ["a"], "text": ""}\n'
    body += '{"tokens": ["They", "can"], "known": [null, "VERB"]}\n{"tokens": "They"}\n["fish"]'
    status, _, data = ask(address, "/v1/tag", body, NDJSON)
    assert status == 200
    rows = lines(data)
    assert len(rows) == 8
    assert [row.get("problem", {}).get("line") for row in rows] == [
        *(None, 2, 3, None, 5, None, 7, None)
    ]
    assert rows[1]["problem"]["where"] == "sentences[0][0]"
    assert [len(s["tokens"]) for s in rows[3]["sentences"]] == [3, 2]
    assert rows[5]["labels"][1] == "VERB"
    assert rows[7] == {"tokens": ["fish"], "labels": rows[7]["labels"]}


def test_options_of_streams_are_checked(address):
    for query in ("probs=most", "nbest=0", "model=none", "x=1", "offsets=bits"):
        status, _, problem = ask(address, f"/v1/tag?{query}", '["a"]\n', NDJSON)
        assert status in (404, 422), query
        assert problem["where"] in ("query", "model"), query


def test_compressed_streams(address, taggers):
    body = gzip.compress(b'["They", "fish"]\n' * 50_000)
    _, _, data = ask(address, "/v1/tag", body, NDJSON | {"Content-Encoding": "gzip"})
    assert data.count(b"\n") == 50_000
    with pytest.raises(http.client.IncompleteRead):  # cut off, not a complete answer
        ask(address, "/v1/tag", body[:-10], NDJSON | {"Content-Encoding": "gzip"})
    short = gzip.compress(b'["They"]\n')[:-4]
    assert ask(address, "/v1/tag", short, NDJSON | {"Content-Encoding": "gzip"})[0] == 400


def test_a_line_without_an_end_is_limited(taggers):
    with serving(taggers, max_body=1 << 17) as address:
        status, _, problem = ask(address, "/v1/tag", b'["' + b"a" * (1 << 19), NDJSON)
        assert (status, problem["where"]) == (413, "body")


@pytest.fixture(scope="module")
def treebank():
    corpus = tl.datasets.load("english", "test", label="upos")
    out = io.BytesIO()
    tl.write(corpus, out, "conllu")
    return out.getvalue()


def test_conllu_changes_labels_alone(address, taggers, treebank):
    data = b"# a comment = \xc3\xa9\n" + treebank * 12
    status, headers, tagged = ask(address, "/v1/tag", data, CONLLU)
    assert (status, headers["content-type"]) == (200, "text/x-conllu; charset=utf-8")
    before, after = (x.decode().split("\n") for x in (data, tagged))
    assert len(before) == len(after)
    corpus = tl.read(io.BytesIO(data), "conllu", label="upos")
    labels = [y for row in taggers["pos"].predict(corpus.tokens) for y in row]
    for old, new in zip(before, after, strict=True):
        if "\t" in old:
            fields = old.split("\t")
            fields[3] = labels.pop(0)
            assert new == "\t".join(fields)
        else:
            assert new == old


def test_conllu_with_windows_lines(address, treebank):
    data = treebank.replace(b"\n", b"\r\n") * 12
    tagged = ask(address, "/v1/tag", data, CONLLU)[2]
    assert tagged.count(b"\r\n") == data.count(b"\r\n")


def test_conllu_mistakes(address, treebank):
    status, _, problem = ask(address, "/v1/tag", b"1\tthey\n\n", CONLLU)
    assert (status, problem["where"]) == (422, "line 1")
    for query in ("probs=top", "label=shoe", "nbest=2"):
        assert ask(address, f"/v1/tag?{query}", treebank, CONLLU)[0] == 422
    tagged = ask(address, "/v1/tag?label=xpos", treebank, CONLLU)[2]
    assert tagged.split(b"\t")[4] != b"_"
