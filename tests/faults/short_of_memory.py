"""Let every native allocation of a job fail in turn; run with failing_memory.so preloaded.

python short_of_memory.py JOB: prints, as JSON, the number of allocations and the result of each
failure. A job must raise MemoryError, or succeed where the failure is harmless, and its next call
must give the right result. Every failure has a process of its own, forked from this one.
"""

import ctypes
import io
import json
import os
import sys
from collections import Counter

import tagloom as tl

TRAIN = tl.datasets.load("english", "train", label="upos")[:30]
TOKENS = TRAIN.tokens[:10]
TAGGER = tl.CRF(["word", "suffix(1..2)", "word[-1] & word"], max_iterations=1, n_threads=2)
TAGGER.fit(TRAIN)
buffer = io.BytesIO()
TAGGER.save(buffer)
FILE = buffer.getvalue()


def fit():
    tagger = tl.CRF(["word", "suffix(1..2)"], max_iterations=1, n_threads=2).fit(TRAIN)
    return tagger.predict(TOKENS)


def lbfgs():
    tagger = tl.CRF(["word"], algorithm="lbfgs", max_iterations=2, n_threads=2).fit(TRAIN)
    return tagger.predict(TOKENS)


def ngrams():
    model = tl.NGramModel(order=2).fit(TOKENS)
    out = io.BytesIO()
    model.to_arpa(out)
    return round(tl.NGramModel.from_arpa(io.BytesIO(out.getvalue())).score(TOKENS), 4)


def segments():
    labels = [
        ["B-X", "I-X", *["O"] * (len(x) - 2)] if len(x) > 2 else ["O"] * len(x) for x in TOKENS
    ]
    tagger = tl.SemiCRF(["word"], max_iterations=1, n_threads=2).fit(TOKENS, labels)
    return tagger.predict(TOKENS)


def trees():
    columns = {"upos": ["PRON", "VERB", "NOUN"], "head": ["2", "0", "2"]}
    corpus = [tl.Sentence(["they", "eat", "fish"], columns={**columns, "deprel": ["a", "b", "c"]})]
    parser = tl.DependencyParser(hash_bits=8, tags=["upos"], max_iterations=1, n_threads=2)
    return parser.fit(corpus * 4).predict(corpus * 4)


JOBS = {
    "load": lambda: tl.load(FILE).predict(TOKENS[:1]),
    "fit": fit,
    "lbfgs": lbfgs,
    "tag": lambda: TAGGER.predict(TOKENS),
    "nbest": lambda: [[x.labels for x in row] for row in TAGGER.predict_nbest(TOKENS[:3], n=3)],
    "marginals": lambda: [p.round(4).tolist() for p in TAGGER.predict_marginals(TOKENS[:3])],
    "ngrams": ngrams,
    "segments": segments,
    "words": lambda: tl.HMM().fit(TRAIN).predict(TOKENS),
    "trees": trees,
    "read": lambda: tl.read(io.BytesIO(b"They N\nfish V\n\n" * 20), "conll").tokens,
}


def result_of(job, expected, shim, n):
    """Let the n-th allocation fail in a forked process; return what happened."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what a terminated process prints
        shim.arm(ctypes.c_long(n))
        try:
            code = 0 if job() == expected else 2
        except MemoryError:
            code = 1
        except BaseException:
            code = 3
        shim.arm(ctypes.c_long(0))
        os._exit(code if job() == expected else 4)
    _, status = os.waitpid(child, 0)
    outcomes = ["harmless", "MemoryError", "wrong result", "another error", "broken afterwards"]
    return outcomes[os.WEXITSTATUS(status)] if os.WIFEXITED(status) else "terminated"


def main():
    """Let every allocation fail in turn."""
    shim = ctypes.CDLL(None)
    job = JOBS[sys.argv[1]]
    expected = job()
    shim.arm(ctypes.c_long(0))
    assert job() == expected
    total = shim.counted()
    outcomes = Counter(result_of(job, expected, shim, n) for n in range(1, total + 1))
    print(json.dumps({"allocations": total, **outcomes}))


if __name__ == "__main__":
    main()
