"""Models of python-crfsuite for the tests: made here in a second, so none is committed."""

import pycrfsuite

import tagloom as tl


def word2features(sentence, t):
    word = sentence[t]
    return {
        "bias": 1.0,
        "lower": word.lower(),
        "suffix3": word[-3:],
        "isupper": word.isupper(),
        "near": {"before": sentence[t - 1] if t else "BOS", "first": t == 0},
        "letters": sorted(set(word[:3])),
        "length": len(word) / 10,
    }


def sent2features(tokens):
    return [word2features(tokens, t) for t in range(len(tokens))]


def english(split, label="upos", n=None):
    """Return items and labels of the embedded corpus."""
    corpus = tl.datasets.load("english", split, label=label)[:n]
    return [sent2features(tokens) for tokens in corpus.tokens], corpus.labels


def train(X, y, path, algorithm="lbfgs", **params):
    """Train a model by python-crfsuite; return it open."""
    trainer = pycrfsuite.Trainer(algorithm=algorithm, params=params, verbose=False)
    for xseq, yseq in zip(X, y, strict=True):
        trainer.append(xseq, yseq)
    trainer.train(str(path))
    return open_model(path)


def open_model(path):
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    return tagger


def marginals(tagger, xseq, labels):
    tagger.set(xseq)
    return [[tagger.marginal(label, t) for label in labels] for t in range(len(xseq))]
