"""The same features, trained token by token and over whole sentences.

A tagger can be trained locally, with one independent decision per token, or globally, with the
decoder in the loop. In between is the local learner that uses the previous label as a feature and
decodes whole sentences:

                    training uses              decoding finds
    token           one token                  the best label of each token
    token, legal    one token                  the best legal labels (entities only)
    MEMM            one token and the          the best path
                    gold label before it
    global          the whole sentence         the best path

Every learner gets the same templates, and each loss comes in all of these forms: log loss (the
global one is a CRF), hinge loss (a structured SVM) and the perceptron. Run it on the sentences that
come with tagloom, or on your own files with any labels:

    python examples/local_and_global.py
    python examples/local_and_global.py --data train.conllu test.conllu --label upos
"""

import argparse
from functools import partial

import tagloom as tl

GLOBAL = {
    "log": tl.CRF,
    "hinge": tl.StructuredSVM,
    "perceptron": partial(tl.StructuredPerceptron, margin=0),  # the local ones have no margin
}


def learners(loss, with_spans):
    """Return the learners of one loss by name, from local to global."""
    token = partial(tl.TokenClassifier, loss=loss)
    local = {"token": partial(token, constraints=None)}
    if with_spans:
        local["token, legal"] = token
    return {**local, "MEMM": partial(tl.MEMM, loss=loss), "global": GLOBAL[loss]}


def tabulate(title, train, test):
    """Train every learner, and print a row for each loss."""
    with_spans = any(label.startswith("B-") for label in train.label_counts())
    measure = "span F1" if with_spans else "accuracy"
    print(f"{title}: {len(train):,} training sentences, {len(test):,} test sentences; {measure}.")
    names = [*learners("log", with_spans), "p"]
    print(" " * 12 + "".join(f"{name:>14}" for name in names))
    illegal = set()
    for loss in GLOBAL:
        taggers = {name: make().fit(train) for name, make in learners(loss, with_spans).items()}
        labels = {name: tagger.predict(test) for name, tagger in taggers.items()}
        scores = [
            tl.evaluate(test.labels, predicted, spans=with_spans, n_bootstrap=0)
            for predicted in labels.values()
        ]
        shown = [score.f1 if with_spans else score.accuracy for score in scores]
        pair = labels["token"], labels["global"]
        p = tl.compare(test.labels, *pair, spans=with_spans, n_bootstrap=0).p_value
        print(f"{loss:12}" + "".join(f"{100 * score:14.2f}" for score in shown) + f"{p:14.3f}")
        if with_spans:
            report = tl.labels.validate(labels["token"], taggers["global"].scheme_ or "bio")
            illegal |= {(loss, problem.sentence) for problem in report}
    if with_spans:
        share = len(illegal) / len(test) / len(GLOBAL)
        print(f"Without constraints, {share:.1%} of the sentences have illegal labels.")
    print()


def main():
    parser = argparse.ArgumentParser(description="Local and global training, side by side.")
    parser.add_argument("--data", nargs=2, metavar=("TRAIN", "TEST"), help="labelled files")
    parser.add_argument("--label", help="column or key of the labels")
    options = parser.parse_args()
    if options.data:
        train, test = (tl.read(path, label=options.label) for path in options.data)
        tabulate(options.data[0], train, test)
        return
    for title, label in (
        ("Parts of speech", "upos"),
        ("Chunks in BIO", "chunk"),
        ("Entities in BIO", "entity"),
    ):
        splits = tl.datasets.load("english", label=label)
        tabulate(title, splits.train, splits.test)
    print("p: probability of a difference this large between token and global by chance.")


if __name__ == "__main__":
    main()
