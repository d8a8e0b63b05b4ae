"""The role labeller: candidates, learning, inference under constraints, files, errors."""

import itertools
import os
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tagloom as tl
from raising import raises
from role_sentences import clause, grammar
from tagloom import _native
from tagloom.errors import LabelError, NotFittedError, ParameterError, SentenceError
from tagloom.labels.roles import is_legal_frame, role_constraints
from tagloom.models.role_data import Lemmas, RoleData, encode
from tagloom.sequences import read_frames
from tagloom.trellis import AtMostOnce, OnlyAfter, OnlyIf, SpanSelection

SMALL = {"hash_bits": 16, "tags": ["upos"], "n_threads": 1}
TRAIN, TEST = grammar(60, 0), grammar(20, 1)


def frames_of(sentences):
    return [frame for sentence in sentences for frame in sentence.frames]


def candidates_of(sentences):
    indptr, start, end = encode(sentences, ["upos"], Lemmas({}), rolesets=False).candidates()
    spans = list(zip(start.tolist(), end.tolist(), strict=True))
    return [set(spans[a:b]) for a, b in itertools.pairwise(indptr.tolist())]


# ---- candidates ----------------------------------------------------------------------------------


def subtrees(sentence):
    """The words of each subtree, in plain Python."""
    T = len(sentence.tokens)
    words = [{t} for t in range(T)]
    for t in range(T):
        a = sentence.heads[t]
        while a:
            words[a - 1].add(t)
            a = sentence.heads[a - 1]
    return words


def test_candidates_contain_the_subtrees_around_a_predicate():
    """Dependents of the predicate, of its ancestors and of its siblings; none contains it."""
    for sentence, frame in [(s, f) for s in TEST for f in s.frames]:
        (found,) = candidates_of([sentence.with_frames([frame])])
        p, words = frame.predicate, subtrees(sentence)
        chain = [p]
        while sentence.heads[chain[-1]]:
            chain.append(sentence.heads[chain[-1]] - 1)
        for d, head in enumerate(sentence.heads):
            is_near = head - 1 in chain or sentence.heads[head - 1] - 1 in chain[1:2]
            if d in chain or not is_near or sentence.deprels[d] == "punct":
                continue
            if p not in words[d]:
                assert (min(words[d]), max(words[d]) + 1) in found
        assert all(not start <= p < end for start, end in found)
        assert {(a.start, a.end) for a in frame.arguments} <= found


def test_punctuation_at_the_edges():
    """It is removed, unless its partner is inside."""
    sentence = clause(
        'he said " yes " , ( loudly ) .',
        "PRON VERB PUNCT INTJ PUNCT PUNCT PUNCT ADV PUNCT PUNCT",
        "2 0 4 2 4 4 8 2 8 2",
        "nsubj root punct ccomp punct punct punct advmod punct punct",
        [(1, [])],
    )
    (found,) = candidates_of([sentence])
    assert {(2, 5), (6, 9)} <= found
    assert not {(2, 6), (9, 10)} & found


# ---- learning ------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["crf", "svm", "perceptron"])
@pytest.mark.parametrize("training", ["global", "local"])
def test_learns_a_grammar(loss, training):
    labeller = tl.RoleLabeller(loss=loss, training=training, **SMALL).fit(TRAIN)
    assert labeller.score(TEST) == 1.0
    losses = [record.loss for record in labeller.history_]
    assert losses[-1] <= 0.5 * losses[0]
    assert labeller.training_["frames"] == len(frames_of(TRAIN))
    assert labeller.labels_.tolist() == ["ARG0", "ARG1", "ARGM-TMP", "R-ARG1"]


def test_gradient_of_the_global_loss():
    """From zero weights a step follows gold − marginal of the legal selections of a frame."""
    data = RoleData.read(TRAIN[:1], ["upos"], rolesets=False, legal=False)
    rules = role_constraints(data.names)
    automata = [one.automaton(data.names) for one in rules]
    learner = _native.RoleLearner(
        data.frames, data.indptr, data.arguments, len(data.names), automata, data.legal,
        "crf", 0.1, 0.1, -10.0, 20,
    )  # fmt: skip
    tables = learner.choices(), data.legal, 1
    none = np.zeros(0, np.float32)
    zeros = np.zeros(1 << 20, np.float32)
    _, start, end, role, score = data.frames.scores(none, zeros, -10.0, len(data.names), *tables)
    assert not score.any()
    names = [data.names[y] for y in role.tolist()]
    spans = list(zip(start.tolist(), end.tolist(), names, strict=True))
    selection = SpanSelection(spans, score, rules)
    loss, _ = learner.epoch(np.array([0]), True)
    assert_allclose(loss, selection.log_partition())
    theta = learner.state()["roles.theta"]
    after = data.frames.scores(none, theta, -10.0, len(data.names), *tables)[4]
    gold = np.array([span in set(TRAIN[0].frames[0].arguments) for span in spans], float)
    assert gold.sum() == len(TRAIN[0].frames[0].arguments)
    moved = gold - selection.marginals()
    assert (after * moved).sum() > 0
    assert SpanSelection(spans, after, rules).log_partition() - (after * gold).sum() < loss


def test_one_seed_one_model():
    first, second = (tl.RoleLabeller(**SMALL).fit(TRAIN) for _ in range(2))
    assert first.digest() == second.digest()
    assert tl.RoleLabeller(random_state=1, **SMALL).fit(TRAIN).digest() != first.digest()
    first.set_params(n_threads=2)
    assert first.predict(TEST) == second.predict(TEST)


def test_dev_and_checkpoint(tmp_path):
    """Development scores are F1; a resumed run gives the same weights."""
    whole = tl.RoleLabeller(max_iterations=4, **SMALL).fit(TRAIN, dev=TEST)
    assert whole.training_["dev"] == whole.score(TEST)
    path = tmp_path / "run"
    tl.RoleLabeller(max_iterations=2, **SMALL).fit(TRAIN, checkpoint=path)
    resumed = tl.RoleLabeller(max_iterations=4, **SMALL).fit(TRAIN, checkpoint=path)
    straight = tl.RoleLabeller(max_iterations=4, **SMALL).fit(TRAIN)
    assert_array_equal(resumed._fitted.weights, straight._fitted.weights)


def test_rolesets_and_lemmas():
    """The lemma of a form is that of its rolesets; with rolesets=True they are features, too."""
    tagged = [
        s.with_frames(type(f)(f.predicate, f.arguments, "be.01") for f in s.frames) for s in TRAIN
    ]
    labeller = tl.RoleLabeller(rolesets=True, **SMALL).fit(tagged)
    assert labeller._fitted.lemmas.of("Wrote") == "be"
    with_sense, without = (labeller.scored(x).score for x in (tagged, TRAIN))
    assert not np.array_equal(with_sense, without)


def test_legal_roles():
    """A frequent lemma has only the core roles that were seen with it."""
    train = TRAIN + [clause("it rains", "PRON VERB", "2 0", "expl root", [(1, [])])] * 20
    labeller = tl.RoleLabeller(constraints=["core", "legal"], **SMALL).fit(train)
    new = clause("Ada rains notes", "PROPN VERB NOUN", "2 0 2", "nsubj root obj", [(1, [])])
    roles = {str(labeller.labels_[y]) for y in labeller.scored([new]).role}
    assert roles <= {"ARGM-TMP"}


# ---- inference -----------------------------------------------------------------------------------


def integer_programme(spans, scores, rules):
    """The best selection by scipy's milp: a variable per candidate, rows for all constraints."""
    optimize = pytest.importorskip("scipy.optimize")
    rows, upper = [], []
    for t in range(max((end for _, end, _ in spans), default=0)):
        rows.append([float(start <= t < end) for start, end, _ in spans])
        upper.append(1)
    for rule in rules:
        if isinstance(rule, AtMostOnce):
            rows.append([float(label == rule.label) for _, _, label in spans])
            upper.append(1)
            continue
        assert isinstance(rule, OnlyIf | OnlyAfter)
        for c, (start, _, label) in enumerate(spans):
            if label == rule.label:  # x_c ≤ the sum of those that license it
                row = [
                    -float(kind == rule.other and (isinstance(rule, OnlyIf) or end <= start))
                    for _, end, kind in spans
                ]
                row[c] += 1
                rows.append(row)
                upper.append(0)
    solved = optimize.milp(
        -np.asarray(scores),
        integrality=np.ones(len(spans)),
        bounds=optimize.Bounds(0, 1),
        constraints=optimize.LinearConstraint(np.array(rows), -np.inf, upper),
    )
    return -solved.fun


def check_inference(labeller, sentences):
    """Selections of the labeller are legal, and as good as those of an integer programme."""
    rules = role_constraints(labeller.labels_.tolist())
    scored, roles = labeller.scored(sentences), labeller.labels_.tolist()
    predicted = [frame for found in labeller.predict(sentences) for frame in found]
    for f, (a, b) in enumerate(itertools.pairwise(scored.indptr.tolist())):
        names = [roles[y] for y in scored.role[a:b].tolist()]
        spans = list(zip(scored.start[a:b].tolist(), scored.end[a:b].tolist(), names, strict=True))
        assert is_legal_frame(predicted[f], rules)
        score = dict(zip(spans, scored.score[a:b].tolist(), strict=True))
        best = integer_programme(spans, scored.score[a:b], rules) if spans else 0.0
        assert_allclose(sum(score[one] for one in predicted[f]), best, atol=1e-6)


def test_inference_equals_an_integer_programme():
    labeller = tl.RoleLabeller(max_iterations=1, **SMALL).fit(TRAIN[:5])
    rng = np.random.default_rng(0)  # weights at random: many conflicts
    labeller._fitted.weights[:] = rng.standard_normal(1 << 16) / 4
    check_inference(labeller, TEST)
    independent = labeller.predict(TEST, inference="independent")
    rules = role_constraints(labeller.labels_.tolist())
    illegal = [a for found in independent for a in found if not is_legal_frame(a, rules)]
    assert illegal
    for arguments in itertools.chain(*labeller.predict(TEST, inference="no-overlap")):
        assert is_legal_frame(arguments, [])


def test_selections_are_those_of_predict():
    labeller = tl.RoleLabeller(**SMALL).fit(TRAIN)
    best = [one.spans for one in labeller.selections(TEST).best()]
    assert best == [arguments for found in labeller.predict(TEST) for arguments in found]


# ---- files, sentences, errors --------------------------------------------------------------------


def test_files(tmp_path):
    labeller = tl.RoleLabeller(**SMALL).fit(TRAIN)
    labeller.save(tmp_path / "r.tagloom")
    for other in (tl.load(tmp_path / "r.tagloom"), pickle.loads(pickle.dumps(labeller))):
        assert isinstance(other, tl.RoleLabeller)
        assert other.predict(TEST) == labeller.predict(TEST)
        assert other.digest() == labeller.digest()
    file = labeller.to_file()
    file.arrays["choices.roles"] = file.arrays["choices.roles"] + 99
    with pytest.raises(ValueError, match="out of range"):
        tl.RoleLabeller.from_file(file)


def test_annotate():
    labeller = tl.RoleLabeller(**SMALL).fit(TRAIN)
    blank = [s.with_frames(type(f)(f.predicate) for f in s.frames) for s in TEST]
    assert labeller.annotate(blank) == TEST
    assert labeller.predict([]) == []
    assert labeller.predict([TEST[0].with_frames([])]) == [[]]


def test_wrong_data():
    labeller = tl.RoleLabeller(**SMALL)
    with raises(NotFittedError):
        labeller.predict(TEST)
    with raises(SentenceError, parameter="X", found="str"):
        labeller.fit("train.jsonl")
    with raises(SentenceError, where="sentence 0", found="list"):
        labeller.fit([["they", "fish"]])
    with raises(LabelError, parameter="X", expected="arguments"):
        labeller.fit([TEST[0].with_frames([])])
    with raises(SentenceError, where="sentence 0", expected="xpos"):
        tl.RoleLabeller(hash_bits=16).fit(TRAIN)
    with raises(ParameterError, parameter="constraints", expected="core"):
        tl.RoleLabeller(constraints=["all"]).fit(TRAIN)
    with raises(ParameterError, parameter="y"):
        labeller.fit(TRAIN, [["x"]])
    with raises(ParameterError, parameter="inference"):
        labeller.fit(TRAIN).predict(TEST, inference="none")
    plain = TRAIN[0].to_dict()
    plain["heads"] = [2, 1, 2, 2, 2, 2]
    with raises(LabelError, where="sentence 1", found="cycle"):
        labeller.fit([TRAIN[0], plain])


@pytest.mark.skipif("TAGLOOM_DATA" not in os.environ, reason="set TAGLOOM_DATA to the corpora")
def test_on_propbank():
    """Inference on frames of EWT equals an integer programme; a thousand sentences give 0.7 F1."""
    folder = os.path.join(os.environ["TAGLOOM_DATA"], "ewt-propbank")
    train = read_frames(os.path.join(folder, "train.jsonl"))
    labeller = tl.RoleLabeller(max_iterations=2).fit(train[:1000])
    assert labeller.score(train[1000:1500]) > 0.7
    check_inference(labeller, train[1000:1050])
