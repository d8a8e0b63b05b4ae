"""Digits that count up: a sequence of pictures whose order helps to read them.

The pictures are scikit-learn's handwritten digits, 8 x 8 pixels each. Tickets were numbered by
hand: each number is one more than the previous one, except where tickets are missing. The pictures
are noisy. A classifier that reads each picture alone makes mistakes that the sequence can correct:
a smudge between a 4 and a 6 is a 5.

A token need not be a word: here a sequence is a float array of shape [T, 64], the raw pixels, and
every pixel has a weight for every label. The tagger has no rule that the digits count up; it learns
from labelled sequences which digit follows which. Run it:

    python examples/digits.py

It needs scikit-learn, for the pictures: pip install scikit-learn.
"""

import sys

import numpy as np

import tagloom as tl

NOISE = 0.35  # standard deviation; ink is 1, paper is 0
GAP = 0.2  # probability that tickets are missing


def load_pictures():
    """Return the pictures as floats [n, 64] and their digits; exit if scikit-learn is missing."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        sys.exit("This example needs scikit-learn for its pictures: pip install scikit-learn")
    digits = load_digits()
    return digits.data / 16, digits.target


def make_sequences(pictures, shown, n, length, rng):
    """Draw sequences of digits that count up, and a noisy picture for every digit."""
    by_digit = [pictures[shown == digit] for digit in range(10)]
    X, y = [], []
    for _ in range(n):
        jumps = np.where(rng.random(length) < GAP, rng.integers(1, 10, length), 1)
        numbers = np.cumsum(jumps) % 10
        clean = np.stack([rng.choice(by_digit[digit]) for digit in numbers])  # [T, 64]
        X.append(clean + rng.normal(0, NOISE, clean.shape))
        y.append([str(digit) for digit in numbers])
    return X, y


def draw(pictures):
    """Print pictures side by side; ink is dark."""
    shades = np.array(list(" .:+#"))
    levels = np.clip((pictures * len(shades)).astype(int), 0, len(shades) - 1)  # [T, 64]
    for row in shades[levels].reshape(-1, 8, 8).transpose(1, 0, 2):
        print("  " + "   ".join("".join(pixels) for pixels in row))


def main():
    pictures, shown = load_pictures()
    rng = np.random.default_rng(0)
    half = len(pictures) // 2  # no picture is in both
    X, y = make_sequences(pictures[:half], shown[:half], 150, 10, rng)
    X_test, gold = make_sequences(pictures[half:], shown[half:], 150, 10, rng)
    print(f"{len(X)} training and {len(X_test)} test sequences of {len(X[0])} pictures.\n")

    taggers = {
        "one by one": tl.TokenClassifier(features=None, algorithm="lbfgs", l2=1.0),
        "in sequence": tl.CRF(features=None, algorithm="lbfgs", l2=1.0),
    }
    print("pictures read    digits right   sequences right")
    predicted = {}
    for name, tagger in taggers.items():
        predicted[name] = tagger.fit(X, y).predict(X_test)
        result = tl.evaluate(gold, predicted[name], spans=False, n_bootstrap=0)
        print(f"{name:14} {result.accuracy:14.1%} {result.sentence_accuracy:17.1%}")

    crf = taggers["in sequence"]
    is_corrected = [a != c == b for a, b, c in zip(*predicted.values(), gold, strict=True)]
    i = is_corrected.index(True)
    print("\nA sequence that is read correctly because of the order")
    draw(X_test[i])
    for name, labels in predicted.items():
        print("  " + "".join(f"{digit:^11}" for digit in labels[i]) + name)

    likely = crf.labels_[crf.transitions_.argmax(axis=1)]
    pairs = [f"{a} -> {b}" for a, b in zip(crf.labels_, likely, strict=True)]
    print("\nThe strongest transitions learned: " + ", ".join(pairs))


if __name__ == "__main__":
    main()
