"""Words replaced by NOISE, restored by Viterbi under a bigram language model.

This is exercise 8 of chapter 7 in Eisenstein, Introduction to Natural Language Processing (2018).
The labels are the words of the vocabulary. The exercise allows only to choose the scores of the
transitions, s_t(y_prev, y); the decoder must not change. So, with r_t the word received at t,

    edge[t, y_prev, y] = log p(y | y_prev)   if r_t is NOISE or r_t = y
                       = -inf                otherwise

and likewise for the first word. Every path of finite score keeps the words that were received, and
its score is the log-probability of the restored sentence. Run it:

    python examples/restore_noise.py
"""

import numpy as np

import tagloom as tl

# Written for this example. It is deliberately repetitive: a bigram model of so little text gives
# useful probabilities only to the bigrams in it.
TEXT = """
the old boat left the harbour at dawn
the boat left the harbour in the fog
at dawn the old man went to the harbour
the man went to the market in the morning
in the morning the market was full of fish
the old man sold the fish at the market
he sold the fish to the cook
the cook put the fish in a can
he put the can in the boat
the fog left the harbour in the morning
the old man was in the boat at dawn
she went to the market and sold a boat
the cook went to the harbour and she sold the fish
he was in the fog and the boat was full of water
a can of fish was in the boat
the man put a can of water in the boat
""".strip()

# Sentences that are not in the text above, though their words are.
SOURCES = [
    "the old man sold the boat in the morning",
    "the cook went to the market at dawn",
    "she put the fish in the boat",
    "the harbour was full of fog",
    "he sold a can of fish to the old cook",
    "in the morning she left the market",
]


def bigram_model(text, smoothing=0.02):
    """Return the vocabulary, log p(w | w_prev) [Y, Y], and the same from the start and to the end.

    `smoothing` is added to every count, so that every bigram has a positive probability.
    """
    sentences = [line.split() for line in text.splitlines()]
    vocabulary = sorted({word for sentence in sentences for word in sentence})
    Y = len(vocabulary)
    ids = {word: y for y, word in enumerate(vocabulary)}
    counts = np.full((Y + 1, Y + 1), smoothing)  # from a word or the start, to a word or the end
    counts[Y, Y] = 0  # no empty sentences
    for sentence in sentences:
        path = [ids[word] for word in sentence]
        for y_prev, y in zip([Y, *path], [*path, Y], strict=True):
            counts[y_prev, y] += 1
    with np.errstate(divide="ignore"):
        log_p = np.log(counts / counts.sum(axis=1, keepdims=True))
    return vocabulary, log_p[:Y, :Y], log_p[Y, :Y], log_p[:Y, Y]


def trellis_of(received, vocabulary, log_p, log_first, log_last):
    """Return the trellis of a received sentence; only the scores encode the task."""
    T, Y = len(received), len(vocabulary)
    fits = np.array([[r in (w, "NOISE") for w in vocabulary] for r in received])  # [T, Y]
    edge = np.where(fits[:, None, :], log_p, -np.inf)  # [T, Y, Y]
    start = np.where(fits[0], log_first, -np.inf)  # [Y]
    return tl.Trellis(np.zeros((T, Y)), start=start, stop=log_last, edge=edge, labels=vocabulary)


def main():
    vocabulary, *model = bigram_model(TEXT)
    rng = np.random.default_rng(8)
    n_noise = n_right = n_the = 0
    print(f"A bigram model of {len(TEXT.splitlines())} sentences, {len(vocabulary)} words.\n")
    for source in SOURCES:
        words = source.split()
        is_noise = rng.random(len(words)) < 0.3
        received = np.where(is_noise, "NOISE", words).tolist()
        trellis = trellis_of(received, vocabulary, *model)
        best = trellis.nbest(1)
        restored = [vocabulary[y] for y in best.paths[0]]
        print(f"source    {source}")
        print(f"received  {' '.join(received)}")
        print(f"restored  {' '.join(restored)}")
        print(
            f"          probability {best.probs[0]:.2f} of {trellis.count_paths():,} fillings",
            end="",
        )
        if restored != words:
            print(f"; that of the source is {np.exp(trellis.log_prob(words)):.3f}", end="")
        print("\n")
        gaps = [(w, r) for w, r, noise in zip(words, restored, is_noise, strict=True) if noise]
        n_noise += len(gaps)
        n_right += sum(w == r for w, r in gaps)
        n_the += sum(w == "the" for w, _ in gaps)
    print(f"{n_right} of {n_noise} words restored; `the` everywhere would have restored {n_the}.")


if __name__ == "__main__":
    main()
