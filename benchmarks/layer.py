"""The CRF layer beside pytorch-crf, and layers of networks beside torch.nn: `make bench-layer`.

Everything runs in one process on one thread, contestants in turn, and the best CPU time of several
rounds counts: on a busy machine, ratios within one run mean more than times. float32, lengths
uniform from a fifth of the longest to the longest.

    layer     loss and gradient by autograd, and decoding, of batches B × L × Y
    network   a training step (forward and backward) of the recurrent layer and of the character
              convolutions of a BiLSTM-CRF, 512 tokens, and its forward pass for tagging
    tagger    a whole BiLSTM-CRF of words and characters on the embedded English corpus: training
              with the layers of torch.nn and `torch.optim.AdamW` instead of the native ones, the
              CRF and the batches being the same; and tagging, from strings to labels, with the
              same modules in torch, in batches and one sentence at a time
"""

import argparse
import contextlib
import functools
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

SIZES = [(32, 50, 20), (32, 50, 50), (128, 100, 50)]


def best_of(rounds: int, contestants: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the best CPU time of each contestant in milliseconds; they take turns."""
    best = dict.fromkeys(contestants, float("inf"))
    for call in contestants.values():
        call()
    for _ in range(rounds):
        for name, call in contestants.items():
            n, began = 0, time.process_time()
            while (spent := time.process_time() - began) < 0.03:  # the clock ticks in µs to ms
                call()
                n += 1
            best[name] = min(best[name], spent / n)
    return {name: 1000 * seconds for name, seconds in best.items()}


def show(title: str, times: dict[str, float], peer: str) -> None:
    """Print one row per contestant: milliseconds, and how many times as fast as the peer."""
    for name, ms in times.items():
        ratio = "" if name == peer else f"{times[peer] / ms:8.1f} ×"
        print(f"| {title} | {name} | {ms:.3f} | {ratio} |", flush=True)


@contextlib.contextmanager
def eager() -> Iterator[None]:
    """Run networks by the layers of torch.nn."""
    from tagloom.neural import native

    with mock.patch.object(native, "supports_tensor", return_value=False):
        yield


def bench_layer(rounds: int) -> None:
    import torch
    import torchcrf

    from tagloom.torch import CRF

    for B, L, Y in SIZES:
        torch.manual_seed(0)
        emissions, tags = torch.randn(B, L, Y), torch.randint(Y, (B, L))
        lengths = torch.randint(L // 5, L + 1, (B,))
        lengths[0] = L
        mask = torch.arange(L) < lengths[:, None]
        peer = torchcrf.CRF(Y, batch_first=True)
        layers: dict[str, Any] = {"pytorch-crf": peer}
        for backend in ("native", "torch"):
            layers[f"tagloom, {backend}"] = CRF(Y, batch_first=True, backend=backend)
            layers[f"tagloom, {backend}"].load_state_dict(peer.state_dict())

        def step(layer: Any, emissions: Any = emissions, tags: Any = tags, mask: Any = mask) -> Any:
            x = emissions.detach().requires_grad_()
            layer.zero_grad()
            loss = -layer(x, tags, mask)
            loss.backward()
            return loss.item()

        losses = [step(layer) for layer in layers.values()]
        assert max(losses) - min(losses) < 1e-4 * max(losses), losses
        calls = {name: lambda layer=layer: step(layer) for name, layer in layers.items()}
        show(f"loss and gradient {B}×{L}×{Y}", best_of(rounds, calls), "pytorch-crf")
        ours = layers["tagloom, native"]
        assert ours.decode(emissions, mask) == peer.decode(emissions, mask)
        calls = {
            "pytorch-crf": lambda peer=peer, x=emissions, m=mask: peer.decode(x, m),
            "tagloom": lambda ours=ours, x=emissions, m=mask: ours.decode(x, m),
        }
        show(f"decode {B}×{L}×{Y}", best_of(rounds, calls), "pytorch-crf")


def bench_network(rounds: int) -> None:
    import torch
    from torch.nn.utils.rnn import pack_sequence

    from tagloom.neural import native
    from tagloom.neural.modules import CharacterCNN
    from tagloom.scores.networks import NetworkSpec

    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    D, H = 356, 128
    lengths = rng.multinomial(512, np.ones(32) / 32)
    offsets = np.concatenate([[0], lengths.cumsum()]).astype(np.int64)
    lstm = torch.nn.LSTM(D, H, bidirectional=True)
    x = torch.randn(512, D)
    state = torch.zeros(2, 32, H), torch.zeros(2, 32, H)

    def by_torch() -> None:
        rows = x.detach().requires_grad_()
        parts = [rows[a:b] for a, b in itertools.pairwise(offsets)]
        out, _ = lstm(pack_sequence(parts, enforce_sorted=False), state)
        out.data.sum().backward()

    def by_tagloom() -> None:
        native.recurrent(lstm, x.detach().requires_grad_(), offsets).sum().backward()

    times = best_of(rounds, {"torch": by_torch, "tagloom": by_tagloom})
    show("BiLSTM 356 → 2 × 128, 512 tokens, training", times, "torch")

    def forward_by_torch() -> None:
        parts = [x[a:b] for a, b in itertools.pairwise(offsets)]
        lstm(pack_sequence(parts, enforce_sorted=False), state)

    with torch.no_grad():
        calls = {
            "torch": forward_by_torch,
            "tagloom": lambda: native.recurrent(lstm, x, offsets),
        }
        show("the same, forward", best_of(rounds, calls), "torch")
    spec = NetworkSpec(
        2, characters="cnn", n_characters=100, character_size=25, character_units=128
    )
    cnn = CharacterCNN(spec)
    words = np.concatenate([[0], rng.integers(3, 12, 311).cumsum()]).astype(np.int64)
    characters = torch.from_numpy(rng.integers(4, 100, words[-1]))

    def native_cnn() -> None:
        table, convolutions = cnn.table.weight, cnn.convolutions
        native.character_convolutions(table, convolutions, characters, words).sum().backward()

    def torch_cnn() -> None:
        with eager():
            cnn(characters, words).sum().backward()

    calls = {"torch": torch_cnn, "tagloom": native_cnn}
    show("characters, 311 words, 2 × 128 filters", best_of(rounds, calls), "torch")


def bench_tagger(rounds: int) -> None:
    import torch

    import tagloom as tl
    from tagloom.neural.learners import AdamW
    from tagloom.neural.modules import Batch, Network

    train, _, test = tl.datasets.load("english", label="upos")
    tagger = tl.NeuralTagger(None, max_iterations=1, n_threads=1)
    data = tagger.read_data(train, None, None)
    learners = {name: tagger.make_learner(data) for name in ("torch", "tagloom")}
    offsets = learners["torch"].examples.inputs.offsets
    batches = [*learners["torch"].examples.batches(512, np.random.default_rng(0))][:8]
    n_tokens = sum(int((offsets[rows + 1] - offsets[rows]).sum()) for rows in batches)

    class OfTorch(AdamW):
        """The optimiser of torch, with the interface of ours."""

        def __init__(self, parameters: list[Any]) -> None:
            self.parameters, self.n_steps = parameters, 0
            self.optimiser = torch.optim.AdamW(parameters, lr=2e-3, betas=(0.9, 0.9))

        def clip(self, most: float) -> None:
            torch.nn.utils.clip_grad_norm_(self.parameters, most)

        def step(self, factor: float) -> None:
            self.n_steps += 1
            self.optimiser.step()

    learners["torch"].optimiser = OfTorch(learners["torch"].optimiser.parameters)

    def train_by(name: str) -> None:
        rng = np.random.default_rng(0)
        learners[name].network.train()
        with eager() if name == "torch" else contextlib.nullcontext():
            for rows in batches:
                learners[name].learn(rows, rng)

    times = best_of(rounds, {name: functools.partial(train_by, name) for name in learners})
    show(f"BiLSTM-CRF, training on {n_tokens} tokens", times, "torch")

    tagger.fit(train)
    scores = tagger.network_
    module = Network(scores.spec).eval()
    module.set_arrays(scores.all_arrays)
    sentences = [list(sentence) for sentence in test]
    labels = tagger.labels_.tolist()
    crf = learners["torch"].head
    weights = tagger.scores_
    with torch.no_grad():
        crf.transitions.copy_(torch.from_numpy(np.array(weights.trans)))
        crf.start_transitions.copy_(torch.from_numpy(np.array(weights.start)))
        crf.end_transitions.copy_(torch.from_numpy(np.array(weights.stop)))

    def in_torch(part: list[list[str]]) -> list[list[str]]:
        with eager(), torch.inference_mode():
            inputs = scores.alphabets.encode(part)
            emit = module(Batch.of(inputs))
            path = crf.decode_ragged(emit, inputs.offsets).tolist()
        return [[labels[y] for y in path[a:b]] for a, b in itertools.pairwise(inputs.offsets)]

    assert in_torch(sentences) == [list(row) for row in tagger.predict(sentences)]
    n_tokens = sum(map(len, sentences))
    calls = {"torch": lambda: in_torch(sentences), "tagloom": lambda: tagger.predict(sentences)}
    show(f"tagging {n_tokens} tokens in one batch", best_of(rounds, calls), "torch")
    few = sentences[:40]

    def one_at_a_time(tag: Callable[[list[list[str]]], Any]) -> None:
        for sentence in few:
            tag([sentence])

    calls = {
        "torch": lambda: one_at_a_time(in_torch),
        "tagloom": lambda: one_at_a_time(tagger.predict),
    }
    title = f"tagging {sum(map(len, few))} tokens, one sentence at a time"
    show(title, best_of(rounds, calls), "torch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=["layer", "network", "tagger"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--isa", help="instruction set of our kernels: baseline, avx2, avx512")
    arguments = parser.parse_args()
    try:
        import torch
        import torchcrf  # noqa: F401
    except ImportError as error:
        sys.exit(f"{error.name} is missing: make .venv/.peers")
    torch.set_num_threads(1)
    import tagloom as tl

    isa = arguments.isa or tl.trellis.instruction_sets()[-1]
    print(f"torch {torch.__version__}, {isa}, one thread, CPU time")
    print("\n| | | ms | faster |\n|---|---|---|---|")
    jobs = {"layer": bench_layer, "network": bench_network, "tagger": bench_tagger}
    with tl.trellis.use_instruction_set(isa):
        for what in arguments.what:
            jobs[what](arguments.rounds)


if __name__ == "__main__":
    main()
