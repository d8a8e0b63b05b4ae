"""Semantic roles: who did what to whom, by candidates, a classifier, and inference.

The arguments of a verb are spans of the sentence. The classic pipeline finds them in steps:

    candidates    subtrees of the dependency tree around the verb
    classifier    a score for each role of each candidate, against no role
    inference     the best set of arguments that do not overlap, with each core role at most once

A classifier that decides about each candidate alone gives one verb two agents, or an argument
inside another. Inference makes the decisions agree, and global training learns scores for which the
right set wins. Ten sentences are labelled below; each is labelled in turn by a model of the other
nine:

    python examples/semantic_roles.py
"""

from dataclasses import replace

import tagloom as tl
from tagloom.evaluation import evaluate_roles
from tagloom.sequences import FrameSentence

# One word per entry: word/TAG/head/relation. Then, for each verb, its arguments by word numbers.
SENTENCES = [
    (
        "The/DET/2/det baker/NOUN/3/nsubj sold/VERB/0/root the/DET/5/det bread/NOUN/3/obj "
        "to/ADP/8/case a/DET/8/det friend/NOUN/3/obl yesterday/NOUN/3/obl:tmod ././PUNCT/3/punct",
        {3: "1-2 ARG0, 4-5 ARG1, 6-8 ARG2, 9 ARGM-TMP"},
    ),
    (
        "The/DET/2/det bread/NOUN/4/nsubj:pass was/AUX/4/aux:pass sold/VERB/0/root "
        "by/ADP/7/case the/DET/7/det baker/NOUN/4/obl:agent",
        {4: "1-2 ARG1, 5-7 ARG0"},
    ),
    (
        "My/PRON/2/nmod:poss sister/NOUN/3/nsubj wrote/VERB/0/root a/DET/5/det "
        "letter/NOUN/3/obj to/ADP/8/case the/DET/8/det mayor/NOUN/3/obl last/ADJ/10/amod "
        "week/NOUN/3/obl:tmod",
        {3: "1-2 ARG0, 4-5 ARG1, 6-8 ARG2, 9-10 ARGM-TMP"},
    ),
    (
        "The/DET/2/det letter/NOUN/7/nsubj that/PRON/5/obj she/PRON/5/nsubj "
        "wrote/VERB/2/acl:relcl never/ADV/7/advmod arrived/VERB/0/root",
        {5: "1-2 ARG1, 3 R-ARG1, 4 ARG0", 7: "1-5 ARG1, 6 ARGM-NEG"},
    ),
    (
        "The/DET/2/det mayor/NOUN/4/nsubj:pass was/AUX/4/aux:pass seen/VERB/0/root "
        "by/ADP/7/case a/DET/7/det neighbour/NOUN/4/obl:agent in/ADP/10/case the/DET/10/det "
        "park/NOUN/4/obl",
        {4: "1-2 ARG1, 5-7 ARG0, 8-10 ARGM-LOC"},
    ),
    (
        "A/DET/2/det neighbour/NOUN/6/nsubj who/PRON/4/nsubj walks/VERB/2/acl:relcl "
        "daily/ADV/4/advmod saw/VERB/0/root the/DET/8/det mayor/NOUN/6/obj",
        {4: "1-2 ARG0, 3 R-ARG0, 5 ARGM-TMP", 6: "1-5 ARG0, 7-8 ARG1"},
    ),
    (
        "In/ADP/3/case the/DET/3/det park/NOUN/6/obl the/DET/5/det children/NOUN/6/nsubj "
        "found/VERB/0/root a/DET/9/det small/ADJ/9/amod dog/NOUN/6/obj",
        {6: "1-3 ARGM-LOC, 4-5 ARG0, 7-9 ARG1"},
    ),
    (
        "The/DET/2/det children/NOUN/4/nsubj will/AUX/4/aux give/VERB/0/root the/DET/6/det "
        "dog/NOUN/4/obj to/ADP/9/case the/DET/9/det baker/NOUN/4/obl tomorrow/NOUN/4/obl:tmod",
        {4: "1-2 ARG0, 3 ARGM-MOD, 5-6 ARG1, 7-9 ARG2, 10 ARGM-TMP"},
    ),
    (
        "The/DET/2/det dog/NOUN/6/nsubj that/PRON/5/obj they/PRON/5/nsubj "
        "found/VERB/2/acl:relcl ate/VERB/0/root the/DET/8/det bread/NOUN/6/obj",
        {5: "1-2 ARG1, 3 R-ARG1, 4 ARG0", 6: "1-5 ARG0, 7-8 ARG1"},
    ),
    (
        "The/DET/2/det baker/NOUN/5/nsubj did/AUX/5/aux not/PART/5/advmod send/VERB/0/root "
        "the/DET/7/det letter/NOUN/5/obj",
        {5: "1-2 ARG0, 4 ARGM-NEG, 6-7 ARG1"},
    ),
]


def read(text, verbs):
    """Return a sentence with its tree and the frames of its verbs."""
    words, tags, heads, relations = zip(
        *(entry.rsplit("/", 3) for entry in text.split()), strict=True
    )
    frames = []
    for verb, arguments in verbs.items():
        spans = []
        for argument in arguments.split(", "):
            place, role = argument.split()
            first, _, last = place.partition("-")
            spans.append([int(first) - 1, int(last or first), role])
        frames.append({"predicate": verb - 1, "arguments": spans})
    return FrameSentence.of(
        {
            "tokens": list(words),
            "upos": list(tags),
            "heads": [int(h) for h in heads],
            "deprels": list(relations),
            "frames": frames,
        }
    )


def with_arguments(sentence, arguments):
    """Return a sentence with predicted arguments."""
    pairs = zip(sentence.frames, arguments, strict=True)
    return sentence.with_frames(replace(frame, arguments=tuple(found)) for frame, found in pairs)


def show(sentence, frame, arguments):
    words = sentence.tokens
    parts = [f"{role} [{' '.join(words[start:end])}]" for start, end, role in arguments]
    print(f"  {words[frame.predicate]:8}{'  '.join(parts)}")


def main():
    sentences = [read(text, verbs) for text, verbs in SENTENCES]
    systems = {
        "each alone": ("local", "independent"),
        "no overlap": ("local", "no-overlap"),
        "constraints": ("local", "constraints"),
        "global": ("global", "constraints"),
    }
    print(f"{'':14}precision  recall      F1  illegal frames")
    for name, (training, inference) in systems.items():
        predicted = []
        for i, sentence in enumerate(sentences):
            others = sentences[:i] + sentences[i + 1 :]
            labeller = tl.RoleLabeller(
                tags=["upos"], training=training, max_iterations=10, hash_bits=16, n_threads=1
            )
            found = labeller.fit(others).predict([sentence], inference=inference)[0]
            predicted.append(with_arguments(sentence, found))
        result = evaluate_roles(sentences, predicted, n_bootstrap=0)
        print(
            f"{name:14}{result.precision:9.3f}{result.recall:8.3f}{result.f1:8.3f}"
            f"{result.n_illegal:10} of {result.n_frames}"
        )

    print("\nThe ninth sentence, by a model of the other nine:")
    for sentence in predicted[8:9]:
        for frame in sentence.frames:
            show(sentence, frame, frame.arguments)

    labeller = tl.RoleLabeller(tags=["upos"], max_iterations=10, hash_bits=16, n_threads=1)
    labeller.fit(sentences[:8] + sentences[9:])
    print("\nThe three most probable readings of its second verb:")
    for one in labeller.selections(sentences[8:9]).nbest(3)[1]:
        print(f"  {one.prob:.2f}", end="")
        show(sentences[8], sentences[8].frames[1], one.spans)


if __name__ == "__main__":
    main()
