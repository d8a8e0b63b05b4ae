"""Dependency edges: parts that are scored alone, made to agree, and trained to agree.

Each word has a head. If every word chooses the best head for itself, the choices need not form a
tree: there are cycles, several roots, or arcs that cross. Inference finds the best choices that
agree (Eisner's algorithm). Global training learns scores for which the right tree wins:

                    training                     choice of heads
    local           each word alone              each word alone
    inference       each word alone              the best tree
    global          whole trees (a CRF)          the best tree

All three share the features and the learner, gradient steps on a log-likelihood: over the heads of
a word, or over trees, whose probabilities `TreeScores.marginals` returns. Run it on sentences of a
small grammar, or on your own treebank:

    python examples/dependency_edges.py
    python examples/dependency_edges.py --data train.conllu test.conllu --sentences 500
"""

import argparse

import numpy as np

import tagloom as tl
from tagloom.trellis.trees import crossing_arcs, has_cycle

NOUNS = ("dog", "man", "woman", "park", "telescope", "cat", "house")
VERBS = ("sees", "likes", "follows", "hears")


def small_grammar(n, seed):
    """Return sentences such as 'the old man sees the dog in the park', with their heads."""
    rng = np.random.default_rng(seed)
    sentences = []
    for _ in range(n):
        words, tags, heads = [], [], []

        def noun_phrase(head, words=words, tags=tags, heads=heads):
            start = len(words)
            size = 2 + int(rng.random() < 0.4)
            noun = start + size
            for word, tag in [("the", "DET"), ("old", "ADJ")][: size - 1]:
                words.append(word)
                tags.append(tag)
                heads.append(noun)
            words.append(str(rng.choice(NOUNS)))
            tags.append("NOUN")
            heads.append(head)
            return noun

        subject = noun_phrase(None)
        words.append(str(rng.choice(VERBS)))
        tags.append("VERB")
        heads.append(0)
        verb = len(words)
        heads[subject - 1] = verb
        noun = noun_phrase(verb)
        for _ in range(int(rng.integers(0, 3))):
            words.append(str(rng.choice(["in", "with"])))
            tags.append("ADP")
            heads.append(None)
            preposition = len(words)
            # "with" goes with the verb, "in" with the noun before it.
            noun = noun_phrase(verb if words[preposition - 1] == "with" else noun)
            heads[preposition - 1] = noun
        sentences.append((words, tags, heads))
    return sentences


def read_treebank(path, most):
    """Return words, tags and heads of the first sentences of a CoNLL-U file."""
    corpus = tl.read(path, format="conllu", label="deprel")[:most]
    return [(s.tokens, s.columns["upos"], [int(h) for h in s.columns["head"]]) for s in corpus]


def arc_features(words, tags, h, d):
    """Return the features of the arc from h to d, where 0 is the root."""
    head = ("root", "ROOT") if h == 0 else (words[h - 1].lower(), tags[h - 1])
    word, tag = words[d - 1].lower(), tags[d - 1]
    side = f"{'left' if d < h else 'right'}{min(abs(h - d), 4)}"
    return [
        f"{head[1]} {tag} {side}",
        f"{head[0]} {tag} {side[:-1]}",
        f"{head[1]} {word} {side[:-1]}",
        f"{head[0]} {word}",
    ]


class ArcModel:
    """Scores of arcs: sums of the weights of their features."""

    def __init__(self):
        self.numbers = {}
        self.theta = np.zeros(1)

    def read(self, sentences, *, grows=False):
        """Return the numbers of the features of all arcs, an array [T, T + 1, 4] per sentence."""
        tables = []
        for words, tags, _ in sentences:
            T = len(words)
            table = np.zeros((T, T + 1, 4), dtype=np.int64)  # 0: a feature without a weight
            for d in range(1, T + 1):
                for h in (h for h in range(T + 1) if h != d):
                    for k, feature in enumerate(arc_features(words, tags, h, d)):
                        if grows:
                            self.numbers.setdefault(feature, len(self.numbers) + 1)
                        table[d - 1, h, k] = self.numbers.get(feature, 0)
            tables.append(table)
        if grows:
            self.theta = np.zeros(len(self.numbers) + 1)
        return tables

    def scores(self, table):
        arcs = self.theta[table].sum(axis=2)
        T = len(arcs)
        arcs[np.arange(T), np.arange(1, T + 1)] = -np.inf  # no word is its own head
        return arcs

    def fit(self, sentences, probabilities, epochs=5, rate=0.3):
        """Raise the log-likelihood of the right heads under the given probabilities of arcs."""
        tables = self.read(sentences, grows=True)
        squares = np.ones_like(self.theta)
        for epoch in range(epochs):
            for i in np.random.default_rng(epoch).permutation(len(sentences)):
                heads = sentences[i][2]
                gradient = -probabilities(self.scores(tables[i]))  # [T, T + 1]
                gradient[np.arange(len(heads)), heads] += 1
                by_feature = np.repeat(gradient.reshape(-1), 4)
                total = np.bincount(tables[i].reshape(-1), by_feature, len(self.theta))
                total[0] = 0
                squares += total**2
                self.theta += rate * total / np.sqrt(squares)
        return self


def each_word_alone(arcs):
    """Probabilities of heads [T, T + 1] if every word chooses on its own."""
    weights = np.exp(arcs - arcs.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def whole_trees(arcs):
    """Probabilities of arcs [T, T + 1] under the distribution over trees."""
    return tl.TreeScores(arcs).marginals()


def report(name, sentences, predicted):
    right = sum(
        h == g
        for (_, _, gold), heads in zip(sentences, predicted, strict=True)
        for h, g in zip(heads, gold, strict=True)
    )
    words = sum(len(heads) for heads in predicted)
    cycles = sum(map(has_cycle, predicted))
    roots = sum(heads.count(0) != 1 for heads in predicted)
    crossing = sum(bool(crossing_arcs(heads)) for heads in predicted)
    print(f"{name:12}{100 * right / words:8.1f}{cycles:10}{roots:14}{crossing:11}")


def main(arguments=None):
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--data", nargs=2, metavar=("TRAIN", "TEST"))
    options.add_argument("--sentences", type=int, default=300, help="at most, of each file")
    given = options.parse_args(arguments)
    if given.data:
        train, test = (read_treebank(path, given.sentences) for path in given.data)
    else:
        train, test = small_grammar(60, 0), small_grammar(200, 1)
    print(f"{len(train)} training sentences, {len(test)} test sentences\n")
    print(f"{'':12}{'UAS':>8}{'cycles':>10}{'not one root':>14}{'crossing':>11}")
    local = ArcModel().fit(train, each_word_alone)
    scores = [local.scores(table) for table in local.read(test)]
    report("local", test, [arcs.argmax(axis=1).tolist() for arcs in scores])
    report("inference", test, [tl.TreeScores(arcs).viterbi().heads.tolist() for arcs in scores])
    whole = ArcModel().fit(train, whole_trees)
    scores = [whole.scores(table) for table in whole.read(test)]
    report("global", test, [tl.TreeScores(arcs).viterbi().heads.tolist() for arcs in scores])
    words, _, _ = test[0]
    print("\n" + tl.TreeScores(scores[0]).draw(tokens=words))


if __name__ == "__main__":
    main()
