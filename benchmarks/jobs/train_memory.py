"""Peak memory of training a CRF with UPOS labels by 10 iterations of L-BFGS, after which its
history is full. `python-crfsuite` keeps the features of all sentences in a list, as in its
tutorial; `python-crfsuite, streamed` passes them one by one without keeping them. `tagloom,
AdaGrad` is the default of `CRF`: weights for all labels, and 5 epochs. The memory of the
interpreter and of the corpus is included.
"""

from harness import Bench, Contestant, Goal, Job
from harness.children import peak_memory
from harness.features import TEMPLATES, sent2features
from harness.models import L2, make_crf, train_crfsuite

N_ITERATIONS = 10
BEFORE = "before, bytes"


def tagloom(bench: Bench) -> None:
    import tagloom as tl  # noqa: F401

    train = bench.train
    bench.value(BEFORE, peak_memory())
    make_crf(N_ITERATIONS).fit(train.tokens, train.upos).save(bench.folder / "memory.model")


def adagrad(bench: Bench) -> None:
    import tagloom as tl

    train = bench.train
    bench.value(BEFORE, peak_memory())
    tl.CRF(TEMPLATES, n_threads=1).fit(train.tokens, train.upos).save(bench.folder / "memory.model")


def crfsuite(bench: Bench) -> None:
    import pycrfsuite

    train = bench.train
    bench.value(BEFORE, peak_memory())
    X = [sent2features(tokens) for tokens in train.tokens]
    trainer = pycrfsuite.Trainer("lbfgs", verbose=False)
    trainer.set_params({"c2": L2, "max_iterations": N_ITERATIONS})
    for x, y in zip(X, train.upos, strict=True):
        trainer.append(x, y)
    trainer.train(str(bench.folder / "memory.model"))


def streamed(bench: Bench) -> None:
    import pycrfsuite  # noqa: F401

    train = bench.train
    bench.value(BEFORE, peak_memory())
    train_crfsuite(train, "upos", N_ITERATIONS, bench.folder / "memory.model")


JOB = Job(
    "memory of training",
    [
        Contestant("tagloom", tagloom),
        Contestant("tagloom, AdaGrad", adagrad),
        Contestant("python-crfsuite", crfsuite, needs="pycrfsuite"),
        Contestant("python-crfsuite, streamed", streamed, needs="pycrfsuite"),
    ],
    [
        Goal(
            "peak over that of python-crfsuite",
            lambda found: found.peak("tagloom") / found.peak("python-crfsuite"),
            at_most=0.5,
        )
    ],
    compares_memory=True,
)
