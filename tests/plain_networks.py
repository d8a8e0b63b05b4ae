"""The forward pass of a network in NumPy: what the native core and torch must agree with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tagloom.scores.networks import Arrays, Float32, Inputs, Int64, NetworkSpec, Steps


def forward(spec: NetworkSpec, arrays: Arrays, inputs: Inputs) -> Float32:
    """Run a network in NumPy.

    Parameters
    ----------
    spec : NetworkSpec
    arrays : mapping of str to ndarray
        Those that ``spec.shapes()`` names.
    inputs : Inputs

    Returns
    -------
    ndarray of float32, shape (T, Y)
    """
    x = type_vectors(spec, arrays, inputs)[inputs.types]  # [T, input_size]
    if spec.encoder == "cnn":
        h = _convolve_tokens(spec, arrays, x, inputs.offsets)
    else:
        h = x
        steps = Steps.of(inputs.offsets)
        for k in range(spec.layers):
            states = []
            for d, suffix in enumerate(("", "_reverse")[: spec.directions]):
                cell = _Cell.of(spec.encoder, arrays, "encoder.", f"_l{k}{suffix}")
                row = k * spec.directions + d
                c0 = arrays["c0"][row] if spec.encoder == "lstm" else None
                states.append(cell.run(h, steps, arrays["h0"][row], c0, is_reversed=d == 1))
            h = np.concatenate(states, axis=1)
    emit: Float32 = h @ arrays["output.weight"].T + arrays["output.bias"]
    return emit


def type_vectors(spec: NetworkSpec, arrays: Arrays, inputs: Inputs) -> Float32:
    """Return the vectors of word types [U, input_size]."""
    parts = []
    if spec.n_words:
        parts.append(arrays["words.weight"][inputs.words])
    if spec.n_vectors:
        parts.append(arrays["vectors.weight"][inputs.vectors])
        if spec.is_tuned:
            parts.append(arrays["tuned.weight"][inputs.vectors])
    if spec.characters is not None:
        offsets, characters = inputs.character_offsets, inputs.characters
        vectors = arrays["characters.table.weight"][characters]  # [C, size]
        if spec.characters == "lstm":
            steps = Steps.of(offsets)
            for d, suffix in enumerate(("", "_reverse")):
                cell = _Cell.of("lstm", arrays, "characters.lstm.", f"_l0{suffix}")
                zero = np.zeros(spec.character_units, np.float32)
                h = cell.run(vectors, steps, zero, zero, is_reversed=d == 1)
                parts.append(h[offsets[:-1] if d else offsets[1:] - 1])
        else:
            for k in range(len(spec.widths)):
                name = f"characters.convolutions.{k}."
                h = convolve(vectors, offsets, arrays[name + "weight"], arrays[name + "bias"])
                full = np.maximum.reduceat(h, offsets[:-1], axis=0) if len(h) else h
                parts.append(full)
    return np.concatenate(parts, axis=1)


def convolve(x: Float32, offsets: Int64, weight: Float32, bias: Float32) -> Float32:
    """Convolve each sequence, with zeros beyond its ends.

    out[t, k] = bias[k] + Σ_{j, d} weight[k, d, j] · x[t + j − (width − 1)/2, d]
    """
    width = weight.shape[2]
    lengths = np.diff(offsets)
    begins, ends = np.repeat(offsets[:-1], lengths), np.repeat(offsets[1:], lengths)  # [T]
    out = np.tile(bias, (len(x), 1))
    for j in range(width):
        at = np.arange(len(x)) + j - width // 2
        inside = (at >= begins) & (at < ends)
        out[inside] += x[at[inside]] @ weight[:, :, j].T
    return out


def _convolve_tokens(spec: NetworkSpec, arrays: Arrays, x: Float32, offsets: Int64) -> Float32:
    h: Float32 = x @ arrays["encoder.input.weight"].T + arrays["encoder.input.bias"]
    for k in range(spec.layers):
        name = f"encoder.convolutions.{k}."
        h = h + np.maximum(
            convolve(h, offsets, arrays[name + "weight"], arrays[name + "bias"]), np.float32(0)
        )
    return h


class _Cell(NamedTuple):
    """One layer and direction of a recurrent network."""

    kind: str
    weight_ih: Float32  # [G·H, D]
    weight_hh: Float32  # [G·H, H]
    bias_ih: Float32  # [G·H]
    bias_hh: Float32  # [G·H]

    @classmethod
    def of(cls, kind: str, arrays: Arrays, prefix: str, suffix: str) -> _Cell:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return cls(kind, *(arrays[f"{prefix}{name}{suffix}"] for name in names))

    def run(
        self, x: Float32, steps: Steps, h0: Float32, c0: Float32 | None, *, is_reversed: bool
    ) -> Float32:
        """Return the hidden states [T, H]."""
        H, N = self.weight_hh.shape[1], len(steps.begins)
        projected = x @ self.weight_ih.T + self.bias_ih  # [T, G·H]
        out = np.empty((len(x), H), np.float32)
        h = np.tile(h0, (N, 1))  # [N, H]
        c = np.tile(h0 if c0 is None else c0, (N, 1))  # [N, H] the memory of an LSTM
        for t in range(len(steps.n_active)):
            tokens = steps.tokens(t, is_reversed=is_reversed)
            h, c = h[: len(tokens)], c[: len(tokens)]
            a, b = projected[tokens], h @ self.weight_hh.T + self.bias_hh
            if self.kind == "lstm":
                i, f, g, o = np.split(a + b, 4, axis=1)
                c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
                h = _sigmoid(o) * np.tanh(c)
            elif self.kind == "gru":
                r, z = np.split(_sigmoid(a[:, : 2 * H] + b[:, : 2 * H]), 2, axis=1)
                n = np.tanh(a[:, 2 * H :] + r * b[:, 2 * H :])
                h = (1 - z) * n + z * h
            else:
                h = np.tanh(a + b)
            out[tokens] = h
        return out


def _sigmoid(x: Float32) -> Float32:
    half: Float32 = np.tanh(np.float32(0.5) * x)  # never overflows
    return np.float32(0.5) * half + np.float32(0.5)
