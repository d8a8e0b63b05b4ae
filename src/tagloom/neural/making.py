"""From a tagger and its training data to the network, its head and its learner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from tagloom.errors import ParameterError
from tagloom.neural.heads import Head
from tagloom.neural.learners import Examples, NetworkLearner, Schedule
from tagloom.neural.modules import ModuleScores, Network, own_settings
from tagloom.neural.transformers import (
    Pieces,
    Transformer,
    TransformerScores,
    TransformerSpec,
    count_pieces,
    read_transformer,
)
from tagloom.scores.networks import number_types

if TYPE_CHECKING:
    from tagloom.scores import NetworkSpec

Arrays = dict[str, npt.NDArray[Any]]


@own_settings()
def make_learner(tagger: Any, data: Any) -> NetworkLearner:
    """Make the network with its initial weights, and its learner.

    Parameters
    ----------
    tagger : NeuralTagger
    data : NeuralData
    """
    linear, is_transformer = data.linear, tagger.encoder == "transformer"
    N, Y = len(data.sentences), len(linear.names)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(tagger.random_state)
        network = make_network(tagger, data)
        head = Head(tagger.head, Y, linear.states, has_transitions=linear.extractor.transitions)
    widths = None
    if is_transformer:
        spec, pieces, _ = transformer_of(tagger, data)
        inputs = pieces.encode(data.sentences, spec.unknown)
        widths = count_pieces(inputs)
    else:
        inputs = data.alphabets.encode(data.sentences)
    types, _, table = number_types(data.sentences)
    sets = np.concatenate([np.eye(Y, dtype=np.bool_), linear.gold.sets[::-1]])
    examples = Examples(
        inputs,
        np.bincount(types, minlength=len(table)),
        linear.encoded if linear.index.size else None,
        sets[linear.gold.numbers],
        np.ones(N) if linear.weight is None else linear.weight,
        widths,
    )
    batch_tokens, eta = tagger.pace_for(data)
    schedule = Schedule(
        eta=eta,
        eta_features=tagger.eta_features,
        epochs=tagger.limits_for(data)[0],
        batch_tokens=batch_tokens,
        word_dropout=0.0 if is_transformer else tagger.word_dropout,
        dropout_features=tagger.dropout_features,
        random_state=tagger.random_state,
    )
    return NetworkLearner(network, head, examples, schedule, choose_device(tagger.device))


def make_network(tagger: Any, data: Any) -> Any:
    """Make the network with its initial weights."""
    if tagger.encoder == "transformer":
        definition, _, arrays = transformer_of(tagger, data)
        transformer = Transformer(definition, min(tagger.dropout, 0.1), tagger.n_threads or 1)
        transformer.set_arrays({**transformer.arrays(), **arrays})
        return transformer
    spec: NetworkSpec = tagger.spec(data)
    own = tagger.encoder if isinstance(tagger.encoder, nn.Module) else None
    network = Network(spec, tagger.dropout, own)
    vectors = data.alphabets.vectors
    if vectors is not None:
        with torch.no_grad():
            table = torch.from_numpy(np.array(vectors.table))
            network.vectors.weight.copy_(table)
            if spec.is_tuned:
                network.tuned.weight.copy_(table)
        network.vectors.weight.requires_grad_(tagger.tune_vectors in (True, "yes"))
    return network


def transformer_of(tagger: Any, data: Any) -> tuple[TransformerSpec, Pieces, Arrays]:
    """Read the transformer of a tagger, once for its training data."""
    if data.transformer is None:
        data.transformer = read_transformer(tagger.transformer, len(data.linear.names))
    result: tuple[TransformerSpec, Pieces, Arrays] = data.transformer
    return result


def make_scorer(tagger: Any, data: Any, arrays: Arrays) -> Any:
    """Make the trained network of a transformer or of a module that the user passed."""
    if tagger.encoder == "transformer":
        spec, pieces, _ = transformer_of(tagger, data)
        return TransformerScores(spec, pieces.text, arrays)
    return ModuleScores(tagger.spec(data), data.alphabets, arrays, tagger.encoder)


def choose_device(name: str) -> torch.device:
    """Return the device of that name; "auto" is a GPU if there is one.

    Raises
    ------
    ParameterError
        If this machine, or this build of torch, does not have it.
    """
    exists = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if name == "auto":
        name = "cuda" if exists["cuda"] else "cpu"
    if not exists[name]:
        raise ParameterError(
            parameter="device",
            expected=f"one that torch finds here: {', '.join(k for k in exists if exists[k])}",
            found=repr(name),
        )
    return torch.device(name)
