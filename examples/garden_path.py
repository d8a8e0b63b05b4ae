"""The garden path: why a tagger should read a sentence to its end.

    The old man the boat.

This is exercise 4 of chapter 7 in Eisenstein, Introduction to Natural Language Processing (2018).
At first, `old man` looks like an adjective and a noun; but then `the boat` follows, and the
sentence has no verb. So the old are people, and man is the verb:

    right        the/D old/N man/V the/D boat/N
    garden path  the/D old/J man/N the/D boat/N

A greedy decoder decides word by word, takes the garden path and cannot go back. Viterbi keeps the
best path to every label and decides at the end of the sentence. With weights for word-label and
label-label pairs, the terms that both readings share cancel, and the right one wins if and only if

    θ(old, N) + θ(man, V) + θ(D, N) + θ(N, V) + θ(V, D)
        >  θ(old, J) + θ(man, N) + θ(D, J) + θ(J, N) + θ(N, D)

Run it:

    python examples/garden_path.py
"""

import numpy as np

import tagloom as tl

SENTENCE = ["the", "old", "man", "the", "boat"]
RIGHT, GARDEN = list("DNVDN"), list("DJNDN")
LABELS = ["D", "J", "N", "V"]
WORDS = ["the", "old", "man", "boat"]

# Pr(word | label): old is rarely a noun, and man rarely a verb.
EMIT = np.array(
    [  # the   old   man  boat
        [1.00, 0.00, 0.00, 0.00],  # D
        [0.00, 1.00, 0.00, 0.00],  # J
        [0.00, 0.10, 0.50, 0.40],  # N
        [0.00, 0.00, 0.60, 0.40],  # V
    ]
)
# Pr(label | previous label): two nouns in a row are possible; an article after a noun is unlikely.
TRANS = np.array(
    [  #  D     J     N     V
        [0.00, 0.30, 0.70, 0.00],  # D
        [0.00, 0.10, 0.90, 0.00],  # J
        [0.02, 0.03, 0.25, 0.70],  # N
        [0.60, 0.20, 0.20, 0.00],  # V
    ]
)
START = np.array([0.7, 0.1, 0.2, 0.0])


def make_tagger(trans=TRANS):
    return tl.HMM.from_probs(LABELS, WORDS, start=START, trans=trans, emit=EMIT)


def greedy(tagger, words):
    """Choose the best label for each word in turn, given the previous choice."""
    trellis = tagger.trellis([words])[0]
    chosen = [int(np.argmax(trellis.start + trellis.emit[0]))]
    for t in range(1, len(words)):
        chosen.append(int(np.argmax(trellis.trans[chosen[-1]] + trellis.emit[t])))
    return [LABELS[y] for y in chosen]


def sides(tagger):
    """Return both sides of the inequality, term by term."""
    log_emit = dict(zip(LABELS, np.log(np.where(EMIT > 0, EMIT, np.nan)), strict=True))
    trans = tagger.trellis([SENTENCE])[0].trans

    def terms(old, man):
        pairs = [("D", old), (old, man), (man, "D")]
        weights = {
            f"θ({word}, {y})": log_emit[y][WORDS.index(word)]
            for word, y in (("old", old), ("man", man))
        }
        for a, b in pairs:
            weights[f"θ({a}, {b})"] = trans[LABELS.index(a), LABELS.index(b)]
        return weights

    return terms("N", "V"), terms("J", "N")


def main():
    tagger = make_tagger()

    print("The best labels after each word")
    for n in range(1, len(SENTENCE) + 1):
        words = SENTENCE[:n]
        (best,) = tagger.predict([words])
        doubt = ""
        if n > 1:
            marginals = tagger.predict_marginals([words], as_dict=True)[0]
            doubt = f"Pr(old is N) = {marginals[1]['N']:.3f}"
        print(f"  {' '.join(words):24} {' '.join(best):12} {doubt}")
    print("The second `the` changes two earlier labels.\n")

    trellis = tagger.trellis([SENTENCE])[0]
    for name, labels in (
        ("greedy", greedy(tagger, SENTENCE)),
        ("Viterbi", tagger.predict([SENTENCE])[0]),
    ):
        print(f"{name:8} {' '.join(labels)}   log-probability {trellis.path_score(labels):.3f}")
    print()
    print(trellis.draw(tokens=SENTENCE))

    print("\nThe inequality")
    right, garden = sides(tagger)
    for (name, value), (rival, other) in zip(right.items(), garden.items(), strict=True):
        print(f"  {name:10} {value:7.3f}     {rival:10} {other:7.3f}")
    ours, theirs = sum(right.values()), sum(garden.values())
    print(f"  {'sum':10} {ours:7.3f}  {'>' if ours > theirs else '<'}  {'sum':10} {theirs:7.3f}")
    gap = trellis.path_score(RIGHT) - trellis.path_score(GARDEN)
    print(f"The difference, {ours - theirs:.3f}, equals that of the path scores, {gap:.3f}.")

    print("\nHow likely must an article after a noun be for the garden path to win?")
    for share in (0.02, 0.04, 0.08, 0.16):
        trans = TRANS.copy()
        trans[2] *= (1 - share) / (1 - trans[2, 0])
        trans[2, 0] = share
        other = make_tagger(trans)
        ours, theirs = (sum(side.values()) for side in sides(other))
        sign = ">" if ours > theirs else "<"
        (labels,) = other.predict([SENTENCE])
        print(f"  Pr(D | N) = {share:.2f}   {ours:.3f} {sign} {theirs:.3f}   {' '.join(labels)}")


if __name__ == "__main__":
    main()
