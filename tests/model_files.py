"""Write the models of tests/models/files for the present version, with what they must answer.

Run once for each release: ``python tests/model_files.py``. Files of released versions are
never written again.
"""

import json
from pathlib import Path

import numpy as np

import tagloom as tl
from tagloom.models import baselines

FILES = Path(__file__).parent / "models" / "files"
X = [["they", "can", "swim"], ["the", "old", "man"], ["a", "man", "can", "fish"], ["they", "fish"]]
Y = [["N", "V", "V"], ["D", "A", "N"], ["D", "N", "V", "V"], ["N", "V"]]
NEW = [["The", "man", "can", "swim"], ["fish"], []]
SPANS = [["O", "O", "O"], ["B-P", "I-P", "I-P"], ["B-P", "I-P", "O", "O"], ["O", "O"]]
SERIES = [[[0.0, 1.0], [0.1, 0.9], [5.0, 5.2]], [[5.1, 4.9], [0.2, 1.1]]]


def dicts(sentences):
    return [[{"word": w, "length": float(len(w))} for w in sentence] for sentence in sentences]


def arrays(series):
    return [np.array(rows) for rows in series]


def models():
    """Yield a name, a fitted tagger and its input as JSON holds it."""
    yield "crf-dicts", tl.CRF(None).fit(dicts(X), Y), dicts(NEW)
    templates = ["word", "suffix(2)", "word[-1] & word", "edge(shape)"]
    yield "crf-edges", tl.CRF(templates, order=1).fit(X, Y), NEW
    yield "crf-tokenizer", tl.CRF("pos").fit(X, Y).with_tokenizer(tl.Tokenizer()), NEW
    yield "perceptron", tl.StructuredPerceptron(templates[:3]).fit(X, Y), NEW
    yield "tokens", tl.TokenClassifier(templates[:2]).fit(X, Y), NEW
    yield "semicrf", tl.SemiCRF(templates[:2]).fit(X, SPANS), NEW
    yield "baseline", tl.MostFrequentTag().fit(X, Y), NEW
    dense, baselines._MOST_DENSE = baselines._MOST_DENSE, 0
    yield "baseline-sparse", tl.MostFrequentTag().fit(X, Y), NEW
    baselines._MOST_DENSE = dense
    hmm = tl.HMM(n_states=2, emissions=tl.emissions.Gaussian())
    yield "hmm-gaussian", hmm.fit(arrays(SERIES)), SERIES


def as_input(sentences):
    """Return sentences of JSON as a tagger takes them."""
    is_series = bool(sentences[0]) and isinstance(sentences[0][0], list)
    return arrays(sentences) if is_series else sentences


def answers(tagger, sentences):
    """Return what a tagger says about sentences, as JSON holds it."""
    given = as_input(sentences)
    marginals = [np.round(rows, 6).tolist() for rows in tagger.predict_marginals(given)]
    return {
        "model": type(tagger).__name__,
        "labels": tagger.labels_.tolist(),
        "sentences": sentences,
        "predictions": tagger.predict(given),
        "marginals": marginals,
    }


def main():
    version = tl.__version__
    expected = {}
    for name, tagger, sentences in models():
        tagger.training_.pop("seconds", None)
        tagger.save(FILES / f"{version}-{name}.tagloom")
        expected[name] = answers(tagger, sentences)
    text = json.dumps({"models": expected})
    (FILES / f"{version}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
