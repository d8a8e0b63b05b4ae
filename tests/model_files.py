"""Write the models of tests/models/files for the present version, with what they must answer.

Run once for each release: ``python tests/model_files.py``. A file that exists is never written
again.
"""

import io
import json
from pathlib import Path

import numpy as np

import tagloom as tl
from role_sentences import grammar
from tagloom.models import baselines

FILES = Path(__file__).parent / "models" / "files"
X = [["they", "can", "swim"], ["the", "old", "man"], ["a", "man", "can", "fish"], ["they", "fish"]]
Y = [["N", "V", "V"], ["D", "A", "N"], ["D", "N", "V", "V"], ["N", "V"]]
NEW = [["The", "man", "can", "swim"], ["fish"], []]
SPANS = [["O", "O", "O"], ["B-P", "I-P", "I-P"], ["B-P", "I-P", "O", "O"], ["O", "O"]]
TREES = [
    {"tokens": ["They", "can", "fish"], "upos": ["PRON", "AUX", "VERB"], "head": ["3", "3", "0"]},
    {"tokens": ["old", "fish", "swim"], "upos": ["ADJ", "NOUN", "VERB"], "head": ["2", "3", "0"]},
]
RELATIONS = [["nsubj", "aux", "root"], ["amod", "nsubj", "root"]]
SERIES = [[[0.0, 1.0], [0.1, 0.9], [5.0, 5.2]], [[5.1, 4.9], [0.2, 1.1]]]


def dicts(sentences):
    return [[{"word": w, "length": float(len(w))} for w in sentence] for sentence in sentences]


def arrays(series):
    return [np.array(rows) for rows in series]


def trees():
    return [
        tl.Sentence(x["tokens"], columns={"upos": x["upos"], "head": x["head"], "deprel": y})
        for x, y in zip(TREES, RELATIONS, strict=True)
    ]


def split_text():
    rows = "1\tThey\t_\tX\t_\t_\t_\t_\t_\t_\n2\tfish\t_\tX\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
    return tl.read(io.StringIO(f"{rows}3\t.\t_\tX\t_\t_\t_\t_\t_\t_\n\n" * 4), "conllu")


def models():
    """Yield a name, a fitted model and its input as JSON holds it."""
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
    yield "hmm-states", tl.HMM(n_states=2, max_iterations=5).fit(X), NEW
    yield "memm", tl.MEMM(templates[:2]).fit(X, Y), NEW
    yield "svm", tl.StructuredSVM(templates[:2]).fit(X, Y), NEW
    small = {"word_size": 4, "hidden": 4, "batch_tokens": 6, "max_iterations": 2, "n_threads": 1}
    network = tl.NeuralTagger(features=["word"], characters=None, **small)
    yield "network", network.fit(X, Y), NEW
    network = tl.NeuralTagger(features=None, encoder="cnn", characters=None, **small)
    yield "network-cnn", network.fit(X, Y), NEW
    hashed = {"hash_bits": 8, "tags": ["upos"], "max_iterations": 3, "n_threads": 1}
    yield "parser", tl.DependencyParser(**hashed).fit(trees()), None
    yield "parser-joint", tl.DependencyParser(labelling="joint", **hashed).fit(trees()), None
    yield "parser-order2", tl.DependencyParser(order=2, **hashed).fit(trees()), None
    yield "roles", tl.RoleLabeller(**hashed).fit(grammar(6, 0)), None
    yield "ngrams", tl.NGramModel(order=2).fit(X), NEW
    series = tl.LinearGaussian(n_states=1, max_iterations=2)
    yield "series", series.fit(arrays(SERIES)), SERIES
    yield "tokenizer", tl.Tokenizer().fit(split_text()), ["They fish. They swim.", "can.fish"]


def as_input(sentences):
    """Return sentences of JSON as a tagger takes them."""
    is_series = bool(sentences[0]) and isinstance(sentences[0][0], list)
    return arrays(sentences) if is_series else sentences


def answers(tagger, sentences):
    """Return what a model answers about sentences, as JSON holds it."""
    if not isinstance(tagger, tl.Tagger):
        return {"model": type(tagger).__name__, "sentences": sentences} | others(tagger, sentences)
    given = as_input(sentences)
    marginals = [np.round(rows, 6).tolist() for rows in tagger.predict_marginals(given)]
    return {
        "model": type(tagger).__name__,
        "labels": tagger.labels_.tolist(),
        "sentences": sentences,
        "predictions": tagger.predict(given),
        "marginals": marginals,
    }


def others(model, given):
    """Return what a model that is not a tagger answers."""
    if isinstance(model, tl.DependencyParser):
        return {"predictions": [[x.heads, x.labels] for x in model.predict(trees())]}
    if isinstance(model, tl.RoleLabeller):
        frames = model.predict(grammar(3, 1))
        return {"predictions": [[list(map(list, x)) for x in one] for one in frames]}
    if isinstance(model, tl.Tokenizer):
        return {"predictions": [[x.tokens for x in model.split(text)] for text in given]}
    if isinstance(model, tl.NGramModel):
        numbers = [[[model.log_prob(x)]] for x in given]
    else:
        numbers = [found.means.tolist() for found in model.smooth(arrays(given))]
    return {"marginals": [np.round(rows, 6).tolist() for rows in numbers]}


def main():
    path = FILES / f"{tl.__version__}.json"
    expected = json.loads(path.read_text())["models"] if path.exists() else {}
    for name, model, given in models():
        if name not in expected:
            getattr(model, "training_", {}).pop("seconds", None)
            model.save(FILES / f"{tl.__version__}-{name}.tagloom")
            expected[name] = answers(model, given)
    path.write_text(json.dumps({"models": expected}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
