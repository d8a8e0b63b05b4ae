"""What only a network tagger has: vectors, modules, resuming, attributions, files."""

import json
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peers

import tagloom as tl  # noqa: E402
from raising import raises  # noqa: E402
from tagloom.errors import ModelFileError, ParameterError, SentenceError, TrainingError  # noqa: E402
from tagloom.scores import Vectors  # noqa: E402

FISH = [["they", "can", "fish"], ["can", "of", "fish"]] * 4
LABELS = [["N", "V", "V"], ["N", "P", "N"]] * 4
SMALL = {"hidden": 8, "word_size": 8, "batch_tokens": 12, "max_iterations": 30, "eta": 0.02}
ALONE = {"features": None, "characters": None, "dropout": 0.0, **SMALL}


@pytest.fixture(scope="module")
def tagger():
    return tl.NeuralTagger(**SMALL).fit(FISH, LABELS)


# ---- learning ----------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ["bilstm", "bigru", "birnn", "cnn"])
@pytest.mark.parametrize("head", ["crf", "softmax"])
def test_context_decides_between_they_can_fish_and_can_of_fish(encoder, head):
    tagger = tl.NeuralTagger(encoder=encoder, head=head, **ALONE).fit(FISH, LABELS)
    assert tagger.predict(FISH[:2]) == LABELS[:2]


def test_transitions_resolve_label_bias():
    """r-i-b and r-o-b: the first letter does not tell the paths 1 2 3 and 4 5 3 apart.

    A network that reads from left to right scores position 0 before it has seen the second letter;
    the transitions of the CRF carry the evidence back. Per-token scores cannot.
    """
    X = [["r", "i", "b"], ["r", "o", "b"]] * 6
    y = [["1", "2", "3"], ["4", "5", "3"]] * 6
    options = {**ALONE, "encoder": "rnn", "word_dropout": 0.0}
    crf = tl.NeuralTagger(**options).fit(X, y)
    assert crf.predict(X[:2]) == y[:2]
    token = tl.NeuralTagger(head="softmax", **options).fit(X, y)
    first = token.predict_marginals([["r"], ["r"]])
    assert token.predict(X[:2]) != y[:2]
    np.testing.assert_allclose(first[0][0, [0, 3]], 0.5, atol=0.2)


def test_a_resumed_run_has_the_same_bits(tmp_path):
    options = {**SMALL, "max_iterations": 4, "encoder": "lstm"}
    dev = (FISH[:2], LABELS[:2])
    whole = tl.NeuralTagger(**options, patience=9).fit(FISH, LABELS, dev=dev)

    def stop(record):
        if record.iteration == 2:
            raise RuntimeError("the machine is switched off")

    path = tmp_path / "run"
    part = tl.NeuralTagger(**options, patience=9)
    from tagloom.training import checkpoints

    every = checkpoints.Checkpoint.__init__.__defaults__
    try:
        checkpoints.Checkpoint.__init__.__defaults__ = (0.0,)  # save after every epoch
        with pytest.raises(RuntimeError):
            part.fit(FISH, LABELS, dev=dev, checkpoint=path, callback=stop)
    finally:
        checkpoints.Checkpoint.__init__.__defaults__ = every
    assert path.exists()
    resumed = tl.NeuralTagger(**options, patience=9)
    resumed.fit(FISH, LABELS, dev=dev, checkpoint=path)
    assert [r[:4] for r in resumed.history_] == [r[:4] for r in whole.history_]
    assert resumed.digest() == whole.digest()
    other = tl.NeuralTagger(**{**options, "max_iterations": 6}, patience=9)
    with raises(ModelFileError, found="max_iterations 4"):
        other.fit(FISH, LABELS, dev=dev, checkpoint=path)


def test_a_very_long_sentence():
    n = 100_000 // 3
    X, y = [*FISH, FISH[0] * n], [*LABELS, LABELS[0] * n]
    options = {**SMALL, "max_iterations": 1, "characters": None}
    tagger = tl.NeuralTagger(**options).fit(X, y)
    (labels,) = tagger.predict(X[-1:])
    assert len(labels) == 3 * n
    # Far from both ends the states have forgotten where they are.
    emit = tagger.network_.emit(X[-1:], 1)
    np.testing.assert_allclose(emit[30_000:30_003], emit[60_000:60_003], atol=1e-5)


def test_seeds_make_different_networks():
    options = {**SMALL, "max_iterations": 1}
    one, two = (tl.NeuralTagger(random_state=k, **options).fit(FISH, LABELS) for k in (1, 2))
    assert one.digest() != two.digest()
    before = torch.get_rng_state()
    assert one.digest() == tl.NeuralTagger(random_state=1, **options).fit(FISH, LABELS).digest()
    assert torch.equal(before, torch.get_rng_state())  # the user's random numbers are left alone


@pytest.mark.parametrize(
    ("tokens", "size", "eta", "epochs"),
    [(300, 128, 0.00504, 20), (25_000, 256, 0.00317, 20), (50_000, 512, 0.002, 20),
     (200_000, 512, 0.002, 10), (2_000_000, 512, 0.002, 6)],
)  # fmt: skip
def test_small_corpora_get_small_batches(tokens, size, eta, epochs):
    """By default only: what is given counts."""

    class Data:
        sizes = {"tokens": tokens}  # noqa: RUF012

    tagger = tl.NeuralTagger()
    assert tagger.pace_for(Data) == (size, pytest.approx(eta, rel=2e-3))
    assert tagger.limits_for(Data)[0] == epochs
    assert tl.NeuralTagger(batch_tokens=100).pace_for(Data) == (100, 0.002)
    assert tl.NeuralTagger(eta=0.1).pace_for(Data) == (size, 0.1)
    transformer = tl.NeuralTagger(encoder="transformer", transformer="x")
    assert transformer.pace_for(Data) == (512, 2e-4)


def test_batches_have_the_default_size():
    """495 sentences of 7,266 tokens: 57 batches or a few more, not 15."""
    train = tl.datasets.load("english", "train", label="upos")
    tagger = tl.NeuralTagger("words", hidden=8)
    learner = tagger.make_learner(tagger.read_data(train, None, None))
    schedule = learner.schedule
    assert (schedule.batch_tokens, schedule.eta) == (128, pytest.approx(0.00504, rel=2e-3))
    batches = [*learner.examples.batches(schedule.batch_tokens, np.random.default_rng(0))]
    assert 57 <= len(batches) < 75


SETTINGS = [torch.no_grad, torch.inference_mode, torch.enable_grad]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.__name__)
def test_settings_of_the_calling_program_do_not_matter(tagger, setting, dtype):
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(dtype)
        with setting():
            again = tl.NeuralTagger(**SMALL).fit(FISH, LABELS)
            loaded = tl.load(again.to_bytes())
            assert loaded.explain(FISH[0])[0].reasons == tagger.explain(FISH[0])[0].reasons
        assert torch.get_default_dtype() == dtype
    finally:
        torch.set_default_dtype(before)
    assert loaded.digest() == tagger.digest()


@pytest.mark.parametrize("head", ["crf", "softmax"])
def test_training_that_diverges(head):
    with pytest.raises(TrainingError, match="lower the learning rate"):
        tl.NeuralTagger(**{**SMALL, "eta": 1e6, "head": head}).fit(FISH, LABELS)


def test_a_device_that_is_not_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with raises(ParameterError, parameter="device", expected="cpu", found="'cuda'"):
        tl.NeuralTagger(device="cuda", **SMALL).fit(FISH, LABELS)


def test_a_module_of_the_user():
    class Sums(torch.nn.Module):
        """The vector of a token and those of its neighbours, through one layer."""

        def __init__(self, size, hidden):
            super().__init__()
            self.layer = torch.nn.Linear(3 * size, hidden)

        def forward(self, x, offsets):
            zero = torch.zeros_like(x[:1])
            before, after = torch.cat([zero, x[:-1]]), torch.cat([x[1:], zero])
            first, last = offsets[:-1], offsets[1:] - 1
            before[first[first < len(x)]] = 0
            after[last[last >= 0]] = 0
            return torch.tanh(self.layer(torch.cat([before, x, after], dim=1)))

    tagger = tl.NeuralTagger(encoder=Sums(8, 8), **ALONE).fit(FISH, LABELS)
    assert tagger.predict(FISH[:2]) == LABELS[:2]
    with raises(ParameterError, parameter="encoder", found="Sums"):
        tagger.save("never")
    with raises(ParameterError, parameter="encoder", expected="(12, 9)", found="(12, 8)"):
        tl.NeuralTagger(encoder=Sums(8, 8), **{**ALONE, "hidden": 9}).fit(FISH, LABELS)


def test_bad_parameters():
    with raises(ParameterError, parameter="encoder"):
        tl.NeuralTagger(encoder="lstmm").fit(FISH, LABELS)
    with raises(ParameterError, parameter="order", expected="no transitions"):
        tl.NeuralTagger(order=2, head="softmax").fit(FISH, LABELS)
    with raises(ParameterError, parameter="word_size", found="none of them"):
        tl.NeuralTagger(word_size=0, characters=None).fit(FISH, LABELS)
    with raises(ParameterError, parameter="features", found="edge templates"):
        tl.NeuralTagger(["word", "edge(word)"], **SMALL).fit(FISH, LABELS)
    with raises(ParameterError, parameter="transformer"):
        tl.NeuralTagger(encoder="transformer").fit(FISH, LABELS)
    with raises(ParameterError, parameter="vectors", expected="vectors of its own"):
        tl.NeuralTagger(encoder="transformer", transformer="x", vectors="y").fit(FISH, LABELS)
    with raises(SentenceError, where="sentence 0, token 0", expected="a str"):
        tl.NeuralTagger(**ALONE).fit([[{"a": 1.0}, {"b": 1.0}]], [["X", "Y"]])


# ---- vectors -----------------------------------------------------------------------------------

VECTORS = {"they": [1.0, 0], "can": [0, 1.0], "fish": [1, 1], "we": [1, 0.1], "of": [2.0, 2]}


@pytest.mark.parametrize("tune", [False, True, "both"])
def test_vectors_serve_words_that_training_lacks(tune):
    options = {**ALONE, "word_size": 0, "vectors": VECTORS, "tune_vectors": tune}
    tagger = tl.NeuralTagger(**options).fit(FISH, LABELS)
    assert tagger.predict([["we", "can", "fish"]]) == [["N", "V", "V"]]
    table = tagger.network_.all_arrays
    given = Vectors(VECTORS.keys(), [*VECTORS.values()]).table
    is_same = np.array_equal(table["vectors.weight"], given)
    assert is_same == (tune is not True)
    np.testing.assert_array_equal(table["vectors.weight"][4], given[4])  # "we" did not occur
    if tune == "both":
        assert not np.array_equal(table["tuned.weight"], given)
    assert not table["vectors.weight"][0].any()
    assert tl.load(tagger.to_bytes()).predict(FISH) == tagger.predict(FISH)


@pytest.mark.parametrize("labels", [["X", "Y"], ["B-X", "O"]])
@pytest.mark.parametrize("features", ["auto", "ner"])
def test_spans_with_vectors_are_left_to_the_network(labels, features):
    options = {**SMALL, "max_iterations": 1}
    tagger = tl.NeuralTagger(features, vectors=VECTORS, **options).fit([["they", "fish"]], [labels])
    has_features = features == "ner" or labels == ["X", "Y"]
    assert bool(tagger.scores_.rows.n_attributes) == has_features


@pytest.mark.parametrize("tune", ["no", "both"])
def test_only_the_vectors_of_training_are_kept(tune):
    options = {**ALONE, "word_size": 0, "vectors": VECTORS, "tune_vectors": tune}
    whole = tl.NeuralTagger(**options).fit(FISH, LABELS)
    small = tl.load(tl.NeuralTagger(keep_vectors="seen", **options).fit(FISH, LABELS).to_bytes())
    assert len(small.network_.alphabets.vectors) == 4
    X = [["we", "can", "fish"]]
    full = small.with_vectors(VECTORS)
    np.testing.assert_array_equal(full.trellis(X).emit, whole.trellis(X).emit)
    assert not np.array_equal(small.trellis(X).emit, whole.trellis(X).emit)
    with raises(ParameterError, parameter="vectors", found="NeuralTagger("):
        tl.NeuralTagger(**{**SMALL, "max_iterations": 1}).fit(FISH, LABELS).with_vectors(VECTORS)


# ---- explanations and files --------------------------------------------------------------------


def test_explanations_name_features_and_words(tagger):
    (decision, *_) = tagger.explain(["can", "of", "fish"])
    names = [reason.name for reason in decision.reasons]
    assert any(name.startswith("word=can") for name in names)
    assert any(name.startswith("network, word[1]=of (approximate)") for name in names)
    assert "network, rest" in names
    assert sum(r.value for r in decision.reasons) == pytest.approx(decision.margin, abs=1e-9)


def test_explanations_name_the_same_words_for_both_labels(tagger):
    """Five words or more, of which some are named: a word that is left out is not a zero."""
    sentence = ["they", "can", "fish", "can", "of", "fish", "they", "can", "fish"]
    for decision in tagger.explain(sentence):
        named = [r for r in decision.reasons if "approximate" in r.name]
        assert len({r.name for r in named if r.position == decision.position}) == 4
        assert all(r.weight and r.rival_weight for r in named)


def test_the_wide_part_of_an_explanation_is_exact(tagger):
    sentence = ["they", "can", "fish"]
    scored = tagger.scores_.score([sentence], 1).emit
    trellis = tagger.trellis([sentence])[0]
    parts = tagger.score_parts(sentence, trellis)
    for t in range(3):
        for y in range(3):
            named = [*parts(t, None, y)]
            wide = sum(p.value for p in named if not p.name.startswith("network"))
            assert wide == pytest.approx(float(scored[t, y]), abs=1e-6)
            assert sum(p.value for p in named) == pytest.approx(float(trellis.emit[t, y]), abs=1e-6)


def test_gradient_times_input_is_exact_where_the_network_is_linear(tagger):
    from dataclasses import replace

    from tagloom.neural.attributions import attribute_scores

    network = tagger.network_
    spec = replace(network.spec, encoder="cnn", layers=0, hidden=4)
    rng = np.random.default_rng(0)
    kept = {name: a for name, a in network.arrays.items() if name.startswith(("words", "char"))}
    arrays = kept | {
        name: rng.normal(size=shape).astype(np.float32)
        for name, shape in spec.shapes()
        if name not in kept
    }
    arrays["encoder.input.bias"][:] = arrays["output.bias"][:] = 0
    linear = replace(network, spec=spec, arrays=arrays)
    sentence = ["they", "can", "fish"]
    named, emit = attribute_scores(linear, sentence), linear.emit([sentence], 1)
    for t in range(3):
        for y in range(3):
            values = dict(named(t, y))
            assert values[f"network, word[0]={sentence[t]} (approximate)"] == pytest.approx(
                emit[t, y], rel=1e-4, abs=1e-5
            )


def test_explanations_of_a_module_of_the_user():
    """Gradient × input is exact for a module that keeps each word by itself."""

    class Words(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 8, bias=False)

        def forward(self, x, offsets):
            return self.layer(x)

    tagger = tl.NeuralTagger(encoder=Words(), **ALONE).fit(FISH, LABELS)
    (decision, *_) = tagger.explain(["can", "of", "fish"])
    names = [reason.name for reason in decision.reasons]
    assert "network, word[0]=can (approximate)" in names
    assert sum(r.value for r in decision.reasons) == pytest.approx(decision.margin, abs=1e-9)


def test_a_saved_tagger_needs_no_torch(tagger, tmp_path):
    tagger.save(tmp_path / "model")
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import json, tagloom as tl\n"
        f"tagger = tl.load({str(tmp_path / 'model')!r})\n"
        "explained = tagger.explain(['they', 'can', 'fish'])\n"
        f"print(json.dumps(tagger.predict({FISH[:2]!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == LABELS[:2]


def test_training_without_torch_names_the_extra():
    code = (
        "import sys; sys.modules['torch'] = None\nimport tagloom as tl\n"
        "try:\n    tl.NeuralTagger().fit([['a', 'b']], [['X', 'Y']])\n"
        "except tl.errors.MissingExtraError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'tagloom[neural]'" in done.stdout


def test_damaged_files_are_refused(tagger):
    data = tagger.to_bytes()
    rng = np.random.default_rng(0)
    expected = tagger.predict(FISH)
    n_refused = 0
    for _ in range(60):
        damaged = bytearray(data)
        at = int(rng.integers(len(data)))
        damaged[at] ^= 1 << int(rng.integers(8))
        try:
            loaded = tl.load(bytes(damaged), verify=True)
        except ModelFileError:
            n_refused += 1
        else:
            assert loaded.predict(FISH) == expected  # a byte of padding
    assert n_refused > 50


@pytest.mark.parametrize(
    ("entry", "value"),
    [("hidden", 9), ("hidden", -1), ("hidden", "8"), ("encoder", "attention"), ("n_words", 1),
     ("n_labels", 4), ("widths", [2]), ("widths", 3), ("characters", "rnn"), ("layers", 0.5)],
)  # fmt: skip
def test_a_definition_that_does_not_fit(tagger, entry, value):
    file = tagger._whole_file()
    header = json.loads(json.dumps(file.header))
    header["network"][entry] = value
    from tagloom import storage

    data = storage.to_bytes(header, file.arrays)
    with pytest.raises(ModelFileError):
        tl.load(data)


def test_nan_in_a_file(tagger):
    from tagloom import storage

    file = tagger._whole_file()
    arrays = dict(file.arrays)
    arrays["network.output.bias"] = np.full_like(arrays["network.output.bias"], np.nan)
    with raises(ModelFileError, message="output.bias"):
        tl.load(storage.to_bytes(file.header, arrays))


@pytest.mark.parametrize("features", ["auto", "none"])
def test_train_and_tag_by_the_command_line(features, tmp_path):
    train = tmp_path / "train.conll"
    rows = zip(FISH, LABELS, strict=True)
    train.write_text("".join("".join(f"{w}\t{y}\n" for w, y in zip(*r)) + "\n" for r in rows))  # noqa: B905
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("".join(f"{w} {a} {b}\n" for w, (a, b) in VECTORS.items()))
    model = tmp_path / "model.tagloom"
    options = ["--hidden", "8", "--max-iterations", "30", "--eta", "0.02", "--batch-tokens", "12"]
    options += ["--features", features]
    command = [sys.executable, "-m", "tagloom", "train", "neural", str(train), "-o", str(model)]
    command += [*options, "--vectors", str(vectors), "--tune-vectors", "both", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["model"] == "NeuralTagger"
    tagger = tl.load(model)
    assert tagger.predict(FISH[:2]) == LABELS[:2]
    assert (tagger.scores_.rows.n_attributes == 0) == (features == "none")


def test_vectors_beside_the_model_on_the_command_line(tmp_path):
    """A small file with the vectors of training, and the others in a file of their own."""
    options = {**ALONE, "word_size": 0, "vectors": VECTORS}
    whole = tl.NeuralTagger(**options).fit(FISH, LABELS)
    small = tl.NeuralTagger(keep_vectors="seen", **options).fit(FISH, LABELS)
    small.save(tmp_path / "small")
    Vectors(VECTORS.keys(), [*VECTORS.values()]).save(tmp_path / "vectors")
    X = [["we", "can", "fish"], ["we", "of", "we"]]
    text = "".join(" ".join(row) + "\n" for row in X)

    def tag(model, *more):
        command = [sys.executable, "-m", "tagloom", "tag", str(model), "--format", "text", *more]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False)

    beside = ["--vectors", str(tmp_path / "vectors"), "--nbest", "1"]
    done = tag(tmp_path / "small", *beside)
    assert done.returncode == 0, done.stderr
    found = [float(line.split()[-1]) for line in done.stdout.splitlines() if line[:1] == "#"]
    expected = [best[0].prob for best in whole.predict_nbest(X, 1)]
    np.testing.assert_allclose(found, expected, atol=1e-3)
    without = [best[0].prob for best in small.predict_nbest(X, 1)]
    assert not np.allclose(found, without, atol=1e-3)
    tl.CRF("words", max_iterations=1).fit(FISH, LABELS).save(tmp_path / "crf")
    done = tag(tmp_path / "crf", *beside)
    assert done.returncode == 2
    assert "--vectors does not apply to CRF" in done.stderr
