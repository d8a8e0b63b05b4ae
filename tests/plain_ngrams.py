"""N-gram models in plain Python, from the formulas: what the native core is compared with.

Everything is a dict of counts and a recursion over histories; slow, and easy to check by eye.
"""

from collections import Counter, defaultdict

START, END, UNKNOWN = "<s>", "</s>", "<unk>"


def ngram_counts(sentences, order):
    """How often each n-gram of up to ``order`` words occurs, starts and ends among the words."""
    counts = Counter()
    for sentence in sentences:
        padded = [START, *sentence, END]
        for n in range(1, order + 1):
            counts.update(tuple(padded[i : i + n]) for i in range(len(padded) - n + 1))
    return counts


class PlainModel:
    """p(w | h) for one smoothing. ``min_counts`` are those of each length [order]."""

    def __init__(self, sentences, order, smoothing, *, k=1.0, closed=False, min_counts=None):
        self.order, self.smoothing, self.k, self.closed = order, smoothing, k, closed
        self.raw = ngram_counts(sentences, order)
        self.min_counts = min_counts or [1] * order
        words = {w for sentence in sentences for w in sentence}
        self.words = sorted(words | {END} | (set() if closed else {UNKNOWN}))
        self.followers = defaultdict(set)
        left = defaultdict(set)
        for ngram in self.raw:
            if ngram != (START,):
                self.followers[ngram[:-1]].add(ngram[-1])
            left[ngram[1:]].add(ngram[0])
        self.count = {}
        for ngram, n in self.raw.items():
            by_neighbours = "kneser-ney" in smoothing and len(ngram) < order and ngram[0] != START
            self.count[ngram] = len(left[ngram]) if by_neighbours else n
        self.discount = [self.discounts(n) for n in range(1, order + 1)]

    def discounts(self, n):
        """What is taken off counts of 0, 1, 2, and 3 or more of n-grams of length n."""
        if self.smoothing in ("witten-bell", "add-k"):
            return [0, 0, 0, 0]
        of = Counter(c for ngram, c in self.count.items() if len(ngram) == n and ngram != (START,))
        if self.smoothing == "modified-kneser-ney":
            if not (of[1] and of[2] and of[3]):
                return [0, 0.5, 1, 1.5]
            Y = of[1] / (of[1] + 2 * of[2])
            found = [0, *(r - (r + 1) * Y * of[r + 1] / of[r] for r in (1, 2, 3))]
            return found if all(0 <= d <= r for r, d in enumerate(found)) else [0, 0.5, 1, 1.5]
        if not (of[1] and of[2]):
            return [0, 0.5, 0.5, 0.5]
        D = of[1] / (of[1] + 2 * of[2])
        return [0, D, D, D]

    def prob(self, word, history):
        """p(word | history), for a history of any length."""
        history = tuple(history)[-(self.order - 1) :] if self.order > 1 else ()
        if word == START or (word == UNKNOWN and self.closed):
            return 0.0
        if history == ():
            return self._mix(word, (), lambda: 1 / len(self.words))
        if not self.followers[history]:
            return self.prob(word, history[1:])
        return self._mix(word, history, lambda: self.prob(word, history[1:]))

    def _mix(self, word, history, lower):
        n = len(history) + 1
        D = self.discount[n - 1]
        counts = {w: self.count[*history, w] for w in self.followers[history]}
        kept = {
            w: c
            for w, c in counts.items()
            if n == 1 or self.raw[*history, w] >= self.min_counts[n - 1]
        }
        total, dropped = sum(counts.values()), sum(counts.values()) - sum(kept.values())
        types, V = len(counts), len(self.words)
        if self.smoothing == "add-k":
            is_whole = n == self.order or (history and history[0] == START)
            if not is_whole:
                return 1 / V
            norm = total + self.k * V
            return (kept.get(word, 0) + (self.k * V + dropped) / V) / norm
        if self.smoothing == "witten-bell":
            if n == 1 and types == V:
                types = 0
            norm, rest = total + types, types + dropped
        else:
            norm = total
            rest = dropped + sum(D[min(c, 3)] for c in kept.values())
        own = kept[word] - D[min(kept[word], 3)] if word in kept else 0
        return (own + rest * lower()) / norm
