"""Label bias: why a model should not normalise at every step.

Lafferty, McCallum and Pereira (Conditional Random Fields, 2001, section 5.1) draw this automaton,
whose states emit one letter each:

             r        i
        +---> 1 -----> 2 ---+  b
    start                   +---> 3
        +---> 4 -----> 5 ---+
             r        o

Only the second letter reveals the path. But the only successor of state 1 is 2, and that of state 4
is 5. A maximum entropy Markov model (MEMM) distributes the probability of every state among its
successors, so all probability of 1 goes to 2 and all of 4 goes to 5, regardless of the letter. A
conditional random field (CRF) has the same features and the same transitions, but normalises once,
over whole paths.

The experiment: a state emits its own letter with probability 29/32, and each of the three others
with 1/32; 2,000 training sequences, 500 test sequences; both models use the current letter only.
Run it:

    python examples/label_bias.py
"""

import numpy as np

import tagloom as tl

N_RUNS = 10


def topology(data):
    """Return the automaton as a state space: its transitions, first states and last states."""
    possible = [scores > -np.inf for scores in (data.trans, data.start, data.stop)]
    return tl.StateSpace.from_transitions(data.labels, *possible)


def models(space):
    """Return the two models: the same features, transitions and penalty."""
    options = {
        "features": ["word"],  # the current letter
        "algorithm": "lbfgs",
        "l2": 0.1,
        "constraints": space,
        "constrain_training": True,  # both are restricted to the transitions of the automaton
    }
    return {"MEMM": tl.MEMM(**options), "CRF": tl.CRF(**options)}


def share_of_wrong_paths(tagger, test):
    """Return the share of sequences whose predicted path is wrong."""
    predicted = tagger.predict(test)
    wrong = [path != gold for path, gold in zip(predicted, test.labels, strict=True)]
    return float(np.mean(wrong))


def main():
    data = tl.datasets.classic("rib-rob")
    space = topology(data)

    print("The probabilities of the two paths")
    train = data.sample(2000, random_state=0)
    for name, tagger in models(space).items():
        trellis = tagger.fit(train).trellis([list("rib"), list("rob")])
        for i, word in enumerate(("rib", "rob")):
            upper, lower = (
                np.exp(trellis[i].log_prob(path)) for path in (list("123"), list("453"))
            )
            print(
                f"  {name:4}  Pr(1 2 3 | {word}) = {upper:.3f}   Pr(4 5 3 | {word}) = {lower:.3f}"
            )
    print("The MEMM cannot distinguish the two words: only the first letter matters.\n")

    errors = {"MEMM": [], "CRF": []}
    for seed in range(N_RUNS):
        rng = np.random.default_rng(seed)
        train, test = data.sample(2000, rng), data.sample(500, rng)
        for name, tagger in models(space).items():
            errors[name].append(share_of_wrong_paths(tagger.fit(train), test))
    print(f"Wrong paths of 500, in {N_RUNS} runs with different seeds")
    for name, shares in errors.items():
        low, mean, high = (100 * f(shares) for f in (min, np.mean, max))
        print(f"  {name:4}  {mean:5.1f} %  (from {low:.1f} to {high:.1f})")
    # The second letter is that of the other path (1/32), or of neither (2/32) and half of the
    # guesses are wrong: no model does better than 1/32 + 1/32.
    print("  The optimum is 6.2 %. The paper reports 42 % and 4.6 %.")


if __name__ == "__main__":
    main()
