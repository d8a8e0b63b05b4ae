"""POST /v1/tag: every option gives what the tagger gives."""

import gzip
import json

import pytest

import tagloom as tl
from serving import JSON, ask, serving, tag
from tagloom.serve.offsets import UNITS, converter


def test_labels_are_those_of_predict(address, taggers, sentences):
    answer = tag(address, sentences=sentences)
    assert answer == {
        "model": "pos",
        "version": "version-of-pos",
        "labels": taggers["pos"].predict(sentences),
    }
    assert tag(address, sentences=sentences[:5], model="ner")["labels"] == taggers["ner"].predict(
        sentences[:5]
    )
    assert tag(address, sentences=[])["labels"] == []
    assert tag(address, sentences=[[], ["They"]])["labels"] == [[], ["PRON"]]


def test_probabilities(address, taggers, sentences):
    few = sentences[:20]
    answer = tag(address, sentences=few, probs="top")
    labels, probs = taggers["pos"].predict_with_probs(few)
    assert answer["labels"] == labels
    assert answer["probs"] == [[round(p, 6) for p in row] for row in probs]
    answer = tag(address, sentences=few, probs="all")
    assert answer["label_set"] == taggers["pos"].labels_.tolist()
    for row, gamma in zip(answer["probs"], taggers["pos"].predict_marginals(few), strict=True):
        assert row == gamma.astype(float).round(6).tolist()


def test_large_requests_are_answered_in_pieces(address, taggers, sentences):
    many = (sentences * 20)[:400]
    assert sum(map(len, many)) > 4000
    answer = tag(address, sentences=many, probs="top", nbest=2)
    assert answer["labels"] == taggers["pos"].predict(many)
    assert [len(row) for row in answer["probs"]] == [*map(len, many)]
    assert len(answer["nbest"]) == len(many)


def test_nbest(address, taggers, sentences):
    answer = tag(address, sentences=sentences[:3], nbest=3)
    best = taggers["pos"].predict_nbest(sentences[:3], 3)
    assert answer["nbest"] == [
        [{"labels": x.labels, "prob": round(x.prob, 6)} for x in row] for row in best
    ]


def test_known_labels(address, taggers):
    X = [["They", "can", "fish"], ["They", "fish"]]
    answer = tag(address, sentences=X, known=[[None, "VERB", ["NOUN", "ADJ"]], None])
    known = [[None, "VERB", {"NOUN", "ADJ"}], None]
    assert answer["labels"] == taggers["pos"].predict(X, known=known)
    assert answer["labels"][0][1] == "VERB"


def test_spans(address, taggers):
    X = [["Ada", "Lee", "lives", "in", "Paris", "."]]
    answer = tag(address, sentences=X, model="ner", spans=True)
    assert answer["spans"] == [
        [
            {"start": s.start, "end": s.end, "label": s.type, "prob": round(s.prob, 6)}
            for s in taggers["ner"].predict_spans(X)[0]
        ]
    ]


def test_texts(address, taggers):
    text = "Ada lives in Paris.  Why not?"
    answer = tag(address, texts=[text, ""], model="ner", probs="top")
    assert (answer["tokenizer"], answer["offsets"]) == ("rules", "codepoint")
    tagged = taggers["ner"].tag_text(text, probs=True)
    first, empty = answer["documents"]
    assert empty == {"sentences": []}
    for got, want in zip(first["sentences"], tagged, strict=True):
        assert [t["text"] for t in got["tokens"]] == want.tokens
        assert [t["label"] for t in got["tokens"]] == want.labels
        assert [t["prob"] for t in got["tokens"]] == [round(p, 6) for p in want.probs]
        assert [(s["start"], s["end"], s["label"]) for s in got["spans"]] == [
            (s.start, s.end, s.type) for s in want.spans
        ]
    plain = tag(address, texts=[text], model="ner")["documents"][0]["sentences"]
    assert "prob" not in plain[0]["tokens"][0]
    assert "prob" not in plain[0]["spans"][0]
    whole = tag(address, texts=[text], model="pos", probs="all")
    assert len(whole["documents"][0]["sentences"][0]["tokens"][0]["probs"]) == 17
    assert "spans" not in whole["documents"][0]["sentences"][0]


HOSTILE = [
    "🙂 e\u0301te\u0301 👩‍👩‍👧!\r\nİstanbul\u200b ǅ\u2028 a\u0000b \U0010ffff",
    "\ufeffx",
    "ß" * 300,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_offsets_slice_back(address, text):
    encoded = {
        "codepoint": (text.encode("utf-32-le"), 4, "utf-32-le"),
        "utf16": (text.encode("utf-16-le"), 2, "utf-16-le"),
        "byte": (text.encode(), 1, "utf-8"),
    }
    for unit, (data, width, codec) in encoded.items():
        answer = tag(address, texts=[text], offsets=unit)
        for sentence in answer["documents"][0]["sentences"]:
            for token in [*sentence["tokens"], *sentence.get("spans", [])]:
                piece = data[token["start"] * width : token["end"] * width]
                assert piece.decode(codec) == token["text"]


def test_converters_agree_with_encodings():
    text = "a\u00e9\u0939\U0001f642z"
    for t in range(len(text) + 1):
        places = [converter(text, unit)(t) for unit in UNITS]
        assert places == [t, len(text[:t].encode("utf-16-le")) // 2, len(text[:t].encode())]


@pytest.mark.parametrize(
    ("body", "status", "where"),
    [
        ({}, 422, "body"),
        ({"sentences": [], "texts": []}, 422, "body"),
        ({"sentences": "They can fish"}, 422, "sentences"),
        ({"sentences": ["They can fish"]}, 422, "sentences[0]"),
        ({"sentences": [["They", None]]}, 422, "sentences[0][1]"),
        ({"sentences": [["They"], ["a", "b", 3]]}, 422, "sentences[1][2]"),
        ({"sentences": [["They"]], "model": "nope"}, 404, "model"),
        ({"sentences": [["They"]], "probs": "some"}, 422, "probs"),
        ({"sentences": [["They"]], "nbest": 0}, 422, "nbest"),
        ({"sentences": [["They"]], "nbest": 101}, 422, "nbest"),
        ({"sentences": [["They"]], "nbest": 10**30}, 422, "nbest"),
        ({"sentences": [["They"]], "known": []}, 422, "known"),
        ({"sentences": [["They"]], "known": [["NOPE"]]}, 422, "known[0][0]"),
        ({"sentences": [["They"]], "known": [["NOUN", "VERB"]]}, 422, "known[0]"),
        ({"sentences": [["They"]], "known": [[[]]]}, 422, "known[0][0]"),
        ({"sentences": [["They"]], "spans": True}, 422, "spans"),
        ({"sentences": [["They"]], "model": "ner", "known": [["I-PER"]]}, 422, "sentences[0][0]"),
        ({"texts": ["x"], "nbest": 2}, 422, "nbest"),
        ({"texts": ["x"], "known": [None]}, 422, "known"),
        ({"texts": ["x"], "offsets": "characters"}, 422, "offsets"),
        ({"texts": [3]}, 422, "texts[0]"),
        ({"sentences": [["a"] * 10_001]}, 413, "body"),
        ({"texts": ["a b " * 5001]}, 413, "body"),
        ({"sentences": [["a" * (1 << 18)]]}, 413, "body"),
        ("[" * 100_000, 422, "body"),
        ('{"sentences": [["\\ud800"]]}', 400, "body"),
        (b'{"sentences": [["\xff"]]}', 400, "body"),
        ('{"sentences": [[NaN]]}', 400, "body"),
        ("", 400, "body"),
        ("null", 422, "body"),
    ],
)
def test_mistakes(address, body, status, where):
    found, _, problem = ask(address, "/v1/tag", body)
    assert (found, problem["status"], problem["where"]) == (status, status, where), problem
    assert problem["detail"]


def test_other_mistakes(address):
    body = {"sentences": [["They"]]}
    assert ask(address, "/v1/tag", body, {})[0] == 415
    assert ask(address, "/v1/tag?probs=top", body)[0] == 422
    assert ask(address, "/v1/tag")[0] == 405
    assert ask(address, "/v2/tag", body)[0] == 404
    charset = {"Content-Type": "application/json; charset=utf-8"}
    assert ask(address, "/v1/tag", body, charset)[0] == 200


def test_compressed_requests(address):
    packed = gzip.compress(json.dumps({"sentences": [["They"]]}).encode())
    assert ask(address, "/v1/tag", packed, JSON | {"Content-Encoding": "gzip"})[0] == 200
    bomb = gzip.compress(b'{"sentences": [["' + b"a" * 10_000_000 + b'"]]}')
    assert ask(address, "/v1/tag", bomb, JSON | {"Content-Encoding": "gzip"})[0] == 413


def test_explanations(address, taggers):
    status, _, answer = ask(address, "/v1/explain", {"sentence": ["They", "can", "fish"]})
    assert status == 200
    want = taggers["pos"].explain(["They", "can", "fish"]).to_dict()
    assert answer == {"model": "pos", "version": "version-of-pos", **want}
    known = {"sentence": ["They", "can"], "known": [None, ["NOUN", "VERB"]]}
    assert ask(address, "/v1/explain", known)[2]["labels"][1] in ("NOUN", "VERB")
    assert ask(address, "/v1/explain", {"sentence": ["a"] * 301})[0] == 413
    assert ask(address, "/v1/explain", {"sentence": "They can"})[0] == 422


def test_models_with_columns_dicts_and_numbers():
    X = [["a", "b"], ["b", "a"]]
    y = [["X", "Y"], ["Y", "X"]]
    columns = [tl.Sentence(x, columns={"pos": ["N", "V"]}) for x in X]
    dicts = [[{"w": w, "n": 1.5} for w in x] for x in X]
    numbers = [[[0.0, 0.1], [5.0, 5.1]], [[5.1, 5.0], [0.1, 0.0]]]
    taggers = {
        "columns": tl.CRF(features=["word", "col(pos)"]).fit(columns, y),
        "dicts": tl.CRF(features=None).fit(dicts, y),
        "numbers": tl.HMM(emissions=tl.emissions.Gaussian()).fit(numbers, y),
    }
    with serving(taggers) as address:
        rows = [{"tokens": s.tokens, "columns": s.columns} for s in columns]
        for name, sentences, want in (
            ("columns", rows, taggers["columns"].predict(columns)),
            ("dicts", dicts, taggers["dicts"].predict(dicts)),
            ("numbers", numbers, taggers["numbers"].predict(numbers)),
        ):
            assert tag(address, sentences=sentences, model=name)["labels"] == want
            status, _, problem = ask(address, "/v1/tag", {"sentences": [["a"]], "model": name})
            assert status in (200, 422), problem


def test_long_answers_are_compressed(address, taggers, sentences):
    headers = {**JSON, "Accept-Encoding": "gzip"}
    expected = taggers["pos"].predict(sentences[:100])
    status, found, data = ask(address, "/v1/tag", {"sentences": sentences[:100]}, headers)
    assert (status, found["content-encoding"]) == (200, "gzip")
    assert json.loads(gzip.decompress(data))["labels"] == expected
    status, found, data = ask(address, "/v1/tag", {"sentences": sentences[:1]}, headers)
    assert (status, found["content-encoding"]) == (200, None)
    assert data["labels"] == expected[:1]
