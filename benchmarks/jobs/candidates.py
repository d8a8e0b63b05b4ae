"""The E step of Baum-Welch with a tag dictionary: XPOS of the training words, where each word has
the labels that it is ever seen with, 2.6 of 49 on average. `tagloom` lists the candidates of each
position; `tagloom, all labels` gives the same expectations with −inf for all other labels. Both
clocks include the trellis, and start with the scores of the candidates, or of all labels.
"""

from functools import partial
from typing import Any, NamedTuple

from harness import Bench, Contestant, Goal, Job

E_STEP, VITERBI = "E step", "Viterbi"
ALL = "tagloom, all labels"
LEAST = 0.5


class Dictionary(NamedTuple):
    """Candidates of each token, with log probabilities."""

    scores: Any  # [C]
    label_ids: Any  # [C]
    indptr: Any  # [T + 1]
    trans: Any  # [Y, Y]
    start: Any  # [Y]
    offsets: Any  # [N + 1]


def read(bench: Bench) -> Dictionary:
    import numpy as np

    part = bench.train
    labels = sorted({label for row in part.xpos for label in row})
    number = {label: y for y, label in enumerate(labels)}
    seen: dict[str, set[int]] = {}
    for words, row in zip(part.tokens, part.xpos, strict=True):
        for word, label in zip(words, row, strict=True):
            seen.setdefault(word, set()).add(number[label])
    lists = {word: sorted(few) for word, few in seen.items()}
    rows = [lists[word] for words in part.tokens for word in words]
    rng = np.random.default_rng(0)
    label_ids = np.array([y for row in rows for y in row], dtype=np.int32)
    return Dictionary(
        rng.standard_normal(len(label_ids)),
        label_ids,
        np.cumsum([0] + [len(row) for row in rows]),
        np.log(rng.dirichlet(np.ones(len(labels)), len(labels))),
        np.log(rng.dirichlet(np.ones(len(labels)))),
        np.cumsum([0] + [len(words) for words in part.tokens]),
    )


def tagloom(bench: Bench, all_labels: bool) -> None:
    import numpy as np

    import tagloom as tl

    d = read(bench)
    T, Y = len(d.indptr) - 1, len(d.trans)
    few = tl.Trellis.from_candidates(*d[:5], offsets=d.offsets, n_threads=1)
    emit = few.emit if all_labels else None
    marginals = np.empty((T, Y)) if all_labels else np.empty_like(d.scores)

    def trellis() -> tl.Trellis:
        if emit is not None:
            return tl.Trellis(emit, d.trans, d.start, offsets=d.offsets, n_threads=1)
        return tl.Trellis.from_candidates(*d[:5], offsets=d.offsets, n_threads=1)

    def e_step() -> Any:
        return trellis().expected_counts(marginals=marginals)

    counts = bench.time(E_STEP, e_step, T, "tokens", least=LEAST)
    bench.value("candidates per token", round(len(d.label_ids) / T, 3))
    bench.value("sum of squared transitions", round(float((counts.transitions**2).sum()), 3))
    best = bench.time(VITERBI, lambda: trellis().viterbi(), T, "tokens", least=LEAST)
    bench.value("sum of best scores", round(float(best.score.sum()), 6))


JOB = Job(
    "Tag dictionary",
    [
        Contestant("tagloom", partial(tagloom, all_labels=False)),
        Contestant(ALL, partial(tagloom, all_labels=True)),
    ],
    [
        Goal(
            "E step beside that over all labels",
            lambda found: found.times(ALL, E_STEP),
            at_least=8,
        ),
    ],
)
