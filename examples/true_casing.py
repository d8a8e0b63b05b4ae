"""Capitals put back where they belong: candidates for each word, chosen by a language model.

A text in small letters has lost the difference between `may` and `May`. Each word could be any
form that the training text has of it; these candidates make a lattice, and `decode` finds the
sequence that is most probable as a whole. Run it:

    python examples/true_casing.py
    python examples/true_casing.py --data train.conllu test.conllu
"""

import argparse
from collections import Counter, defaultdict

import tagloom as tl


def forms_of(sentences):
    """Return how often each written form of a word in small letters occurs."""
    forms = defaultdict(Counter)
    for tokens in sentences:
        for token in tokens:
            forms[token.lower()][token] += 1
    return forms


def lattice_of(lowered, forms):
    """Return the candidates of each word; a word that was never seen stays as it is."""
    return [list(forms[word]) if word in forms else word for word in lowered]


def share_right(found, gold):
    pairs = [
        (a, b)
        for one, other in zip(found, gold, strict=True)
        for a, b in zip(one, other, strict=True)
    ]
    return sum(a == b for a, b in pairs) / len(pairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", nargs=2, metavar=("TRAIN", "TEST"), help="corpora to use")
    paths = parser.parse_args().data
    if paths:
        train, test = (tl.read(path).tokens for path in paths)
    else:
        train, test = (tl.datasets.load("english", part).tokens for part in ("train", "test"))
    forms = forms_of(train)
    lowered = [[token.lower() for token in tokens] for tokens in test]
    usual = [
        [forms[word].most_common(1)[0][0] if word in forms else word for word in words]
        for words in lowered
    ]
    print("small letters       ", f"{share_right(lowered, test):.2%}")
    print("most frequent form  ", f"{share_right(usual, test):.2%}")
    for order in (2, 3):
        model = tl.NGramModel(order).fit(train)
        found = [model.decode(lattice_of(words, forms)).tokens for words in lowered]
        print(f"{order}-gram model       ", f"{share_right(found, test):.2%}")
    print()
    example = max(
        zip(found, test, strict=True), key=lambda pair: pair[0] == pair[1] and len(pair[1])
    )
    print("read   ", " ".join(word.lower() for word in example[1]))
    print("written", " ".join(example[0]))
    words = ["she", "left", "in", "may", "."]
    print()
    for t, candidates in enumerate(model.decode(lattice_of(words, forms)).marginals(2)):
        shown = ", ".join(f"{token} {prob:.3f}" for token, prob in candidates)
        print(f"  {words[t]:6} {shown}")


if __name__ == "__main__":
    main()
