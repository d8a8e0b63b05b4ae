"""The learner of networks: an epoch of small batches, AdamW for the network, AdaGrad for features.

A `NetworkLearner` has the state of torch as arrays, so that the loop of `tagloom.training` can save
and resume it. Random numbers depend on seed and epoch alone, and torch runs on one thread while
words and characters are trained: a resumed run has the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tagloom.features import Encoded
from tagloom.neural.heads import Gold, Head
from tagloom.neural.modules import Batch
from tagloom.scores.networks import Inputs, take_ragged
from tagloom.training import Step

Arrays = dict[str, npt.NDArray[Any]]

#: Steps during which the learning rate rises to its value.
WARM_UP = 100
_BETAS, _DECAY = (0.9, 0.9), 0.01


@dataclass(frozen=True)
class Schedule:
    """How a network is trained.

    Attributes
    ----------
    eta : float
        Learning rate of AdamW at its peak; it then falls linearly, to 0 after ``epochs``.
    eta_features : float
        Learning rate of AdaGrad, for the weights of features.
    epochs : int
    batch_tokens : int
        Number of tokens of a batch; a longer sentence is a batch alone.
    clip : float
        Largest length of the gradient.
    word_dropout : float
        A word seen c times becomes unknown with the probability word_dropout / (word_dropout + c).
    dropout_features : float
        Share of the attributes of tokens that are dropped in training.
    random_state : int
    """

    eta: float
    eta_features: float
    epochs: int
    batch_tokens: int
    word_dropout: float
    dropout_features: float
    random_state: int
    clip: float = 5.0


@dataclass(frozen=True, eq=False)
class Examples:
    """Training data as arrays.

    Attributes
    ----------
    inputs : Inputs
    counts : ndarray, shape (U,)
        How often each word type occurs.
    attributes : Encoded or None
        The attributes of the wide part.
    gold : ndarray of bool, shape (T, Y)
        The labels that are possibly right.
    weight : ndarray, shape (N,)
    """

    inputs: Inputs
    counts: npt.NDArray[np.int64]
    attributes: Encoded | None
    gold: npt.NDArray[np.bool_]
    weight: npt.NDArray[np.float64]

    def batches(self, size: int, rng: np.random.Generator) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the sentences of each batch: of similar length, in random order."""
        lengths = np.diff(self.inputs.offsets)
        # Lengths are blurred, so that an epoch does not repeat the batches of another.
        order = np.argsort(lengths * rng.uniform(0.9, 1.1, len(lengths)), kind="stable")
        cuts, n = [0], 0
        for i, length in enumerate(lengths[order]):
            if n and n + length > size:
                cuts.append(i)
                n = 0
            n += length
        cuts.append(len(order))
        for k in rng.permutation(len(cuts) - 1):
            yield order[cuts[k] : cuts[k + 1]]


class Wide:
    """The weights of features [F, Y], which AdaGrad learns.

    sum_of_squares += grad²;  weight −= eta · grad / √sum_of_squares

    Parameters
    ----------
    n_attributes, n_labels : int
    """

    def __init__(self, n_attributes: int, n_labels: int) -> None:
        self.weight = torch.zeros(n_attributes, n_labels)
        self.squares = torch.zeros(n_attributes, n_labels)

    def score(self, ids: Tensor, offsets: Tensor, values: Tensor | None) -> Tensor:
        """Return the sums of weights [T, Y]."""
        scores: Tensor = nn.functional.embedding_bag(
            ids, self.weight, offsets, mode="sum", per_sample_weights=values
        )
        return scores

    def update(
        self, ids: Tensor, lengths: Tensor, values: Tensor | None, grad: Tensor, eta: float
    ) -> None:
        """Take a step along the gradient of the scores [T, Y]."""
        of_ids = grad.repeat_interleave(lengths, dim=0)  # [n, Y]
        if values is not None:
            of_ids = of_ids * values[:, None]
        rows, places = ids.unique(return_inverse=True)
        gradient = torch.zeros(len(rows), grad.shape[1]).index_add_(0, places, of_ids)
        squares = self.squares[rows].addcmul_(gradient, gradient)
        self.squares[rows] = squares
        step = gradient / squares.sqrt().add_(1e-10)
        self.weight.index_add_(0, rows, step, alpha=-eta)


class AdamW:
    """Adam with decoupled weight decay; its state is plain tensors.

    mean ← β₁·mean + (1 − β₁)·grad;  square ← β₂·square + (1 − β₂)·grad²
    p ← (1 − rate·decay)·p − rate · (mean / (1 − β₁ⁿ)) / (√(square / (1 − β₂ⁿ)) + ε)

    ``torch.optim`` is avoided: its first step imports the compiler of torch, which takes longer
    than a small training run.

    Parameters
    ----------
    groups : list of dict
        ``params`` and their learning rate ``eta``.
    """

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        self.rates = [group["eta"] for group in groups for _ in group["params"]]
        self.parameters: list[Tensor] = [p for group in groups for p in group["params"]]
        self.means = [torch.zeros_like(p) for p in self.parameters]
        self.squares = [torch.zeros_like(p) for p in self.parameters]
        self.n_steps = 0

    @torch.no_grad()
    def step(self, factor: float) -> None:
        """Take a step, with all learning rates multiplied by ``factor``."""
        self.n_steps += 1
        beta1, beta2 = _BETAS
        for p, mean, square, eta in zip(
            self.parameters, self.means, self.squares, self.rates, strict=True
        ):
            if p.grad is None:
                continue
            mean.lerp_(p.grad, 1 - beta1)
            square.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
            length = square.sqrt().div_(math.sqrt(1 - beta2**self.n_steps)).add_(1e-8)
            p.mul_(1 - eta * factor * _DECAY)
            p.addcdiv_(mean, length, value=-eta * factor / (1 - beta1**self.n_steps))

    @torch.no_grad()
    def clip(self, most: float) -> None:
        """Shorten the gradient to the length ``most`` if it is longer."""
        grads = [p.grad for p in self.parameters if p.grad is not None]
        length = math.sqrt(sum(float(grad.square().sum()) for grad in grads))
        if length > most:
            for grad in grads:
                grad.mul_(most / length)


class NetworkLearner:
    """Learns a network, the weights of features, and transitions together.

    Parameters
    ----------
    network : nn.Module
        From a `Batch` to scores [T, Y]; ``arrays()`` returns its parameters.
    head : Head
    examples : Examples
    schedule : Schedule
    device : torch.device
    """

    def __init__(
        self, network: Any, head: Head, examples: Examples, schedule: Schedule, device: Any
    ) -> None:
        self.network, self.head = network.to(device), head.to(device)
        self.examples, self.schedule, self.device = examples, schedule, device
        attributes = examples.attributes
        self.wide: Wide | None = None
        if attributes is not None:
            n = int(attributes.ids.max(initial=-1)) + 1
            self.wide = Wide(n, examples.gold.shape[1])
        learned = [p for p in self.head.parameters() if p.requires_grad]
        self.optimiser = AdamW(
            [*network.parameter_groups(schedule.eta), {"params": learned, "eta": schedule.eta}]
        )
        self.epoch = 0
        sentences = len(examples.weight)
        lengths = np.diff(examples.inputs.offsets)
        tokens = int(lengths.sum())
        about = max(math.ceil(tokens / schedule.batch_tokens), 1)
        self._total = max(min(about, sentences) * schedule.epochs, 1)

    # ---- one epoch -------------------------------------------------------------------------

    def step(self) -> Step:
        """Go through the training data once."""
        seed = [self.schedule.random_state, self.epoch]
        rng = np.random.default_rng(seed)
        losses: list[float] = []
        self.network.train()
        with self._alone(rng):
            for sentences in self.examples.batches(self.schedule.batch_tokens, rng):
                losses.append(self._learn(sentences, rng))
        self.epoch += 1
        return Step(float(np.sum(losses) / len(self.examples.weight)))

    @contextmanager
    def _alone(self, rng: np.random.Generator) -> Iterator[None]:
        """Run with random numbers of this epoch, on as many threads as the network may use."""
        threads = torch.get_num_threads()
        torch.set_num_threads(self.network.n_threads)
        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(int(rng.integers(1 << 62)))
                yield
        finally:
            torch.set_num_threads(threads)

    def _learn(self, sentences: npt.NDArray[np.int64], rng: np.random.Generator) -> float:
        """Take a step on some sentences, and return the sum of their losses."""
        examples = self.examples
        inputs, tokens = examples.inputs.select(sentences)
        gold = Gold(inputs.offsets, examples.gold[tokens], examples.weight[sentences])
        batch = Batch.of(inputs, self._dropped(inputs, tokens, rng), self.device)
        emit = self.network(batch)
        attributes = self._attributes(tokens, rng)
        if attributes is not None and self.wide is not None:
            ids, lengths, values = attributes
            begins = torch.cumsum(lengths, 0) - lengths
            emit = emit + self.wide.score(ids, begins, values).to(self.device)
            emit.retain_grad()
        loss = self.head.loss(emit, gold)
        for parameter in self.optimiser.parameters:
            parameter.grad = None
        (loss / len(sentences)).backward()
        self.optimiser.clip(self.schedule.clip)
        rate = self._rate()
        self.optimiser.step(rate)
        if attributes is not None and self.wide is not None:
            eta = self.schedule.eta_features * min(rate * 2, 1.0)
            self.wide.update(ids, lengths, values, emit.grad.cpu(), eta)
        return float(loss.detach())

    def _dropped(
        self, inputs: Inputs, tokens: npt.NDArray[np.int64], rng: np.random.Generator
    ) -> npt.NDArray[np.int32]:
        """Return the word of each token [T], some of them unknown."""
        counts = self.examples.counts[self.examples.inputs.types[tokens]]
        rate = self.schedule.word_dropout
        is_dropped = rng.random(len(tokens)) * (rate + counts) < rate
        return np.where(is_dropped, 0, inputs.words[inputs.types]).astype(np.int32)

    def _attributes(
        self, tokens: npt.NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[Tensor, Tensor, Tensor | None] | None:
        """Return the attributes of tokens: ids, how many of each token, and values."""
        encoded = self.examples.attributes
        if encoded is None:
            return None
        offsets, at = take_ragged(encoded.indptr, tokens)
        values = None if encoded.values is None else torch.from_numpy(encoded.values[at])
        rate = self.schedule.dropout_features
        if rate:  # the value of a dropped attribute is 0, so its weights get no gradient
            kept = (rng.random(len(at), dtype=np.float32) >= rate) / np.float32(1 - rate)
            kept = torch.from_numpy(kept.astype(np.float32))
            values = kept if values is None else values * kept
        ids = torch.from_numpy(encoded.ids[at].astype(np.int64))
        return ids, torch.from_numpy(np.diff(offsets)), values

    def _rate(self) -> float:
        """Return the factor of learning rates: it rises for the first steps, then falls to 0."""
        n = self.optimiser.n_steps
        warm_up = min(WARM_UP, self._total // 10 + 1)
        return min((n + 1) / warm_up, max(1 - n / self._total, 0.0))

    # ---- weights and state -----------------------------------------------------------------

    def weights(self) -> Arrays:
        """Return copies of all weights: ``network.*``, ``head.*`` and ``wide``."""
        arrays = {f"network.{name}": array for name, array in self.network.arrays().items()}
        for name, tensor in self.head.state_dict().items():
            arrays[f"head.{name}"] = tensor.detach().cpu().numpy().copy()
        if self.wide is not None:
            arrays["wide"] = self.wide.weight.numpy().copy()
        return arrays

    def state(self) -> Arrays:
        """Return the weights and the state of both optimisers."""
        arrays = self.weights()
        arrays["steps"] = np.array([self.epoch, self.optimiser.n_steps])
        if self.wide is not None:
            arrays["squares"] = self.wide.squares.numpy().copy()
        for k, pair in enumerate(zip(self.optimiser.means, self.optimiser.squares, strict=True)):
            arrays[f"mean.{k}"], arrays[f"square.{k}"] = (x.cpu().numpy().copy() for x in pair)
        return arrays

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a `state`."""

        def tensor(name: str) -> Tensor:
            return torch.from_numpy(np.array(state[name]))

        def part(prefix: str) -> dict[str, npt.NDArray[Any]]:
            n = len(prefix)
            return {name[n:]: array for name, array in state.items() if name.startswith(prefix)}

        self.network.set_arrays(part("network."))
        head = {name: torch.from_numpy(np.array(a)) for name, a in part("head.").items()}
        self.head.load_state_dict(head)
        if self.wide is not None:
            self.wide.weight, self.wide.squares = tensor("wide"), tensor("squares")
        self.epoch, self.optimiser.n_steps = (int(n) for n in state["steps"])
        for k in range(len(self.optimiser.parameters)):
            self.optimiser.means[k].copy_(tensor(f"mean.{k}"))
            self.optimiser.squares[k].copy_(tensor(f"square.{k}"))
