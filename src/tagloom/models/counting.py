"""Counting the labels and words of files on several processes: hidden Markov models.

Counts add up, so the model is that of one process. Files are read twice, in parts: the labels must
be known before words can be counted with them. Memory holds one part and the counts. If some labels
are open, `hidden_shards` learns them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import checks, features
from tagloom.cluster.engines import Engine, open_engine
from tagloom.errors import LabelError, ParameterError, SentenceError
from tagloom.learners.base import Algorithm
from tagloom.models.data import ReadLabels, check_not_empty, digest, number_labels, read_labels
from tagloom.models.hidden import HiddenMarkov
from tagloom.models.labelled import Labelled, read_labelled
from tagloom.models.shards import Located, parts_of
from tagloom.models.summaries import Summary
from tagloom.models.unlabelled import (
    choose_emission_of_states,
    learn_problem,
    name_states,
    read_algorithm,
    template_problem,
)
from tagloom.scores.emissions import Emission
from tagloom.scores.markov import MarkovChain, check_size, count_ngrams
from tagloom.scores.smoothing import Smoothing
from tagloom.sequences.sources import Files

if TYPE_CHECKING:
    from tagloom.models.hmm import HMM


class Counted(NamedTuple):
    """The counts of a shard: label n-grams, and what the emission collects; None if empty."""

    ngrams: npt.NDArray[np.float64]
    stats: Any
    digest: str


class LabelFacts(NamedTuple):
    """What all shards together need to know of the labels of one.

    Attributes
    ----------
    summary : Summary
    has_labels : bool
        Whether any label is known.
    is_open : bool
        Whether any label is not.
    """

    summary: Summary
    has_labels: bool
    is_open: bool


class CountingShard:
    """Some files of a corpus, for a hidden Markov model.

    Parameters
    ----------
    source : Files
    labels : list of str or None
        The labels in their order, if they are given.
    constraints : object
        The argument of the model.
    order : int
    """

    def __init__(
        self, source: Files, labels: list[str] | None, constraints: Any, order: int
    ) -> None:
        self.source, self.labels = source, labels
        self.constraints, self.order = constraints, order

    def _parts(self, labels: list[str] | None) -> Iterator[Labelled]:
        for path, sentences in parts_of(self.source):
            with Located(path, sentences):
                yield read_labelled(sentences, None, None, labels)

    def summarise(self, may_be_open: bool) -> LabelFacts:
        """Summarise the labels.

        Parameters
        ----------
        may_be_open : bool
            Whether labels may be unknown; otherwise an open one is an error.
        """
        summary, has_labels, is_open = Summary(), False, False
        for path, sentences in parts_of(self.source):
            with Located(path, sentences):
                if not may_be_open:
                    check_not_empty(sentences, None)
                    read = read_labels(sentences, sentences, None)
                else:
                    read = self.read_open(sentences)
                if self.labels is not None:
                    number_labels(read, self.labels)  # raises at a label that is not among them
                own = Summary.of(
                    sentences, read.labellings, read.number_of, constraints=self.constraints
                )
                summary.add(own)
                has_labels |= bool(read.number_of)
                is_open |= read.numbers is None and any(
                    checks.is_open(label) for row in read.labellings for label in row
                )
        return LabelFacts(summary, has_labels, is_open)

    def read_open(self, sentences: list[Any]) -> ReadLabels:
        """Read labels of which some may be open; all are, in a sentence without labels."""
        rows = [[None] * len(s) if s.labels is None else list(s.labels) for s in sentences]
        return read_labels(sentences, sentences, rows, may_be_open=True)

    def count(self, emission: Emission) -> Counted:
        """Count n-grams of labels, and tokens with their labels.

        Parameters
        ----------
        emission : Emission
            Bound to the labels of all shards.
        """
        names = list(emission.labels)
        ngrams: Any = np.zeros((len(names) + 1,) * (self.order + 1))
        stats, digests = None, []
        templates = getattr(emission, "templates", None)
        for read in self._parts(names):
            if templates:
                features.Templates(templates).check_labels_unread(read.sentences, read.rows)
            ngrams += count_ngrams(read.gold, read.offsets, None, len(names), self.order)
            data = emission.encode(read.sentences)
            own = emission.collect(data, read.gold, None)
            stats = own if stats is None else emission.merge(stats, own)
            digests.append(read.digest_with(data))
        return Counted(ngrams, stats, digest(digests))


def fit_files(
    tagger: HMM,
    source: Files,
    smoothing: Smoothing,
    spec: Emission,
    began: float,
    run: dict[str, Any],
) -> HiddenMarkov:
    """Count the labels and tokens of files, or learn where labels are open.

    Parameters
    ----------
    tagger : HMM
    source : Files
    smoothing : Smoothing
    spec : Emission
    began : float
        When `fit` was called, by `time.perf_counter`.
    run : dict
        The arguments callback, progress and checkpoint of `HMM.fit`.

    Raises
    ------
    SentenceError, LabelError, FormatError
        If the data are wrong; names the file and the line.
    """
    from tagloom.models import hidden_shards  # here, since it imports this

    shards = source.shards()
    labels = None if tagger.labels is None else checks.label_names(tagger.labels)
    learns = tagger.algorithm not in (None, "count") or tagger.learns_states
    algorithm = _check_learning(tagger) if learns else None
    may_be_open = learns or (tagger.algorithm is None and tagger.takes_open_labels)
    engine = open_engine(tagger.n_workers, tagger.cluster, most=len(shards))
    try:
        engine.start(
            hidden_shards.HiddenShard,
            [(shard, labels, tagger.constraints, tagger.order) for shard in shards],
            [float(sum(map(os.path.getsize, shard.paths))) + 1.0 for shard in shards],
            [", ".join(shard.paths) for shard in shards],
        )
        summary, has_labels, is_open = Summary(), False, False
        if not tagger.learns_states:
            for own in engine.call("summarise", may_be_open):
                summary.add(own.summary)
                has_labels |= own.has_labels
                is_open |= own.is_open
        if not (learns or has_labels or labels):
            engine.call("summarise", False)  # raises, with the place of an unknown label
        if not (learns or is_open):
            return _count(tagger, engine, summary, source, smoothing, spec, began)
        algorithm = algorithm or _check_learning(tagger)
        if has_labels:
            names = sorted(summary.labels) if labels is None else labels
            _check(summary, names, source)
            allowed = summary.constraints(tagger.constraints, names)
        else:
            names = name_states(tagger)
            allowed = Summary().constraints(tagger.constraints, names)
        spec = choose_emission_of_states(tagger, spec, True if has_labels else None)
        problem = template_problem(tagger, spec, smoothing, names)
        reading = hidden_shards.read_shards(engine, problem, allowed, reads_labels=has_labels)
        return learn_problem(tagger, algorithm, reading, began, **run)
    finally:
        engine.close()


def _check_learning(tagger: HMM) -> Algorithm:
    """Return the algorithm; raise if it or an option needs the sequences in memory."""
    algorithm = read_algorithm(tagger)
    if not algorithm.takes_shards:
        raise ParameterError(
            f"{type(algorithm).__name__} needs all sequences in memory.",
            expected="an algorithm that only sums over sequences: em, vb or gradient",
            found=repr(tagger),
            hint="Choose {algorithm}, or read the files first: tagloom.read(path).",
            options={"algorithm": "em"},
        )
    for name in ("match_to", "max_memory"):
        if getattr(tagger, name) is not None:
            raise ParameterError(
                parameter=name,
                expected="None with files whose labels are open",
                found=checks.show(getattr(tagger, name)),
                hint="Sequences stay in memory, with Categorical as numbers of 4 bytes."
                if name == "max_memory"
                else "Match the states afterwards, on sequences in memory.",
            )
    return algorithm


def _count(
    tagger: HMM,
    engine: Engine,
    summary: Summary,
    source: Files,
    smoothing: Smoothing,
    spec: Emission,
    began: float,
) -> HiddenMarkov:
    """Count labels and tokens, all of which are known."""
    names = sorted(summary.labels) if tagger.labels is None else checks.label_names(tagger.labels)
    _check(summary, names, source)
    check_size(tagger.order, len(names))
    emission = spec.bind(tuple(names), smoothing)
    counted: list[Counted] = engine.call("count", emission)
    ngrams, stats = counted[0].ngrams, None
    for one in counted[1:]:
        ngrams = ngrams + one.ngrams
    for one in counted:
        if one.stats is not None:
            stats = one.stats if stats is None else emission.merge(stats, one.stats)
    record = {
        "sentences": summary.sentences,
        "tokens": summary.tokens,
        "shards": len(counted),
        "digest": digest([*names, *(one.digest for one in counted)]),
        "seconds": round(time.perf_counter() - began, 3),
    }
    chain = MarkovChain.from_counts(ngrams, smoothing)
    allowed = summary.constraints(tagger.constraints, names)
    return HiddenMarkov.join(chain, emission.update(stats), allowed, record)


def _check(summary: Summary, names: list[str], source: Files) -> None:
    if summary.sentences == 0:
        raise SentenceError(where=source.paths[0], expected="at least one sentence", found="none")
    if len(names) < 2:
        raise LabelError(
            f"Every token of all {summary.sentences:,} sentences has the label {names[0]!r}.",
            expected="at least two different labels",
            found=repr(names[0]),
            hint="Is it the right column? Set {label} to choose another.",
            options={"label": ...},
        )
