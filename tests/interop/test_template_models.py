"""Text models of CRF++ and Wapiti: small ones written here, and real ones where they are at hand.

The scores of the small models are computed by hand: a plain sum over the names of attributes. The
real models and the outputs of their tools are in a folder that TAGLOOM_FOREIGN_MODELS names.
"""

import gzip
import itertools
import os
import random
from pathlib import Path

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import ModelFileError
from tagloom.interop import read_crfpp_model, read_wapiti_model

LABELS = ["N", "V", "O"]
Y = len(LABELS)
SENTENCES = [
    tl.Sentence(tokens, columns={"pos": pos})
    for tokens, pos in [
        (["1/2", "3", "a"], ["X", "X", "Y"]),
        (["1", "2/3"], ["Y", "X"]),
        (["a"], ["Y"]),
        (["b", "a", "1", "1/2", "3"], ["X"] * 5),
    ]
]


def crfpp_model(templates, attributes, theta, cost=1):
    """Write a text model of CRF++: attributes are names with the index of their first weight."""
    parts = [
        [f"version: 100\ncost-factor: {cost}\nmaxid: {len(theta)}\nxsize: 2"],
        LABELS,
        templates,
        [f"{start} {name}" for name, start in attributes.items()],
        [repr(float(weight)) for weight in theta],
    ]
    return ("\n\n".join("\n".join(part) for part in parts) + "\n").encode()


def wapiti_model(patterns, names, theta, kind="2#"):
    """Write a model of Wapiti."""
    strings = ["".join(f"{len(s.encode())}:{s},\n" for s in x) for x in (patterns, LABELS, names)]
    active = [f"{f}={float(w).hex()}\n" for f, w in enumerate(theta) if w]
    text = f"#mdl#{kind}{len(active)}\n#rdr#{len(patterns)}/2/0\n{strings[0]}"
    text += f"#qrk#{Y}\n{strings[1]}#qrk#{len(names)}\n{strings[2]}{''.join(active)}"
    return text.encode()


def names_at(tokens, t, templates):
    """Expand templates without functions, as CRF++ does: one name for each."""
    columns = tokens.tokens, tokens.columns["pos"]

    def value(row, column):
        p = t + row
        if p < 0:
            return f"_B{p}"
        return columns[column][p] if p < len(columns[0]) else f"_B+{p - len(columns[0]) + 1}"

    for template in templates:
        name = template
        for row, column in itertools.product((-1, 0, 1), (0, 1)):
            name = name.replace(f"%x[{row},{column}]", value(row, column))
        yield name


def path_scores(sentence, templates, attributes, theta):
    """Score every labelling of a sentence by its names."""
    T, scores = len(sentence), {}
    for path in itertools.product(range(Y), repeat=T):
        total = 0.0
        for t in range(T):
            for name in names_at(sentence, t, templates):
                start = attributes.get(name)
                if start is not None and name[0] == "U":
                    total += theta[start + path[t]]
                elif start is not None and t > 0:
                    total += theta[start + path[t - 1] * Y + path[t]]
        scores[path] = total
    return scores


def check_by_enumeration(tagger, sentences, templates, attributes, theta):
    for sentence, gamma in zip(sentences, tagger.predict_marginals(sentences), strict=True):
        scores = path_scores(sentence, templates, attributes, theta)
        best = max(scores, key=scores.get)
        assert tagger.predict([sentence])[0] == [LABELS[y] for y in best]
        z = sum(np.exp(list(scores.values())))
        expected = np.zeros_like(gamma, dtype=float)
        for path, score in scores.items():
            expected[np.arange(len(path)), path] += np.exp(score) / z
        np.testing.assert_allclose(gamma, expected, atol=1e-6)


CRFPP = ["U0:%x[-1,0]/%x[0,0]", "U1:%x[0,1]", "U2", "U3%x[0,0]%x[1,0]", "B", "B1", "B2:%x[0,1]"]
# "1/2" + "3" and "1" + "2/3" have one name, and so one weight: CRF++ does not tell them apart.
CRFPP_NAMES = ["U0:1/2/3", "U0:_B-1/1/2", "U0:_B-1/1", "U1:X", "U1:Y", "U2", "U31/23", "U3a_B+1"]
CRFPP_NAMES += ["B", "B1", "B2:X", "B2:Y"]


def lay_out(names):
    starts, at = {}, 0
    for name in names:
        starts[name] = at
        at += Y if name[0] in "Uu" else Y * Y
    return starts, np.random.default_rng(0).normal(size=at)


def test_crfpp_by_enumeration():
    attributes, theta = lay_out(CRFPP_NAMES)
    tagger = tl.load(crfpp_model(CRFPP, attributes, theta))
    assert isinstance(tagger, tl.CRF)
    assert tagger.labels_.tolist() == LABELS
    check_by_enumeration(tagger, SENTENCES, CRFPP, attributes, theta)
    # Two B templates: both weights count, for every pair of labels.
    expected = (theta[attributes["B"] :][: Y * Y] + theta[attributes["B1"] :][: Y * Y]).reshape(
        Y, Y
    )
    np.testing.assert_allclose(tagger.transitions_, expected)


def test_crfpp_cost_factor_and_no_bigrams():
    attributes, theta = lay_out(["U1:X", "U1:Y"])
    tagger = tl.load(crfpp_model(["U1:%x[0,1]"], attributes, theta, cost=2.5))
    assert not tagger.transitions_.any()
    check_by_enumeration(tagger, SENTENCES, ["U1:%x[0,1]"], attributes, 2.5 * theta)


def test_crfpp_encoding():
    attributes, theta = lay_out(["U1:été"])
    data = crfpp_model(["U1:%x[0,0]"], attributes, theta).decode().encode("latin-1")
    with raises(ModelFileError, expected="utf-8", hint="encoding"):
        tl.load(data)
    tagger = read_crfpp_model(data, encoding="latin-1")
    assert tagger.feature_weights("U1:été", n=1)[0].attribute == "U1:été"


WAPITI = ["U:a=%x[-1,0]/%X[ 0,0]", 'u:up=%t[0,0,"^\\u"]', "b", "b:p=%x[0,1]", "*", "*:w=%x[0,0]"]


def wapiti_scores(sentence, names, theta, kind=2):
    """Score every labelling by Wapiti's rules, with its own layout of the weights."""
    places, at = {}, 0
    for name in names:
        for edge in (False, True):
            if name[0] in ("b*" if edge else "u*"):
                places[name, edge] = at
                at += Y * Y if edge else Y
    T, tokens, scores = len(sentence), sentence.tokens, {}
    for path in itertools.product(range(Y), repeat=T):
        total = 0.0
        for t in range(T):
            before = tokens[t - 1] if t else "_x-1"
            upper = "true" if tokens[t][:1].isupper() else "false"
            active = [f"u:a={before}/{tokens[t].lower()}", f"u:up={upper}", "b", "*"]
            active += [f"b:p={sentence.columns['pos'][t]}", f"*:w={tokens[t]}"]
            step = np.zeros((Y, Y))
            for name in active:
                if (name, False) in places:
                    step += theta[places[name, False] :][:Y]
                if (name, True) in places and t:
                    step += theta[places[name, True] :][: Y * Y].reshape(Y, Y)
            row = step[path[t - 1] if t else 0]
            total += row[path[t]] - (np.log(np.exp(row).sum()) if kind == 1 else 0)
        scores[path] = total
    return scores


WAPITI_NAMES = ["u:a=_x-1/a", "u:a=B/a", "u:up=true", "u:up=false", "b", "b:p=X", "*", "*:w=a"]


@pytest.mark.parametrize(("kind", "model"), [("2#", tl.CRF), ("", tl.CRF), ("1#", tl.MEMM)])
def test_wapiti_by_enumeration(kind, model):
    sizes = {"u": Y, "b": Y * Y, "*": Y + Y * Y}
    theta = np.random.default_rng(1).normal(size=sum(sizes[name[0]] for name in WAPITI_NAMES))
    tagger = tl.load(wapiti_model(WAPITI, WAPITI_NAMES, theta, kind))
    assert isinstance(tagger, model)
    sentences = [tl.Sentence(["B", "a", "a"], columns={"pos": ["X", "X", "Y"]}), *SENTENCES]
    for sentence, gamma in zip(sentences, tagger.predict_marginals(sentences), strict=True):
        scores = wapiti_scores(sentence, WAPITI_NAMES, theta, int(kind[:1] or 2))
        best = max(scores, key=scores.get)
        assert tagger.predict([sentence])[0] == [LABELS[y] for y in best]
        probs = {path: np.exp(score) for path, score in scores.items()}
        expected = np.zeros_like(gamma, dtype=float)
        for path, prob in probs.items():
            expected[np.arange(len(path)), path] += prob / sum(probs.values())
        np.testing.assert_allclose(gamma, expected, atol=1e-6)


def test_wapiti_maximum_entropy_model_has_no_transitions():
    theta = [0.5, -0.5, 0.0, 1.0, 0.0, -1.0]
    tagger = tl.load(wapiti_model(["u:%x[0,0]"], ["u:a", "u:b"], theta, "0#"))
    gamma = tagger.predict_marginals([["a", "b"]])[0]
    expected = np.exp(np.reshape(theta, (2, 3)))
    np.testing.assert_allclose(gamma, expected / expected.sum(1, keepdims=True), atol=1e-6)


def test_wapiti_models_without_patterns_are_refused():
    with raises(ModelFileError, expected="patterns", hint="features=None"):
        tl.load(wapiti_model([], ["u:a"], [1.0]))


@pytest.mark.parametrize("read", [read_crfpp_model, read_wapiti_model])
def test_features_are_in_the_model(read):
    with raises(ModelFileError, parameter="features"):
        read(b"", features=str)


def test_saved_again_as_a_file_of_ours(tmp_path):
    for data in small_models():
        tagger = tl.load(data)
        tagger.save(tmp_path / "x.tagloom")
        again = tl.load(tmp_path / "x.tagloom")
        assert again.digest() == tagger.digest()
        assert again.predict(SENTENCES) == tagger.predict(SENTENCES)


# Damage


def small_models():
    attributes, theta = lay_out(CRFPP_NAMES)
    yield crfpp_model(CRFPP, attributes, theta)
    sizes = {"u": Y, "b": Y * Y, "*": Y + Y * Y}
    yield wapiti_model(WAPITI, WAPITI_NAMES, np.ones(sum(sizes[name[0]] for name in WAPITI_NAMES)))


@pytest.mark.parametrize(
    ("change", "where", "found"),
    [
        ((b"version: 100", b"version: 99"), "header", "version 99"),
        ((b"maxid: ", b"maxid: 9"), "weights", "60"),
        ((b"maxid: ", b"maxid: x"), "header", "x"),
        ((b"cost-factor: 1", b"cost-factor: nan"), "header", "nan"),
        ((b"\nV\n", b"\nN\n"), "labels", "N"),
        ((b"U1:%x[0,1]\n", b"U1:%x[0\n"), "templates", "%x[0"),
        ((b"U1:%x[0,1]\n", b"U9:%x[0,1]\n"), "<bytes>", "U1:X"),
        ((b" U1:X\n", b" Q1:X\n"), "attributes", "Q1:X"),
        ((b"0 U0:1/2/3\n", b"x U0:1/2/3\n"), "attributes", "x U0"),
        ((b"3 U0:_B-1/1/2\n", b"2 U0:_B-1/1/2\n"), "<bytes>", "overlap"),
        ((b"0 U0:1/2/3\n", b"99999999 U0:1/2/3\n"), "<bytes>", ""),
    ],
)
def test_damaged_crfpp_models(change, where, found):
    data = next(small_models())
    assert change[0] in data
    with raises(ModelFileError, where=where, found=found):
        tl.load(data.replace(*change))


@pytest.mark.parametrize(
    ("change", "where", "expected"),
    [
        ((b"#mdl#2#", b"#mdl#7#"), "byte 0", "#mdl#"),
        ((b"#rdr#6", b"#rdr#999999999"), "byte", "strings"),
        ((b"#rdr#6", b"#rdr#5"), "byte", "#qrk#"),
        ((b"#qrk#8", b"#qrk#99999999999"), "byte", "strings"),
        ((b"1:V,", b"2:V,"), "byte", "a string"),
        ((b"1:V,", b"1:N,"), "labels", "distinct"),
        ((b"\n0=", b"\n1="), "<bytes>", "each weight once"),
        ((b"\n0=", b"\n999999="), "<bytes>", "weights of attributes"),
        ((b"\n0=0x1.0", b"\n0=0xinf"), "weights", "index=value"),
        ((b"5:u:up", b"5:q:up"), "attributes", ""),
    ],
)
def test_damaged_wapiti_models(change, where, expected):
    data = list(small_models())[1]
    if change[0] == b"5:u:up":
        change = (b"9:u:up=true", b"9:q:up=true")
    assert change[0] in data
    with raises(ModelFileError, where=where, expected=expected):
        tl.load(data.replace(*change, 1))


def test_values_that_can_be_split_in_too_many_ways():
    attributes, theta = lay_out(["U0" + "x" * 300])
    with raises(ModelFileError, hint="separator"):
        tl.load(crfpp_model(["U0%x[0,0]%x[1,0]%x[0,1]%x[1,1]"], attributes, theta))


def check_mutations(n, seed):
    """Load damaged files: each raises a ModelFileError, or tags."""
    rng, models, messages, others = random.Random(seed), list(small_models()), [], []
    for _ in range(n):
        data = bytearray(rng.choice(models))
        for _ in range(rng.choice([1, 1, 3])):
            at = rng.randrange(len(data))
            end = at + rng.choice([0, 1, 1, 5])
            data[at:end] = rng.choice([b"", b"0", b"9", b"-", b"\n", b"%x[0,0]", b"\xff"])
        try:
            tl.load(bytes(data)).predict([["a", "b"]])
        except ModelFileError as error:
            messages.append(str(error))
        except tl.errors.TemplateError as error:  # templates that read another column
            others.append(str(error))
    assert all(len(message) < 600 for message in messages)
    assert all("column" in message for message in others)
    return len(messages)


def test_damaged_models_are_refused_or_tag():
    assert check_mutations(400, 0) > 130


@pytest.mark.soak
def test_damaged_models_soak():
    for seed in range(1, 11):
        check_mutations(2000, seed)


# Models of the tools themselves

FOLDER = Path(os.environ.get("TAGLOOM_FOREIGN_MODELS", "foreign-models"))
needs_folder = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="set TAGLOOM_FOREIGN_MODELS to a folder with models and outputs"
)


def read_text(name):
    return gzip.decompress((FOLDER / name).read_bytes())


def held_out():
    corpus = tl.datasets.load("english", "test", label="chunk")
    return [tl.Sentence(s.tokens, columns={"upos": s.columns["upos"]}) for s in corpus]


def output_blocks(name):
    blocks = read_text(name).decode().split("\n\n")
    return [block.strip("\n").split("\n") for block in blocks if block.strip()]


@needs_folder
def test_crfpp_model_gives_what_crf_test_printed():
    tagger, X = tl.load(read_text("crfpp.model.txt.gz")), held_out()
    labels = tagger.labels_.tolist()
    results = zip(
        output_blocks("crfpp.v2.out.gz"),
        tagger.predict_nbest(X, 1),
        tagger.predict_marginals(X),
        strict=True,
    )
    for (head, *rows), (best,), gamma in results:
        assert best.prob == pytest.approx(float(head.split()[1]), abs=2e-6)
        cells = [row.split("\t") for row in rows]
        assert best.labels == [cell[3].rpartition("/")[0] for cell in cells]
        for t, cell in enumerate(cells):
            shown = {x.rpartition("/")[0]: float(x.rpartition("/")[2]) for x in cell[4:]}
            np.testing.assert_allclose(gamma[t], [shown[y] for y in labels], atol=2e-6)


@needs_folder
def test_wapiti_model_gives_what_wapiti_label_printed():
    tagger, X = tl.load(read_text("wapiti.model.gz")), held_out()
    labels = tagger.labels_.tolist()
    results = zip(
        output_blocks("wapiti.out.gz"), tagger.predict(X), tagger.predict_marginals(X), strict=True
    )
    for (head, *rows), best, gamma in results:
        shown = [row.split("\t")[2].rpartition("/")[::2] for row in rows]
        assert best == [label for label, _ in shown]
        for t, (label, prob) in enumerate(shown):
            assert gamma[t, labels.index(label)] == pytest.approx(float(prob), abs=2e-6)
        # With -p Wapiti prints the product of the labels' posteriors.
        assert np.prod(gamma.max(axis=1)) == pytest.approx(float(head.split()[2]), abs=2e-5)
