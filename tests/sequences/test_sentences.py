import copy
import pickle

import pytest

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
    with pytest.raises(SentenceError, match=r"expected a list of tokens.*They.*split"):
        Sentence(tokens)
    with pytest.raises(SentenceError, match=r"sentence 1: expected a list of tokens"):
        Corpus([["ok"], tokens])
    with pytest.raises(SentenceError, match=r"expected a list of sentences.*tagloom\.read"):
        Corpus(tokens)
    assert issubclass(SentenceError, TypeError)


def test_tokens_are_str():
    with pytest.raises(SentenceError, match=r"token 1 is 7, of type int; tokens are str"):
        Sentence(["a", 7])
    with pytest.raises(SentenceError, match="sentence 0"):
        Corpus([3])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["X"], "2 tokens but 1 labels"),
        (["X", 3], r"label 1 is 3; a label is a str, None \(unknown\) or a set"),
        (["X", set()], "label 1 is set"),
        (["X", {1}], "label 1 is"),
        ("XY", "expected a list of labels"),
    ],
)
def test_labels_that_do_not_fit(labels, message):
    with pytest.raises(LabelError, match=message):
        Sentence(["a", "b"], labels)
    with pytest.raises(LabelError, match=f"sentence 0: {message}"):
        Corpus([["a", "b"]], [labels])


def test_columns_have_one_value_per_token():
    assert Sentence(["a"], columns={"pos": ("N",)}).columns == {"pos": ["N"]}
    with pytest.raises(SentenceError, match=r"column 'pos' has 2 values for 1 tokens"):
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
    with pytest.raises(LabelError, match=r"sentence 0 has no labels.*label="):
        _ = corpus.labels
    with pytest.raises(LabelError, match="1 sentences but 2 lists of labels"):
        Corpus([["a"]], [["X"], ["Y"]])


def test_a_format_error_names_file_and_line_also_after_pickling():
    error = pickle.loads(pickle.dumps(FormatError("too short.", "a.conll", 3)))
    assert (str(error), error.path, error.line) == ("a.conll:3: too short.", "a.conll", 3)
    assert isinstance(error, ValueError)
