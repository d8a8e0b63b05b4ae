"""A tour of the trellis: three words, two labels, and all the methods.

The sentence is "they can fish" and the scores are those of table 7.1 in Eisenstein, Introduction
to Natural Language Processing (2018); the exercises are from the end of chapter 7. Run it:

    python examples/trellis_tour.py
"""

import numpy as np

import tagloom as tl

TABLES = tl.datasets.classic("they-can-fish")


def trellis_of(sentence):
    """Return the trellis of a sentence: emit [T, Y] by its words, the other scores are fixed."""
    words = sentence.split()
    return tl.Trellis(
        TABLES.emit(words), TABLES.trans, TABLES.start, TABLES.stop, labels=TABLES.labels
    )


def names(path):
    return " ".join(TABLES.labels[y] for y in path)


def title(text):
    print(f"\n{text}\n{'-' * len(text)}")


title("The best path")
fish = trellis_of("they can fish")
print(fish.draw(tokens=["they", "can", "fish"]))
print(
    "\nThe right tags are N V V. These scores prefer a verb between nouns: after V,"
    "\nN costs 1 and V costs 3, and `fish` itself costs 3 either way."
)

title("Exercise 1: they can can fish")
cans = trellis_of("they can can fish")
print(cans.draw(tokens=["they", "can", "can", "fish"]))
print("\nTwo paths share the best score; ties go to the lowest label at the end, the noun:")
two = cans.nbest(2)
for path, score in zip(two.paths, two.scores, strict=True):
    print(f"  {names(path)}  {score:.0f}")

title("Exercise 5: all taggings of `fish can`, and their sum")
short = trellis_of("fish can")
for first in TABLES.labels:
    for second in TABLES.labels:
        print(f"  {first} {second}  {short.path_score([first, second]):.0f}")
print(f"  log of the sum of their exponentials: {short.log_partition():.6f}")
alpha = short.forward()  # [T, Y] log space
print(f"  the same by the forward recursion:    {np.logaddexp.reduce(alpha[-1] + TABLES.stop):.6f}")

title("Exercise 6: the n best")
best = fish.nbest(5)
for path, score, prob in zip(best.paths, best.scores, best.probs, strict=True):
    print(f"  {names(path)}  {score:4.0f}  probability {prob:.6f}")
print(f"  of {fish.count_paths()} paths; their entropy is {fish.entropy():.4f} nats")

title("Exercise 7: two labels, two positions apart")
pairs = cans.pair_marginals(distance=2)  # [T, Y, Y]; row t is Pr(y_{t-2}, y_t)
print("  first `can` and `fish`, in `they can can fish`:")
for y_prev, row in zip(TABLES.labels, pairs[3], strict=True):
    print(f"    {y_prev} .. " + "  ".join(f"{y} {p:.4f}" for y, p in zip("NV", row, strict=True)))

title("Exercise 9: forward and backward meet at every position")
alpha, beta = cans.forward(), cans.backward()
print("  log Σ_y exp(alpha[t, y] + beta[t, y]) for t = 0 .. 3:")
print("  " + "  ".join(f"{z:.6f}" for z in np.logaddexp.reduce(alpha + beta, axis=1)))

title("One recursion, any semiring")
for semiring in (
    tl.semirings.MAX_PLUS,
    tl.semirings.LOG_PLUS,
    tl.semirings.COUNTING,
    tl.semirings.BOOLEAN,
):
    print(f"  {semiring.name:9} {fish.reduce(semiring)}")

title("Constraints")
print("`they` is never a verb, and `fish` is one here:")
known = fish.constrain(forbidden={0: "V"}, forced={2: "V"})
print(known.draw("marginals", tokens=["they", "can", "fish"]))
share = np.exp(known.log_partition() - fish.log_partition())
print(f"\nWithout the constraints, such paths have probability {share:.4f}.")
