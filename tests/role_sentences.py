"""Sentences of a small grammar with trees and frames, for the tests of semantic roles."""

import numpy as np

from tagloom.sequences import FrameSentence

NAMES = ("Ada", "Bob", "Eve")
THINGS = ("notes", "poems", "letters")
VERBS = ("wrote", "sent", "read")


def clause(words, tags, heads, relations, frames):
    """A sentence from texts; a frame is (predicate, arguments)."""
    return FrameSentence.of(
        {
            "tokens": words.split(),
            "upos": tags.split(),
            "heads": [int(h) for h in heads.split()],
            "deprels": relations.split(),
            "frames": [{"predicate": p, "arguments": a} for p, a in frames],
        }
    )


def grammar(n, seed):
    """Active, passive and relative clauses, whose roles follow from the relations."""
    rng = np.random.default_rng(seed)
    sentences = []
    for _ in range(n):
        name, thing, verb = (str(rng.choice(x)) for x in (NAMES, THINGS, VERBS))
        kind = rng.integers(3)
        if kind == 0:
            s = clause(
                f"{name} {verb} the {thing} today .",
                "PROPN VERB DET NOUN NOUN PUNCT",
                "2 0 4 2 2 2",
                "nsubj root det obj obl punct",
                [(1, [[0, 1, "ARG0"], [2, 4, "ARG1"], [4, 5, "ARGM-TMP"]])],
            )
        elif kind == 1:
            s = clause(
                f"the {thing} were {verb} by {name}",
                "DET NOUN AUX VERB ADP PROPN",
                "2 4 4 0 6 4",
                "det nsubj:pass aux:pass root case obl:agent",
                [(3, [[0, 2, "ARG1"], [4, 6, "ARG0"]])],
            )
        else:
            s = clause(
                f"the {thing} that {name} {verb} vanished",
                "DET NOUN PRON PROPN VERB VERB",
                "2 6 5 5 2 0",
                "det nsubj obj nsubj acl:relcl root",
                [
                    (4, [[0, 2, "ARG1"], [2, 3, "R-ARG1"], [3, 4, "ARG0"]]),
                    (5, [[0, 5, "ARG0"]]),
                ],
            )
        sentences.append(s)
    return sentences
