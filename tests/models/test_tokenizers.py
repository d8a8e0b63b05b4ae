"""Tokenizers: presets and learnt boundaries, their files, and the raw text of corpora."""

import io
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tagloom as tl
from raising import raises
from tagloom.errors import ModelFileError, ParameterError, SentenceError
from tagloom.models.files import _restore
from tagloom.sequences import paragraphs, raw_text

TEXT = "Dr. Lee didn't pay $3.50.  Why not?\n\nA 2nd line… 你好\ud800!"


def row(number, form, misc="_"):
    """Write one row of CoNLL-U."""
    return f"{number}\t{form}\t_\tX\t_\t_\t_\t_\t_\t{misc}\n"


def conllu(*sentences, text=False):
    """Write sentences as CoNLL-U; a token that ends in + has no blank after it."""
    rows = []
    for sentence in sentences:
        tokens = sentence.split()
        if text:
            rows.append("# text = " + " ".join(tokens).replace("+ ", "").rstrip("+") + "\n")
        for i, token in enumerate(tokens, 1):
            misc = "SpaceAfter=No" if token.endswith("+") else "_"
            rows.append(row(i, token.rstrip("+"), misc))
        rows.append("\n")
    return tl.read(io.StringIO("".join(rows)), "conllu")


@pytest.fixture(scope="module")
def corpus():
    """Sentences of made-up words, with commas, quotes and full stops, and decimals inside."""
    rng = np.random.default_rng(0)
    words = ["ba", "kede", "lo", "munu", "Pira", "so", "Tavo", "we"]
    sentences = []
    for _ in range(300):
        tokens = []
        for word in rng.choice(words, rng.integers(3, 8)):
            if rng.random() < 0.1:
                tokens.append(f"{rng.integers(9)}.{rng.integers(99)}")
            tokens += [f"{word}+", ","] if rng.random() < 0.15 else [word]
        if tokens[-1] == ",":
            tokens.append("we")
        sentences.append(" ".join([tokens[0].capitalize(), *tokens[1:-1], f"{tokens[-1]}+", "."]))
    return conllu(*sentences)


@pytest.fixture(scope="module")
def learnt(corpus):
    return tl.Tokenizer().fit(corpus)


def same(a, b, text=TEXT):
    return [s.offsets for s in a.split(text)] == [s.offsets for s in b.split(text)]


def test_sentences_have_their_tokens_and_places():
    sentences = tl.Tokenizer().split(TEXT)
    assert [s.tokens[0] for s in sentences] == ["Dr.", "Why", "A", "你好\ud800"]
    for sentence in sentences:
        assert sentence.text is TEXT
        assert [TEXT[a:b] for a, b in sentence.offsets] == sentence.tokens
    offsets = [place for sentence in sentences for place in sentence.offsets]
    assert tl.Tokenizer().offsets(TEXT) == offsets


@given(st.text(max_size=60))
@settings(max_examples=40, deadline=None)
def test_learnt_tokens_and_gaps_are_the_text(text):
    tokenizer = tl.Tokenizer.load(LEARNT) if LEARNT else tl.Tokenizer()
    offsets = tokenizer.offsets(text)
    assert "".join(text[a:b] for a, b in offsets) == "".join(text.split())
    assert sum(map(len, tokenizer.split(text))) == len(offsets)


LEARNT = b""


@pytest.fixture(autouse=True)
def _learnt_bytes(learnt):
    global LEARNT
    LEARNT = learnt.to_bytes()


def test_learns_tokens_and_sentences(corpus, learnt):
    assert learnt.is_learnt
    scores = learnt.evaluate(corpus)
    assert scores.tokens.f1 > 0.99
    assert scores.sentences.f1 > 0.99
    assert learnt.split("Ba, 3.4 so. Lo we.")[0].tokens == ["Ba", ",", "3.4", "so", "."]
    assert learnt.offsets("Ba\ud800 so.")[-2:] == [(4, 6), (6, 7)]


def test_learns_tokens_with_blanks():
    rows = [row("1", "ba lo"), row("2", "so", "SpaceAfter=No"), row("3", "."), "\n"]
    tokenizer = tl.Tokenizer().fit(tl.read(io.StringIO("".join(rows * 30)), "conllu"))
    assert tokenizer.boundaries_.has_spaces
    assert tokenizer.split("ba lo so. ba lo so.")[0].tokens == ["ba lo", "so", "."]


def test_evaluation_counts_by_hand():
    corpus = conllu("Go+ !", "Mr. Lee did+ n't+ .")
    scores = tl.Tokenizer("whitespace").evaluate(corpus)
    # gold: Go ! | Mr. Lee did n't .    found: Go! Mr. Lee didn't.
    assert scores.tokens == pytest.approx((2 / 4, 2 / 7, 4 / 11))
    assert scores.sentences == pytest.approx((0, 0, 0))
    assert tl.Tokenizer().evaluate(corpus).tokens.f1 == 1


@pytest.mark.parametrize(
    "tokenizer",
    [
        tl.Tokenizer(),
        tl.Tokenizer("characters"),
        tl.Tokenizer(hyphens="keep", abbreviations=["Abc"], patterns=[r"#\d+"]),
    ],
    ids=repr,
)
def test_saved_tokenizer_is_the_same(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "t.tagloom")
    assert same(tl.load(tmp_path / "t.tagloom"), tokenizer)
    assert same(pickle.loads(pickle.dumps(tokenizer)), tokenizer)


def test_saved_learnt_tokenizer_is_the_same(learnt):
    text = "Ba, 3.4. Lo we. " * 3
    assert same(tl.load(learnt.to_bytes()), learnt, text)
    assert same(pickle.loads(pickle.dumps(learnt)), learnt, text)


@pytest.mark.parametrize(
    ("params", "parameter"),
    [
        ({"preset": "none"}, "preset"),
        ({"hyphens": "some"}, "hyphens"),
        ({"abbreviations": "etc."}, "abbreviations"),
        ({"patterns": ["("]}, "patterns"),
        ({"patterns": ["a*"]}, "patterns"),
        ({"patterns": ["(a)"]}, "patterns"),
    ],
)
def test_wrong_parameters(params, parameter):
    with raises(ParameterError, parameter=parameter):
        tl.Tokenizer(**params).split("a")


def test_wrong_arguments():
    with raises(SentenceError, found="of type int"):
        tl.Tokenizer().split(3)
    with raises(SentenceError, where="sentence 0", found="tokens only"):
        tl.Tokenizer().fit(tl.Corpus([["They", "fish"]]))
    with raises(SentenceError, where="sentence 0"):
        tl.Tokenizer().fit([["They", "fish"]])


def forged(learnt, change):
    file = learnt._whole_file()
    header = pickle.loads(pickle.dumps(file.header))
    change(header)
    return type(file)(header, file.arrays)


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h["params"].update(preset="none"),
        lambda h: h["params"].update(patterns=["("]),
        lambda h: h["params"].update(more=1),
        lambda h: h["boundaries"].update(has_spaces=1),
        lambda h: h["boundaries"].pop("sentences"),
        lambda h: h["boundaries"].update(tokens=h["boundaries"]["sentences"]),
        lambda h: h["boundaries"]["tokens"].update(model="HMM"),
        lambda h: h["boundaries"]["tokens"].update(labels=["x", "y", "z"]),
        lambda h: h["boundaries"].update(tokens=[]),
    ],
)
def test_forged_files_are_refused(learnt, change):
    with pytest.raises(ModelFileError):
        _restore(forged(learnt, change), None, "forged")


def test_raw_text_of_conllu():
    for with_text in (False, True):
        corpus = conllu("Go+ ! ", "We ca+ n't+ .+", "Ok", text=with_text)
        if with_text:
            assert raw_text(corpus[1]) == ("We can't.", [(0, 2), (3, 5), (5, 8), (8, 9)])
    (paragraph,) = paragraphs(conllu("Go+ ! ", "We ca+ n't+ .+", "Ok", text=True))
    assert paragraph.text == "Go! We can't.Ok"
    assert [[paragraph.text[a:b] for a, b in row] for row in paragraph.offsets] == [
        ["Go", "!"],
        ["We", "ca", "n't", "."],
        ["Ok"],
    ]


def test_multiword_tokens():
    rows = ["# newdoc\n# text = du don't\n", row("1-2", "du"), row("1", "de"), row("2", "le")]
    rows += [row("3-4", "don't"), row("3", "do"), row("4", "n't"), "\n"]
    corpus = tl.read(io.StringIO("".join(rows * 2)), "conllu")
    assert raw_text(corpus[0]) == ("du don't", [(0, 2), (3, 5), (5, 8)])
    assert len([*paragraphs(corpus)]) == 2


def test_raw_text_that_differs_from_its_tokens_is_made_from_them():
    rows = ["# text = Goo\n", row("1", "Go", "SpaceAfter=No"), row("2", "!"), "\n"]
    sentence = tl.read(io.StringIO("".join(rows)), "conllu")[0]
    assert raw_text(sentence) == ("Go!", [(0, 2), (2, 3)])


def test_documents_keep_their_text():
    sentences = tl.Tokenizer().split("Go on. Why?") + tl.Tokenizer().split("Yes.")
    texts = [paragraph.text for paragraph in paragraphs(sentences)]
    assert texts == ["Go on. Why?", "Yes."]


X = [["Ada", "Lee", "wrote", "."], ["He", "saw", "Ada", "."], ["Ada", "saw", "."]]
Y = [["B-PER", "I-PER", "O", "O"], ["O", "O", "B-PER", "O"], ["B-PER", "O", "O"]]


@pytest.fixture(scope="module")
def tagger():
    return tl.CRF().fit(X, Y)


def test_tag_text(tagger):
    text = "  Ada wrote.\n\nHe saw Ada Lee."
    first, second = tagger.tag_text(text, probs=True)
    assert (first.start, first.end, text[first.start : first.end]) == (2, 12, "Ada wrote.")
    assert second.tokens == ["He", "saw", "Ada", "Lee", "."]
    assert second.labels == tagger.predict([second.tokens])[0]
    (span,) = second.spans
    assert (span.type, span.text, text[span.start : span.end]) == ("PER", "Ada Lee", "Ada Lee")
    assert span.prob == tagger.predict_spans([second.tokens])[0][0].prob
    expected = tagger.predict_marginals([second.tokens], as_dict=True)[0]
    assert second.probs == [p[y] for p, y in zip(expected, second.labels, strict=True)]
    plain = tagger.tag_text(text)[1]
    assert (plain.probs, plain.spans[0].prob, plain.labels) == (None, None, second.labels)
    assert "probs" not in plain.to_dict()
    assert second.to_dict()["spans"][0] | {"prob": 0} == {
        "type": "PER", "start": 21, "end": 28, "text": "Ada Lee", "prob": 0,
    }  # fmt: skip
    assert tagger.tag_text(" ") == []


def test_tagged_text_is_written_as_one_document(tagger):
    out = io.BytesIO()
    text = "Ada wrote. He saw Ada Lee."
    tl.write(tagger.tag_text(text), out, "jsonl-spans")
    (document,) = tl.read(io.BytesIO(out.getvalue()))
    assert document.text == text
    assert document.labels.count("B-PER") == 2


def test_tagger_without_spans():
    tagger = tl.HMM().fit([["they", "fish"]], [["N", "V"]])
    (sentence,) = tagger.tag_text("they fish", probs=True)
    assert (sentence.labels, sentence.spans) == (["N", "V"], [])


def test_a_tokenizer_is_saved_with_its_tagger(tagger, learnt):
    assert tagger.tokenizer_.preset == "rules"
    assert "tokenizer" not in tagger._whole_file().header
    text = "Ba, 3.4 so. Lo we."
    both = tagger.with_tokenizer(learnt)
    for copy in (tl.load(both.to_bytes()), pickle.loads(pickle.dumps(both)), both.calibrate(X, Y)):
        assert same(copy.tokenizer_, learnt, text)
        assert copy.predict(X) == tagger.predict(X)
    assert tl.load(tagger.with_tokenizer("characters").to_bytes()).tag_text("Ada")[0].tokens == [
        *"Ada"
    ]
    with raises(ParameterError, parameter="tokenizer"):
        tagger.with_tokenizer(3)
    with raises(ParameterError, parameter="preset"):
        tagger.with_tokenizer("none")


def test_a_forged_tokenizer_of_a_tagger_is_refused(tagger, learnt):
    file = tagger.with_tokenizer(learnt)._whole_file()
    for change in ({"params": {"preset": 3}}, {"boundaries": {}}, {}, []):
        header = file.header | {"tokenizer": change}
        with pytest.raises(ModelFileError):
            _restore(type(file)(header, file.arrays), None, "forged")
