"""Learning from partial labels: None where nobody looked, sets where somebody was not sure.

Labels cost time, and not every token deserves it. A training label may be None (unknown) or a set
(one of these). A CRF then makes all labellings that agree with what is known likely together:

    loss = log Z(x) - log Z(x, what is known)

With every label known it is the usual loss; with none it is 0, and nothing is learnt. Three
questions are asked here, on parts of speech:

1. How much is lost when a share of the labels is hidden?
2. A budget of so many labels: whole sentences, or single tokens all over the corpus?
3. Nobody labels anything, but a dictionary has the labels that each word can have: how far do these
   sets go alone?

Run it:

    python examples/partial_labels.py
"""

import numpy as np

import tagloom as tl


def hide(labels, share, rng):
    """Replace a share of the labels by None, here and there."""
    return [[None if rng.random() < share else y for y in row] for row in labels]


def whole_sentences(X, y, n_labels):
    """Return the first sentences, until the labels are used up."""
    ends = np.cumsum([len(row) for row in y])
    n = max(1, int(np.searchsorted(ends, n_labels, side="right")))
    return X[:n], y[:n]


def dictionary_sets(X, y):
    """Return for every token the set of labels that its word has anywhere."""
    entries = {}
    for words, labels in zip(X, y, strict=True):
        for word, label in zip(words, labels, strict=True):
            entries.setdefault(word.lower(), set()).add(label)
    return [[entries[word.lower()] for word in words] for words in X]


def main():
    train, _, test = tl.datasets.load("english", label="upos")
    X, y = train.tokens, train.labels
    rng = np.random.default_rng(0)
    n_all = sum(map(len, y))
    print(f"{len(X)} sentences to learn from, {n_all:,} tokens; accuracy on {len(test)} others.\n")

    print("labels hidden   left over   tokens all over   whole sentences")
    for share in (0, 0.5, 0.8, 0.9, 0.95):
        partial = hide(y, share, rng)
        n_labels = sum(label is not None for row in partial for label in row)
        scattered = tl.CRF("pos").fit(X, partial).score(test)
        whole = tl.CRF("pos").fit(*whole_sentences(X, y, n_labels)).score(test)
        print(f"{share:13.0%} {n_labels:11,} {scattered:17.1%} {whole:17.1%}")

    sets = dictionary_sets(X, y)
    n_sure = sum(len(one) == 1 for row in sets for one in row)
    print(
        f"\nA dictionary has one label for {n_sure / n_all:.0%} of the tokens, several for others."
    )
    by_sets = tl.CRF("pos").fit(X, sets)
    only_sure = [[next(iter(one)) if len(one) == 1 else None for one in row] for row in sets]
    by_sure = tl.CRF("pos").fit(X, only_sure)
    print(f"  learnt from the sets               {by_sets.score(test):.1%}")
    print(f"  learnt from those of one label     {by_sure.score(test):.1%}")


if __name__ == "__main__":
    main()
