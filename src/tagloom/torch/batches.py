"""Two layouts of a batch of tensors: padded with a mask, and sequences in a row with offsets.

Both give the same views: rows of the unmasked positions, as the native core reads them, and
time-major batches without holes, as the recursions in plain PyTorch read them.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tagloom import _native


class Padded:
    """A batch [B, L, ...] whose masked positions are skipped, also inside a sequence."""

    def __init__(self, emit: Tensor, mask: Tensor | None) -> None:
        self.shape = (emit.shape[0], emit.shape[1])
        self.mask = mask
        self.device = emit.device

    @property
    def n_sequences(self) -> int:
        """B."""
        return self.shape[0]

    @property
    def n_tokens(self) -> int:
        """The number of unmasked positions."""
        return self.shape[0] * self.shape[1] if self.mask is None else int(self.mask.sum())

    @cached_property
    def lengths(self) -> Tensor:
        """The number of unmasked positions of each sequence [B]."""
        B, L = self.shape
        if self.mask is None:
            return torch.full((B,), L, device=self.device)
        return self.mask.sum(1)

    @cached_property
    def offsets(self) -> Any:
        """Where each sequence begins and ends among the rows [B + 1]."""
        ends = self.lengths.cpu().numpy().cumsum()
        return np.concatenate([np.zeros(1, np.int64), ends.astype(np.int64)])

    def rows(self, x: Tensor) -> Tensor:
        """The unmasked positions of x [B, L, ...] in a row [T, ...]."""
        return x.reshape(-1, *x.shape[2:]) if self.mask is None else x[self.mask]

    def array(self, x: Tensor) -> Any:
        """`rows` as an array of NumPy, which selects rows in a fifth of the time."""
        values = x.detach().cpu().contiguous().numpy().reshape(-1, *x.shape[2:])
        if self.mask is None:
            return values
        return values.take(np.flatnonzero(self.mask.cpu().numpy()), axis=0)

    def padded(self, rows: Tensor, fill: float = 0) -> Tensor:
        """Rows [T, ...] as a batch [B, L, ...], masked positions filled."""
        if self.mask is None:
            return rows.reshape(*self.shape, *rows.shape[1:])
        out = rows.new_full((*self.shape, *rows.shape[1:]), fill)
        out[self.mask] = rows
        return out

    @cached_property
    def _order(self) -> Tensor | None:
        """The positions [B, L], unmasked ones first; None if they are already in that order."""
        if self.mask is None:
            return None
        if not torch.compiler.is_compiling():  # an exported graph has no branches on values
            has_holes = bool((self.mask[:, 1:] & ~self.mask[:, :-1]).any())
            if not has_holes:
                return None
        return torch.argsort((~self.mask).to(torch.uint8), dim=1, stable=True)

    def time_major(self, x: Tensor) -> Tensor:
        """X [B, L, ...] as [L, B, ...], masked positions at the end."""
        if self._order is not None:
            x = x[torch.arange(x.shape[0], device=x.device).unsqueeze(1), self._order]
        return x.transpose(0, 1)

    @cached_property
    def inside(self) -> Tensor:
        """The mask [L, B] of `time_major`: True up to the end of each sequence."""
        B, L = self.shape
        if self.mask is None:
            return torch.ones(L, B, dtype=torch.bool, device=self.device)
        if self._order is None:
            return self.mask.t()
        return torch.arange(L, device=self.device).unsqueeze(1) < self.lengths

    def restored(self, x: Tensor) -> Tensor:
        """X [L, B] of `time_major` as [B, L], each position where it was."""
        x = x.t()
        return x if self._order is None else torch.empty_like(x).scatter(1, self._order, x)

    def place(self, t: int) -> str:
        """Where row t lies, for messages."""
        B, L = self.shape
        mask = np.ones((B, L), np.bool_) if self.mask is None else self.mask.cpu().numpy()
        b, position = np.argwhere(mask)[t]
        return f"sequence {b}, position {position}"

    def native_loss(
        self, chain: _native.ChainLoss, emit: Tensor, ids: Any, allowed: Any, grad: Any
    ) -> float | None:
        """The loss of a padded batch in one native call."""
        mask = None if self.mask is None else self.mask.numpy()
        return chain.padded(emit.numpy(), mask, ids, allowed, grad)


class Ragged:
    """Sequences in a row [T, ...], cut by offsets [N + 1]."""

    def __init__(self, emit: Tensor, offsets: Any) -> None:
        self.offsets = offsets
        self.device = emit.device

    @property
    def n_sequences(self) -> int:
        """N."""
        return len(self.offsets) - 1

    @property
    def n_tokens(self) -> int:
        """T."""
        return int(self.offsets[-1])

    def rows(self, x: Tensor) -> Tensor:
        """X itself."""
        return x

    def array(self, x: Tensor) -> Any:
        """X as an array of NumPy."""
        return x.detach().cpu().contiguous().numpy()

    def padded(self, rows: Tensor, fill: float = 0) -> Tensor:
        """The rows themselves: nothing is padded."""
        return rows

    @cached_property
    def _rows(self) -> tuple[Tensor, Tensor]:
        lengths = np.diff(self.offsets)
        positions = np.arange(int(lengths.max(initial=0)))[:, None]
        rows = np.where(positions < lengths, self.offsets[:-1] + positions, 0)
        inside = positions < lengths
        return torch.from_numpy(rows).to(self.device), torch.from_numpy(inside).to(self.device)

    def time_major(self, x: Tensor) -> Tensor:
        """X [T, ...] as [L, N, ...]."""
        return x[self._rows[0]]

    @property
    def inside(self) -> Tensor:
        """The mask [L, N] of `time_major`."""
        return self._rows[1]

    def place(self, t: int) -> str:
        """Where row t lies, for messages."""
        i = int(np.searchsorted(self.offsets, t, side="right")) - 1
        return f"sequence {i}, position {t - int(self.offsets[i])}"

    def native_loss(
        self, chain: _native.ChainLoss, emit: Tensor, ids: Any, allowed: Any, grad: Any
    ) -> float | None:
        """The loss of sequences in a row in one native call."""
        return chain.ragged(emit.numpy(), self.offsets, ids, allowed, grad)
