"""Results do not depend on the number of threads: everything is computed with one thread, and again
with two, three and four; `yes` means that the results are equal to the bit. An HMM is always
counted by one thread. This holds for one machine: another instruction set may round differently.
"""

import hashlib
from collections.abc import Callable
from typing import Any

from harness import Bench, Contestant, Found, Goal, Job
from harness.features import TEMPLATES
from harness.jobs import EXACT

THREADS = (2, 3, 4)


def tagloom(bench: Bench) -> None:
    import numpy as np

    import tagloom as tl

    some = bench.train.first(400 if bench.quick else 2_000)
    X = bench.test.tokens

    def digest(arrays: Any) -> str:
        total = hashlib.blake2b()
        for array in arrays:
            total.update(np.ascontiguousarray(array).view(np.uint8).data)
        return total.hexdigest()

    def weights(tagger: Any) -> str:
        scores = tagger.scores_
        transitions = [scores.trans, scores.start, scores.stop, scores.tied]
        return digest([scores.rows.cols, scores.rows.weights, *transitions])

    def count(n: int) -> Any:
        hmm = tl.HMM(n_threads=n).fit(some.tokens, some.upos)
        return digest([hmm.table_.rows, hmm.log_start_, *hmm.log_moves_]), hmm.predict(X)

    def fit(kind: type, **options: Any) -> Callable[[int], str]:
        return lambda n: weights(
            kind(TEMPLATES, max_iterations=5, n_threads=n, **options).fit(some.tokens, some.upos)
        )

    tagger = tl.CRF(TEMPLATES, max_iterations=3).fit(some.tokens, some.upos)
    jobs: dict[str, Callable[[int], Any]] = {
        "weights of the CRF by L-BFGS": fit(tl.CRF, algorithm="lbfgs"),
        "weights of the CRF by OWL-QN (l1)": fit(tl.CRF, algorithm="lbfgs", l1=0.5),
        "weights of the CRF by AdaGrad": fit(tl.CRF),
        "weights of the CRF of order 2": fit(tl.CRF, order=2),
        "weights of the perceptron": fit(tl.StructuredPerceptron),
        "weights of the SVM": fit(tl.StructuredSVM),
        "weights of the MEMM": fit(tl.MEMM),
        "weights of the token classifier": fit(tl.TokenClassifier),
        "tables and labels of the HMM": count,
        "labels": lambda n: tagger.predict(X, n_threads=n),
        "marginals": lambda n: digest(tagger.predict_marginals(X, n_threads=n)),
        "log-partition": lambda n: digest([tagger.trellis(X, n_threads=n).log_partition()]),
        "n-best": lambda n: [
            [(one.labels, one.score, one.prob) for one in best]
            for best in tagger.predict_nbest(X[:200], 5, n_threads=n)
        ],
    }
    for name, job in jobs.items():
        one = job(1)
        bench.value(name, all(job(n) == one for n in THREADS))


def share(found: Found) -> float:
    """Return the share of equal results, in percent."""
    same = found.values("tagloom")
    return 100 * sum(same.values()) / len(same)


JOB = Job(
    "the same with any number of threads",
    [Contestant("tagloom", tagloom, cores=2)],
    [Goal("results that are the same bits with 1 to 4 threads", share, at_least=100, unit="%")],
    rounds=1,
    section=EXACT,
)
