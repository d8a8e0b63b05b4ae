"""The CRF layer against pytorch-crf, torch-struct, enumeration and finite differences."""

import itertools
import math
import pickle
import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import tagloom as tl  # noqa: E402
from tagloom.errors import InfeasibleError, LabelError, ParameterError, ShapeError  # noqa: E402
from tagloom.torch import CRF, losses, sums  # noqa: E402

pytestmark = pytest.mark.peers
BACKENDS = ["native", "torch"]
NAMES = ["B-LOC", "B-PER", "I-LOC", "I-PER", "O"]


def random_batch(B, L, Y, seed=0, dtype=torch.float64, holes=False):
    g = torch.Generator().manual_seed(seed)
    emissions = torch.randn(B, L, Y, generator=g, dtype=torch.float64).to(dtype)
    tags = torch.randint(Y, (B, L), generator=g)
    lengths = torch.randint(1, L + 1, (B,), generator=g)
    mask = torch.arange(L) < lengths[:, None]
    if holes:
        mask = torch.rand(B, L, generator=g) < 0.6
    return emissions, tags, mask


def layer(Y, backend="native", dtype=torch.float64, seed=1, **options):
    torch.manual_seed(seed)
    crf = CRF(Y, batch_first=True, backend=backend, **options).double()
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter)
    return crf.to(dtype)


def gradients(crf, emissions, value):
    inputs = [emissions, *crf.parameters()]
    return torch.autograd.grad(value, inputs)


def enumerated(crf, emissions, allowed=None, edge=None):
    """log Σ exp(score) of one sequence [T, Y] over all label paths, or over the allowed ones."""
    T, Y = emissions.shape
    scores = []
    for path in itertools.product(range(Y), repeat=T):
        if allowed is not None and not all(allowed[t, y] for t, y in enumerate(path)):
            continue
        if not crf.states.accepts(path):
            continue
        score = sum(emissions[t, y] for t, y in enumerate(path))
        for t, (a, b) in enumerate(itertools.pairwise(path), start=1):
            score = score + crf.transitions[a, b] + (0 if edge is None else edge[t, a, b])
        if crf.start_transitions is not None:
            score = score + crf.start_transitions[path[0]] + crf.end_transitions[path[-1]]
        if crf.weights is not None:
            groups = crf.states.unpack(np.arange(len(crf.weights)))
            for n in range(3, 3 + len(groups)):
                for i in range(T - n + 1):
                    score = score + crf.weights[int(groups[f"ngram{n}"][path[i : i + n]])]
        scores.append(score)
    if not scores:
        return emissions.new_tensor(-math.inf)
    return torch.logsumexp(torch.stack(scores), 0)


# ---- the interface of pytorch-crf ---------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:where received a uint8 condition:UserWarning")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean", "token_mean"])
def test_equals_pytorch_crf(backend, batch_first, reduction):
    torchcrf = pytest.importorskip("torchcrf")
    torch.manual_seed(3)
    peer = torchcrf.CRF(7, batch_first=batch_first)
    torch.manual_seed(3)
    crf = CRF(7, batch_first=batch_first, backend=backend)
    assert list(crf.state_dict()) == list(peer.state_dict())
    for name, value in peer.state_dict().items():  # the same numbers from the same seed
        assert torch.equal(crf.state_dict()[name], value)
    for parameter in peer.parameters():
        torch.nn.init.normal_(parameter)
    crf.load_state_dict(peer.state_dict())
    for seed in range(4):
        emissions, tags, mask = random_batch(9, 11, 7, seed, torch.float32)
        if not batch_first:
            emissions, tags, mask = (
                x.transpose(0, 1).contiguous() for x in (emissions, tags, mask)
            )
        found = []
        for module in (peer, crf):
            x = emissions.clone().requires_grad_()
            value = module(x, tags, mask, reduction=reduction)
            weight = torch.arange(1.0, value.numel() + 1).reshape(value.shape)
            parameters = [p for _, p in sorted(module.named_parameters())]
            found.append((value, *torch.autograd.grad((value * weight).sum(), [x, *parameters])))
        for ours, theirs in zip(found[1], found[0], strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=2e-5)
        assert crf.decode(emissions, mask) == peer.decode(emissions, mask)
        assert crf.decode(emissions) == peer.decode(emissions)
    torch.testing.assert_close(crf(emissions, tags), peer(emissions, tags), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(  # masks of bytes, as old programs have them
        crf(emissions, tags, mask.byte()), crf(emissions, tags, mask), rtol=0, atol=0
    )


@pytest.mark.filterwarnings("ignore:.*does not define `arg_constraints`:UserWarning")
@pytest.mark.parametrize("backend", BACKENDS)
def test_equals_torch_struct(backend):
    struct = pytest.importorskip("torch_struct")
    crf = layer(4, backend, boundaries=False)
    emissions, _, mask = random_batch(3, 5, 4)
    lengths = mask.sum(1)
    # [B, L - 1, to, from], the first position's scores with those of the second
    potentials = emissions[:, 1:, :, None] + crf.transitions.t()[None, None]
    potentials[:, 0] += emissions[:, 0, None, :]
    keep = lengths > 1
    peer = struct.LinearChainCRF(potentials[keep], lengths=lengths[keep])
    expected = peer.partition
    found = crf.log_partition(emissions[keep], mask[keep])
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(
        crf.entropy(emissions[keep], mask[keep]), peer.entropy, rtol=1e-6, atol=1e-6
    )


# ---- against enumeration ------------------------------------------------------------------------

CONFIGURATIONS = {
    "first order": {},
    "no boundaries": {"boundaries": False},
    "bio": {"labels": NAMES, "constraints": "bio"},
    "order 2": {"order": 2},
    "order 3 and bio": {"order": 3, "labels": NAMES, "constraints": "bio"},
    "banned transitions": {"constraints": ~np.eye(5, dtype=bool)},
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("with_edge", [False, True])
def test_equals_enumeration(backend, name, with_edge):
    crf = layer(5, backend, **CONFIGURATIONS[name])
    g = torch.Generator().manual_seed(5)
    emissions = torch.randn(4, 4, 5, dtype=torch.float64, generator=g).requires_grad_()
    edge = torch.randn(4, 4, 5, 5, dtype=torch.float64, generator=g) if with_edge else None
    mask = torch.tensor([[1, 1, 1, 0], [1, 0, 1, 1], [0, 1, 0, 0], [0, 0, 0, 0]]).bool()
    allowed = torch.rand(4, 4, 5, generator=g) < 0.7
    allowed[..., 4] = True  # "O" is always legal
    log_z, llh = [], []
    for b in range(4):
        rows = mask[b].nonzero().squeeze(1)
        if len(rows) == 0:
            log_z.append(emissions.new_zeros(()))
            llh.append(emissions.new_zeros(()))
            continue
        moves = None if edge is None else edge[b, rows]
        log_z.append(enumerated(crf, emissions[b, rows], edge=moves))
        llh.append(enumerated(crf, emissions[b, rows], allowed[b, rows], moves) - log_z[-1])
    expected_z, expected = torch.stack(log_z), torch.stack(llh)
    found_z = crf.log_partition(emissions, mask, edge=edge)
    torch.testing.assert_close(found_z, expected_z, rtol=1e-10, atol=1e-10)
    weight = torch.tensor([1.0, -2.0, 3.0, 1.0], dtype=torch.float64)
    for ours, theirs in (
        (found_z, expected_z),
        (crf(emissions, allowed, mask, "none", edge=edge), expected),
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
        inputs = [emissions, *crf.parameters()]
        a = torch.autograd.grad((ours * weight).sum(), inputs, retain_graph=True, allow_unused=True)
        b = torch.autograd.grad(
            (theirs * weight).sum(), inputs, retain_graph=True, allow_unused=True
        )
        for x, y in zip(a, b, strict=True):
            torch.testing.assert_close(
                x, torch.zeros_like(x) if y is None else y, rtol=1e-8, atol=1e-8
            )
    total = crf(emissions, allowed, mask, "mean", edge=edge)
    torch.testing.assert_close(total, expected.mean(), rtol=1e-9, atol=1e-9)
    for x, y in zip(
        gradients(crf, emissions, total), gradients(crf, emissions, expected.mean()), strict=True
    ):
        torch.testing.assert_close(x, y, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("backend", BACKENDS)
def test_unknown_tags_are_sets_of_all_labels(backend):
    crf = layer(4, backend)
    emissions, tags, mask = random_batch(6, 7, 4, holes=True)
    tags[torch.rand(6, 7, generator=torch.Generator().manual_seed(0)) < 0.4] = -100
    allowed = torch.nn.functional.one_hot(tags.clamp(min=0), 4).bool() | (tags == -100)[..., None]
    found, expected = crf(emissions, tags, mask), crf(emissions, allowed, mask)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("holes", [False, True])
def test_gradients_equal_finite_differences(backend, holes):
    crf = layer(3, backend)
    emissions, tags, mask = random_batch(3, 4, 3, holes=holes)
    emissions.requires_grad_()

    def value(x, start, stop, trans):
        parameters = {"start_transitions": start, "end_transitions": stop, "transitions": trans}
        return torch.func.functional_call(crf, parameters, (x, tags, mask, "none"))

    inputs = (emissions, crf.start_transitions, crf.end_transitions, crf.transitions)
    assert torch.autograd.gradcheck(value, inputs)
    assert torch.autograd.gradgradcheck(value, inputs)
    assert torch.autograd.gradcheck(lambda *x: value(*x).sum(), inputs)


@pytest.mark.parametrize("backend", BACKENDS)
def test_ragged_equals_padded(backend):
    for options in ({}, {"order": 2}, {"labels": NAMES, "constraints": "bio"}):
        crf = layer(5, backend, **options)
        emissions, _, mask = random_batch(6, 8, 5)
        tags = torch.full(mask.shape, 4)
        emissions.requires_grad_()
        offsets = torch.cat([torch.zeros(1, dtype=torch.long), mask.sum(1).cumsum(0)])
        rows = emissions[mask]
        for reduction in ("none", "sum", "mean", "token_mean"):
            found = crf.forward_ragged(rows, offsets, tags[mask], reduction)
            expected = crf(emissions, tags, mask, reduction)
            torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
            for x, y in zip(
                gradients(crf, emissions, found.sum()),
                gradients(crf, emissions, expected.sum()),
                strict=True,
            ):
                torch.testing.assert_close(x, y, rtol=1e-10, atol=1e-10)
            rows = emissions[mask]
        flat = [y for path in crf.decode(emissions, mask) for y in path]
        assert crf.decode_ragged(rows, offsets).tolist() == flat


# ---- scores of any size -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("factor", [1, 10, 100, 1000])
@pytest.mark.parametrize("banned", [0.0, 0.5])
def test_backends_agree_at_any_scale(dtype, factor, banned):
    emissions, tags, mask = random_batch(8, 20, 6, dtype=dtype)
    allowed = torch.rand(6, 6, generator=torch.Generator().manual_seed(1)) >= banned
    allowed |= torch.eye(6, dtype=torch.bool)
    tags = tags[:, :1].expand(-1, 20).contiguous()  # staying is always allowed
    results = []
    for backend, kind in (("torch", dtype), ("native", dtype), ("native", torch.float64)):
        crf = layer(6, backend, kind, constraints=allowed)
        with torch.no_grad():
            for parameter in crf.parameters():
                parameter.copy_(parameter.to(dtype) * factor)
        x = (emissions * factor).to(kind).requires_grad_()
        value = crf(x, tags, mask)
        results.append((value, *gradients(crf, x, value)))
    for found in results[:2]:
        for x, y in zip(found, results[2], strict=True):
            assert torch.isfinite(x).all()
            rtol = 1e-5 if dtype == torch.float32 else 1e-9
            torch.testing.assert_close(
                x.double(), y, rtol=rtol, atol=20 * rtol * max(1, factor / 100)
            )


def test_scaled_sums_detect_underflow():
    """A path that is far behind for several steps, and wins in the end."""
    L, S = 6, 2
    emit = torch.zeros(L, 1, S)
    emit[:3, 0, 1] = -60.0
    emit[3:, 0, 0] = -80.0
    trans = torch.tensor([[0.0, -math.inf], [-math.inf, 0.0]])
    scores = sums.Scores(emit, trans, torch.zeros(S), torch.zeros(S))
    mask = torch.ones(L, 1, dtype=torch.bool)
    for part in scores:
        part.requires_grad_()
    found, expected = sums.log_partition(scores, mask), sums.log_space(scores, mask)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    assert found.item() == pytest.approx(-180.0)
    a = torch.autograd.grad(found.sum(), scores)
    b = torch.autograd.grad(expected.sum(), scores)
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_impossible_labels_have_no_gradient(backend):
    crf = layer(5, backend, labels=NAMES, constraints="bio")
    emissions, _, _ = random_batch(2, 3, 5)
    emissions.requires_grad_()
    tags = torch.tensor([[4, 2, 4], [0, 2, 4]])  # O I-LOC O is illegal
    llh = crf(emissions, tags, reduction="none")
    assert llh[0] == -math.inf
    assert torch.isfinite(llh[1])
    grad = torch.autograd.grad(llh.sum(), emissions)[0]
    assert (grad[0] == 0).all()
    assert (grad[1] != 0).any()
    total = crf(emissions, tags)
    assert total == -math.inf
    assert torch.isfinite(torch.autograd.grad(total, emissions)[0]).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(backend, dtype):
    emissions, tags, mask = random_batch(4, 6, 5, dtype=torch.float32)
    emissions = emissions.to(dtype).requires_grad_()
    crf = layer(5, backend, torch.float32)
    value = crf(emissions, tags, mask)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, crf(emissions.float(), tags, mask), rtol=0, atol=0)
    value.backward()
    assert emissions.grad.dtype == dtype
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(crf(emissions, tags, mask), value, rtol=1e-6, atol=1e-6)


# ---- answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_answers_are_those_of_the_trellis(name):
    crf = layer(5, **CONFIGURATIONS[name])
    emissions, _, mask = random_batch(6, 5, 5, holes=True)
    mask[:, 0] = True
    trellis = crf.trellis(emissions, mask)
    assert isinstance(trellis, tl.Trellis)
    assert len(trellis) == 6
    best = trellis.viterbi()
    paths, scores = crf.viterbi(emissions, mask)
    assert (paths == -1).equal(~mask)
    assert paths[mask].tolist() == best.path.tolist()
    np.testing.assert_allclose(scores.detach(), best.score, rtol=1e-12)
    assert [y for path in crf.decode(emissions, mask) for y in path] == best.path.tolist()
    posterior = [y for path in crf.posterior_decode(emissions, mask) for y in path]
    assert posterior == trellis.posterior_decode().path.tolist()
    marginals = crf.marginals(emissions, mask)
    assert marginals.requires_grad
    np.testing.assert_allclose(marginals[mask].detach(), trellis.marginals(), atol=1e-9)
    with torch.no_grad():
        torch.testing.assert_close(crf.marginals(emissions, mask), marginals, rtol=0, atol=1e-9)
        torch.testing.assert_close(
            crf.entropy(emissions, mask), torch.from_numpy(trellis.entropy()), rtol=0, atol=1e-9
        )
    entropy = crf.entropy(emissions, mask)
    assert entropy.requires_grad
    np.testing.assert_allclose(entropy.detach(), trellis.entropy(), atol=1e-8)
    nbest = crf.nbest(emissions, 3, mask)
    assert nbest[0].paths.tolist() == trellis[0].nbest(3).paths.tolist()
    draws = crf.sample(emissions, 2000, mask, generator=torch.Generator().manual_seed(0))
    again = crf.sample(emissions, 2000, mask, generator=torch.Generator().manual_seed(0))
    assert draws.equal(again)
    assert draws.shape == (2000, 6, 5)
    assert (draws == -1).equal((~mask).expand(2000, 6, 5))
    frequencies = torch.nn.functional.one_hot(draws[:, mask], 5).double().mean(0)
    np.testing.assert_allclose(frequencies, trellis.marginals(), atol=0.06)
    path = torch.full((6, 5), 4)
    if name != "banned transitions":
        log_prob = crf.log_prob(emissions, path, mask)
        np.testing.assert_allclose(
            log_prob.detach(), trellis.log_prob(path[mask].numpy()), rtol=1e-9
        )


def test_entropy_and_marginals_are_differentiable():
    crf = layer(3)
    emissions, _, mask = random_batch(2, 3, 3)
    emissions.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: crf.entropy(x, mask), emissions)
    assert torch.autograd.gradcheck(lambda x: crf.marginals(x, mask), emissions)


def test_time_major_is_the_default():
    crf = CRF(3)
    emissions, tags, mask = random_batch(2, 4, 3, dtype=torch.float32)
    by_time = [x.transpose(0, 1) for x in (emissions, tags, mask)]
    batch_first = CRF(3, batch_first=True)
    batch_first.load_state_dict(crf.state_dict())
    torch.testing.assert_close(crf(*by_time), batch_first(emissions, tags, mask), rtol=0, atol=0)
    assert crf.decode(by_time[0], by_time[2]) == batch_first.decode(emissions, mask)
    assert crf.viterbi(by_time[0])[0].equal(batch_first.viterbi(emissions)[0].t())
    assert crf.marginals(by_time[0]).shape == (4, 2, 3)
    assert crf.sample(by_time[0], 7, by_time[2]).shape == (7, 4, 2)


def test_empty_batches():
    crf = CRF(3, batch_first=True)
    for shape in ((0, 4), (2, 0), (0, 0)):
        for backend in BACKENDS:
            crf.backend = backend
            value = crf(torch.zeros(*shape, 3), torch.zeros(shape, dtype=torch.long))
            assert value == 0
        assert crf.decode(torch.zeros(*shape, 3)) == [[] for _ in range(shape[0])]
        paths, scores = crf.viterbi(torch.zeros(*shape, 3))
        assert paths.shape == shape
        assert scores.tolist() == [0.0] * shape[0]


def test_threads_do_not_change_the_result():
    crf = layer(9, dtype=torch.float32)
    emissions, tags, mask = random_batch(64, 40, 9, dtype=torch.float32)
    before = torch.get_num_threads()
    results = []
    try:
        for n in (1, 2):
            torch.set_num_threads(n)
            x = emissions.clone().requires_grad_()
            value = crf(x, tags, mask)
            results.append((value, *gradients(crf, x, value)))
    finally:
        torch.set_num_threads(before)
    assert all(a.equal(b) for a, b in zip(*results, strict=True))


# ---- compiled graphs ----------------------------------------------------------------------------


def test_operators():
    emissions, tags, mask = random_batch(3, 4, 3)
    crf = layer(3)
    emissions.requires_grad_()
    shared = crf.transitions, crf.start_transitions, crf.end_transitions
    edge = torch.randn(3, 4, 3, 3, dtype=torch.float64, requires_grad=True)
    for where, moves in ((mask, None), (None, edge)):
        arguments = (emissions, where, tags, *shared, None, moves, 0)
        torch.library.opcheck(torch.ops.tagloom.log_likelihood, arguments)


@pytest.mark.parametrize("spread", [0.1, 2.0, 9.0, 19.0, 39.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_that_are_normalised_every_few_steps(spread, dtype):
    """The number of steps between depends on the range of transitions; the result does not."""
    emissions, tags, mask = random_batch(4, 60, 5, dtype=dtype)
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {}
    found = []
    for backend in BACKENDS:
        torch.manual_seed(0)
        crf = CRF(5, batch_first=True, backend=backend).to(dtype)
        with torch.no_grad():
            crf.transitions.uniform_(-spread / 2, spread / 2)
        x = (emissions * 6).requires_grad_()
        value = crf(x, tags, mask)
        found.append([value, *torch.autograd.grad(value, [x, *crf.parameters()])])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, **tolerance)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch in its own modules
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_graph_is_whole(backend):
    if backend == "inductor" and shutil.which("g++") is None:
        pytest.skip("there is no C++ compiler")
    crf = layer(3, "auto")
    linear = torch.nn.Linear(4, 3).double()

    def loss(x, tags, mask):
        return -crf(linear(x), tags, mask, "mean")

    compiled = torch.compile(loss, fullgraph=True, backend=backend)
    x = torch.randn(3, 5, 4, dtype=torch.float64)
    _, tags, mask = random_batch(3, 5, 3)
    inputs = [*linear.parameters(), *crf.parameters()]
    found, expected = compiled(x, tags, mask), loss(x, tags, mask)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    for a, b in zip(
        torch.autograd.grad(found, inputs), torch.autograd.grad(expected, inputs), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch in its own modules
@pytest.mark.parametrize("is_ragged", [False, True])
@pytest.mark.parametrize("name", ["no boundaries", "bio", "order 2", "order 3 and bio"])
def test_compiled_graphs_of_every_kind_are_whole(name, is_ragged):
    """Higher orders, constraints, edge scores, time first, sequences in a row."""
    crf = layer(5, "auto", **CONFIGURATIONS[name])
    crf = pickle.loads(pickle.dumps(crf))  # an operator finds the state space of a copy, too
    emissions, _, mask = random_batch(3, 5, 5, holes=True)
    edge = torch.randn(3, 5, 5, 5, dtype=torch.float64)
    tags = torch.full((3, 5), 4)
    if is_ragged:
        offsets = torch.cat([torch.zeros(1, dtype=torch.long), mask.sum(1).cumsum(0)])
        emissions, edge, tags = emissions[mask], edge[mask], tags[mask]

        def loss(x, edge):
            return crf.forward_ragged(x, offsets, tags, "token_mean", edge=edge)

    else:
        crf.batch_first = False
        emissions, edge, tags, mask = (x.transpose(0, 1) for x in (emissions, edge, tags, mask))

        def loss(x, edge):
            return crf(x, tags, mask, "token_mean", edge=edge)

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    inputs = [emissions.requires_grad_(), edge.requires_grad_()]
    found, expected = compiled(*inputs), loss(*inputs)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    inputs += crf.parameters()
    for a, b in zip(
        torch.autograd.grad(found, inputs), torch.autograd.grad(expected, inputs), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["first order", "order 2", "bio"])
@pytest.mark.parametrize("with_edge", [False, True])
def test_viterbi_exports_with_dynamic_shapes(name, with_edge):
    """As it is after training: its parameters require gradients."""
    crf = layer(5, "auto", torch.float32, **CONFIGURATIONS[name])

    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.crf = crf

        def forward(self, emissions, mask, edge=None):
            return self.crf.viterbi(emissions, mask, edge=edge)

    def inputs(B, L, seed):
        emissions, _, mask = random_batch(B, L, 5, seed, torch.float32, holes=True)
        mask[:, 0] = True
        edge = torch.randn(B, L, 5, 5, generator=torch.Generator().manual_seed(seed))
        return emissions, mask, edge if with_edge else None

    B, L = torch.export.Dim("B", min=1), torch.export.Dim("L", min=1)
    sizes = {0: B, 1: L}
    shapes = {"emissions": sizes, "mask": sizes, "edge": sizes if with_edge else None}
    program = torch.export.export(Decoder(), inputs(3, 5, 0), dynamic_shapes=shapes)
    for seed, size in enumerate([(3, 5), (7, 11), (2, 2), (4, 1), (1, 1), (1, 6)]):
        emissions, mask, edge = inputs(*size, seed)
        paths, scores = program.module()(emissions, mask, edge)
        best = crf.trellis(emissions, mask, edge=edge).viterbi()
        assert paths[mask].tolist() == best.path.tolist()
        assert (paths == -1).equal(~mask)
        np.testing.assert_allclose(scores.detach(), best.score, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_scores_of_best_paths_are_differentiable(name):
    crf = layer(5, **CONFIGURATIONS[name])
    emissions, _, mask = random_batch(4, 5, 5, holes=True)
    mask[0] = False  # an empty sequence has one empty path
    edge = torch.randn(4, 5, 5, 5, dtype=torch.float64, requires_grad=True)
    emissions.requires_grad_()
    paths, scores = crf.viterbi(emissions, mask, edge=edge)
    np.testing.assert_allclose(
        scores.detach(), crf.trellis(emissions, mask, edge=edge).viterbi().score, rtol=1e-12
    )
    assert scores[0] == 0
    by_emissions, by_edge = torch.autograd.grad(scores.sum(), [emissions, edge])
    expected = torch.nn.functional.one_hot(paths.clamp(min=0), 5) * mask[..., None]
    assert by_emissions.equal(expected.double())
    assert by_edge.sum() == (mask.sum(1) - 1).clamp(min=0).sum()  # one for each transition


# ---- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_invalid_arguments(backend):
    crf = CRF(3, batch_first=True, backend=backend)
    emissions, tags = torch.zeros(2, 4, 3), torch.zeros(2, 4, dtype=torch.long)
    with pytest.raises(ShapeError) as error:
        crf(emissions[..., :2], tags)
    assert error.value.parameter == "emissions"
    for bad in (tags[:1], tags.float(), torch.zeros(2, 4, 2, dtype=torch.bool)):
        with pytest.raises(ShapeError) as error:
            crf(emissions, bad)
        assert error.value.parameter == "tags"
    with pytest.raises(ShapeError) as error:
        crf(emissions, tags, torch.ones(2, 3, dtype=torch.bool))
    assert error.value.parameter == "mask"
    with pytest.raises(ShapeError) as error:
        crf(emissions, tags, edge=torch.zeros(2, 4, 3, 2))
    assert error.value.parameter == "edge"
    with pytest.raises(ParameterError) as error:
        crf(emissions, tags, reduction="average")
    assert error.value.parameter == "reduction"
    for value in (3, -1):
        tags[1, 2] = value
        with pytest.raises(LabelError) as error:
            crf(emissions, tags)
        assert error.value.where == "tags, sequence 1, position 2"
        assert error.value.found == str(value)
        mask = torch.ones(2, 4, dtype=torch.bool)
        mask[1, 2] = False
        crf(emissions, tags, mask)  # masked tags are not read
    with pytest.raises(ShapeError) as error:
        crf.forward_ragged(emissions[0], [0, 3], tags[0])
    assert error.value.parameter == "offsets"


def test_invalid_constructor_arguments():
    for arguments in (
        {"num_tags": 0},
        {"num_tags": 3, "order": 0},
        {"num_tags": 3, "backend": "cuda"},
        {"num_tags": 3, "constraints": "bio"},
        {"num_tags": 3, "constraints": tl.StateSpace.first_order(2)},
        {"num_tags": 3, "order": 2, "states": tl.StateSpace.first_order(3)},
    ):
        with pytest.raises(ParameterError):
            CRF(**arguments)
    with pytest.raises(LabelError):
        CRF(3, labels=["N", "V"])


def test_infeasible_sequences_are_named():
    crf = CRF(2, batch_first=True)
    emissions = torch.zeros(2, 3, 2)
    emissions[1, 1] = -math.inf
    with pytest.raises(InfeasibleError) as error:
        crf.decode(emissions)
    assert error.value.sequence == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_transforms_of_functions(name, backend):
    """`torch.func.grad` by parameters and by emissions."""
    crf = layer(5, backend, **CONFIGURATIONS[name])
    emissions, _, mask = random_batch(3, 5, 5, holes=True)
    tags = torch.full((3, 5), 4 if name != "banned transitions" else -100)
    parameters = {k: v.detach() for k, v in crf.named_parameters()}

    def loss(parameters, x):
        return torch.func.functional_call(crf, parameters, (x, tags, mask))

    by_parameters, by_emissions = torch.func.grad(loss, argnums=(0, 1))(parameters, emissions)
    x = emissions.clone().requires_grad_()
    expected = gradients(crf, x, crf(x, tags, mask))
    for ours, theirs in zip([by_emissions, *by_parameters.values()], expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_in_log_space_is_what_second_derivatives_use():
    crf = layer(3)
    emissions, tags, mask = random_batch(2, 4, 3)
    task = losses.Task(losses.Padded(emissions, mask), tags, "sum", None)
    shared = (crf.transitions, crf.start_transitions, crf.end_transitions)
    found = losses.in_log_space(task, emissions, *shared, None, None)
    torch.testing.assert_close(found, crf(emissions, tags, mask), rtol=1e-12, atol=1e-12)
