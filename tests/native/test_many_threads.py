"""One tagger used by many threads at once, while others train, save and load."""

import io
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import tagloom as tl
from role_sentences import grammar

N_THREADS = 8


@pytest.fixture(scope="module")
def corpus():
    return tl.datasets.load("english", "train", label="upos")[:80]


@pytest.mark.parametrize(
    "make",
    [
        lambda: tl.CRF(["word", "suffix(1..3)", "word[-1]"], max_iterations=2, n_threads=2),
        lambda: tl.CRF(["word"], algorithm="lbfgs", max_iterations=2, n_threads=2),
        lambda: tl.StructuredPerceptron(["word", "suffix(2)"], max_iterations=2),
        lambda: tl.HMM(),
    ],
    ids=["crf", "lbfgs", "perceptron", "hmm"],
)
def test_threads_tag_while_others_train_save_and_load(make, corpus):
    tagger, tokens = make().fit(corpus), corpus.tokens[:40]
    labels, best = tagger.predict(tokens), tagger.predict_nbest(tokens[:5], n=3)
    start = threading.Barrier(N_THREADS)

    def work(i):
        start.wait()
        for _ in range(3):
            if i % 4 == 0:
                assert make().fit(corpus).predict(tokens) == labels
            elif i % 4 == 1:
                out = io.BytesIO()
                tagger.save(out)
                assert tl.load(out.getvalue()).predict(tokens, n_threads=2) == labels
            elif i % 4 == 2:
                assert tagger.predict(tokens, n_threads=3) == labels
                tagger.predict_marginals(tokens, n_threads=2)
            else:
                found = tagger.predict_nbest(tokens[:5], n=3)
                assert [[x.labels for x in row] for row in found] == [
                    [x.labels for x in row] for row in best
                ]

    with ThreadPoolExecutor(N_THREADS) as pool:
        list(pool.map(work, range(N_THREADS)))


TREE = {
    "upos": ["PRON", "VERB", "NOUN"],
    "head": ["2", "0", "2"],
    "deprel": ["nsubj", "root", "obj"],
}
TREES = [tl.Sentence(["They", "catch", "fish"], columns=TREE)] * 3
HASHED = {"hash_bits": 8, "tags": ["upos"], "max_iterations": 2}


@pytest.mark.parametrize(
    ("make", "X"),
    [
        (lambda: tl.CRF(["word"], max_iterations=2), None),
        (lambda: tl.SemiCRF(["word"], max_iterations=2), None),
        (lambda: tl.HMM(n_states=2, algorithm="beam", max_iterations=2), None),
        (lambda: tl.DependencyParser(**HASHED), TREES),
        (lambda: tl.DependencyParser(projective=False, labelling="joint", **HASHED), TREES),
        (lambda: tl.RoleLabeller(**HASHED), grammar(4, 0)),
    ],
    ids=["crf", "semicrf", "beam", "parser", "joint", "roles"],
)
def test_more_threads_than_memory_has_room_for(make, X, corpus):
    """Each thread has scratch memory; no more are started than there is work for."""
    X = corpus[:4] if X is None else X
    one = make().set_params(n_threads=1).fit(X)
    many = make().set_params(n_threads=1 << 40).fit(X)
    assert many.predict(X) == one.predict(X)
