"""Transformer encoders (BERT, RoBERTa), read from a folder and run in plain torch.

The folder has ``config.json``, ``tokenizer.json`` and ``model.safetensors``, as other libraries
save them: numbers and settings, of which nothing is executed. A word is represented by its first
and its last piece, and by its case if the model ignores case. Sentences that are longer than the
model reads are cut into overlapping windows.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tagloom import checks, storage
from tagloom.errors import MissingExtraError, ModelFileError, ParameterError
from tagloom.neural.modules import Batch, own_settings
from tagloom.scores.networks import Inputs, number_types, take_ragged
from tagloom.storage import File

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]
Arrays = dict[str, npt.NDArray[Any]]

_MODELS = ("bert", "roberta", "xlm-roberta")
_CASE_SIZE = 16
_OVERLAP = 32  # pieces that a window shares with each of its neighbours
_BATCH = 4096  # pieces that are read at once; sentences of training are seldom as many
_LARGEST_HEADER = 1 << 26
_MOST_AXES = 8  # of an array; NumPy has at most 32 or 64
_DTYPES = {"F32": "<f4", "F64": "<f8", "F16": "<f2", "BF16": "<u2", "I64": "<i8"}


@dataclass(frozen=True)
class TransformerSpec:
    """The definition of a transformer and of the layer that scores labels.

    Attributes
    ----------
    n_labels : int
    vocabulary, size, layers, attention_heads, inner, positions, segments : int
        Numbers of pieces, components, layers, attention heads, components of the inner layer,
        positions and segments.
    epsilon : float
        Of layer normalisation.
    first_position : int
        0 for BERT, 2 for RoBERTa.
    begin, end : int
        The pieces before and after a sentence.
    unknown : int
        The piece of a word without pieces.
    ignores_case : bool
    """

    n_labels: int
    vocabulary: int
    size: int
    layers: int
    attention_heads: int
    inner: int
    positions: int
    segments: int
    epsilon: float
    first_position: int
    begin: int
    end: int
    unknown: int
    ignores_case: bool

    @property
    def window(self) -> int:
        """Number of pieces of a window, without those before and after it."""
        return self.positions - self.first_position - 2

    def to_dict(self) -> dict[str, Any]:
        """Return the definition as plain data."""
        return {"kind": "transformer", **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], n_labels: int) -> TransformerSpec:
        """Make a definition from the result of `to_dict`, which is not trusted."""
        values = {field.name: data[field.name] for field in fields(cls)}
        for field in fields(cls):
            value = values[field.name]
            is_right = type(value).__name__ == field.type and 0 <= value < 1 << 24
            if not is_right:
                raise ModelFileError(
                    where=f"transformer, {field.name}",
                    expected=f"a {field.type} within its range",
                    found=checks.show(value),
                )
        spec = cls(**values)
        fits = (
            spec.n_labels == n_labels
            and spec.attention_heads > 0
            and spec.size % spec.attention_heads == 0
            and spec.window > 2 * _OVERLAP
            and max(spec.begin, spec.end, spec.unknown) < spec.vocabulary
        )
        if not fits:
            raise ModelFileError(
                where="transformer", expected="sizes that fit together", found=str(values)
            )
        return spec


class Pieces:
    """Cuts words into the pieces of a transformer.

    Parameters
    ----------
    text : str
        The contents of ``tokenizer.json``.
    """

    def __init__(self, text: str) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise MissingExtraError(
                "A transformer needs the package tokenizers.",
                hint="Install it with: pip install 'tagloom[neural]'",
            ) from error
        self.text = text
        try:
            self._tokenizer = Tokenizer.from_str(text)
        except Exception as error:  # the package raises Exception itself
            raise ModelFileError(
                where="tokenizer.json", expected="a tokenizer", found=str(error)[:80]
            ) from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.ignores_case = any(
            part.get("lowercase") is True or part.get("type") == "Lowercase"
            for part in _parts_of(json.loads(text), "normalizer")
        )

    def after_space(self) -> Pieces:
        """Return the same with the pieces that words have after a space, as in running text.

        A tokenizer of bytes, as that of RoBERTa, has others for the first word of a text.
        """
        settings = json.loads(self.text)
        for part in _parts_of(settings, "pre_tokenizer"):
            if part.get("type") == "ByteLevel":
                part["add_prefix_space"] = True
        return Pieces(json.dumps(settings))

    def find(self, *names: str) -> int:
        """Return the number of the first of these pieces that exists."""
        for name in names:
            number = self._tokenizer.token_to_id(name)
            if number is not None:
                return int(number)
        raise ModelFileError(where="tokenizer.json", expected=f"a piece {names[0]}", found="none")

    def cut(self, words: Sequence[str], unknown: int) -> list[list[int]]:
        """Return the pieces of each word; at least one."""
        encoded = self._tokenizer.encode_batch(list(words), add_special_tokens=False)
        return [item.ids or [unknown] for item in encoded]

    def encode(self, sentences: Sequence[Any], unknown: int) -> Inputs:
        """Turn sentences into numbers: ``characters`` are pieces, ``words`` are cases."""
        types, offsets, table = number_types(sentences)
        pieces = self.cut([*table], unknown)
        lengths = np.array([len(p) for p in pieces], dtype=np.int64)
        return Inputs(
            offsets,
            types,
            np.array([case_of(word) for word in table], np.int32),
            np.zeros(len(table), np.int32),
            np.concatenate([[0], np.cumsum(lengths)]),
            np.array([piece for row in pieces for piece in row], np.int32),
        )


def _parts_of(settings: dict[str, Any], stage: str) -> list[dict[str, Any]]:
    """Return the parts of a stage of a tokenizer, which is one part or a sequence of them."""
    whole = settings.get(stage) or {}
    parts: list[dict[str, Any]] = whole.get(stage.replace("_", "") + "s", [whole])
    return parts


def count_pieces(inputs: Inputs) -> Int64:
    """Return the number of pieces of each sentence [N]."""
    of_tokens = np.diff(inputs.character_offsets)[inputs.types]
    ends = np.concatenate([[0], np.cumsum(of_tokens)])[inputs.offsets]
    return np.diff(ends)


def case_of(word: str) -> int:
    """Return 0 for a word in lower case, 1 for capitals, 2 for a capital at first, 3 otherwise.

    Examples
    --------
    >>> [case_of(word) for word in ["they", "US", "Oslo", "iPod", "1990"]]
    [0, 1, 2, 3, 0]
    """
    if word == word.lower():
        return 0
    if word == word.upper():
        return 1
    return 2 if word[1:] == word[1:].lower() else 3


# ---- the module --------------------------------------------------------------------------------


class _Windows(NamedTuple):
    """Where the P pieces of N windows are in a matrix of windows.

    Pieces are one after another, without padding, for everything except attention: a batch of
    sentences of mixed length has almost as much padding as pieces.
    """

    is_piece: Tensor  # [N, L]
    places: Tensor  # [P] of each piece in the matrix, row by row

    @classmethod
    def of(cls, lengths: Int64, device: torch.device) -> _Windows:
        """Make the places of windows of these lengths [N]."""
        is_piece = np.arange(lengths.max()) < lengths[:, None]
        places = np.flatnonzero(is_piece)
        return cls(torch.from_numpy(is_piece).to(device), torch.from_numpy(places).to(device))

    def pad(self, x: Tensor) -> Tensor:
        """Put pieces [P, D] into the matrix [N · L, D]; the rest is 0."""
        return x.new_zeros(self.is_piece.numel(), x.shape[1]).index_copy(0, self.places, x)

    def unpad(self, x: Tensor) -> Tensor:
        """Take the pieces [P, D] out of the matrix [N, L, ...]."""
        return x.reshape(self.is_piece.numel(), -1).index_select(0, self.places)


class _Layer(nn.Module):
    """One layer of a transformer, under the names of BERT."""

    def __init__(self, spec: TransformerSpec) -> None:
        super().__init__()
        D = spec.size
        self.n_heads = spec.attention_heads
        self.query, self.key, self.value, self.mixed = (nn.Linear(D, D) for _ in range(4))
        self.after_attention = nn.LayerNorm(D, eps=spec.epsilon)
        self.widen, self.narrow = nn.Linear(D, spec.inner), nn.Linear(spec.inner, D)
        self.after_all = nn.LayerNorm(D, eps=spec.epsilon)

    def forward(self, x: Tensor, windows: _Windows, dropout: nn.Dropout) -> Tensor:
        N, L = windows.is_piece.shape

        def heads(layer: nn.Linear) -> Tensor:
            return windows.pad(layer(x)).view(N, L, self.n_heads, -1).transpose(1, 2)

        attended = nn.functional.scaled_dot_product_attention(
            heads(self.query),
            heads(self.key),
            heads(self.value),
            attn_mask=windows.is_piece[:, None, None],
        )
        mixed = self.mixed(windows.unpad(attended.transpose(1, 2)))
        x = self.after_attention(x + dropout(mixed))
        inner = self.narrow(nn.functional.gelu(self.widen(x)))
        return self.after_all(x + dropout(inner))


# Names of a layer's parts in files of BERT and RoBERTa.
_PARTS = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "mixed": "attention.output.dense",
    "after_attention": "attention.output.LayerNorm",
    "widen": "intermediate.dense",
    "narrow": "output.dense",
    "after_all": "output.LayerNorm",
}


class Transformer(nn.Module):
    """A transformer and the layer that scores labels: from a batch to scores [T, Y].

    Parameters
    ----------
    spec : TransformerSpec
    dropout : float
    n_threads : int
        Threads of torch in training.
    """

    def __init__(self, spec: TransformerSpec, dropout: float = 0.1, n_threads: int = 1) -> None:
        super().__init__()
        D = spec.size
        self.spec, self.n_threads = spec, n_threads
        self.pieces = nn.Embedding(spec.vocabulary, D)
        self.positions = nn.Embedding(spec.positions, D)
        self.segments = nn.Embedding(spec.segments, D)
        self.normalise = nn.LayerNorm(D, eps=spec.epsilon)
        self.layers = nn.ModuleList(_Layer(spec) for _ in range(spec.layers))
        self.case = nn.Embedding(4, _CASE_SIZE if spec.ignores_case else 0)
        self.output = nn.Linear(2 * D + self.case.embedding_dim, spec.n_labels)
        self.dropout = nn.Dropout(dropout)
        self.pieces.weight.requires_grad_(False)  # a third of the weights, rarely worth learning

    def parameter_groups(self, eta: float) -> list[dict[str, Any]]:
        """Return the parameters; those that are not pre-trained learn ten times as fast."""
        new = [*self.case.parameters(), *self.output.parameters()]
        kept = {id(p) for p in new}
        old = [p for p in self.parameters() if p.requires_grad and id(p) not in kept]
        return [{"params": old, "eta": eta}, {"params": new, "eta": 10 * eta}]

    def forward(self, batch: Batch) -> Tensor:
        """Score every label at every token: [T, Y]."""
        token_offsets, x = self.piece_vectors(batch)
        return self.score(x, token_offsets, batch)

    def piece_vectors(self, batch: Batch) -> tuple[Int64, Tensor]:
        """Return where the pieces of each token begin [T + 1], and the vectors of pieces [P, D]."""
        types = batch.types.cpu().numpy()
        token_offsets, places = take_ragged(batch.character_offsets, types)
        ids = batch.characters[torch.from_numpy(places).to(batch.characters.device)]
        return token_offsets, self.pieces(ids)

    def score(self, x: Tensor, token_offsets: Int64, batch: Batch) -> Tensor:
        """Score tokens from the vectors of their pieces: [T, Y]."""
        vectors = self._encode(x, token_offsets, batch.offsets)  # [P, D]
        device = vectors.device
        first = torch.from_numpy(token_offsets[:-1]).to(device)
        last = torch.from_numpy(token_offsets[1:] - 1).to(device)
        x = torch.cat([vectors[first], vectors[last]], dim=1)
        if self.spec.ignores_case:
            x = torch.cat([x, self.case(batch.words)], dim=1)
        scores: Tensor = self.output(self.dropout(x))
        return scores

    def _encode(self, x: Tensor, token_offsets: Int64, offsets: Int64) -> Tensor:
        """Return the vector of every piece in its sentence [P, D].

        Many windows are read group by group. Their gradient reads each group a second time, so that
        the memory of a long document is that of its largest group.
        """
        windows = np.array(cut_windows(token_offsets[offsets], self.spec.window), dtype=np.int64)
        if not len(windows):
            return self.output.weight.new_zeros(0, self.spec.size)
        groups = group_windows(windows, _BATCH)
        if len(groups) == 1:
            return self._encode_windows(x, windows)
        if not torch.is_grad_enabled():
            return torch.cat([self._encode_windows(x, group) for group in groups])
        from torch.utils.checkpoint import checkpoint  # here: it imports much

        run = self._encode_windows
        return torch.cat([checkpoint(run, x, group, use_reentrant=False) for group in groups])

    def _encode_windows(self, x: Tensor, windows: Int64) -> Tensor:
        """Return the vectors of the pieces that windows [N, 4] are used for."""
        spec = self.spec
        begins, ends, firsts, lasts = windows.T  # [N] each
        lengths = ends - begins + 2  # with the pieces before and after a sentence
        starts = np.cumsum(lengths) - lengths
        at = np.arange(lengths.sum()) - np.repeat(starts, lengths)  # [P'] place in the window
        place = np.repeat(begins - 1, lengths) + at  # [P'] row of x
        is_wanted = (place >= np.repeat(firsts, lengths)) & (place < np.repeat(lasts, lengths))
        place[starts], place[starts + lengths - 1] = len(x), len(x) + 1

        def tensor(array: Int64) -> Tensor:
            return torch.from_numpy(array).to(x.device)

        boundaries = self.pieces.weight[[spec.begin, spec.end]]
        h = torch.cat([x, boundaries]).index_select(0, tensor(place))
        h = h + self.positions(tensor(spec.first_position + at))
        h = self.dropout(self.normalise(h + self.segments.weight[0]))
        places = _Windows.of(lengths, x.device)
        for layer in self.layers:
            h = layer(h, places, self.dropout)
        return h.index_select(0, tensor(np.flatnonzero(is_wanted)))

    def arrays(self) -> Arrays:
        """Return copies of all parameters by name."""
        return {k: v.detach().cpu().numpy().copy() for k, v in self.state_dict().items()}

    def set_arrays(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Set all parameters."""
        self.load_state_dict({k: torch.from_numpy(np.array(v)) for k, v in arrays.items()})


def cut_windows(offsets: Int64, most: int) -> list[tuple[int, int, int, int]]:
    """Cut sequences of pieces into windows of at most ``most`` pieces.

    Returns
    -------
    list of tuple
        Begin and end of each window, and of the part of it whose vectors are used; these parts
        follow one another without gaps.

    Examples
    --------
    >>> cut_windows(np.array([0, 5, 5]), 100)
    [(0, 5, 0, 5)]
    >>> cut_windows(np.array([0, 200]), 100)
    [(0, 100, 0, 68), (36, 136, 68, 104), (72, 172, 104, 140), (100, 200, 140, 200)]
    """
    windows = []
    for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        first = begin
        while first < end:
            left = max(begin, min(first - _OVERLAP, end - most))
            right = min(left + most, end)
            last = end if right == end else right - _OVERLAP
            windows.append((left, right, first, last))
            first = last
    return windows


def group_windows(windows: Int64, most: int) -> list[Int64]:
    """Cut windows [N, 4] into groups of at most ``most`` pieces with their padding.

    Examples
    --------
    >>> windows = np.array(cut_windows(np.array([0, 200, 210, 215]), 100))
    >>> [len(group) for group in group_windows(windows, 250)]
    [2, 2, 2]
    """
    lengths = windows[:, 1] - windows[:, 0] + 2
    cuts, longest = [0], 0
    for i, length in enumerate(lengths.tolist()):
        longest = max(longest, length)
        if i > cuts[-1] and longest * (i + 1 - cuts[-1]) > most:
            cuts.append(i)
            longest = length
    return np.split(windows, cuts[1:])


# ---- a trained transformer ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TransformerScores:
    """A trained transformer, from sentences to scores.

    Attributes
    ----------
    spec : TransformerSpec
    tokenizer : str
        The contents of ``tokenizer.json``.
    arrays : dict of str to ndarray
    """

    spec: TransformerSpec
    tokenizer: str
    arrays: Arrays

    @cached_property
    def _pieces(self) -> Pieces:
        return Pieces(self.tokenizer)

    @cached_property
    def module(self) -> Transformer:
        """The transformer in torch, for prediction."""
        with own_settings():
            module = Transformer(self.spec)
            module.set_arrays(self.arrays)
        return module.eval()

    def encode(self, sentences: Sequence[Any]) -> Inputs:
        """Turn sentences into numbers."""
        return self._pieces.encode(sentences, self.spec.unknown)

    def emit(self, sentences: Sequence[Any], n_threads: int) -> Float32:
        """Score every label at every token: [T, Y]."""
        inputs = self.encode(sentences)
        emit = np.empty((len(inputs.types), self.spec.n_labels), np.float32)
        sizes = count_pieces(inputs)
        order = np.argsort(sizes, kind="stable")
        begin, module = 0, self.module  # made here, since `explain` needs its gradient
        with torch.inference_mode():
            while begin < len(order):
                end = begin + 1  # sorted by size, so the last sentence is the longest
                while end < len(order) and sizes[order[end]] * (end + 1 - begin) <= _BATCH:
                    end += 1
                some, tokens = inputs.select(order[begin:end])
                emit[tokens] = module(Batch.of(some)).numpy()
                begin = end
        return emit

    def to_file(self) -> File:
        """Return the transformer as a header of plain data and arrays."""
        arrays = {"tokenizer": storage.pack_strings([self.tokenizer])}
        file = File({"network": self.spec.to_dict()}, {**self.arrays}, frozenset(self.arrays))
        return file | File({}, arrays)

    @classmethod
    def from_file(cls, file: File, n_labels: int) -> TransformerScores:
        """Make a transformer from the result of `to_file`, which is not trusted."""
        spec = TransformerSpec.from_dict(file.header["network"], n_labels)
        (text,) = storage.unpack_strings(file.arrays["tokenizer"])
        arrays = {name: array for name, array in file.arrays.items() if name != "tokenizer"}
        _check_layers(spec, arrays)
        with torch.device("meta"):
            wanted = {k: tuple(v.shape) for k, v in Transformer(spec).state_dict().items()}
        found = {name: array.shape for name, array in arrays.items()}
        if wanted != found or any(array.dtype != np.float32 for array in arrays.values()):
            raise ModelFileError(
                where="transformer", expected="the arrays of its definition", found="others"
            )
        return cls(spec, text, arrays)


# ---- folders -----------------------------------------------------------------------------------


def read_transformer(source: Any, n_labels: int) -> tuple[TransformerSpec, Pieces, Arrays]:
    """Read a transformer from a folder, or from the folder of an installed package.

    Parameters
    ----------
    source : path or str
    n_labels : int

    Returns
    -------
    spec : TransformerSpec
    pieces : Pieces
    arrays : dict of str to ndarray
        Those of `Transformer`, except the layer that scores labels.

    Raises
    ------
    ParameterError
        If there is no such folder or package.
    ModelFileError
        If a file is missing, damaged, or of another kind of model.
    """
    folder = find_folder(source)
    config = _read_json(folder / "config.json")
    kind = config.get("model_type")
    if (
        not isinstance(kind, str)
        or kind not in _MODELS
        or config.get("hidden_act", "gelu") != "gelu"
    ):
        raise ModelFileError(
            where=str(folder / "config.json"),
            expected=f"a model of the type {', '.join(_MODELS)}, with gelu",
            found=checks.show(kind),
        )
    pieces = Pieces(_read_text(folder / "tokenizer.json")).after_space()
    sizes = {
        "vocabulary": "vocab_size",
        "size": "hidden_size",
        "layers": "num_hidden_layers",
        "attention_heads": "num_attention_heads",
        "inner": "intermediate_size",
        "positions": "max_position_embeddings",
        "segments": "type_vocab_size",
    }
    spec = TransformerSpec.from_dict(
        {name: config.get(key) for name, key in sizes.items()}
        | {
            "n_labels": n_labels,
            "epsilon": _number(config.get("layer_norm_eps", 1e-12)),
            "first_position": 0 if kind == "bert" else 2,
            "begin": pieces.find("[CLS]", "<s>"),
            "end": pieces.find("[SEP]", "</s>"),
            "unknown": pieces.find("[UNK]", "<unk>"),
            "ignores_case": pieces.ignores_case,
        },
        n_labels,
    )
    path = folder / "model.safetensors"
    stored = read_safetensors(path)
    _check_layers(spec, stored)
    prefix = next((k for k in ("", "bert.", "roberta.") if _WORDS.format(k) in stored), "")
    arrays: Arrays = {}
    with torch.device("meta"):
        module = Transformer(spec)
    for name, tensor in module.state_dict().items():
        if name.startswith(("case.", "output.")):
            continue
        theirs = prefix + _their_name(name)
        array = stored.get(theirs)
        if array is None or array.shape != tuple(tensor.shape):
            raise ModelFileError(
                where=str(path),
                expected=f"{theirs} of shape {tuple(tensor.shape)}",
                found="no such array" if array is None else f"shape {array.shape}",
            )
        arrays[name] = array.astype(np.float32)
    return spec, pieces, arrays


def _number(value: Any) -> Any:
    """Return an int of JSON as float; `TransformerSpec.from_dict` refuses what is not a number."""
    return float(value) if type(value) is int and abs(value) < 1 << 24 else value


_WORDS = "{}embeddings.word_embeddings.weight"


def _check_layers(spec: TransformerSpec, arrays: Arrays) -> None:
    """Raise before millions of layers are made that a file does not have."""
    if spec.layers > len(arrays):
        raise ModelFileError(
            where="transformer, layers",
            expected=f"at most {len(arrays)}, the number of arrays",
            found=str(spec.layers),
        )


def _their_name(name: str) -> str:
    """Return the name of a parameter in files of BERT and RoBERTa."""
    whole = {
        "pieces.weight": _WORDS.format(""),
        "positions.weight": "embeddings.position_embeddings.weight",
        "segments.weight": "embeddings.token_type_embeddings.weight",
        "normalise.weight": "embeddings.LayerNorm.weight",
        "normalise.bias": "embeddings.LayerNorm.bias",
    }
    if name in whole:
        return whole[name]
    _, k, part, kind = name.split(".")
    return f"encoder.layer.{k}.{_PARTS[part]}.{kind}"


def find_folder(source: Any) -> Path:
    """Return the folder of a transformer: a path, or that of an installed package.

    A package is searched for a folder with the three files; it is not imported.
    """
    path = Path(checks.path(source, "transformer"))
    needed = ("config.json", "tokenizer.json", "model.safetensors")

    def is_complete(folder: Path) -> bool:
        return all((folder / name).is_file() for name in needed)

    if is_complete(path):
        return path
    places = [path] if path.is_dir() else _package_folders(os.fspath(source))
    for place in places:
        for config in sorted(place.rglob("config.json")):
            if is_complete(config.parent):
                return config.parent
    raise ParameterError(
        parameter="transformer",
        expected=f"a folder, or an installed package, with {', '.join(needed)}",
        found=repr(os.fspath(source)),
    )


def _package_folders(name: str) -> list[Path]:
    """Return the folders of an installed distribution or package, without importing it."""
    from importlib import metadata, util

    try:
        files = metadata.files(name) or []
        found = [Path(str(file.locate())).parent for file in files if file.name == "config.json"]
        if found:
            return found
    except metadata.PackageNotFoundError:
        pass
    try:
        spec = util.find_spec(name) if name.isidentifier() else None
    except (ImportError, ValueError):
        spec = None
    return [] if spec is None else [Path(p) for p in spec.submodule_search_locations or ()]


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ModelFileError(where=str(path), expected="text in UTF-8", found=str(error)) from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(_read_text(path))
    except (ValueError, RecursionError) as error:
        raise ModelFileError(where=str(path), expected="JSON", found=str(error)) from error
    if not isinstance(data, dict):
        raise ModelFileError(where=str(path), expected="a JSON object", found=checks.show(data))
    return data


def read_safetensors(path: Path) -> Arrays:
    """Read the arrays of a safetensors file, which is not trusted.

    Raises
    ------
    ModelFileError
        If it is damaged.
    """

    def damaged(found: str) -> ModelFileError:
        return ModelFileError(where=str(path), expected="a safetensors file", found=found)

    data = np.memmap(path, dtype=np.uint8, mode="r") if path.stat().st_size else np.empty(0)
    if len(data) < 8:
        raise damaged(f"{len(data)} bytes")
    size = int.from_bytes(data[:8].tobytes(), "little")
    if size > min(len(data) - 8, _LARGEST_HEADER):
        raise damaged(f"a header of {size} bytes")
    try:
        header = json.loads(data[8 : 8 + size].tobytes())
    except (ValueError, RecursionError):
        raise damaged("a header that is not JSON") from None
    if not isinstance(header, dict):
        raise damaged("a header that is not an object")
    arrays: Arrays = {}
    body = data[8 + size :]
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        try:
            dtype, shape = entry["dtype"], [int(n) for n in entry["shape"]]
            begin, end = (int(n) for n in entry["data_offsets"])
        except (KeyError, TypeError, ValueError, OverflowError):
            raise damaged(f"a bad entry for {name!r}") from None
        if dtype not in _DTYPES:
            continue
        expected = math.prod(shape) * np.dtype(_DTYPES[dtype]).itemsize
        if (
            min(shape, default=0) < 0
            or max(shape, default=0) > len(body)
            or len(shape) > _MOST_AXES
            or not 0 <= begin <= end <= len(body)
            or end - begin != expected
        ):
            raise damaged(f"an entry for {name!r} that does not fit")
        array = body[begin:end].view(_DTYPES[dtype]).reshape(shape)
        if dtype == "BF16":
            array = (array.astype(np.uint32) << 16).view(np.float32)
        arrays[name] = array
    return arrays
