"""The network as a torch module, whose parameters have the names that `NetworkSpec.shapes` lists.

Batches are ragged: the tokens of all sentences one after another. The vectors of characters are
computed once for each word type of a batch.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from tagloom.errors import ParameterError
from tagloom.neural import native
from tagloom.scores.networks import PADDING, WIDTH, Alphabets, Inputs, NetworkSpec, Steps
from tagloom.storage import File

_CELLS: dict[str, Any] = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


@contextmanager
def own_settings() -> Iterator[None]:
    """Run in float32 and with gradients, whatever the calling program has set in torch."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        torch.set_default_dtype(before)


class Batch(NamedTuple):
    """Sentences as tensors: N sentences, T tokens, U word types."""

    types: Tensor  # [T] the type of each token
    words: Tensor  # [T] rows of words.weight
    vectors: Tensor  # [U] rows of vectors.weight
    character_offsets: npt.NDArray[np.int64]  # [U + 1]
    characters: Tensor  # [C]
    offsets: npt.NDArray[np.int64]  # [N + 1]

    @classmethod
    def of(
        cls, inputs: Inputs, words: npt.NDArray[Any] | None = None, device: Any = "cpu"
    ) -> Batch:
        """Make the tensors of inputs; ``words`` [T] replaces the words of tokens."""

        def tensor(array: npt.NDArray[Any]) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64)).to(device)

        words = inputs.words[inputs.types] if words is None else words
        return cls(
            tensor(inputs.types),
            tensor(words),
            tensor(inputs.vectors),
            inputs.character_offsets,
            tensor(inputs.characters),
            inputs.offsets,
        )


class Network(nn.Module):
    """From a batch to scores [T, Y].

    Parameters
    ----------
    spec : NetworkSpec
    dropout : float
        Probability by which components of the encoder's input and output are dropped in training.
    encoder : nn.Module, optional
        Replaces the encoder: from vectors [T, input_size] and offsets [N + 1] to [T, output_size].
    """

    def __init__(
        self, spec: NetworkSpec, dropout: float = 0.0, encoder: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.spec = spec
        if spec.n_words:
            self.words = nn.Embedding(spec.n_words, spec.word_size)
            nn.init.uniform_(self.words.weight, -_spread(spec.word_size), _spread(spec.word_size))
        if spec.n_vectors:
            size = spec.vector_size
            self.vectors = nn.Embedding(spec.n_vectors, size, padding_idx=0)
            self.vectors.weight.requires_grad_(False)
            if spec.is_tuned:
                self.tuned = nn.Embedding(spec.n_vectors, size, padding_idx=0)
        if spec.characters == "cnn":
            self.characters: nn.Module = CharacterCNN(spec)
        elif spec.characters == "lstm":
            self.characters = CharacterLSTM(spec)
        self.dropout = Dropout(dropout)
        self._make_encoder(encoder)
        self.output = nn.Linear(spec.output_size, spec.n_labels)

    def _make_encoder(self, encoder: nn.Module | None) -> None:
        spec = self.spec
        if encoder is not None:
            self.encoder = encoder
        elif spec.encoder == "cnn":
            self.encoder = ConvolutionEncoder(spec)
        else:
            between = self.dropout.p if spec.layers > 1 else 0.0
            self.encoder = _CELLS[spec.encoder](
                spec.input_size,
                spec.hidden,
                spec.layers,
                bidirectional=spec.is_bidirectional,
                dropout=between,
            )
            initial = torch.zeros(spec.layers * spec.directions, spec.hidden)
            self.h0 = nn.Parameter(initial)
            if spec.encoder == "lstm":
                self.c0 = nn.Parameter(initial.clone())
                with torch.no_grad():  # remember by default
                    for name, bias in self.encoder.named_parameters():
                        if name.startswith("bias_ih"):
                            bias[spec.hidden : 2 * spec.hidden].fill_(1.0)

    def forward(self, batch: Batch) -> Tensor:
        """Score every label at every token: [T, Y]."""
        return self.score(self.token_vectors(batch), batch.offsets)

    def token_vectors(self, batch: Batch) -> Tensor:
        """Return the vectors of tokens [T, input_size]."""
        spec, parts = self.spec, []
        if spec.n_words:
            parts.append(self.words(batch.words))
        if spec.n_vectors:
            parts.append(self.vectors(batch.vectors)[batch.types])
            if spec.is_tuned:
                parts.append(self.tuned(batch.vectors)[batch.types])
        if spec.characters is not None:
            of_types = self.characters(batch.characters, batch.character_offsets)
            parts.append(of_types[batch.types])
        return torch.cat(parts, dim=1)

    def score(self, x: Tensor, offsets: npt.NDArray[np.int64]) -> Tensor:
        """Score tokens from their vectors: [T, Y]."""
        x = self.dropout(x)
        if isinstance(self.encoder, nn.RNNBase):
            h = self._run_cells(x, offsets)
        else:
            h = self.encoder(x, offsets)
            self._check_output(h, len(x))
        scores: Tensor = self.output(self.dropout(h))
        return scores

    def _check_output(self, h: Tensor, n_tokens: int) -> None:
        """Raise if a module of the user returns vectors of another shape."""
        expected = n_tokens, self.spec.output_size
        if tuple(h.shape) != expected:
            raise ParameterError(
                parameter="encoder",
                expected=f"a module that returns vectors of shape {expected}, (T, hidden)",
                found=f"{tuple(h.shape)}",
            )

    def _run_cells(self, x: Tensor, offsets: npt.NDArray[np.int64]) -> Tensor:
        """Run the recurrent layers: in the native core, or packed step by step in torch."""
        if native.supports(self.encoder, x):
            c0 = self.c0 if self.spec.encoder == "lstm" else None
            seed = _draw_seed() if self.training and self.encoder.dropout else 0
            return native.recurrent(self.encoder, x, offsets, self.h0, c0, seed=seed)
        steps = Steps.of(offsets)
        n = steps.n_active
        if not len(n):
            return x.new_zeros(0, self.spec.output_size)
        order = torch.from_numpy(
            np.concatenate([steps.tokens(t, is_reversed=False) for t in range(len(n))])
        ).to(x.device)
        packed = PackedSequence(x[order], torch.from_numpy(n.astype(np.int64)))
        h0 = self.h0[:, None].expand(-1, int(n[0]), -1).contiguous()
        state: Any = h0
        if self.spec.encoder == "lstm":
            state = h0, self.c0[:, None].expand(-1, int(n[0]), -1).contiguous()
        out, _ = self.encoder(packed, state)
        h = torch.empty_like(out.data)
        h[order] = out.data
        return h

    # ---- learning --------------------------------------------------------------------------

    #: Threads of torch in training: more do not pay for small matrices, and change the bits.
    n_threads = 1

    def parameter_groups(self, eta: float) -> list[dict[str, Any]]:
        """Return the parameters that are learned, with their learning rate."""
        return [{"params": [p for p in self.parameters() if p.requires_grad], "eta": eta}]

    # ---- arrays ----------------------------------------------------------------------------

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return copies of all parameters by name, as `NetworkSpec.shapes` lists them."""
        state = self.state_dict()
        return {name: tensor.detach().cpu().numpy().copy() for name, tensor in state.items()}

    def set_arrays(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Set all parameters."""
        self.load_state_dict({name: torch.from_numpy(np.array(a)) for name, a in arrays.items()})


@dataclass(frozen=True, eq=False)
class ModuleScores:
    """A trained network whose encoder is a module of the user; it runs in torch.

    Attributes
    ----------
    spec : NetworkSpec
    alphabets : Alphabets
    arrays : dict of str to ndarray
    encoder : nn.Module
        The module; its weights are in ``arrays``.
    """

    spec: NetworkSpec
    alphabets: Alphabets
    arrays: dict[str, npt.NDArray[Any]]
    encoder: nn.Module

    @cached_property
    def module(self) -> Network:
        """The network in torch, for prediction."""
        with own_settings():
            module = Network(self.spec, encoder=copy.deepcopy(self.encoder))
            module.set_arrays(self.arrays)
        return module.eval().cpu()

    def emit(self, sentences: Sequence[Any], n_threads: int) -> npt.NDArray[np.float32]:
        """Score every label at every token: [T, Y]."""
        module = self.module  # made here, since `explain` needs its gradient
        with torch.inference_mode():
            scores = module(Batch.of(self.alphabets.encode(sentences)))
        array: npt.NDArray[np.float32] = scores.numpy()
        return array

    def to_file(self) -> File:
        """Raise, since a file cannot contain the code of a module.

        Raises
        ------
        ParameterError
        """
        raise ParameterError(
            parameter="encoder",
            expected="one of the named encoders in a tagger that is saved",
            found=type(self.encoder).__name__,
            hint="Save the weights with torch.save(module.state_dict(), path).",
        )


def _spread(size: int) -> float:
    """Bound of a uniform distribution of variance 1 / size."""
    return float(np.sqrt(3 / size))


def _draw_seed() -> int:
    """Draw a seed from torch's generator, whose state a checkpoint contains."""
    return int(torch.randint(1 << 62, ()))


class Dropout(nn.Dropout):
    """Dropout whose choice depends on a seed alone, on the CPU: not on the number of threads."""

    def forward(self, x: Tensor) -> Tensor:
        """Drop components in training."""
        if not self.training or self.p == 0 or not native.supports_tensor(x):
            result: Tensor = super().forward(x)
            return result
        return native.dropout(x, self.p, _draw_seed())


class CharacterCNN(nn.Module):
    """Convolutions over the characters of a word, and their maximum over positions."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        self.table = nn.Embedding(spec.n_characters, spec.character_size, padding_idx=PADDING)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(spec.character_size, spec.character_units, width, padding=width // 2)
            for width in spec.widths
        )

    def forward(self, characters: Tensor, offsets: npt.NDArray[np.int64]) -> Tensor:
        """Return the vectors of words [U, filters of all widths]."""
        table = self.table.weight
        if native.supports_tensor(table):
            return native.character_convolutions(table, self.convolutions, characters, offsets)
        ids, is_character = _padded(characters, offsets)  # [U, L]
        x = self.table(ids).masked_fill(~is_character[:, :, None], 0)  # [U, L, size]
        outputs = []
        for convolution in self.convolutions:
            h = convolution(x.transpose(1, 2)).masked_fill(~is_character[:, None], -torch.inf)
            outputs.append(h.amax(dim=2))
        return torch.cat(outputs, dim=1)


class CharacterLSTM(nn.Module):
    """The final states of an LSTM that reads the characters of a word in both directions."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        self.table = nn.Embedding(spec.n_characters, spec.character_size, padding_idx=PADDING)
        self.lstm = nn.LSTM(spec.character_size, spec.character_units, bidirectional=True)

    def forward(self, characters: Tensor, offsets: npt.NDArray[np.int64]) -> Tensor:
        """Return the vectors of words [U, 2 · units]."""
        lengths = np.diff(offsets)
        if not len(lengths):
            return self.table.weight.new_zeros(0, 2 * self.lstm.hidden_size)
        order = np.argsort(-lengths, kind="stable")
        steps = Steps.of(offsets)
        tokens = np.concatenate(
            [steps.tokens(t, is_reversed=False) for t in range(len(steps.n_active))]
        )
        x = self.table(characters[torch.from_numpy(tokens).to(characters.device)])
        packed = PackedSequence(x, torch.from_numpy(steps.n_active.astype(np.int64)))
        _, (h, _) = self.lstm(packed)  # [2, U, units], longest word first
        of_sorted = torch.cat([h[0], h[1]], dim=1)
        result = torch.empty_like(of_sorted)
        result[torch.from_numpy(order).to(result.device)] = of_sorted
        return result


class ConvolutionEncoder(nn.Module):
    """A linear layer, then residual convolutions: x + relu(convolution(x))."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        H = spec.hidden
        self.input = nn.Linear(spec.input_size, H)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(H, H, WIDTH, padding=WIDTH // 2) for _ in range(spec.layers)
        )

    def forward(self, x: Tensor, offsets: npt.NDArray[np.int64]) -> Tensor:
        """Return the vectors of tokens in context [T, H]."""
        h = self.input(x)
        ids, is_token = _padded(torch.arange(len(h), device=h.device), offsets)  # [N, L]
        h = h[ids] if len(h) else h.new_zeros(*ids.shape, h.shape[1])
        h = h.masked_fill(~is_token[:, :, None], 0).transpose(1, 2)  # [N, H, L]
        for convolution in self.convolutions:
            h = h + torch.relu(convolution(h)).masked_fill(~is_token[:, None], 0)
        tokens: Tensor = h.transpose(1, 2)[is_token]
        return tokens


def _padded(values: Tensor, offsets: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """Return ragged values as a matrix [N, L] with zeros at the end, and where it has values."""
    lengths = np.diff(offsets)
    at = np.arange(int(lengths.max(initial=1)))  # convolutions need a position
    is_value = torch.from_numpy(at < lengths[:, None]).to(values.device)
    matrix = values.new_zeros(is_value.shape)
    matrix[is_value] = values
    return matrix, is_value
