"""Every tree, one by one: the judge of `TreeScores`.

``itertools.product`` lists all ways to give each word a head; those with a cycle, or not of the
kind asked for, are left out, and every quantity is read off the list of scores.
"""

import itertools
import math

import numpy as np


def is_tree(heads):
    """Every word reaches the root within as many steps as there are words."""
    for word in range(1, len(heads) + 1):
        steps = 0
        while word and steps <= len(heads):
            word = heads[word - 1]
            steps += 1
        if word:
            return False
    return True


def is_projective(heads):
    """Every word between a head and its dependent descends from the head."""

    def descends(word, ancestor):
        while word and word != ancestor:
            word = heads[word - 1]
        return word == ancestor

    return all(
        descends(between, head)
        for word, head in enumerate(heads, 1)
        for between in range(min(word, head) + 1, max(word, head))
    )


def all_trees(T, *, projective, single_root):
    return [
        heads
        for heads in itertools.product(range(T + 1), repeat=T)
        if is_tree(heads)
        and (not projective or is_projective(heads))
        and (not single_root or T == 0 or heads.count(0) == 1)
    ]


def next_sibling(heads, word):
    """The next dependent of the word's head towards it, or the head."""
    head = heads[word - 1]
    between = range(word - 1, head, -1) if head < word else range(word + 1, head)
    return next((s for s in between if heads[s - 1] == head), head)


class Trees:
    """All trees of one sentence with their scores."""

    def __init__(self, arcs, siblings=None, *, projective=True, single_root=True):
        self.T = len(arcs)
        self.trees = []
        for heads in all_trees(self.T, projective=projective, single_root=single_root):
            score = sum(float(arcs[t][h]) for t, h in enumerate(heads))
            if siblings is not None:
                score += sum(
                    float(siblings[t][h][next_sibling(heads, t + 1)]) for t, h in enumerate(heads)
                )
            if score > -math.inf:
                self.trees.append((score, heads))
        self.trees.sort(reverse=True)

    def log_partition(self):
        if not self.trees:
            return -math.inf
        top = self.trees[0][0]
        return top + math.log(math.fsum(math.exp(score - top) for score, _ in self.trees))

    def probs(self):
        log_z = self.log_partition()
        return [(math.exp(score - log_z), heads) for score, heads in self.trees]

    def marginals(self, H):
        table = [[0.0] * H for _ in range(self.T)]
        for p, heads in self.probs():
            for t, h in enumerate(heads):
                table[t][h] += p
        return np.reshape(table, (self.T, H))

    def sibling_marginals(self, H):
        table = [[[0.0] * H for _ in range(H)] for _ in range(self.T)]
        for p, heads in self.probs():
            for t, h in enumerate(heads):
                table[t][h][next_sibling(heads, t + 1)] += p
        return np.reshape(table, (self.T, H, H))

    def entropy(self):
        return -math.fsum(p * math.log(p) for p, _ in self.probs() if p > 0)
