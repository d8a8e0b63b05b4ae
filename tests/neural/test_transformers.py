"""Transformers from a folder: equal to torch's own layers, trained, saved, windowed, refused."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
tokenizers = pytest.importorskip("tokenizers")
pytestmark = pytest.mark.peers

from safetensors.numpy import save_file  # noqa: E402

import tagloom as tl  # noqa: E402
from raising import raises  # noqa: E402
from tagloom import storage  # noqa: E402
from tagloom.errors import ModelFileError, ParameterError  # noqa: E402
from tagloom.neural import transformers  # noqa: E402
from tagloom.neural.heads import Gold, Head  # noqa: E402
from tagloom.neural.modules import Batch  # noqa: E402

FISH = [["They", "can", "fish"], ["can", "of", "fishing"]] * 4
LABELS = [["N", "V", "V"], ["N", "P", "N"]] * 4
CONFIG = {
    "model_type": "bert", "vocab_size": 24, "hidden_size": 8, "num_hidden_layers": 2,
    "num_attention_heads": 2, "intermediate_size": 12, "max_position_embeddings": 80,
    "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu",
}  # fmt: skip
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "they", "can", "fish", "of", "##ing", "w", "##o"]


def weights(prefix=""):
    rng = np.random.default_rng(0)
    with torch.device("meta"):
        spec = transformers.TransformerSpec(3, 24, 8, 2, 2, 12, 80, 2, 1e-12, 0, 2, 3, 1, True)
        shapes = {k: tuple(v.shape) for k, v in transformers.Transformer(spec).state_dict().items()}
    return {
        prefix + transformers._their_name(name): rng.normal(0, 0.3, shape).astype(np.float32)
        for name, shape in shapes.items()
        if not name.startswith(("case.", "output."))
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("bert")
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({p: i for i, p in enumerate(PIECES)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.save(str(path / "tokenizer.json"))
    (path / "config.json").write_text(json.dumps(CONFIG))
    save_file(weights(), path / "model.safetensors")
    return path


def test_layers_are_those_of_torch(folder):
    spec, pieces, arrays = transformers.read_transformer(folder, 3)
    assert spec.ignores_case
    module = transformers.Transformer(spec).eval()
    module.set_arrays({**module.arrays(), **arrays})
    inputs = pieces.encode([["They", "fishing"], ["of"]], spec.unknown)
    assert inputs.characters.tolist() == [4, 6, 8, 7]
    assert inputs.words.tolist() == [2, 0, 0]
    stored = weights()
    x = stored["embeddings.word_embeddings.weight"][[2, 4, 6, 8, 3]]
    x = x + stored["embeddings.position_embeddings.weight"][:5]
    x = torch.from_numpy(x + stored["embeddings.token_type_embeddings.weight"][0])
    norm = (torch.from_numpy(stored[f"embeddings.LayerNorm.{k}"]) for k in ("weight", "bias"))
    x = torch.nn.functional.layer_norm(x, (8,), *norm, eps=1e-12)[None]
    for k in range(2):
        layer = torch.nn.TransformerEncoderLayer(
            8, 2, 12, 0.0, "gelu", layer_norm_eps=1e-12, batch_first=True
        )

        def get(part, kind, k=k):
            return torch.from_numpy(stored[f"encoder.layer.{k}.{transformers._PARTS[part]}.{kind}"])

        state = {
            f"self_attn.in_proj_{kind}": torch.cat(
                [get(p, kind) for p in ("query", "key", "value")]
            )
            for kind in ("weight", "bias")
        }
        names = {"self_attn.out_proj": "mixed", "norm1": "after_attention", "linear1": "widen"}
        names |= {"linear2": "narrow", "norm2": "after_all"}
        for theirs, ours in names.items():
            state |= {f"{theirs}.{kind}": get(ours, kind) for kind in ("weight", "bias")}
        layer.load_state_dict(state)
        x = layer(x)
    vectors = x[0, 1:4].detach()
    with torch.no_grad():
        token_offsets, pieces_of_words = module.piece_vectors(Batch.of(inputs))
        assert token_offsets.tolist() == [0, 1, 3, 4]
        found = module._encode(pieces_of_words, token_offsets, inputs.offsets)
        np.testing.assert_allclose(found[:3], vectors, atol=1e-5)
        first_last = torch.cat([vectors[[0, 1]], vectors[[0, 2]], module.case.weight[[2, 0]]], 1)
        expected = module.output(first_last)
        np.testing.assert_allclose(module(Batch.of(inputs))[:2], expected, atol=1e-5)


def test_words_of_byte_level_tokenizers_follow_a_space():
    """As in running text: RoBERTa has other pieces for a word without a space before it."""
    bytes_of = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    whole = {piece: k for k, piece in enumerate(["<s>", "</s>", "<unk>", *sorted(bytes_of)])}
    merges = [("o", "f"), ("Ġ", "of")]
    for merge in merges:
        whole["".join(merge)] = len(whole)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(whole, merges))
    before = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    for stage in (before, tokenizers.pre_tokenizers.Sequence([before])):
        tokenizer.pre_tokenizer = stage
        pieces = transformers.Pieces(tokenizer.to_str()).after_space()
        assert pieces.cut(["of", "of"], 2) == [[whole["Ġof"]]] * 2
        assert tokenizer.encode("a of").ids[-1:] == [whole["Ġof"]]
        again = transformers.Pieces(pieces.text)  # as a saved tagger has it
        assert again.cut(["of"], 2) == [[whole["Ġof"]]]
        assert not pieces.ignores_case


def test_train_save_and_load(folder, tmp_path):
    tagger = tl.NeuralTagger(
        encoder="transformer", transformer=folder, max_iterations=20, eta=0.005, batch_tokens=12
    )
    tagger.fit(FISH, LABELS)
    assert tagger.predict(FISH[:2]) == LABELS[:2]
    tagger.save(tmp_path / "model")
    loaded = tl.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.trellis(FISH).emit, tagger.trellis(FISH).emit)
    (labels,) = loaded.predict([["can", "of", "fish", "", "wo"] * 300])  # several windows
    assert len(labels) == 1500
    batch = np.concatenate([loaded.trellis([x]).emit for x in FISH[:2]])
    np.testing.assert_allclose(loaded.trellis(FISH[:2]).emit, batch, atol=1e-4)
    explanation = loaded.explain(FISH[1])
    assert explanation.labels == tuple(LABELS[1])
    names = [reason.name for reason in explanation[0].reasons]
    assert any(name.startswith("network, word[2]=fishing (approximate)") for name in names)
    assert sum(r.value for r in explanation[0].reasons) == pytest.approx(
        explanation[0].margin, abs=1e-6
    )


@pytest.mark.parametrize("labels", [["X", "Y"], ["B-X", "O"]])
@pytest.mark.parametrize("features", ["auto", "ner"])
def test_spans_are_left_to_the_transformer(folder, labels, features):
    options = {"encoder": "transformer", "transformer": folder, "max_iterations": 1}
    tagger = tl.NeuralTagger(features, **options).fit([["They", "fish"]], [labels])
    has_features = features == "ner" or labels == ["X", "Y"]
    assert bool(tagger.scores_.rows.n_attributes) == has_features


@pytest.mark.parametrize(("sentences", "epochs"), [(10, 6), (68, 4), (200, 2)])
def test_small_corpora_need_more_epochs(folder, sentences, epochs):
    """800 batches, here of one token, but 2 to 6 epochs."""
    tagger = tl.NeuralTagger(encoder="transformer", transformer=folder, batch_tokens=1)
    data = tagger.read_data([FISH[0]] * sentences, [LABELS[0]] * sentences, None)
    assert tagger.limits_for(data)[0] == epochs


def test_sentences_of_a_batch_have_similar_numbers_of_pieces(folder):
    """Words of one piece, or of five: batches have little padding."""
    tagger = tl.NeuralTagger(None, encoder="transformer", transformer=folder, batch_tokens=32)
    sentences = [["they"] * n for n in range(1, 31)] + [["woooo"] * n for n in range(1, 31)]
    labels = [["A", "B"] * 15] * len(sentences)
    labels = [row[: len(words)] for row, words in zip(labels, sentences, strict=True)]
    data = tagger.read_data(sentences, labels, None)
    examples = tagger.make_learner(data).examples
    assert examples.widths.tolist() == [*range(1, 31), *range(5, 151, 5)]
    n_padded = 0
    for batch in examples.batches(32, np.random.default_rng(0)):
        assert sum(len(sentences[i]) for i in batch) <= 32
        n_padded += examples.widths[batch].max() * len(batch)
    assert n_padded < 1.2 * examples.widths.sum()


def test_batches_of_mixed_length_are_those_of_single_sentences(folder):
    """Scores and gradients; one sentence is empty, and one takes several windows."""
    spec, pieces, arrays = transformers.read_transformer(folder, 3)
    torch.manual_seed(0)
    module = transformers.Transformer(spec).double().eval()
    module.set_arrays({**module.arrays(), **arrays})
    sentences = [["can", "of", "fishing"] * 40, [], ["They"], ["fishing", "of", "wo", "can"]]

    def scores_and_gradients(parts):
        batches = [Batch.of(pieces.encode(part, spec.unknown)) for part in parts]
        scores = torch.cat([module(batch) for batch in batches])
        learned = [p for p in module.parameters() if p.requires_grad]
        return [scores, *torch.autograd.grad(scores.square().sum(), learned)]

    together = scores_and_gradients([sentences])
    alone = scores_and_gradients([[sentence] for sentence in sentences])
    assert len(together[0]) == 125
    for a, b in zip(together, alone, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_windows_cover_every_piece_once_with_context():
    for n in (0, 1, 77, 78, 79, 200, 1000):
        windows = transformers.cut_windows(np.array([0, 5, 5 + n]), 78)
        used = [(first, last) for _, _, first, last in windows]
        assert [i for a, b in used for i in range(a, b)] == [*range(5 + n)]
        for begin, end, first, last in windows:
            assert end - begin <= 78
            lower, upper = (0, 5) if begin < 5 else (5, 5 + n)
            assert begin == lower or first - begin >= 32
            assert end == upper or end - last >= 32


def test_a_folder_is_found_in_a_package(folder, tmp_path, monkeypatch):
    package = tmp_path / "some_model"
    (package / "weights").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (package / "weights" / name).write_bytes((folder / name).read_bytes())
    monkeypatch.syspath_prepend(tmp_path)
    assert transformers.find_folder("some_model") == package / "weights"
    assert transformers.find_folder(package) == package / "weights"
    with raises(ParameterError, parameter="transformer", found="'nowhere'"):
        transformers.find_folder("nowhere")


def test_damaged_folders(folder, tmp_path):
    def copy(**changed):
        for name in ("config.json", "tokenizer.json", "model.safetensors"):
            (tmp_path / name).write_bytes(
                changed.get(name.split(".")[0], (folder / name).read_bytes())
            )

    def refused():
        with pytest.raises(ModelFileError) as caught:
            transformers.read_transformer(tmp_path, 3)
        return str(caught.value)

    copy(config=b"{")
    assert "JSON" in refused()
    copy(config=json.dumps(CONFIG | {"model_type": "gpt2"}).encode())
    assert "gpt2" in refused()
    copy(config=json.dumps(CONFIG | {"hidden_size": 6}).encode())
    assert "shape" in refused()
    copy(config=json.dumps(CONFIG | {"num_attention_heads": 3}).encode())
    assert "fit together" in refused()
    copy(tokenizer=b"{}")
    assert "tokenizer" in refused()
    data = (folder / "model.safetensors").read_bytes()
    for bad in (b"", data[:4], data[:300], b"\xff" * 8 + data[8:], data[:-4]):
        copy(model=bad)
        assert "safetensors" in refused()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    name = next(k for k in header if k != "__metadata__")
    header[name]["data_offsets"] = [0, 1 << 40]
    text = json.dumps(header).encode()
    copy(model=len(text).to_bytes(8, "little") + text + data[8 + size :])
    assert name in refused()


def test_half_precision_files(folder, tmp_path):
    array = np.array([[1.5, -2.0]], np.float32)
    header = {}
    body = b""
    for name, dtype, data in (
        ("a", "F16", array.astype("<f2").tobytes()),
        ("b", "BF16", (array.view(np.uint32) >> 16).astype("<u2").tobytes()),
        ("c", "F64", array.astype("<f8").tobytes()),
    ):
        header[name] = {
            "dtype": dtype,
            "shape": [1, 2],
            "data_offsets": [len(body), len(body) + len(data)],
        }
        body += data
    text = json.dumps(header).encode()
    (tmp_path / "x").write_bytes(len(text).to_bytes(8, "little") + text + body)
    for read in transformers.read_safetensors(tmp_path / "x").values():
        np.testing.assert_array_equal(read.astype(np.float32), array)


def test_long_documents_are_read_in_groups_of_windows(folder, monkeypatch):
    """Scores and gradients do not depend on the size of a group, nor does dropout."""
    spec, pieces, arrays = transformers.read_transformer(folder, 3)
    torch.manual_seed(0)
    module = transformers.Transformer(spec, dropout=0.3).double()
    module.set_arrays({**module.arrays(), **arrays})
    batch = Batch.of(pieces.encode([["can", "of", "fishing"] * 200, ["They"]], spec.unknown))
    read, sizes = module._encode_windows, []

    def counted(x, windows):
        sizes.append(len(windows))
        return read(x, windows)

    monkeypatch.setattr(module, "_encode_windows", counted)

    def scores_and_gradients(most):
        monkeypatch.setattr(transformers, "_BATCH", most)
        sizes.clear()
        torch.manual_seed(1)
        scores = module(batch)
        learned = [p for p in module.parameters() if p.requires_grad]
        return [scores, *torch.autograd.grad(scores.square().sum(), learned)]

    module.eval()
    whole = scores_and_gradients(1 << 20)
    assert len(sizes) == 1
    (n_windows,) = sizes
    for a, b in zip(scores_and_gradients(200), whole, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
    assert max(sizes) == 2
    assert sum(sizes) == 2 * n_windows  # once more for the gradient
    with torch.no_grad():
        torch.testing.assert_close(module(batch), whole[0], rtol=1e-9, atol=1e-9)
    module.train()
    for a, b in zip(scores_and_gradients(200), scores_and_gradients(200), strict=True):
        assert a.equal(b)


@pytest.mark.parametrize("head", ["crf", "softmax"])
def test_gradients_are_finite_differences(folder, head):
    spec, pieces, arrays = transformers.read_transformer(folder, 3)
    torch.manual_seed(0)
    module = transformers.Transformer(spec).double().eval()
    module.set_arrays({**module.arrays(), **arrays})
    loss_of = Head(head, 3).double()
    inputs = pieces.encode([["They", "can", "fishing"], ["of"]], spec.unknown)
    batch = Batch.of(inputs)
    gold = Gold(inputs.offsets, np.eye(3, dtype=np.bool_)[[0, 1, 1, 2]], np.ones(2))
    parameters = [p for p in module.parameters() if p.requires_grad]
    grads = torch.autograd.grad(loss_of.loss(module(batch), gold), parameters)
    with torch.no_grad():
        for parameter, grad in zip(parameters, grads, strict=True):
            direction, step = torch.randn_like(parameter), 1e-6
            parameter.add_(direction, alpha=step)
            above = loss_of.loss(module(batch), gold).item()
            parameter.add_(direction, alpha=-2 * step)
            below = loss_of.loss(module(batch), gold).item()
            parameter.add_(direction, alpha=step)
            slope = (above - below) / (2 * step)
            assert slope == pytest.approx((grad * direction).sum().item(), rel=1e-5, abs=1e-6)


def test_damaged_definitions_of_saved_taggers(folder):
    options = {"encoder": "transformer", "transformer": folder, "max_iterations": 1}
    file = tl.NeuralTagger(None, head="softmax", **options).fit(FISH, LABELS)._whole_file()
    for name, value in (
        ("layers", 3), ("layers", 1 << 23), ("size", 9), ("attention_heads", 0), ("positions", 2),
        ("n_labels", 4), ("begin", 24), ("epsilon", "0"), ("ignores_case", False),
    ):  # fmt: skip
        header = json.loads(json.dumps(file.header))
        header["network"][name] = value
        with pytest.raises(ModelFileError):
            tl.load(storage.to_bytes(header, file.arrays))
    arrays = dict(file.arrays)
    arrays["network.tokenizer"] = storage.pack_strings(["{}"])
    with pytest.raises(ModelFileError):
        tl.load(storage.to_bytes(file.header, arrays)).predict(FISH)
