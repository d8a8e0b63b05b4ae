"""Learning from partial labels: None for unknown labels, sets for uncertain ones.

Annotation is expensive, and not every token is worth it. A training label may be None (unknown) or
a set (one of these). A CRF then maximises the total probability of all labellings that agree with
the known labels:

    loss = log Z(x) - log Z(x, agreeing labellings)

If every label is known it is the usual loss; if none is, it is 0 and nothing is learned. Three
questions about parts of speech:

1. How much accuracy is lost if a share of the labels is hidden?
2. With a fixed number of labels, is it better to annotate whole sentences or scattered tokens?
3. Without annotation, but with a dictionary of the possible labels of each word: how accurate is a
   tagger trained on these sets alone?

Run it:

    python examples/partial_labels.py
"""

import numpy as np

import tagloom as tl


def hide(labels, share, rng):
    """Replace a random share of the labels by None."""
    return [[None if rng.random() < share else y for y in row] for row in labels]


def whole_sentences(X, y, n_labels):
    """Return the first sentences with up to n_labels labels in all."""
    ends = np.cumsum([len(row) for row in y])
    n = max(1, int(np.searchsorted(ends, n_labels, side="right")))
    return X[:n], y[:n]


def dictionary_sets(X, y):
    """Return for every token the set of all labels of its word in the corpus."""
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
    print(f"{len(X)} training sentences, {n_all:,} tokens; accuracy on {len(test)} others.\n")

    print("labels hidden   remaining   scattered tokens  whole sentences")
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
    print(f"  trained on all sets                {by_sets.score(test):.1%}")
    print(f"  trained on sets of one label       {by_sure.score(test):.1%}")


if __name__ == "__main__":
    main()
