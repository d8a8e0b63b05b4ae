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
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tagloom import _native
from tagloom.features import Encoded
from tagloom.neural.heads import Gold, Head
from tagloom.neural.modules import Batch, own_settings
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
        Largest length of the gradient of the loss per token.
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
    clip: float = 0.3


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
    widths : ndarray, shape (N,), optional
        Number of steps that the encoder takes in each sentence; by default that of tokens. The
        sentences of a batch are similar in this.
    """

    inputs: Inputs
    counts: npt.NDArray[np.int64]
    attributes: Encoded | None
    gold: npt.NDArray[np.bool_]
    weight: npt.NDArray[np.float64]
    widths: npt.NDArray[np.int64] | None = None

    def batches(self, size: int, rng: np.random.Generator) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the sentences of each batch: of similar length, in random order."""
        lengths = np.diff(self.inputs.offsets)
        widths = lengths if self.widths is None else self.widths
        # Lengths are blurred, so that an epoch does not repeat the batches of another.
        order = np.argsort(widths * rng.uniform(0.9, 1.1, len(lengths)), kind="stable")
        cuts, n = [0], 0
        for i, length in enumerate(lengths[order]):
            if n and n + length > size:
                cuts.append(i)
                n = 0
            n += length
        cuts.append(len(order))
        for k in rng.permutation(len(cuts) - 1):
            yield order[cuts[k] : cuts[k + 1]]


class Features(NamedTuple):
    """The features of T tokens, as the native core reads them."""

    indptr: npt.NDArray[np.int64]  # [T + 1]
    ids: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32] | None  # all 1 if None


class Wide:
    """The weights of features [F, Y], which AdaGrad learns.

    squares += grad²;  weight −= eta · grad / √squares

    A step touches only the rows of its features, in the native core.

    Parameters
    ----------
    n_features, n_labels : int
    """

    def __init__(self, n_features: int, n_labels: int) -> None:
        self.weight = np.zeros((n_features, n_labels), np.float32)
        self.squares = np.zeros((n_features, n_labels), np.float32)

    def score(self, features: Features) -> Tensor:
        """Return the sums of weights [T, Y]."""
        out = np.empty((len(features.indptr) - 1, self.weight.shape[1]), np.float32)
        _native.sum_feature_rows(*features, self.weight, out)
        return torch.from_numpy(out)

    def step(self, features: Features, grad: Tensor, eta: float) -> None:
        """Take a step along the gradient of the scores [T, Y]."""
        gradient = grad.cpu().contiguous().numpy()
        _native.step_feature_rows(*features, gradient, eta, self.weight, self.squares)


class AdamW:
    """Adam with decoupled weight decay; its state is plain tensors.

    mean ← β₁·mean + (1 − β₁)·grad;  square ← β₂·square + (1 − β₂)·grad²
    p ← (1 − rate·decay)·p − rate · (mean / (1 − β₁ⁿ)) / (√(square / (1 − β₂ⁿ)) + ε)

    The step is the fused one of torch, called directly: the first step of ``torch.optim`` imports
    the compiler of torch, which takes longer than a small training run.

    Parameters
    ----------
    groups : list of dict
        ``params`` and their learning rate ``eta``.
    """

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        self.groups = [(list(group["params"]), float(group["eta"])) for group in groups]
        self.parameters: list[Tensor] = [p for group, _ in self.groups for p in group]
        self.means = [torch.zeros_like(p) for p in self.parameters]
        self.squares = [torch.zeros_like(p) for p in self.parameters]
        self.n_steps = 0

    def state(self) -> dict[str, list[Tensor]]:
        """Return the tensors that a step changes, besides the parameters."""
        return {"mean": self.means, "square": self.squares}

    @torch.no_grad()
    def step(self, factor: float) -> None:
        """Take a step, with all learning rates multiplied by ``factor``."""
        self.n_steps += 1
        beta1, beta2 = _BETAS
        first = 0
        for parameters, eta in self.groups:
            at = [k for k, p in enumerate(parameters, first) if p.grad is not None]
            first += len(parameters)
            if not at:
                continue
            moved = [self.parameters[k] for k in at]
            torch._fused_adamw_(
                moved,
                [p.grad for p in moved],
                [self.means[k] for k in at],
                [self.squares[k] for k in at],
                [],
                [torch.tensor(float(self.n_steps)) for _ in at],
                lr=eta * factor,
                beta1=beta1,
                beta2=beta2,
                weight_decay=_DECAY,
                eps=1e-8,
                amsgrad=False,
                maximize=False,
            )

    @torch.no_grad()
    def clip(self, most: float) -> None:
        """Shorten the gradient to the length ``most`` if it is longer."""
        grads = [p.grad for p in self.parameters if p.grad is not None]
        length = math.sqrt(sum(float(norm) ** 2 for norm in torch._foreach_norm(grads)))
        if length > most:
            torch._foreach_mul_(grads, most / length)


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
            [
                *network.parameter_groups(schedule.eta),
                {"params": learned, "eta": schedule.eta},
            ]
        )
        self.epoch = 0
        sentences = len(examples.weight)
        lengths = np.diff(examples.inputs.offsets)
        tokens = int(lengths.sum())
        about = max(math.ceil(tokens / schedule.batch_tokens), 1)
        self._total = max(min(about, sentences) * schedule.epochs, 1)

    # ---- one epoch -------------------------------------------------------------------------

    def step(self) -> Step:
        """Go through the training data once, or until scores are NaN or infinite."""
        seed = [self.schedule.random_state, self.epoch]
        rng = np.random.default_rng(seed)
        losses: list[float] = []
        self.network.train()
        with self._alone(rng):
            for sentences in self.examples.batches(self.schedule.batch_tokens, rng):
                losses.append(self.learn(sentences, rng))
                if not math.isfinite(losses[-1]):
                    break
        self.epoch += 1
        return Step(float(np.sum(losses) / len(self.examples.weight)))

    @contextmanager
    def _alone(self, rng: np.random.Generator) -> Iterator[None]:
        """Run with random numbers of this epoch, on as many threads as the network may use."""
        threads = torch.get_num_threads()
        torch.set_num_threads(self.network.n_threads)
        try:
            with own_settings(), torch.random.fork_rng(devices=[]):
                torch.manual_seed(int(rng.integers(1 << 62)))
                yield
        finally:
            torch.set_num_threads(threads)

    def learn(self, sentences: npt.NDArray[np.int64], rng: np.random.Generator) -> float:
        """Take a step on some sentences, and return the sum of their losses.

        Without a step, the loss is NaN if a score is NaN or infinite.
        """
        examples = self.examples
        inputs, tokens = examples.inputs.select(sentences)
        gold = Gold(inputs.offsets, examples.gold[tokens], examples.weight[sentences])
        batch = Batch.of(inputs, self._dropped(inputs, tokens, rng), self.device)
        emit = self.network(batch)
        features = self._features(tokens, rng)
        if features is not None and self.wide is not None:
            emit = emit + self.wide.score(features).to(self.device)
            emit.retain_grad()
        if not emit.isfinite().all():
            return math.nan
        loss = self.head.loss(emit, gold)
        for parameter in self.optimiser.parameters:
            parameter.grad = None
        (loss / max(len(tokens), 1)).backward()
        self.optimiser.clip(self.schedule.clip)
        rate = self._rate()
        self.optimiser.step(rate)
        if features is not None and self.wide is not None:
            eta = self.schedule.eta_features * min(rate * 2, 1.0)
            self.wide.step(features, emit.grad, eta)
        return float(loss.detach())

    def _dropped(
        self, inputs: Inputs, tokens: npt.NDArray[np.int64], rng: np.random.Generator
    ) -> npt.NDArray[np.int32]:
        """Return the word of each token [T], some of them unknown."""
        counts = self.examples.counts[self.examples.inputs.types[tokens]]
        rate = self.schedule.word_dropout
        is_dropped = rng.random(len(tokens)) * (rate + counts) < rate
        return np.where(is_dropped, 0, inputs.words[inputs.types]).astype(np.int32)

    def _features(self, tokens: npt.NDArray[np.int64], rng: np.random.Generator) -> Features | None:
        """Return the features of tokens, some of them dropped."""
        encoded = self.examples.attributes
        if encoded is None:
            return None
        indptr, at = take_ragged(encoded.indptr, tokens)
        values = None if encoded.values is None else encoded.values[at].astype(np.float32)
        rate = self.schedule.dropout_features
        if rate:  # a dropped feature has the value 0, so its weights get no gradient
            kept = (rng.random(len(at), dtype=np.float32) >= rate).astype(np.float32) / (1 - rate)
            values = kept if values is None else values * kept
        return Features(indptr, encoded.ids[at].astype(np.int32), values)

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
            arrays["wide"] = self.wide.weight.copy()
        return arrays

    def state(self) -> Arrays:
        """Return the weights and the state of both optimisers."""
        arrays = self.weights()
        arrays["steps"] = np.array([self.epoch, self.optimiser.n_steps])
        if self.wide is not None:
            arrays["squares"] = self.wide.squares.copy()
        for kind, tensors in self.optimiser.state().items():
            for k, tensor in enumerate(tensors):
                arrays[f"{kind}.{k}"] = tensor.cpu().numpy().copy()
        return arrays

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a `state`."""

        def part(prefix: str) -> dict[str, npt.NDArray[Any]]:
            n = len(prefix)
            return {name[n:]: array for name, array in state.items() if name.startswith(prefix)}

        self.network.set_arrays(part("network."))
        head = {name: torch.from_numpy(np.array(a)) for name, a in part("head.").items()}
        self.head.load_state_dict(head)
        if self.wide is not None:
            self.wide.weight, self.wide.squares = (
                np.array(state["wide"]),
                np.array(state["squares"]),
            )
        self.epoch, self.optimiser.n_steps = (int(n) for n in state["steps"])
        for kind, tensors in self.optimiser.state().items():
            for k, tensor in enumerate(tensors):
                tensor.copy_(torch.from_numpy(np.array(state[f"{kind}.{k}"])))
