"""The native core of tagloom."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, overload

import numpy
from numpy.typing import NDArray


class Batch:
    """Scores of a ragged batch, float32 or float64."""

    def __init__(self, emit: NDArray[numpy.float32] | NDArray[numpy.float64], edge: NDArray[numpy.float32] | NDArray[numpy.float64] | None, offsets: NDArray[numpy.int64], largest_emit: float) -> None: ...

class Ties:
    """Weights tied to each transition, or to each start."""

    def __init__(self, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

class Space:
    """A state space: its transitions and the weights tied to them."""

    def __init__(self, n_labels: int, state_labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], initial: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)], final: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)], src: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], dst: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], ties: Ties, start_ties: Ties, n_weights: int, order: int = 0) -> None: ...

    @property
    def transition_table(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None, None), writable=False)]:
        """[S, Y] the transition from state s on label y, or -1."""

    @property
    def first_state(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)]:
        """[Y] the state of a path that begins with label y, or -1."""

class TransitionCounts:
    """Expected counts of transitions [M], starts [S] and stops [S]."""

    def __init__(self, transitions: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], start: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], stop: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

class Automaton:
    """A state space with scores."""

    def __init__(self, space: Space, score: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], stop: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def scores(self, batch: Batch, threads: int, log_sum: bool, forwards: bool, out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

    def log_partition(self, batch: Batch, threads: int, log_z: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def sum(self, batch: Batch, threads: int, log_z: NDArray[numpy.float64], weight: NDArray[numpy.float64] | None = None, marginals: NDArray[numpy.float32] | NDArray[numpy.float64] | None = None, pairs: NDArray[numpy.float32] | NDArray[numpy.float64] | None = None, counts: TransitionCounts | None = None) -> None: ...

    def distant_pairs(self, batch: Batch, threads: int, distance: int, pairs: NDArray[numpy.float32] | NDArray[numpy.float64]) -> None: ...

    def viterbi(self, batch: Batch, threads: int, path: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def nbest(self, batch: Batch, threads: int, n: int) -> list[tuple[Annotated[NDArray[numpy.int32], dict(shape=(None, None))], Annotated[NDArray[numpy.float64], dict(shape=(None,))]]]:
        """(paths [k, T], scores [k]) of each sequence, k <= n."""

    def sample(self, batch: Batch, threads: int, uniform: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], paths: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

    def entropy(self, batch: Batch, threads: int, out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def first_dead_position(self, batch: Batch, i: int) -> int: ...

    def path_score(self, batch: Batch, path: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], score: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

def check_candidates(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], n_labels: int) -> int:
    """
    The first candidate whose label does not exist, or is not above the one before it at its position; -1 if all are valid.
    """

class Trigrams:
    """Trigrams of labels that have weights."""

    def __init__(self, n_labels: int, labels: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> None:
        """labels [K, 3], in order."""

    def __len__(self) -> int: ...

class TrigramScores:
    """Trigrams of labels with their weights."""

    def __init__(self, trigrams: Trigrams, weights: NDArray[numpy.float32] | NDArray[numpy.float64] | None) -> None: ...

class CandidateCells:
    """Candidate labels of each position, whose scores are cells of a table."""

    def __init__(self, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], cells: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], places: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], n_labels: int) -> None: ...

    def expect(self, dense: Dense, scores: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], threads: int, weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, log_z: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], ok: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu')], cell_counts: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], counts: TransitionCounts) -> None:
        """
        Add the expected counts of all sequences with ok; the others need `Candidates.sum`.
        """

class Candidates:
    """Candidate labels of each position, with scores."""

    def __init__(self, indptr: NDArray[numpy.int64], label_ids: NDArray[numpy.int32], scores: NDArray[numpy.float32] | NDArray[numpy.float64], offsets: NDArray[numpy.int64], n_labels: int) -> None: ...

    def viterbi(self, dense: Dense, trigrams: TrigramScores | None, threads: int, path: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], score: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def path_score(self, dense: Dense, trigrams: TrigramScores | None, path: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], score: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def sum(self, dense: Dense, trigrams: TrigramScores | None, threads: int, log_z: NDArray[numpy.float64], weight: NDArray[numpy.float64] | None = None, candidates: NDArray[numpy.float32] | NDArray[numpy.float64] | None = None, marginals: NDArray[numpy.float32] | NDArray[numpy.float64] | None = None, pairs: NDArray[numpy.float32] | NDArray[numpy.float64] | None = None, counts: TransitionCounts | None = None, trigram_counts: NDArray[numpy.float64] | None = None) -> int:
        """
        Fill log_z and results; return the number of sequences of order 1 computed in log space.
        """

    def sample(self, dense: Dense, trigrams: TrigramScores | None, threads: int, uniform: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], paths: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu')], log_z: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def entropy(self, dense: Dense, trigrams: TrigramScores | None, threads: int, out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], log_z: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def nbest(self, dense: Dense, trigrams: TrigramScores | None, threads: int, n: int) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.float64], dict(shape=(None,))]]:
        """
        The number of paths of each sequence [N]; their labels, flat; their scores, flat.
        """

class ChainLoss:
    """
    Shared scores of a chain, the reduction of log-likelihoods, and buffers for results.
    """

    def __init__(self, n_labels: int, threads: int, reduction: str, trans: NDArray[numpy.float32] | NDArray[numpy.float64] | None, start: NDArray[numpy.float32] | NDArray[numpy.float64] | None, stop: NDArray[numpy.float32] | NDArray[numpy.float64] | None, weight: NDArray[numpy.float64] | None = None, llh: NDArray[numpy.float64] | None = None, grad_trans: NDArray[numpy.float32] | NDArray[numpy.float64] | None = None, grad_start: NDArray[numpy.float32] | NDArray[numpy.float64] | None = None, grad_stop: NDArray[numpy.float32] | NDArray[numpy.float64] | None = None) -> None: ...

    def ragged(self, emit: NDArray[numpy.float32] | NDArray[numpy.float64], offsets: NDArray[numpy.int64], tags: NDArray[numpy.int64] | None = None, allowed: NDArray[numpy.bool_] | None = None, grad_emit: NDArray[numpy.float32] | NDArray[numpy.float64] | None = None) -> float | None:
        """
        Σ weight·llh of sequences in a row; None if scaled probabilities are not proven.
        """

    def padded(self, emit: NDArray[numpy.float32] | NDArray[numpy.float64], mask: NDArray[numpy.bool_] | None = None, tags: NDArray[numpy.int64] | None = None, allowed: NDArray[numpy.bool_] | None = None, grad_emit: NDArray[numpy.float32] | NDArray[numpy.float64] | None = None) -> float | None:
        """
        The same for a padded batch [B, L, Y]; gradients of masked positions are zero.
        """

class Dense:
    """Scores of transitions [k, Y^(k-1), Y, Y], start, stop."""

    def __init__(self, n_labels: int, order: int, trans: NDArray[numpy.float32] | NDArray[numpy.float64] | None, start: NDArray[numpy.float32] | NDArray[numpy.float64] | None, stop: NDArray[numpy.float32] | NDArray[numpy.float64] | None) -> None: ...

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(k, Y^(k-1), Y, Y), the shape of the scores of transitions."""

    def viterbi(self, batch: Batch, threads: int, path: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], score: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def sum(self, batch: Batch, threads: int, log_z: NDArray[numpy.float64], ok: NDArray[numpy.bool_], weight: NDArray[numpy.float64] | None = None, marginals: NDArray[numpy.float32] | NDArray[numpy.float64] | None = None, pairs: NDArray[numpy.float32] | NDArray[numpy.float64] | None = None, counts: TransitionCounts | None = None) -> None: ...

    def sum_rows(self, rows: NDArray[numpy.float32] | NDArray[numpy.float64], ids: NDArray[numpy.int32], offsets: NDArray[numpy.int64], threads: int, log_z: NDArray[numpy.float64], ok: NDArray[numpy.bool_], weight: NDArray[numpy.float64] | None, counts: TransitionCounts, row_counts: NDArray[numpy.float64]) -> None: ...

    def sample(self, batch: Batch, threads: int, uniform: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], paths: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu')], log_z: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], ok: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def entropy(self, batch: Batch, threads: int, out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], log_z: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], ok: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def nbest(self, batch: Batch, threads: int, n: int) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.float64], dict(shape=(None,))]]:
        """
        (number of paths of each sequence [N], their labels, flat, their scores, flat).
        """

def intern(sentences: list[list[str]], table: dict[str, int]) -> tuple[NDArray[numpy.int32], NDArray[numpy.int64]] | None:
    """
    Number the strings of a list of lists: (ids [T], offsets [N + 1]), or None.
    """

def is_nested_list(lists: object) -> bool:
    """Whether this is a list or tuple of lists or tuples."""

def list_lengths(lists: object) -> NDArray[numpy.int64] | None:
    """The length of each inner list [N]; None unless is_nested_list()."""

def count_tokens(gold: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], predicted: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Y: int) -> tuple[NDArray[numpy.int64], NDArray[numpy.int32]]:
    """Count tokens: (confusion [Y, Y], correct [N])."""

def count_spans(gold: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], predicted: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], letter: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], type: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], K: int, gold_action: Annotated[NDArray[numpy.uint8], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], gold_closing: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], predicted_action: Annotated[NDArray[numpy.uint8], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], predicted_closing: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[NDArray[numpy.int64], NDArray[numpy.int32]]:
    """
    Count spans, gold, predicted and correct: (by type [K, 3], by sentence [N, 3]).
    """

def resample(rows: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], replicates: int, seed: int) -> NDArray[numpy.int64]:
    """Sum rows drawn with replacement: [replicates, S]."""

def toss(rows: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], copies: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], replicates: int, seed: int) -> NDArray[numpy.int64]:
    """
    Sum over rows of the row times the number of heads among its `copies` coins: [replicates, S].
    """

def fingerprint(parts: str | Sequence[str]) -> int:
    """The fingerprint of a name, or of the parts of one."""

def hash_data(data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> int:
    """A 64-bit hash of an array of bytes."""

def merge_keys(keys: Sequence[NDArray[numpy.uint64]], counts: Sequence[NDArray[numpy.int64]]) -> tuple[NDArray[numpy.uint64], NDArray[numpy.int64], list[NDArray[numpy.int32]]]:
    """
    Merge the attributes of shards in order: their keys and counts, and the number of each attribute of each shard.
    """

class Index:
    """Numbers attributes: fingerprint -> id in [0, size)."""

    def __init__(self) -> None: ...

    @staticmethod
    def from_keys(keys: NDArray[numpy.uint64], names: tuple[bytes, NDArray[numpy.int64]] | None = None) -> Index:
        """
        Rebuild an index from its keys(), numbered in order; with its names() it can grow.
        """

    @property
    def size(self) -> int:
        """The number of attributes."""

    def add(self, name: str | Sequence[str]) -> int:
        """
        The number of a name, or of the parts of one, new if need be; counts it once more.
        """

    def find(self, name: str | Sequence[str]) -> int:
        """The number of a name, or of the parts of one; -1 if it has none."""

    def counts(self) -> NDArray[numpy.int64]:
        """How often each attribute was added: [size]."""

    def counts_of(self, ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> NDArray[numpy.int64]:
        """How often some attributes were added."""

    def names(self) -> tuple[bytes, NDArray[numpy.int64]]:
        """All names in UTF-8, one after another, and their offsets [size + 1]."""

    def keep(self, mask: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Index:
        """Only the attributes whose mask is true, renumbered in their old order."""

    def keys(self) -> NDArray[numpy.uint64]:
        """The fingerprint of each attribute [size], for from_keys()."""

class Extractor:
    """A compiled list of templates."""

    def __init__(self, atoms: Sequence[tuple[int, str, object]], boundary: Sequence[bool], templates: Sequence[tuple[Sequence[str], Sequence[tuple[int, int]], int]], before: Sequence[str], after: Sequence[str]) -> None: ...

    def encode(self, columns: Sequence[Sequence[Sequence[str]]], numeric: Sequence[NDArray[numpy.float64]], index: Index, grow: bool, threads: int = 1) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.float32] | None]:
        """
        The attributes of every token: (offsets [N + 1], indptr [T + 1], ids, values).
        """

    def names(self, columns: Sequence[Sequence[Sequence[str]]], numeric: Sequence[NDArray[numpy.float64]]) -> list[list[tuple[str, float]]]:
        """The names and values of the attributes of every token, flat."""

    def vocabulary(self, sentences: Sequence[Sequence[str]]) -> Vocabulary:
        """Read the words of sentences, for templates from general to specific."""

def encode_items(sentences: list[object], index: Index, grow: bool) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.float32] | None]:
    """
    Encode tokens given as dicts and lists: (offsets [N + 1], indptr [T + 1], ids, values).
    """

def item_names(sentences: list[object]) -> list[list[tuple[str, float]]]:
    """The names and values of the attributes of every token, flat."""

def encode_arrays(sentences: Sequence[NDArray[numpy.float64]], index: Index, grow: bool) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.float32] | None]:
    """
    The same for arrays [T, D] of numbers: column d is attribute x[d]; zeros are left out.
    """

class KalmanStart:
    """What is known of a state of infinite variance."""

    def __getstate__(self) -> list[float]: ...

    def __setstate__(self, arg: Sequence[float], /) -> None: ...

class KalmanSequences:
    """Observations, NaN where they are missing."""

    def __init__(self, y: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    @property
    def n_patterns(self) -> int: ...

    def patterns(self) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.uint8], dict(shape=(None, None))]]:
        """
        The pattern of each step, and which components each pattern has. Pattern 0 has all of them, pattern 1 none.
        """

class KalmanSystem:
    """A linear Gaussian state-space model."""

    def __init__(self, A: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], Q: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], b: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], C: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], R: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], d: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], mean: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], cov: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], is_diffuse: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)], tolerance: float) -> None: ...

    def filter(self, sequences: KalmanSequences, log_likelihoods: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], n_diffuse: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')] | None = None, log_densities: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None = None, means: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')] | None = None, covs: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu')] | None = None, predicted_means: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')] | None = None, predicted_covs: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu')] | None = None, threads: int = 1) -> None: ...

    def smooth(self, sequences: KalmanSequences, log_likelihoods: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], n_diffuse: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], means: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], covs: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu')], lags: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu')] | None = None, sum_covs: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu')] | None = None, sum_lags: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')] | None = None, threads: int = 1) -> None: ...

    def sample(self, sequences: KalmanSequences, noise: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], states: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu')], threads: int = 1) -> int: ...

    def generate(self, state: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, state_noise: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], observation_noise: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], states: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], observations: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

    def update(self, y: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], mean: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, cov: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, start: KalmanStart | None = None) -> tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,))], Annotated[NDArray[numpy.float64], dict(shape=(None, None))], float, Any]: ...

class RecurrentCell:
    """One layer and direction of an LSTM, GRU or RNN over a ragged batch."""

    def __init__(self, cell: str, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], x: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], weight_ih: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], weight_hh: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], bias_ih: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], bias_hh: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], h0: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], c0: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, is_reversed: bool, threads: int) -> None: ...

    def run(self, out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], column: int, gates: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], before: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

    def differentiate(self, out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], grad_out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], column: int, gates: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], before: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], grad_weight_ih: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], grad_weight_hh: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], grad_bias_ih: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], grad_bias_hh: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], grad_h0: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], grad_c0: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')] | None, grad_x: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')] | None, adds_x: bool) -> None: ...

def convolve_characters(table: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], weight: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], bias: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], characters: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], column: int, position: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu')], threads: int) -> None: ...

def differentiate_characters(table: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], weight: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], bias: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], characters: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], grad_out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], column: int, position: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], grad_table: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], grad_weight: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu')], grad_bias: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

def dropout(source: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], seed: int, p: float) -> None: ...

def sum_feature_rows(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, weight: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

def step_feature_rows(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, grad: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], eta: float, weight: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], squares: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

class Network:
    """A trained network that scores labels of tokens."""

    def __init__(self, spec: dict[str, object], arrays: Mapping[str, Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)]]) -> None: ...

    def emit(self, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], types: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], words: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], vectors: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], character_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], characters: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], threads: int, out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

    @property
    def cached_types(self) -> int:
        """Number of word types whose projections are cached."""

class NGramCounter:
    """Counts n-grams, sentence by sentence."""

    def __init__(self, order: int, vocabulary: Sequence[str] | None, n_threads: int, chunk: int = 8388608) -> None: ...

    def add(self, sentences: object) -> tuple[int, int] | None:
        """
        Count lists of str; None, or (sentence, token) where something else is found.
        """

    def add_lines(self, data: bytes) -> tuple[int, int] | None:
        """
        Count whole lines of tokens; None, or (line, token) where <s> or </s> is found.
        """

    def finish(self, smoothing: int, k: float, is_closed: bool, min_counts: Sequence[int], min_word_count: int) -> tuple[dict[str, NDArray[Any]], Index, list[tuple[float, float, float]], list[bool], int, int]:
        """
        Once: (arrays, vocabulary, discounts of each order, which are estimated, sentences, tokens).
        """

def word_ids(vocabulary: Index, sentences: object, unknown: int) -> tuple[NDArray[numpy.int32], NDArray[numpy.int64], tuple[int, int] | None]:
    """
    Words as numbers: (ids, offsets, None), or (sentence, token) of what is not a word.
    """

def make_vocabulary(names: bytes, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Index:
    """Number words: names[offsets[w]:offsets[w + 1]] is the word w."""

class NGrams:
    """An n-gram model, as arrays: see core/ngrams.hpp."""

    def __init__(self, level: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], word: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], first: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], suffix: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], log_prob: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], backoff: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def score(self, ids: NDArray[numpy.int32], offsets: NDArray[numpy.int64], starts: bool, ends: bool, n_threads: int) -> tuple[NDArray[numpy.float64], NDArray[numpy.int8], NDArray[numpy.float64]]:
        """
        (log p of each token, length of the n-gram found, sum of each sentence).
        """

    def history(self, ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: bool) -> int:
        """The node after some words."""

    def score_all(self, history: int) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
        """log p of every word [V]."""

    def follow(self, history: int, word: int) -> int:
        """The node after one more word."""

    def prune(self, threshold: float, n_threads: int) -> dict[str, NDArray[Any]]:
        """The arrays of a smaller model."""

    def mix(self, vocabulary: Index, other: NGrams, other_vocabulary: Index, weight: float, n_threads: int) -> tuple[dict[str, NDArray[Any]], Index]:
        """The arrays and the vocabulary of weight * self + (1 - weight) * other."""

    def format(self, vocabulary: Index, begin: int, end: int) -> bytes:
        """Lines of an ARPA file, for nodes of one level."""

class ArpaReader:
    """Reads an ARPA file, chunk by chunk."""

    def __init__(self) -> None: ...

    def read(self, data: bytes) -> tuple[int, str, str, str] | None:
        """None, or (line, expected, found, hint) of a fault."""

    def finish(self, n_threads: int) -> tuple[dict[str, NDArray[Any]], Index, bool] | tuple[int, str, str, str]:
        """(arrays, vocabulary, whether it has <unk>), or a fault."""

class BackoffArcs:
    """The arcs of an n-gram model, for decoding."""

    def __init__(self, model: NGrams, few_states: int = 32, direct_limit: int = -1) -> None: ...

class Slots:
    """Candidates for positions: see core/backoff.hpp."""

    def __init__(self, n_labels: int, start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], scores: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

class BackoffBatch:
    """Sequences of candidates for back-off arcs."""

    def __init__(self, model: BackoffArcs, slots: Slots, slot: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], start: int, stop: int) -> None: ...

    def viterbi(self, n_threads: int) -> tuple[NDArray[numpy.int32], NDArray[numpy.float64]]:
        """
        (best paths [T], their scores [N]); -1 and -inf where every path is impossible.
        """

    def nbest(self, n: int, n_threads: int) -> list[tuple[NDArray[numpy.int32], NDArray[numpy.float64]]]:
        """(paths [k * T], scores [k]) of each sequence."""

    def log_partition(self, n_threads: int) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
        """[N]"""

    def marginals(self, n_threads: int) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64]]:
        """
        (probability of each candidate, position after position; log-partition [N]).
        """

    def entropy(self, n_threads: int) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64]]:
        """(entropy [N], log-partition [N])."""

    def sample(self, uniform: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], n: int, n_threads: int) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
        """Paths [n * T]."""

    def first_dead_position(self, i: int) -> int:
        """
        The first position that no path reaches; T if none may stop; -1 if there is a path.
        """

    def path_score(self, path: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
        """Scores [N] of paths [T]."""

class RoleFrames:
    """Sentences with trees, and their predicates."""

    def __init__(self, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], atoms: Annotated[NDArray[numpy.uint32], dict(shape=(None, None), order='C', device='cpu', writable=False)], heads: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], sentence: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], predicate: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], lemma: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], roleset: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def candidates(self) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))]]:
        """Candidate spans: indptr [F + 1], start, end."""

    def scores(self, filter: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], theta: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], least: float, n_roles: int, choices: tuple[Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]], legal: tuple[Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]], threads: int) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.float64], dict(shape=(None,))]]:
        """Labelled candidates: indptr [F + 1], start, end, role, score."""

class RoleLearner:
    """Learns a role labeller; see core/role_learner.hpp."""

    def __init__(self, frames: object, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], arguments: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], n_roles: int, automata: Sequence[tuple[Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)]]], legal: tuple[Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]], loss: str, C: float, eta: float, least: float, bits: int) -> None: ...

    def filter_epoch(self, order: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[float, int]:
        """The sum of losses, and of mistakes."""

    def epoch(self, order: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], is_global: bool) -> tuple[float, int]:
        """The sum of losses, and of mistakes."""

    def weights(self) -> tuple[Annotated[NDArray[numpy.float32], dict(shape=(None,))], Annotated[NDArray[numpy.float32], dict(shape=(None,))]]:
        """The mean weights of filter and roles."""

    def state(self) -> dict[str, Any]:
        """All arrays that change."""

    def restore(self, arrays: dict[str, Any]) -> None:
        """Continue from a state."""

    def choices(self) -> tuple[Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))]]:
        """Contexts, indptr and roles of the choices."""

class Gibbs:
    """Collapsed Gibbs sampling of labels; see core/gibbs.hpp."""

    def __init__(self, n_labels: int, n_symbols: int, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], symbols: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> None: ...

    def sweep(self, start: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], trans: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], stop: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, beta: float, seed: int) -> int:
        """
        Draw every label once, given Dirichlet parameters; return how many changed.
        """

    @property
    def labels(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
        """The labels [T]."""

    def transitions(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None))]:
        """
        Counts [Y + 1, Y + 1]; the last row is the start, the last column the stop.
        """

    def emissions(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None))]:
        """Counts [V, Y] of symbols with labels."""

    def emission_histogram(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """How many of the V * Y cells have each count."""

class Beam:
    """Beam sampling of an infinite HMM; see core/beam.hpp."""

    def __init__(self, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], sticks: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], alpha: float, gamma: float, sticky: float, alpha_rate: float | None, gamma_rate: float | None, stop: bool, most_states: int) -> None: ...

    def sweep(self, symbols: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], n_symbols: int, beta: float, seed: int, threads: int) -> float:
        """
        One sweep with categorical emissions; returns log Pr(symbols, labels | parameters).
        """

    def draw_tables(self, seed: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Step 1: tables of each state [K]."""

    def draw_sticks(self, tables: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int) -> None:
        """Step 2."""

    def draw_rows(self, seed: int) -> int:
        """Steps 3 and 4; returns the number of states, new ones included."""

    def draw_labels(self, probs: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, threads: int) -> float:
        """
        Step 6, with emission probabilities [R, K] and the row of each token, -1 if missing.
        """

    @property
    def labels(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
        """The labels [T]."""

    @property
    def sticks(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
        """Weights of the states and, last, of the rest [K + 1]."""

    @property
    def alpha(self) -> float: ...

    @property
    def gamma(self) -> float: ...

def row_pointers(lengths: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> bytes:
    """Where rows of these lengths begin and end: int64 [A + 1], as bytes."""

def are_scores(numbers: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> bool:
    """Whether no number is NaN or +inf."""

class WeightRows:
    """The weights of each attribute, checked once: W weights, K outputs."""

    def __init__(self, row_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], cols: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu', writable=False)] | Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], K: int) -> None: ...

    def score(self, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, threads: int = 1) -> NDArray[numpy.float32]:
        """Sum the weighted rows of the attributes of each token: [T, K]."""

class Scorer:
    """
    From sentences to scores: an extractor, and copies of an index and of weight rows, laid out for speed.
    """

    @overload
    def __init__(self, extractor: Extractor, index: Index, row_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], cols: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu', writable=False)] | Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], K: int, takes_last: bool = False) -> None: ...

    @overload
    def __init__(self, extractor: Extractor, keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], row_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], cols: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu', writable=False)] | Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], K: int, takes_last: bool = False) -> None:
        """The same with the keys of an index."""

    def emit(self, columns: Sequence[Sequence[Sequence[str]]], numeric: Sequence[NDArray[numpy.float64]], threads: int = 1) -> tuple[NDArray[numpy.int64], NDArray[numpy.float32]]:
        """Score the outputs of every token: (offsets [N + 1], emit [T, K])."""

    def edge(self, columns: Sequence[Sequence[Sequence[str]]], numeric: Sequence[NDArray[numpy.float64]], threads: int = 1) -> tuple[NDArray[numpy.int64], NDArray[numpy.float32]]:
        """
        The same for label pairs, K = Y * Y: (offsets [N + 1], edge [T, Y, Y]).
        """

class LocalNormaliser:
    """
    Turns the scores of a locally normalised model (MEMM) into log-probabilities.
    """

    def __init__(self, trans: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def normalise(self, emit: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], edge: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)] | None, threads: int = 1) -> NDArray[numpy.float32]:
        """
        Emissions [T, Y] minus the normaliser of the step that follows each token.
        """

class Subtags:
    """The sub-tags of each label, which labels share."""

    def __init__(self, n: int, ptr: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """n sub-tags; those of label y are ids[ptr[y]:ptr[y + 1]]."""

    def spread(self, scores: NDArray[numpy.float32], threads: int = 1) -> NDArray[numpy.float32]:
        """
        The scores of labels [T, Y] from scores [T, Y + n] of labels and sub-tags.
        """

class Pruning:
    """Which labels are candidates at a position."""

    def __init__(self, least: float, most: int = 0) -> None:
        """
        Labels whose probability is at least `least` times that of the best, and of these the `most` best; 0: any number.
        """

def list_candidates(emit: NDArray[Any], pruning: Pruning) -> tuple[NDArray[numpy.int64], NDArray[numpy.int32], NDArray[Any]]:
    """
    The labels that are kept of the scores [T, Y]: (indptr [T + 1], label_ids [C], scores [C]).
    """

def select_candidates(indptr: NDArray[numpy.int64], label_ids: NDArray[numpy.int32], scores: NDArray[Any], pruning: Pruning) -> tuple[NDArray[numpy.int64], NDArray[numpy.int32], NDArray[Any]]:
    """The same from candidates with scores."""

class Decoder:
    """From sentences to their best labels: scorers, and transitions."""

    def __init__(self, scorer: Scorer, transitions: Dense, labels: list[str], edges: Scorer | None = None, normaliser: LocalNormaliser | None = None, prune: Pruning | None = None, trigrams: TrigramScores | None = None, subtags: Subtags | None = None) -> None: ...

    def decode(self, columns: Sequence[Sequence[Sequence[str]]], numeric: Sequence[NDArray[numpy.float64]], threads: int = 1) -> list[list[str]] | None:
        """
        The best labels of every sentence; None if one has no path or no finite scores.
        """

    def decode_with_probs(self, columns: Sequence[Sequence[Sequence[str]]], numeric: Sequence[NDArray[numpy.float64]], temperature: float = 1.0, threads: int = 1) -> tuple[list[list[str]], list[list[float]]] | None:
        """
        The best labels and the marginal probability of each; None if a trellis must answer.
        """

    def decode_few(self, sentences: object, threads: int = 1) -> list[list[str]] | None:
        """
        The same for a short list of token lists; None for anything else, or if too long.
        """

    def marginals_of_few(self, sentences: object) -> list[NDArray[numpy.float32]] | None:
        """
        The probability of each label at each token of these, [T, Y] for each sentence.
        """

class ItemDecoder:
    """From items, dicts or lists of features, to the best labels."""

    def __init__(self, index: Index, rows: WeightRows, transitions: Dense, labels: list[str], normaliser: LocalNormaliser | None = None, prune: Pruning | None = None, trigrams: TrigramScores | None = None, subtags: Subtags | None = None) -> None: ...

    def decode(self, sentences: list[object], threads: int = 1) -> list[list[str]] | None:
        """
        The best labels of every sentence; None if one has no path or no finite scores.
        """

    def decode_with_probs(self, sentences: list[object], temperature: float = 1.0, threads: int = 1) -> tuple[list[list[str]], list[list[float]]] | None:
        """
        The best labels and the marginal probability of each; None if a trellis must answer.
        """

    def decode_few(self, sentences: object, threads: int = 1) -> list[list[str]] | None:
        """
        The same for a short list of sentences; None for anything else, or if too long.
        """

    def marginals_of_few(self, sentences: object) -> list[NDArray[numpy.float32]] | None:
        """
        The probability of each label at each token of these, [T, Y] for each sentence.
        """

def label_lists(path: NDArray[numpy.int32], offsets: NDArray[numpy.int64], labels: list[str]) -> list[list[str]]:
    """The labels of each sentence, from a flat array of label numbers."""

class ColumnScanner:
    """Finds sentences in the bytes of a column file."""

    def __init__(self, sep: str, n_columns: int, token: int, label: int, label_tail: int, id: int, comment: str, guess_comments: bool, unknown: str | None) -> None: ...

    def scan(self, data: bytes, final: bool) -> tuple[list[tuple[bytes, list[str], list[str | frozenset[str] | None] | None, int]], int, int, tuple[str, int, int, int, int] | None]: ...

    def relabel(self, data: bytes, final: bool, function: Callable[[list[list[str]]], list[list[str]]], column: int) -> tuple[bytes, int, int, tuple[str, int, int, int, int] | None]: ...

    def rows(self, data: bytes) -> list[tuple[int, int, int]]: ...

    def columns(self, data: bytes) -> list[list[str]]: ...

    def put(self, data: bytes, tokens: list[str], columns: list[list[str]] | None, values: list[str | frozenset[str] | None] | None, column: int, unknown: str | None) -> bytes | None: ...

def first_bad_byte(data: bytes) -> int:
    """The offset of the first NUL or byte that is not UTF-8, or the length."""

SMALL_CHAIN: int = 8

def small_chain_expectations(emit: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], trans: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], stop: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, threads: int, log_z: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], marginals: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], transitions: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], starts: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], stops: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> bool:
    """
    Sums over the paths of a chain of at most 8 labels; see core/small_chain.hpp.
    """

def small_chain_moments(z: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], trans: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], stop: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, threads: int, log_z: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], sums: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], transitions: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], starts: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], stops: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> bool:
    """
    The same for scores that are linear in features of numbers, whose sums it adds.
    """

class SegmentShape:
    """Segment labels as columns of token labels, and the rows of a corpus."""

    def __init__(self, columns: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], longest: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], is_span: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)], n_tokens: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, begin: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, length: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, gold: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> None: ...

def segment_scores(shape: SegmentShape, emit: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], begin: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], length: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], threads: int, out: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu')]) -> None: ...

def encode_segments(extractor: Extractor, templates: Sequence[tuple[str, Sequence[tuple[int, int]]]], columns: object, numeric: object, index: Index, grow: bool, begin: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], length: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], given_at: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], given: Sequence[str], threads: int) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))]]:
    """The attributes of segments: (indptr, ids)."""

class Segments:
    """Scores of the segments of a ragged batch."""

    def __init__(self, score: NDArray[numpy.float32] | NDArray[numpy.float64], offsets: NDArray[numpy.int64], trans: NDArray[numpy.float64] | None, start: NDArray[numpy.float64] | None, stop: NDArray[numpy.float64] | None) -> None: ...

    def sum(self, threads: int, log_z: NDArray[numpy.float64], weight: NDArray[numpy.float64] | None = None, marginals: NDArray[numpy.float32] | NDArray[numpy.float64] | None = None, counts: TransitionCounts | None = None) -> None:
        """Log-partitions [N]; marginals [T, L, Y]; counts += expected."""

    def viterbi(self, threads: int, path: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], score: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def nbest(self, threads: int, n: int) -> list[tuple[Annotated[NDArray[numpy.int32], dict(shape=(None, None))], Annotated[NDArray[numpy.float64], dict(shape=(None,))]]]: ...

    def sample(self, threads: int, uniform: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], paths: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu')], log_z: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def entropy(self, threads: int, out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], log_z: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def path_score(self, path: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], score: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def first_dead_position(self, i: int) -> int: ...

class Selections:
    """Candidate spans of sequences, under automata."""

    def __init__(self, automata: Sequence[tuple[Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)]]], n_labels: int, start: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], end: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], label: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], score: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def nbest(self, n: int, threads: int) -> list[tuple[Annotated[NDArray[numpy.uint8], dict(shape=(None, None))], Annotated[NDArray[numpy.float64], dict(shape=(None,))]]]:
        """For each sequence (chosen [k, C], scores [k])."""

    def sum(self, log_z: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], marginals: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None = None, threads: int = 1) -> None:
        """Log-partitions [N], and the probability of each candidate [C]."""

class Attributes:
    """
    The attributes of each token, in CSR form: ids[indptr[t]:indptr[t + 1]].
    """

    def __init__(self, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], n: int, values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, extra: tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu', writable=False)]] | None = None) -> None:
        """
        n: number of attributes. values: 1 by default. extra: (attributes, columns), pairs that get a weight even if they do not occur together.
        """

class Labels:
    """The gold labels of all tokens, and those paths may take."""

    def __init__(self, gold: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], n_labels: int, sets: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, allowed: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> None:
        """
        gold [T]: a label, or -1 - k for any label in sets[k]; sets [n, n_labels] of 0 and 1. allowed [T]: -1 - k, the labels that paths may take.
        """

class Objective:
    """A function of weights that an optimiser minimises."""

    @property
    def n_weights(self) -> int: ...

    @property
    def rounding(self) -> float:
        """Relative differences of the loss below this are rounding errors."""

    def mask(self) -> Annotated[NDArray[numpy.bool_], dict(shape=(None,))]:
        """Which weights are free; the others stay zero."""

    def evaluate(self, theta: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], grad_out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], threads: int) -> float:
        """The loss; its gradient is written into grad_out."""

class LinearObjective(Objective):
    """
    The weighted negative log-likelihood of encoded sentences under a linear-chain model.
    """

    def __init__(self, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], nodes: Attributes, labels: Labels, *, edges: Attributes | None = None, weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, all_combinations: bool = False, boundaries: bool = True, float32: bool = True, space: Space | None = None, segments: SegmentShape | None = None, batches_only: bool = False, prune: Pruning | None = None, warm_up: int = 1, trigrams: Trigrams | None = None, subtags: Subtags | None = None, threads: int = 1, pattern_only: bool = False) -> None:
        """
        prune: which labels of each token are kept, by its attributes alone; the first warm_up epochs have order 0, and the next as many order 1. trigrams: those with weights, which make it order 2. batches_only: the objective is evaluated, never learned online. pattern_only: find the weights and the mask; such an objective cannot be evaluated.
        """

    @property
    def n_labels(self) -> int: ...

    @property
    def n_sentences(self) -> int: ...

    @property
    def n_tokens(self) -> int: ...

    @property
    def boundaries(self) -> bool: ...

    @property
    def n_groups(self) -> int:
        """
        With batches_only: groups of attributes that often occur together, added up once.
        """

    def rows(self) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.uint16], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.bool_], dict(shape=(None,))]]:
        """(row_ptr [A + 1], cols [W], free [W]) of the node attributes."""

    def edge_rows(self) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.uint16], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.bool_], dict(shape=(None,))]]:
        """The same for the edge attributes; cols are y_prev * Y + y."""

    def set_mask(self, free: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """
        Set which weights are free; call it before an optimiser reads the mask.
        """

class BundledObjective(Objective):
    """
    A LinearObjective for optimisers that start at 0: weights whose gradients are always the same are one coordinate, their number's square root times the weight.
    """

    def __init__(self, objective: LinearObjective) -> None: ...

    def expand(self, v: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
        """The weights of the LinearObjective."""

class Lbfgs:
    """L-BFGS, or OWL-QN with l1; see tagloom.training.LBFGS."""

    def __init__(self, size: int, l1: float, l2: float, memory: int, free: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, rounding: float = 1e-14) -> None: ...

    def step(self, objective: Objective, threads: int) -> tuple[float, float, float, int, bool]:
        """One iteration; see `iteration`."""

    def ask(self, threads: int) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))] | None:
        """
        The point [size] at which loss and gradient are needed next; None if no step along the gradient lowers the loss.
        """

    def tell(self, loss: float, grad: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], threads: int) -> bool:
        """
        Pass loss and gradient at that point, without penalties; True if this completes the iteration.
        """

    @property
    def iteration(self) -> tuple[float, float, float, int, bool]:
        """
        The last iteration: (loss, |gradient|, |theta|, evaluations, whether theta changed).
        """

    @property
    def size(self) -> int: ...

    @property
    def is_asked(self) -> bool:
        """Whether a point from ask() awaits tell()."""

    def theta(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    def start_from(self, theta: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> None: ...

class Online:
    """AdaGrad, SGD, the perceptron and the SVM; see tagloom.training."""

    def __init__(self, objective: LinearObjective, rule: str, *, l2: float = 0.0, eta: float = 0.0, decay: float = 0.0, average: bool = False, average_from: int = 0, first_square: float = 1.0, C: float = 1.0, cost: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, margin: float = 0.0) -> None: ...

    def certify(self) -> tuple[float, float]:
        """
        For frank-wolfe, whose duality gap is |theta|^2 + C (loss - cost): (loss, cost), sums of weighted losses and of weighted mean costs.
        """

    def epoch(self, permutation: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[float, int]:
        """
        One pass over the sentences, or over some: (sum of losses, sentences with a mistake).
        """

    def theta(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]: ...

    def take_theta(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
        """The same, with less memory; no other call may follow."""

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> None: ...

class Resident:
    """A linear model that learns in place and grows; see tagloom.training."""

    def __init__(self, rule: str, n_labels: int, n_node_sections: int, *, l2: float = 0.0, eta: float = 0.0, decay: float = 0.0, average: bool = False, average_from: int = 0, first_square: float = 1.0, C: float = 1.0, margin: float = 0.0) -> None: ...

    def fork(self, rule: str, *, l2: float = 0.0, eta: float = 0.0, decay: float = 0.0, average: bool = False, average_from: int = 0, first_square: float = 1.0, C: float = 1.0, margin: float = 0.0) -> Resident:
        """A copy that learns separately."""

    @property
    def n_labels(self) -> int: ...

    @property
    def n_rows(self) -> int:
        """Number of weights in all rows."""

    @property
    def n_sentences(self) -> int: ...

    def n_attributes(self, section: int) -> int: ...

    def set_labels(self, n_labels: int, place: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ids: Sequence[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None]) -> None:
        """
        More labels: place [old labels] has their new numbers; ids[s] [new numbers] the old numbers of attributes that are numbered by label, or None.
        """

    def set_tail(self, from_: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], free: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """
        Lay out the weights of transitions anew: the old number of each, or -1.
        """

    def grow(self, sizes: Sequence[int], all_combinations: bool) -> None:
        """Add attributes, up to the given number in each section."""

    def start_from(self, section: int, attributes: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """Set weights of attributes."""

    def start_tail_from(self, weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], steps: int) -> None:
        """
        Set the weights of transitions, and the number of sentences learnt from.
        """

    def learn(self, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], nodes: Attributes, labels: Labels, permutation: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], *, edges: Attributes | None = None, weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, cost: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, boundaries: bool = True, space: Space | None = None, frees_seen: bool = False) -> tuple[float, int]:
        """
        One pass over the sentences: (sum of losses, sentences with a mistake). frees_seen: transitions that occur get a weight.
        """

    def score(self, section: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, group: int = 1, least: float = 0.0, threads: int = 1) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]:
        """
        Sums of the rows of each token's attributes, flat [T, group * width]; smaller weights than least count as 0.
        """

    def rows(self, section: int) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]:
        """The weights of a section, flat [attributes, width]."""

    def tail(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
        """The weights of transitions, starts, stops and ties."""

class ParserLearner:
    """Learns a dependency parser; see core/tree_learner.hpp."""

    def __init__(self, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], atoms: Annotated[NDArray[numpy.uint32], dict(shape=(None, None), order='C', device='cpu', writable=False)], heads: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], n_labels: int, loss: str, projective: bool, single_root: bool, C: float, eta: float, bits: int, joint: bool = False, order: int = 1) -> None: ...

    def epoch(self, order: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[float, int]:
        """The sum of losses, and of mistakes."""

    def weights(self) -> tuple[Annotated[NDArray[numpy.float32], dict(shape=(None,))], Annotated[NDArray[numpy.float32], dict(shape=(None,))]]:
        """The mean weights of arcs and of labels."""

    def state(self) -> dict[str, Any]:
        """All arrays that change."""

    def restore(self, arrays: dict[str, Any]) -> None:
        """Continue from a state."""

    def choices(self) -> tuple[Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))]]:
        """Contexts, indptr and labels of the label choices."""

def parser_scores(offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], atoms: Annotated[NDArray[numpy.uint32], dict(shape=(None, None), order='C', device='cpu', writable=False)], theta: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], H: int, threads: int) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None))]:
    """Scores of arcs [T, H]."""

def parser_siblings(offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], atoms: Annotated[NDArray[numpy.uint32], dict(shape=(None, None), order='C', device='cpu', writable=False)], theta: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], H: int, single_root: bool, threads: int) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None, None))]:
    """Scores of adjacent siblings [T, H, H]."""

def parser_joint_scores(offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], atoms: Annotated[NDArray[numpy.uint32], dict(shape=(None, None), order='C', device='cpu', writable=False)], theta: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], label_theta: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], n_labels: int, contexts: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], of_contexts: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], sums: bool, H: int, threads: int) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None))]:
    """Scores of arcs [T, H] with those of their labels."""

def parser_labels(offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], atoms: Annotated[NDArray[numpy.uint32], dict(shape=(None, None), order='C', device='cpu', writable=False)], heads: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], theta: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], n_labels: int, contexts: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], of_contexts: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], threads: int, joint: bool = False) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
    """The best label of each arc [T]."""

def tree_best(arcs: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], siblings: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu', writable=False)] | None, projective: bool, single_root: bool, threads: int) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.float64], dict(shape=(None,))]]:
    """Heads [T] and scores [N] of the best trees."""

def tree_sums(arcs: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], siblings: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu', writable=False)] | None, projective: bool, single_root: bool, threads: int, marginals: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')] | None = None, sibling_marginals: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu')] | None = None) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
    """log_z [N]; fills the probabilities of arcs and siblings."""

def tree_sample(arcs: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], siblings: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu', writable=False)] | None, projective: bool, single_root: bool, threads: int, draws: int, seeds: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None, None))], Annotated[NDArray[numpy.float64], dict(shape=(None,))]]:
    """Heads [draws, T] of trees at random, and log_z [N]."""

def tree_nbest(arcs: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], siblings: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu', writable=False)] | None, projective: bool, single_root: bool, threads: int, n: int) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.float64], dict(shape=(None,))]]:
    """Counts [N], heads and scores of the n best trees."""

def tree_score(arcs: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], siblings: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu', writable=False)] | None, projective: bool, single_root: bool, threads: int, heads: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
    """Scores [N] of given trees."""

def compiler() -> str:
    """The compiler that built this module, for reports."""

def instruction_sets() -> list[str]:
    """Instruction sets that this machine can run, narrowest first."""

def instruction_set() -> str:
    """The instruction set in use."""

def use_instruction_set(name: str) -> bool:
    """Choose an instruction set; False if this machine cannot run it."""

def check_scores(array: NDArray[numpy.float32] | NDArray[numpy.float64], threads: int) -> tuple[int, float]:
    """
    (index of the first invalid score or -1, largest absolute value before it).
    """

class Vocabulary:
    """The V distinct words of a corpus, in order of occurrence."""

    def read(self) -> tuple[NDArray[numpy.int32], NDArray[numpy.int64], NDArray[numpy.uint64]]:
        """
        (word number of each token [T], offsets [N + 1], hashes of words [V]); call it once.
        """

    def make_spelling_tree(self, counts: NDArray[numpy.float64], is_rare: NDArray[numpy.bool_], is_known: NDArray[numpy.bool_], folds: NDArray[numpy.bool_], lower: Callable[[str], str], capitalise: Callable[[str], str]) -> tuple[tuple[NDArray[numpy.int32], NDArray[numpy.float64], NDArray[numpy.int32]], tuple[Index, NDArray[numpy.int32], NDArray[numpy.int64], NDArray[numpy.float64], NDArray[numpy.int32], NDArray[numpy.int32]]]:
        """
        Group words with `folds` that differ only in case, and add M case variants of them: (group of each word [V], counts [groups, Y], group of each variant [M]). Then number the attributes of words: (index, parent [A], where each level of spellings ends, counts of spellings [S, Y], attribute of each word [V + M], longest spelling of each word [V + M]).
        """

def count_words(words: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], gold: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, V: int, Y: int) -> NDArray[numpy.float64]:
    """Count the labels of each word [V, Y]; weight [N] is of sentences."""

def add_rows(ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], values: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, n: int) -> NDArray[numpy.float64]:
    """
    Sum the rows of values [T, Y] by their id, each times its weight [T]: [n, Y].
    """

def count_ngrams(gold: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Y: int, k: int) -> NDArray[numpy.float64]:
    """
    Count how often a label, or the end, follows k labels: [(Y + 1)^(k + 1)], flat.
    """
