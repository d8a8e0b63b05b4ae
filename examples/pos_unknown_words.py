"""Parts of speech of unknown words.

A fifth of the words in the test sentences do not occur in the training sentences. Features of the
word itself are useless there; a tagger must use the surrounding words and the spelling of the word:
its ending, its beginning, its shape (capitals, digits, hyphens). This script adds these features to
a conditional random field, one kind at a time, and reports the accuracy on known and on unknown
words.

`MostFrequentTag`, which gives every word its most frequent label, is the baseline. Run it:

    python examples/pos_unknown_words.py
"""

import tagloom as tl

# Each step adds templates to those before it.
STEPS = {
    "the word": ["word"],
    "the words around": ["lower[-1..1]"],
    "endings": ["suffix(1..4, lower)"],
    "beginnings": ["prefix(1..3, lower)"],
    "shapes": ["short_shape[-1..1]", "digit", "hyphen"],
}


def taggers():
    """Yield names and taggers, the simplest first."""
    yield "commonest label", tl.MostFrequentTag()
    templates = []
    for name, added in STEPS.items():
        templates = [*templates, *added]
        yield ("" if name == "the word" else "+ ") + name, tl.CRF(templates)


def measure(tagger, train, test):
    """Evaluate, with separate scores for known and unknown words."""
    return tl.evaluate(test, tagger.predict(test), train=train, n_bootstrap=0)


def main():
    train, _, test = tl.datasets.load("english", label="upos")
    print(f"{len(train)} training sentences, {len(test)} test sentences.\n")
    print("                     accuracy   known words   unknown words")
    for name, tagger in taggers():
        result = measure(tagger.fit(train), train, test)
        known, unknown = result.accuracy_known, result.accuracy_unknown
        print(f"{name:20} {result.accuracy:8.1%} {known:13.1%} {unknown:15.1%}")
    print(f"\n{result.n_unknown} of the {result.n_tokens:,} test words are unknown.")

    sentence = ["The", "blarfing", "snorgs", "glibbly", "zibbled", "37", "Trundleworths", "."]
    print("\nThe last tagger on a sentence of made-up words:")
    explanation = tagger.explain(sentence)
    for word, decision in zip(sentence, explanation, strict=True):
        spelling = [r for r in decision.reasons if "fix" in r.name or "shape" in r.name]
        why = ""
        if spelling and word not in ("The", "."):
            why = f"{spelling[0].name} ({spelling[0].value:+.1f} against {decision.runner_up})"
        print(f"  {word:14} {decision.label:6} {decision.prob:.2f}  {why}")


if __name__ == "__main__":
    main()
