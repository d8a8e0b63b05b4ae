"""Noun phrases: legal labels, and longer label histories.

Chunking finds phrases that do not contain each other. With three labels it is tagging: B begins a
noun phrase, I continues it, and O is outside.

    He/B reckons/O the/B current/I account/I deficit/I will/O narrow/O

Two things are special about such labels. I after O has no meaning, so it must not be predicted; a
tagger with this constraint, which is the default if all training labels are legal, also makes fewer
mistakes. And there are so few labels that the previous one is not very informative: inside a long
phrase it is always I. The remedy (Ke Wu, Discriminative Sequence Labeling, 2013, section 5.2) is to
use pairs of labels as states, so that label trigrams have weights: `order=2`. Only overlapping
pairs can follow each other, so a step costs Y³, not Y⁴.

All taggers below have the same features: the word and its part of speech, a column of the corpus.
Run it:

    python examples/chunking.py
"""

import tagloom as tl

TEMPLATES = ["word", "col(upos)"]


def models():
    """Return names and taggers, each with a stronger model of the labels than the one before."""
    return {
        "each token alone": tl.TokenClassifier(TEMPLATES, constraints=None),
        "... and legal": tl.TokenClassifier(TEMPLATES),
        "label bigrams": tl.CRF(TEMPLATES),
        "label trigrams": tl.CRF(TEMPLATES, order=2),
        "label 4-grams": tl.CRF(TEMPLATES, order=3),
    }


def noun_phrases(corpus):
    """Return the sentences, and their labels with all other phrases replaced by O."""
    labels = [[y if y.endswith("-NP") else "O" for y in sentence.labels] for sentence in corpus]
    return list(corpus), labels


def bracket(words, labels):
    """Return a sentence with its phrases in brackets."""
    spans = tl.labels.to_spans(labels, "bio")
    opens, ends = {start for _, start, _ in spans}, {end for *_, end in spans}
    shown = ["[" * (t in opens) + word + "]" * (t + 1 in ends) for t, word in enumerate(words)]
    return " ".join(shown)


def main():
    splits = tl.datasets.load("english", label="chunk")
    (X, y), (X_test, gold) = noun_phrases(splits.train), noun_phrases(splits.test)
    print(f"Noun phrases: {len(X)} training sentences, {len(X_test)} test sentences.\n")
    print("                    states   precision   recall       F1   illegal labels")
    predicted = {}
    for name, tagger in models().items():
        predicted[name] = labels = tagger.fit(X, y).predict(X_test)
        result = tl.evaluate(gold, labels, n_bootstrap=0)
        illegal = len(list(tl.labels.validate(labels, "bio")))
        states = tagger.scores_.states
        n_states = len(tagger.labels_) if states is None else states.n_states
        scores = f"{result.precision:11.1%} {result.recall:8.1%} {result.f1:8.1%}"
        print(f"{name:18} {n_states:7} {scores} {illegal:16}")

    both = predicted["label bigrams"], predicted["label trigrams"]
    result = tl.compare(gold, *both, n_bootstrap=0)
    print(f"\nTrigrams against bigrams: p = {result.p_value:.2f} on these few sentences.")
    for sentence, right, first, second in zip(X_test, gold, *both, strict=True):
        if first != right == second:
            print(f"  bigrams   {bracket(sentence.tokens, first)}")
            print(f"  trigrams  {bracket(sentence.tokens, second)}")
            break


if __name__ == "__main__":
    main()
