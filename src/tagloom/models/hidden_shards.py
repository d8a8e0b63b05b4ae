"""Learning hidden Markov models from files whose labels are open: sums over shards.

A shard encodes its sequences once. In each iteration it gets the model and returns its expected
counts, which are added up in the order of the shards. So the model is that of one process, but for
the last digits, and has the same bits for any number of workers.

`HiddenShard` runs on workers, `ShardedPasses` is the other side.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.cluster.engines import Engine
from tagloom.errors import SentenceError, TagloomError
from tagloom.learners.base import CandidateLabels, Unlabelled
from tagloom.learners.expectations import EStep, Expectation, guess_candidates
from tagloom.learners.passes import collect_reseeded, explained
from tagloom.models.constraints import Constraints
from tagloom.models.counting import CountingShard
from tagloom.models.data import Gold, digest, number_labels
from tagloom.models.shards import Located, parts_of
from tagloom.models.unlabelled import Reading, list_candidates, restrict_nothing
from tagloom.scores.emissions import Emission
from tagloom.scores.emissions.base import fingerprint_of, offsets_of
from tagloom.scores.emissions.divided import Division
from tagloom.scores.markov import MarkovChain
from tagloom.trellis.machine import ALL_THREADS

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

# Random numbers that are drawn at once to find where those of the next shard begin.
_DRAWS = 1_000_000


class Facts(NamedTuple):
    """What all shards together need to know of one.

    Attributes
    ----------
    outline : object
        Of the emission; see `Emission.join`.
    sentences, tokens : int
    candidates : int
        Number of pairs of a token and a label that it may have.
    is_restricted : bool
        Whether some tokens may not have all labels.
    digest : str
    """

    outline: Any
    sentences: int
    tokens: int
    candidates: int
    is_restricted: bool
    digest: str


class Piece:
    """Some sequences of a file.

    Parameters
    ----------
    problem : Unlabelled
    path : str
    first : int
        The number in the file of the first sequence.
    buffers : dict
        Memory that the pieces of a shard share.
    """

    def __init__(self, problem: Unlabelled, path: str, first: int, buffers: Any) -> None:
        self.problem, self._path, self._first, self._buffers = problem, path, first, buffers
        self._expect = EStep(problem, buffers)

    def restrict(self, candidates: CandidateLabels) -> None:
        """Set the labels that each token may have."""
        self.problem = replace(self.problem, candidates=candidates)
        self._expect = EStep(self.problem, self._buffers)

    def __enter__(self) -> Unlabelled:
        return self.problem

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Name the file and the sequence in an error."""
        if not isinstance(error, TagloomError):
            return
        place = re.match(r"sequence (\d+)", error.where or "")
        if place is not None:
            error.where = f"{self._path}, sequence {self._first + int(place[1])}"

    def expect(self, chain: MarkovChain, emission: Emission) -> Expectation:
        """Compute the expected counts."""
        with self:
            return self._expect(chain, emission)


class HiddenShard(CountingShard):
    """Some files of a corpus, for a hidden Markov model that counts or learns."""

    def read(self, template: Unlabelled, constraints: Constraints, reads_labels: bool) -> Facts:
        """Read the files and encode their sequences.

        Parameters
        ----------
        template : Unlabelled
            The problem without data. Its emission is bound to the labels.
        constraints : Constraints
        reads_labels : bool
            Whether the labels of the files count.
        """
        self.template, emission = template, template.emission
        Y, encoded, candidates, places, digests = len(template.labels), [], [], [], []
        path_before, first = "", 0
        for path, sentences in parts_of(self.source):
            first = first if path == path_before else 0
            with Located(path, sentences):
                gold = self._gold(sentences, template.labels, reads_labels)
                data = emission.encode(sentences)
                listed = list_candidates(gold, constraints, sentences)
            encoded.append(data)
            candidates.append(listed)
            places.append((offsets_of(sentences), path, first))
            digests.append(digest(template.labels, *fingerprint_of(data), *(listed or ())))
            path_before, first = path, first + len(sentences)
        encoded, outline = emission.join(encoded)
        buffers: dict[str, Any] = {}
        self.pieces = [
            Piece(
                replace(template, data=data, offsets=offsets, candidates=listed),
                path,
                number,
                buffers,
            )
            for data, listed, (offsets, path, number) in zip(
                encoded, candidates, places, strict=True
            )
        ]
        tokens = sum(piece.problem.n_tokens for piece in self.pieces)
        n = [piece.problem.n_tokens * Y for piece in self.pieces]
        return Facts(
            outline,
            sum(len(offsets) - 1 for offsets, _, _ in places),
            tokens,
            sum(
                all_ if listed is None else len(listed.label_ids)
                for all_, listed in zip(n, candidates, strict=True)
            ),
            any(listed is not None for listed in candidates),
            digest(digests),
        )

    def _gold(self, sentences: list[Any], names: Sequence[str], reads_labels: bool) -> Gold:
        if not reads_labels:
            T = sum(map(len, sentences))
            return Gold(list(names), np.full(T, -1, np.int32), np.ones((1, len(names)), np.bool_))
        return number_labels(self.read_open(sentences), list(names))

    def restrict_all(self) -> None:
        """List all labels as candidates of the tokens of pieces without restrictions."""
        for piece in self.pieces:
            if piece.problem.candidates is None:
                piece.restrict(restrict_nothing(piece.problem.n_tokens, len(self.template.labels)))

    def _emission(self, sent: Any) -> Emission:
        """Return the emission that `Division.send` has sent."""
        return sent if isinstance(sent, Emission) else self.template.emission.from_file(sent)

    def expect(self, sent: Any, chain: MarkovChain) -> Expectation | None:
        """Compute the expected counts; None without tokens."""
        emission = self._emission(sent)
        return add_expectations(
            [piece.expect(chain, emission) for piece in self.pieces], emission.merge
        )

    def guess(self, state: Any) -> Expectation | None:
        """Compute the expected counts for nearly uniform scores of the candidate labels.

        Parameters
        ----------
        state : dict
            That of a random generator.
        """
        rng, emission, found = _generator(state), self.template.emission, []
        for piece in self.pieces:
            with piece as problem:
                found.append(guess_candidates(problem, emission, rng))
        return add_expectations(found, emission.merge)

    def random_stats(self, state: Any) -> Any:
        """Compute the statistics for random probabilities of labels; None without tokens."""
        rng, emission, stats = _generator(state), self.template.emission, None
        for piece in self.pieces:
            own = emission.random_stats(piece.problem.data, rng)
            stats = own if stats is None else emission.merge(stats, own)
        return stats

    def worst(self, sent: Any, dead: Sequence[int], n: int) -> tuple[Float64, Int64]:
        """Return the n lowest values of `explained`, and their tokens."""
        emission = self._emission(sent)
        values = [explained(piece.problem, emission, dead) for piece in self.pieces]
        joined = np.concatenate([*values, np.empty(0)])
        tokens = np.argsort(joined, kind="stable")[:n]
        return joined[tokens], tokens

    def reseed(self, tokens: Int64, states: Int64, sent: Any, dead: Sequence[int]) -> Any:
        """Collect statistics in which some tokens have given states; None without tokens."""
        emission, stats, begin = self._emission(sent), None, 0
        for piece in self.pieces:
            end = begin + piece.problem.n_tokens
            here = (tokens >= begin) & (tokens < end)
            own = collect_reseeded(
                piece.problem, emission, dead, tokens[here] - begin, states[here]
            )
            stats, begin = own if stats is None else emission.merge(stats, own), end
        return stats


def add_expectations(parts: Sequence[Expectation], merge: Any) -> Expectation | None:
    """Add up the expected counts of pieces in their order; None without any."""
    if not parts:
        return None
    total = parts[0]
    for part in parts[1:]:
        total = Expectation(
            total.log_likelihood + part.log_likelihood,
            total.start + part.start,
            total.transitions + part.transitions,
            total.stop + part.stop,
            merge(total.stats, part.stats),
        )
    return total


def _generator(state: Any) -> np.random.Generator:
    rng = np.random.default_rng(0)
    rng.bit_generator.state = state
    return rng


# ---- the other side ----------------------------------------------------------------------------


class ShardedPasses:
    """Passes over the sequences of all shards; see `tagloom.learners.passes`.

    Parameters
    ----------
    engine : Engine
        Its shards have read their files.
    division : Division
        Of the emission.
    facts : list of Facts
    n_labels : int

    Attributes
    ----------
    n_exchanges : int
        How often all shards were called.
    seconds : float
        Time that these calls took, with the work of the shards.
    """

    def __init__(
        self, engine: Engine, division: Division, facts: list[Facts], n_labels: int
    ) -> None:
        self.engine, self.division, self.facts = engine, division, facts
        self.n_labels = n_labels
        self.n_exchanges, self.seconds = 0, 0.0

    def _call(self, method: str, emission: Emission, *common: Any, each: Any = None) -> list[Any]:
        """Send an emission and other arguments to all shards."""
        began = time.perf_counter()
        whole, parts = self.division.send(emission)
        if parts is not None:
            each = [(*own, *part) for own, part in zip(each or _nothing(parts), parts, strict=True)]
        results = self.engine.call(method, *whole, *common, each=each)
        self.n_exchanges += 1
        self.seconds += time.perf_counter() - began
        return results

    def _add(self, emission: Emission, parts: list[Expectation | None]) -> Expectation:
        stats = [None if part is None else part.stats for part in parts]
        chains = [replace(part, stats=None) for part in parts if part is not None]
        total = add_expectations(chains, lambda a, b: None)
        assert total is not None
        return replace(total, stats=self.division.merge(emission, stats))

    def expect(self, chain: MarkovChain, emission: Emission) -> Expectation:
        """Compute the expected counts under a model."""
        return self._add(emission, self._call("expect", emission, chain))

    def initialise(self, emission: Emission, rng: np.random.Generator) -> Emission:
        """Return a random initial emission."""
        start = self.division.initialise(emission, rng)
        if start is not None:
            return start
        flat = np.ones(self.n_labels)
        states = self._states(rng, "tokens", lambda n: rng.dirichlet(flat, n))
        stats = self.engine.call("random_stats", each=states)
        return emission.update(self.division.merge(emission, stats))

    def guess(self, emission: Emission, rng: np.random.Generator) -> Expectation:
        """Compute the expected counts for nearly uniform scores of the candidate labels."""
        states = self._states(rng, "candidates", rng.standard_normal)
        return self._add(emission, self.engine.call("guess", each=states))

    def _states(self, rng: np.random.Generator, size: str, draw: Any) -> list[tuple[Any]]:
        """Return the state of the generator at the beginning of each shard, as in one process."""
        states = []
        for facts in self.facts:
            states.append((rng.bit_generator.state,))
            n = getattr(facts, size)
            for begin in range(0, n, _DRAWS):
                draw(min(_DRAWS, n - begin))
        return states

    def reseed(self, emission: Emission, dead: Sequence[int], n: int) -> Any:
        """Compute statistics in which dead states take the n tokens that are explained worst."""
        found = self._call("worst", emission, list(dead), n)
        values, tokens = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        owner = np.repeat(np.arange(len(found)), [len(own) for own, _ in found])
        worst = np.argsort(values, kind="stable")[:n]
        states = np.asarray(dead)[np.arange(len(worst)) % len(dead)]
        each = [
            (tokens[worst[owner[worst] == s]], states[owner[worst] == s]) for s in range(len(found))
        ]
        stats = self._call("reseed", emission, list(dead), each=each)
        return self.division.merge(emission, stats)


def _nothing(parts: Sequence[Any]) -> list[tuple[Any, ...]]:
    return [()] * len(parts)


@dataclass(frozen=True, eq=False)
class ShardedProblem(Unlabelled):
    """A problem whose sequences are on shards."""

    sums: ShardedPasses = field(kw_only=True)

    @property
    def n_tokens(self) -> int:
        """T, the number of tokens of all sequences."""
        return sum(facts.tokens for facts in self.sums.facts)

    @property
    def is_restricted(self) -> bool:
        """Whether some tokens have a list of labels that they may have."""
        return any(facts.is_restricted for facts in self.sums.facts)

    def passes(self) -> ShardedPasses:
        """Return what computes sums over all sequences."""
        return self.sums


@dataclass(frozen=True, eq=False)
class ShardedReading(Reading):
    """Files that shards have read, ready for an algorithm."""

    problem: ShardedProblem

    @property
    def sizes(self) -> dict[str, int]:
        """Numbers of sentences, tokens and shards, for a training record."""
        facts = self.problem.sums.facts
        sentences = sum(one.sentences for one in facts)
        return {"sentences": sentences, "tokens": self.problem.n_tokens, "shards": len(facts)}

    @property
    def fingerprint(self) -> tuple[list[str], list[npt.NDArray[Any] | None]]:
        """Texts and arrays that identify the sequences."""
        return [facts.digest for facts in self.problem.sums.facts], []

    @property
    def title(self) -> str:
        """The title of the progress bar."""
        sums = self.problem.sums
        shards = checks.plural(len(sums.facts), "shard")
        return f"HMM, {shards} on {checks.plural(sums.engine.n_workers, 'worker')}"

    @property
    def details(self) -> Callable[[], str]:
        """The function whose text the progress bar shows after each iteration."""
        return self._describe

    def _describe(self) -> str:
        """Return the number of exchanges so far and their mean time, for the progress bar."""
        sums = self.problem.sums
        mean = sums.seconds / max(sums.n_exchanges, 1)
        return f"{checks.plural(sums.n_exchanges, 'exchange')} of {mean:.2f} s"


def read_shards(
    engine: Engine, template: Unlabelled, constraints: Constraints, *, reads_labels: bool
) -> ShardedReading:
    """Let all shards read their files.

    Parameters
    ----------
    engine : Engine
        With a `HiddenShard` for each shard.
    template : Unlabelled
        The problem without data.
    constraints : Constraints
    reads_labels : bool
        Whether the labels of the files count.
    """
    emission = template.emission
    threads = template.n_threads or max(1, ALL_THREADS // engine.n_workers)
    plain = replace(template, emission=emission.blank(), chain=None, n_threads=threads)
    facts: list[Facts] = engine.call("read", plain, constraints, reads_labels, keep=True)
    if not sum(one.tokens for one in facts):
        raise SentenceError(expected="at least one token", found="none")
    if any(one.is_restricted for one in facts):
        engine.call("restrict_all", keep=True)
    division = emission.divide([one.outline for one in facts])
    sums = ShardedPasses(engine, division, facts, len(template.labels))
    values = {each.name: getattr(template, each.name) for each in fields(Unlabelled)}
    return ShardedReading(ShardedProblem(**values, sums=sums), constraints)
