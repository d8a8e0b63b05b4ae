"""Counting the labels and words of files on several processes: hidden Markov models.

Counts add up, so the model is that of one process. Files are read twice, in parts: the labels must
be known before words can be counted with them. Memory holds one part and the counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import checks, features
from tagloom.cluster.engines import open_engine
from tagloom.errors import LabelError, SentenceError
from tagloom.models.data import digest
from tagloom.models.hidden import HiddenMarkov
from tagloom.models.labelled import Labelled, read_labelled
from tagloom.models.shards import Located, parts_of
from tagloom.models.summaries import Summary
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

    def summarise(self) -> Summary:
        """Summarise the labels."""
        summary = Summary()
        for path, sentences in parts_of(self.source):
            with Located(path, sentences):
                rows = [sentence.labels for sentence in sentences]
                known = [[label for label in row or () if isinstance(label, str)] for row in rows]
                names = dict.fromkeys(label for row in known for label in row)
                if any(len(k) != len(s) for k, s in zip(known, sentences, strict=True)):
                    read_labelled(sentences, None, None, self.labels)  # raises, with the place
                summary.add(Summary.of(sentences, known, names, constraints=self.constraints))
        return summary

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


def count_files(
    tagger: HMM, source: Files, smoothing: Smoothing, spec: Emission, began: float
) -> HiddenMarkov:
    """Count the labels and tokens of files; the same model as from one corpus.

    Parameters
    ----------
    tagger : HMM
    source : Files
    smoothing : Smoothing
    spec : Emission
    began : float
        When `fit` was called, by `time.perf_counter`.

    Raises
    ------
    SentenceError, LabelError, FormatError
        If the data are wrong; names the file and the line.
    """
    shards = source.shards()
    labels = None if tagger.labels is None else list(tagger.labels)
    engine = open_engine(tagger.n_workers, tagger.cluster, most=len(shards))
    try:
        engine.start(
            CountingShard,
            [(shard, labels, tagger.constraints, tagger.order) for shard in shards],
            [float(sum(map(os.path.getsize, shard.paths))) + 1.0 for shard in shards],
            [", ".join(shard.paths) for shard in shards],
        )
        summary = Summary()
        for own in engine.call("summarise"):
            summary.add(own)
        names = sorted(summary.labels) if labels is None else checks.label_names(labels)
        _check(summary, names, source)
        check_size(tagger.order, len(names))
        emission = spec.bind(tuple(names), smoothing)
        counted: list[Counted] = engine.call("count", emission)
    finally:
        engine.close()
    ngrams, stats = counted[0].ngrams, None
    for one in counted[1:]:
        ngrams = ngrams + one.ngrams
    for one in counted:
        if one.stats is not None:
            stats = one.stats if stats is None else emission.merge(stats, one.stats)
    record = {
        "sentences": summary.sentences,
        "tokens": summary.tokens,
        "shards": len(shards),
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
