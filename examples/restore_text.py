"""Words of real text replaced by NOISE, restored at a vocabulary of thousands.

`restore_noise.py` puts log p(y | y_prev) into a trellis, an array of labels times labels for every
position: fine for 40 words, impossible for 20,000. Here `NGramModel` does the same with transitions
that back off: explicit arcs for the bigrams of the text, one failure arc from each word for all
others. The result is the same, the exact best filling of all gaps together. Run it:

    python examples/restore_text.py
    python examples/restore_text.py --data train.conllu test.conllu
"""

import argparse
import time

import numpy as np

import tagloom as tl


def greedy(model, sentence):
    """Fill the gaps from left to right with the most probable next word."""
    words = []
    for token in sentence:
        if token is None:
            best = model.next_words(words, n=5)
            token = next(word for word, _ in best if not word.startswith("<"))
        words.append(token)
    return words


def add_noise(sentences, vocabulary, share, rng):
    """Replace known words by None; sentences without a gap are left out."""
    for tokens in sentences:
        is_gap = [token in vocabulary and rng.random() < share for token in tokens]
        if any(is_gap):
            noisy = [None if gap else token for token, gap in zip(tokens, is_gap, strict=True)]
            yield tokens, noisy


def n_right(sources, fillings):
    gaps = [
        (source, filled)
        for (tokens, noisy), words in zip(sources, fillings, strict=True)
        for source, hole, filled in zip(tokens, noisy, words, strict=True)
        if hole is None
    ]
    return sum(source == filled for source, filled in gaps), len(gaps)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", nargs=2, metavar=("TRAIN", "TEST"), help="corpora to use")
    paths = parser.parse_args().data
    if paths:
        train, test = (tl.read(path).tokens for path in paths)
    else:
        train, test = (tl.datasets.load("english", part).tokens for part in ("train", "test"))
    model = tl.NGramModel(2).fit(train)
    vocabulary = set(model.vocabulary_)
    counts = {}
    for tokens in train:
        for token in tokens:
            counts[token] = counts.get(token, 0) + 1
    usual = max(counts, key=counts.get)
    print(f"A bigram model of {len(train):,} sentences, {len(vocabulary):,} words.\n")

    print("noise   gaps   restored   left to right   always `" + usual + "`")
    spent = total = 0
    for share in (0.1, 0.25, 0.5):
        sources = list(add_noise(test, vocabulary, share, np.random.default_rng(8)))
        model.restore([None])  # the automaton is made once
        began = time.process_time()
        restored = [model.restore(noisy) for _, noisy in sources]
        spent += time.process_time() - began
        right, gaps = n_right(sources, restored)
        total += gaps
        by_greed = n_right(sources, [greedy(model, noisy) for _, noisy in sources])[0]
        always = n_right(sources, [[usual] * len(tokens) for tokens, _ in sources])[0]
        print(
            f"{share:4.0%} {gaps:7,} {right / gaps:9.1%} {by_greed / gaps:12.1%} "
            f"{always / gaps:14.1%}"
        )
    print(f"\n{1e3 * spent / total:.2f} ms per gap.\n")

    tokens, noisy = next(
        pair for pair in sources if len(pair[1]) > 8 and sum(token is None for token in pair[1]) < 4
    )
    decoding = model.decode(noisy)
    print("source    " + " ".join(tokens))
    print("received  " + " ".join(token or "NOISE" for token in noisy))
    for reading in decoding.nbest(3):
        print(f"{reading.prob:8.2%}  " + " ".join(reading.tokens))


if __name__ == "__main__":
    main()
