"""The numbers of Eisenstein's chapter 7, from the public face of the taggers."""

import numpy as np
import pytest

import tagloom as tl

FISH, CANS = ["they", "can", "fish"], ["they", "can", "can", "fish"]
GOLD = {"fish": ["N", "V", "V"], "cans": ["N", "V", "V", "N"]}


def perceptron(**options):
    return tl.StructuredPerceptron(
        ["word"], margin=0, combinations="all", average=False, shuffle=False, **options
    )


def weight(tagger, word, label):
    return tagger.state_features_.get((f"word={word}", label), 0.0)


def test_the_perceptron_update():
    """[7.64-7.66]: θ + f(w, y) − f(w, ŷ), where ŷ = N N N differs from y = N V V."""
    tagger = perceptron(labels=["N", "V"]).partial_fit([FISH], [GOLD["fish"]])
    assert weight(tagger, "they", "N") == 0
    assert weight(tagger, "can", "V") == weight(tagger, "fish", "V") == 1
    assert weight(tagger, "can", "N") == weight(tagger, "fish", "N") == -1
    # N N N has two transitions N → N and stops after N; N V V has N → V, V → V and stops after V.
    np.testing.assert_array_equal(tagger.transitions_, [[-2, 1], [0, 1]])
    np.testing.assert_array_equal(tagger.scores_.start, [0, 0])
    np.testing.assert_array_equal(tagger.scores_.stop, [-1, 1])


def test_the_perceptron_never_learns_what_cannot_be_learnt():
    """Exercises 2 and 3: no weights tag both; predictions go NNN, NVVV, then NVN, NVVV for ever."""
    tagger = perceptron(labels=["N", "V"], boundaries=False)
    seen = []
    for step in range(12):
        sentence, gold = [(FISH, GOLD["fish"]), (CANS, GOLD["cans"])][step % 2]
        guess = "NNNN"[: len(sentence)] if step == 0 else "".join(tagger.predict([sentence])[0])
        seen.append(guess)
        tagger.partial_fit([sentence], [gold])
    assert seen == ["NNN", "NVVV"] + ["NVN", "NVVV"] * 5
    assert tagger.score([FISH, CANS], list(GOLD.values())) < 1


def test_context_makes_both_sentences_learnable():
    tagger = perceptron().set_params(features=["word[-2..1]"])
    tagger.fit([FISH, CANS], list(GOLD.values()))
    assert tagger.score([FISH, CANS], list(GOLD.values())) == 1


def test_the_garden_path_as_an_inequality():
    """Exercise 4: D N V D N beats D J N D N if and only if its own weights are larger."""
    sentence = ["the", "old", "man", "the", "boat"]
    right, garden = ["D", "N", "V", "D", "N"], ["D", "J", "N", "D", "N"]
    X = [sentence, ["the", "old", "man"], ["old", "man"], ["the", "boat"]]
    y = [right, ["D", "J", "N"], ["J", "N"], ["D", "N"]]
    for l2 in (0.01, 1.0, 100.0):
        tagger = tl.CRF(features=["word"], combinations="all", algorithm="lbfgs", l2=l2).fit(X, y)
        state, transition = tagger.state_features_, tagger.transition_features_

        def theta(word, label, state=state):
            return state.get((f"word={word}", label), 0.0)

        ours = theta("old", "N") + theta("man", "V")
        ours += transition["D", "N"] + transition["N", "V"] + transition["V", "D"]
        theirs = theta("old", "J") + theta("man", "N")
        theirs += transition["D", "J"] + transition["J", "N"] + transition["N", "D"]
        trellis = tagger.trellis([sentence])[0]
        gap = trellis.path_score(right) - trellis.path_score(garden)
        assert gap == pytest.approx(ours - theirs, abs=1e-4)
        assert (gap > 0) == (ours > theirs)


def test_seven_features_of_they_can_fish():
    """[7.12] at the level of a tagger: with all weights one, the score is their number."""
    phi = tl.features.global_vector(FISH, GOLD["fish"], features=["word"])
    assert sum(phi.values()) == 7
    assert len(phi) == 7
