import copy
import pickle

import pytest

from raising import raises
from tagloom import Corpus, Sentence
from tagloom.errors import FormatError, LabelError, SentenceError


def test_a_sentence_behaves_as_its_tokens():
    s = Sentence(("They", "can", "fish"), ["PRON", None, {"VERB", "NOUN"}])
    assert (len(s), s[0], s[-1], s[1:], list(s)) == (
        3,
        "They",
        "fish",
        ["can", "fish"],
        ["They", "can", "fish"],
    )
    assert s.labels == ["PRON", None, frozenset({"NOUN", "VERB"})]
    assert repr(s) == "Sentence('They/PRON can/? fish/{NOUN,VERB}')"


def test_a_long_sentence_has_a_short_repr():
    assert repr(Sentence(["w"] * 1000)) == f"Sentence('{'w ' * 12}…')"


@pytest.mark.parametrize("tokens", ["They can fish", b"They"])
def test_a_str_is_not_a_sentence(tokens):
    with raises(SentenceError, expected="a list of tokens", found="They", hint="split"):
        Sentence(tokens)
    with raises(SentenceError, where="sentence 1", expected="a list of tokens"):
        Corpus([["ok"], tokens])
    with raises(SentenceError, expected="a list of sentences", hint="tagloom.read"):
        Corpus(tokens)
    assert issubclass(SentenceError, TypeError)


def test_tokens_are_str():
    with raises(SentenceError, where="token 1", expected="a str", found="7, of type int"):
        Sentence(["a", 7])
    with raises(SentenceError, where="sentence 0", found="3"):
        Corpus([3])


@pytest.mark.parametrize(
    ("labels", "where", "found"),
    [
        (["X"], None, "1"),
        (["X", 3], "token 1", "3, of type int"),
        (["X", set()], "token 1", "set()"),
        (["X", {1}], "token 1", "{1}"),
        ("XY", None, "the str 'XY'"),
        (3, None, "3, of type int"),
    ],
)
def test_labels_that_do_not_fit(labels, where, found):
    with raises(LabelError, where=where, found=found):
        Sentence(["a", "b"], labels)
    with raises(LabelError, where=f"sentence 0, {where}" if where else "sentence 0", found=found):
        Corpus([["a", "b"]], [labels])


def test_columns_have_one_value_per_token():
    assert Sentence(["a"], columns={"pos": ("N",)}).columns == {"pos": ["N"]}
    with raises(SentenceError, where="column 'pos'", expected="1 value", found="2"):
        Sentence(["a"], columns={"pos": ["N", "V"]})


def test_with_labels_leaves_the_first_sentence_alone():
    s = Sentence(["a"], ["X"], comments=["# c"])
    t = s.with_labels(["Y"])
    assert (s.labels, t.labels, t.comments) == (["X"], ["Y"], ["# c"])
    corpus = Corpus([s], [["Z"]])
    assert (corpus[0].labels, s.labels) == (["Z"], ["X"])


def test_sentences_compare_copy_and_pickle():
    s = Sentence(["a"], ["X"], columns={"pos": ["N"]}, comments=["# c"])
    assert copy.deepcopy(s) == s == pickle.loads(pickle.dumps(s))
    assert s != Sentence(["a"], ["X"])
    assert s != ["a"]


def test_a_corpus_is_a_sequence():
    corpus = Corpus([["a", "b"], ["c"], []], [["X", "Y"], [None], []])
    assert (len(corpus), corpus.n_tokens, corpus[-2].tokens) == (3, 3, ["c"])
    assert isinstance(corpus[1:], Corpus)
    assert corpus[1:].tokens == [["c"], []]
    assert [len(s) for s in corpus] == [2, 1, 0]
    assert corpus.labels == [["X", "Y"], [None], []]
    assert corpus.label_counts() == {"X": 1, "Y": 1, None: 1}
    assert repr(corpus) == "Corpus(3 sentences, 3 tokens, 2 labels)"
    assert corpus == Corpus(list(corpus))
    assert pickle.loads(pickle.dumps(corpus)) == corpus


def test_a_corpus_without_labels_says_so():
    corpus = Corpus([["a"]])
    assert corpus.label_counts() == {}
    with raises(LabelError, where="sentence 0", found="none", options="label"):
        _ = corpus.labels
    with raises(LabelError, parameter="labels", expected="1 list", found="2"):
        Corpus([["a"]], [["X"], ["Y"]])


def test_a_format_error_names_file_and_line_also_after_pickling():
    error = pickle.loads(pickle.dumps(FormatError("too short.", "a.conll", 3)))
    assert (str(error), error.path, error.line) == ("a.conll:3: too short.", "a.conll", 3)
    assert isinstance(error, ValueError)
