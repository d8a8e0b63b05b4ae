"""Native layers against those of torch and autograd, for every instruction set."""

import copy
import itertools

import numpy as np
import pytest

from plain_networks import forward

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402

import tagloom as tl  # noqa: E402
from tagloom import _native  # noqa: E402
from tagloom.neural import native  # noqa: E402
from tagloom.neural.modules import Batch, CharacterCNN, Network  # noqa: E402
from tagloom.scores.networks import END, Inputs, NetworkSpec  # noqa: E402

pytestmark = pytest.mark.peers
INSTRUCTION_SETS = tl.trellis.instruction_sets()
CELLS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


def random_offsets(rng, N, longest):
    lengths = rng.integers(0, longest + 1, N)
    lengths[0] = longest
    return np.concatenate([[0], lengths.cumsum()]).astype(np.int64)


def by_torch(module, x, offsets, h0, c0):
    """One sequence after another through torch's module."""
    out = []
    for begin, end in itertools.pairwise(offsets):
        if begin == end:
            continue
        state = h0[:, None].contiguous()
        if c0 is not None:
            state = state, c0[:, None].contiguous()
        out.append(module(x[begin:end, None], state)[0][:, 0])
    return torch.cat(out)


@pytest.mark.parametrize("isa", INSTRUCTION_SETS)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(
    ("layers", "bidirectional", "D", "H"), [(1, True, 7, 5), (2, True, 33, 17), (1, False, 300, 24)]
)
def test_recurrent_layers_equal_torch(isa, cell, layers, bidirectional, D, H):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    module = CELLS[cell](D, H, layers, bidirectional=bidirectional)
    directions = 2 if bidirectional else 1
    offsets = random_offsets(rng, 9, 13)
    x = torch.randn(int(offsets[-1]), D, requires_grad=True)
    h0 = torch.randn(layers * directions, H, requires_grad=True)
    c0 = torch.randn(layers * directions, H, requires_grad=True) if cell == "lstm" else None
    weight = torch.randn(int(offsets[-1]), directions * H)
    inputs = [x, h0, *([] if c0 is None else [c0]), *module.parameters()]
    expected = by_torch(module, x, offsets, h0, c0)
    with tl.trellis.use_instruction_set(isa):
        assert native.supports(module, x)
        found = native.recurrent(module, x, offsets, h0, c0)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=2e-6)
        a = torch.autograd.grad((found * weight).sum(), inputs)
    b = torch.autograd.grad((expected * weight).sum(), inputs)
    for ours, theirs in zip(a, b, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("isa", INSTRUCTION_SETS)
def test_character_convolutions_equal_torch(isa):
    torch.manual_seed(0)
    rng = np.random.default_rng(1)
    spec = NetworkSpec(
        2, characters="cnn", n_characters=20, character_size=6, character_units=13, widths=(3, 5)
    )
    module = CharacterCNN(spec)
    offsets = random_offsets(rng, 30, 9)
    offsets = offsets[np.concatenate([[True], np.diff(offsets) > 0])]  # torch has no empty maximum
    characters = torch.from_numpy(rng.integers(1, 20, int(offsets[-1])))
    reference = copy.deepcopy(module).double()  # in torch: the native core has only float32
    expected = reference(characters, offsets)
    weight = torch.randn(expected.shape)
    with tl.trellis.use_instruction_set(isa):
        found = native.character_convolutions(
            module.table.weight, module.convolutions, characters, offsets
        )
        torch.testing.assert_close(found, expected.float(), rtol=1e-5, atol=1e-6)
        a = torch.autograd.grad((found * weight).sum(), list(module.parameters()))
    b = torch.autograd.grad((expected * weight).sum(), list(reference.parameters()))
    for ours, theirs in zip(a, b, strict=True):
        torch.testing.assert_close(ours, theirs.float(), rtol=1e-4, atol=1e-5)


def test_dropout():
    x = torch.ones(1000, 100, requires_grad=True)
    masks = []
    for isa in INSTRUCTION_SETS:
        with tl.trellis.use_instruction_set(isa):
            masks.append(native.dropout(x, 0.3, seed=5))
    assert all(mask.equal(masks[0]) for mask in masks)
    kept = masks[0] != 0
    assert (masks[0][kept] == torch.tensor(1.0) / (torch.tensor(1.0) - torch.tensor(0.3))).all()
    assert kept.float().mean().item() == pytest.approx(0.7, abs=5 * (0.21 / 1e5) ** 0.5)
    other = native.dropout(x, 0.3, seed=6) != 0
    assert (kept == other).float().mean().item() == pytest.approx(0.58, abs=0.01)
    # neighbours and rows are independent
    k = kept.float() - 0.7
    assert abs((k[:, 1:] * k[:, :-1]).mean().item()) < 0.005
    assert abs((k[1:] * k[:-1]).mean().item()) < 0.005
    (grad,) = torch.autograd.grad(masks[0].sum(), x)
    assert grad.equal(masks[0].detach())
    assert native.dropout(x, 0.0, 1) is x


def test_threads_do_not_change_the_result():
    torch.manual_seed(0)
    module = nn.LSTM(40, 32, 2, bidirectional=True, dropout=0.5)
    offsets = random_offsets(np.random.default_rng(0), 60, 20)
    x = torch.randn(int(offsets[-1]), 40, requires_grad=True)
    before, results = torch.get_num_threads(), []
    try:
        for n in (1, 2):
            torch.set_num_threads(n)
            out = native.recurrent(module, x, offsets, seed=3)
            results.append((out, *torch.autograd.grad(out.sum(), [x, *module.parameters()])))
    finally:
        torch.set_num_threads(before)
    assert all(a.equal(b) for a, b in zip(*results, strict=True))


# ---- whole networks -----------------------------------------------------------------------------

SPECS = {
    "bilstm, characters cnn, all vectors": {
        "n_vectors": 8,
        "vector_size": 5,
        "is_tuned": True,
        "characters": "cnn",
        "widths": (3, 5),
    },
    "two layers, characters lstm": {"layers": 2, "characters": "lstm", "hidden": 33},
    "lstm": {"is_bidirectional": False, "layers": 3},
    "gru": {"encoder": "gru", "characters": "cnn", "widths": (3,), "layers": 2},
    "rnn": {"encoder": "rnn"},
    "cnn": {"encoder": "cnn", "layers": 3, "characters": "cnn"},
    "characters alone": {"n_words": 0, "word_size": 0, "characters": "cnn"},
}


def network(name, **changes):
    options = {"n_words": 12, "word_size": 9, "hidden": 16, **SPECS[name], **changes}
    if "characters" in options:
        options |= {"n_characters": 15, "character_size": 6, "character_units": 7}
    spec = NetworkSpec(5, **options)
    torch.manual_seed(0)
    module = Network(spec).eval()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return spec, module


def random_inputs(spec, rng, N, longest, U=11):
    offsets = random_offsets(rng, N, longest)
    lengths = rng.integers(2, 9, U)
    begins = np.concatenate([[0], lengths.cumsum()]).astype(np.int64)
    return Inputs(
        offsets,
        rng.integers(0, U, offsets[-1]).astype(np.int32),
        rng.integers(0, max(spec.n_words, 1), U).astype(np.int32),
        rng.integers(0, max(spec.n_vectors, 1), U).astype(np.int32),
        begins,
        rng.integers(END, max(spec.n_characters, END + 1), begins[-1]).astype(np.int32),
    )


def emit(native_network, spec, inputs, threads=1):
    out = np.empty((len(inputs.types), spec.n_labels), np.float32)
    native_network.emit(
        inputs.offsets,
        inputs.types,
        inputs.words,
        inputs.vectors,
        inputs.character_offsets,
        inputs.characters,
        threads,
        out,
    )
    return out


@pytest.mark.parametrize("isa", INSTRUCTION_SETS)
@pytest.mark.parametrize("name", SPECS)
def test_networks_equal_torch_and_numpy(isa, name):
    spec, module = network(name)
    arrays = module.arrays()
    reference = copy.deepcopy(module).double()  # in torch: the native core has only float32
    with tl.trellis.use_instruction_set(isa):
        net = _native.Network(spec.to_dict(), arrays)
        for seed in range(3):
            inputs = random_inputs(spec, np.random.default_rng(seed), 70, 19)
            with torch.no_grad():
                expected = reference(Batch.of(inputs)).numpy()
                layers = module(Batch.of(inputs)).numpy()
            found = emit(net, spec, inputs)
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5)
            np.testing.assert_allclose(layers, expected, rtol=1e-4, atol=2e-5)
            np.testing.assert_allclose(found, forward(spec, arrays, inputs), rtol=1e-4, atol=2e-5)
            assert np.array_equal(found, emit(net, spec, inputs, threads=2))
            # each sentence alone, from the cache, to the bit
            for i in range(0, 70, 23):
                tokens = slice(inputs.offsets[i], inputs.offsets[i + 1])
                one = inputs._replace(
                    offsets=np.array([0, tokens.stop - tokens.start]),
                    types=np.ascontiguousarray(inputs.types[tokens]),
                )
                assert np.array_equal(emit(net, spec, one), found[tokens])
        assert 0 < net.cached_types <= 33


def test_networks_refuse_wrong_arrays_and_ids():
    spec, module = network("lstm")
    arrays = module.arrays()
    with pytest.raises(ValueError, match="h0"):
        _native.Network(spec.to_dict(), {k: v for k, v in arrays.items() if k != "h0"})
    with pytest.raises(ValueError, match="h0"):
        _native.Network(spec.to_dict(), {**arrays, "h0": np.zeros((2, 2), np.float32)})
    net = _native.Network(spec.to_dict(), arrays)
    inputs = random_inputs(spec, np.random.default_rng(0), 3, 4)
    for change in (
        {"types": inputs.types + 11},
        {"words": inputs.words - 100},
        {"offsets": inputs.offsets[:-1]},
    ):
        with pytest.raises(ValueError, match="must"):
            emit(net, spec, inputs._replace(**change))


def test_long_sentences():
    spec, module = network("two layers, characters lstm")
    net = _native.Network(spec.to_dict(), module.arrays())
    rng = np.random.default_rng(0)
    inputs = random_inputs(spec, rng, 1, 100_000)
    found = emit(net, spec, inputs)
    assert np.isfinite(found).all()
    # the middle does not depend on what is far away
    part = inputs._replace(
        offsets=np.array([0, 2000]), types=np.ascontiguousarray(inputs.types[49_000:51_000])
    )
    np.testing.assert_allclose(emit(net, spec, part)[900:1100], found[49_900:50_100], atol=1e-4)


def test_the_cache_is_shared_between_threads():
    from concurrent.futures import ThreadPoolExecutor

    spec, module = network("gru")
    batches = [random_inputs(spec, np.random.default_rng(k % 7), 10, 9) for k in range(60)]
    expected = [emit(_native.Network(spec.to_dict(), module.arrays()), spec, b) for b in batches]
    net = _native.Network(spec.to_dict(), module.arrays())
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda b: emit(net, spec, b), batches))
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
