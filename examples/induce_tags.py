"""Inducing parts of speech: how far does a hidden Markov model get without labels?

Nobody tells a child which words are nouns. A hidden Markov model can be fitted to bare text: its
states are whatever classes of words explain the order of words best. Four steps:

1. Learn a number of states from text alone: by EM, which maximises the likelihood, and by two
   Bayesian algorithms whose priors prefer few words per state and few successors. The names of
   states are arbitrary, so they are scored by the gold tag that each is used for most
   (many-to-one), by the best one-to-one matching, and by V-measure and variation of information,
   which need no matching.
2. Look at the states: the words in them, and the tags.
3. Say a little: a dictionary with the possible tags of each word. The same algorithm now learns
   real tags, since the dictionary ties the states to names.
4. Say less: a dictionary of one half of the corpus only, scored on the other half.

The bundled corpus is tiny (8,825 tokens), so the states of steps 1 and 2 are rough. Pass a CoNLL-U
file for a fairer picture; a large treebank takes minutes.

Run it:

    python examples/induce_tags.py [corpus.conllu]
"""

import sys
import time
from collections import defaultdict

import tagloom as tl

N_STATES = 12
LEARNERS = {
    "EM": tl.learners.EM(max_iterations=60),
    "variational Bayes": tl.learners.VB(max_iterations=30),
    "Gibbs sampling": tl.learners.Gibbs(sweeps=200, alpha=0.1, beta=0.01),
}
PRIORS = {"variational Bayes": {"prior": 0.1, "emissions": tl.emissions.Categorical(prior=0.01)}}


def read(arguments):
    """Return words and gold tags: of a file, or of the bundled corpus."""
    if arguments:
        corpora = [tl.read(arguments[0], label="upos")]
    else:
        corpora = [tl.datasets.load("english", split, label="upos") for split in ("train", "test")]
    sentences = [sentence for corpus in corpora for sentence in corpus]
    return [list(s.tokens) for s in sentences], [list(s.labels) for s in sentences]


def induce(X, gold):
    """Step 1: learn states from words alone, and score them; return the best by V-measure."""
    n_tokens = sum(map(len, X))
    print(f"{len(X):,} sentences, {n_tokens:,} tokens; {N_STATES} states, no labels.\n")
    print(f"{'':20}many-to-one  one-to-one       V   VI (bits)  seconds")
    everything = tl.evaluate_clusters(gold, [["0"] * len(x) for x in X])
    show("one state", everything, 0.0)
    results = []
    for name, learner in LEARNERS.items():
        began = time.perf_counter()
        hmm = tl.HMM(n_states=N_STATES, algorithm=learner, **PRIORS.get(name, {}))
        states = hmm.fit(X).predict(X)
        result = tl.evaluate_clusters(gold, states, tokens=X)
        show(name, result, time.perf_counter() - began)
        results.append(result)
    return max(results, key=lambda result: result.v_measure)


def show(name, result, seconds):
    scores = f"{result.many_to_one:11.3f}{result.one_to_one:12.3f}{result.v_measure:8.3f}"
    print(f"{name:20}{scores}{result.variation_of_information:12.2f}{seconds:9.1f}")


def look(result):
    """Step 2: the tags and words of the largest states."""
    print("\nThe purest states: their tags, and their most frequent words.")
    sizes, best = result.counts.sum(axis=0), result.counts.max(axis=0)
    purity = best / sizes
    for c in sorted(range(len(sizes)), key=lambda c: -purity[c])[:5]:
        cluster = result.clusters[c]
        words = " ".join(result.words[cluster])
        print(f"  state {cluster:>2}  {result.mapping[cluster]:6}{purity[c]:4.0%}  {words}")


def dictionary_of(X, gold):
    """Return all tags that each word has in a corpus."""
    tags = defaultdict(set)
    for words, row in zip(X, gold, strict=True):
        for word, tag in zip(words, row, strict=True):
            tags[word].add(tag)
    return dict(tags)


def tag_with_dictionary(X, entries, names):
    """Steps 3 and 4: learn tags from words and a dictionary, and predict them."""
    constraints = tl.TagDictionary(entries=entries)
    hmm = tl.HMM(labels=names, constraints=constraints, algorithm="em", max_iterations=30)
    return hmm.fit(X).predict(X)


def accuracy(gold, predicted):
    pairs = [pair for rows in zip(gold, predicted, strict=True) for pair in zip(*rows, strict=True)]
    return sum(a == b for a, b in pairs) / len(pairs)


def main():
    X, gold = read(sys.argv[1:])
    look(induce(X, gold))

    names = sorted({tag for row in gold for tag in row})
    entries = dictionary_of(X, gold)
    n_tags = sum(len(entries[word]) for x in X for word in x) / sum(map(len, X))
    predicted = tag_with_dictionary(X, entries, names)
    print(f"\nWith a dictionary of all words, {n_tags:.2f} tags per token:")
    print(f"  accuracy on all tokens {accuracy(gold, predicted):.3f}")

    half = len(X) // 2
    entries = dictionary_of(X[:half], gold[:half])
    predicted = tag_with_dictionary(X, entries, names)[half:]
    known = [[word in entries for word in x] for x in X[half:]]
    share = sum(map(sum, known)) / sum(map(len, known))
    print(
        f"With a dictionary of the first half, which has {share:.0%} of the second half's tokens:"
    )
    print(f"  accuracy on the second half {accuracy(gold[half:], predicted):.3f}")
    print("Facts about words, even about some of them, are worth more than the best algorithm.")


if __name__ == "__main__":
    main()
