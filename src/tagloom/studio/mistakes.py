"""Mistakes of models and of data as plain data: confusion, differences, suspects, calibration."""

from __future__ import annotations

from typing import Any

import numpy as np

from tagloom import evaluation
from tagloom.models import Tagger
from tagloom.sequences import Corpus

MOST_CONFUSED = 40  # labels of the matrix; the others are summed
CONTEXT = 6  # tokens shown on each side of a mistake


class Judgement:
    """Gold labels and those that a tagger predicts, of the sentences that have all labels.

    Parameters
    ----------
    tagger : Tagger
    gold : Corpus
    """

    def __init__(self, tagger: Tagger, gold: Corpus) -> None:
        self.where = [
            i
            for i, s in enumerate(gold)
            if len(s) and s.labels is not None and all(isinstance(y, str) for y in s.labels)
        ]
        self.gold = Corpus([gold[i] for i in self.where])
        self.tagger = tagger
        self.predicted = tagger.predict(self.gold)

    def confusion(self) -> dict[str, Any]:
        """Return accuracy, scores of labels, and the confusion matrix [gold][predicted]."""
        if not self.gold:
            return {"n_tokens": 0, "labels": [], "matrix": [], "n_other": 0}
        result = evaluation.evaluate(self.gold, self.predicted, n_bootstrap=0)
        matrix = result.confusion
        wrong = matrix.sum(axis=0) + matrix.sum(axis=1) - 2 * np.diag(matrix)
        most = np.argsort(-wrong, kind="stable")[:MOST_CONFUSED]
        chosen = np.sort(most)  # in the order of the labels
        scores = result.per_label
        return {
            "n_sentences": result.n_sentences,
            "n_tokens": result.n_tokens,
            "accuracy": result.accuracy,
            "sentence_accuracy": result.sentence_accuracy,
            "f1": result.f1 if result.is_spans else None,
            "labels": [result.labels[y] for y in chosen],
            "matrix": matrix[np.ix_(chosen, chosen)].tolist(),
            "n_other": len(result.labels) - len(chosen),
            "scores": {
                name: [scores[name].precision, scores[name].recall, scores[name].f1]
                for name in (result.labels[y] for y in chosen)
                if name in scores
            },
        }

    def mistakes(
        self, gold: str | None, predicted: str | None, offset: int, n: int
    ) -> dict[str, Any]:
        """Return tokens whose label is wrong, in context.

        Parameters
        ----------
        gold, predicted : str, optional
            Only mistakes of this kind. If both are the same label, correct tokens.
        offset, n : int
            Which part of the list.
        """
        rows = []
        for k, (sentence, path) in enumerate(zip(self.gold, self.predicted, strict=True)):
            assert sentence.labels is not None
            for t, (right, found) in enumerate(zip(sentence.labels, path, strict=True)):
                if (right != found or gold == predicted is not None) and (
                    gold in (None, right) and predicted in (None, found)
                ):
                    rows.append((k, t))
        shown = rows[offset : offset + n]
        return {"total": len(rows), "rows": [self._row(k, t) for k, t in shown]}

    def _row(self, k: int, t: int) -> dict[str, Any]:
        sentence = self.gold[k]
        assert sentence.labels is not None
        return {
            "sentence": self.where[k],
            "token": t,
            "gold": sentence.labels[t],
            "predicted": self.predicted[k][t],
            **in_context(sentence.tokens, t),
        }

    def calibration(self) -> dict[str, Any]:
        """Return the bins of the reliability diagram."""
        if not self.gold:
            return {"n": 0, "bins": []}
        return self.tagger.reliability(self.gold).to_dict()


def compare(a: Judgement, b: Judgement) -> dict[str, Any]:
    """Return where two models differ, with the paired test.

    Parameters
    ----------
    a, b : Judgement
        Of the same sentences.
    """
    if not a.gold:
        return {"rows": [], "total": 0}
    result = evaluation.compare(a.gold, a.predicted, b.predicted)
    rows = []
    for item in result.disagreements:
        triples = zip(item.gold, item.a, item.b, strict=True)
        for t, (gold, label_a, label_b) in enumerate(triples):
            if label_a != label_b:
                row = {"sentence": a.where[item.sentence], "token": t, "gold": gold}
                row |= {"a": label_a, "b": label_b}
                rows.append(row | in_context(a.gold[item.sentence].tokens, t))
    return {
        "accuracy_a": result.a.accuracy,
        "accuracy_b": result.b.accuracy,
        "p_value": result.p_values["accuracy"],
        "only_a": sum(row["a"] == row["gold"] for row in rows),
        "only_b": sum(row["b"] == row["gold"] for row in rows),
        "total": len(rows),
        "rows": rows[:500],
    }


def find_suspects(tagger: Tagger, gold: Corpus, n: int) -> list[dict[str, Any]]:
    """Return the gold labels that are most probably wrong, in context."""
    where = [i for i, s in enumerate(gold) if len(s) and s.labels is not None]
    labelled = [i for i in where if any(isinstance(y, str) for y in gold[i].labels or ())]
    if len(labelled) < 2:
        return []
    sentences = [gold[i] for i in labelled]
    n_folds = min(5, len(sentences))
    suspects = evaluation.find_label_errors(tagger, sentences, n_folds=n_folds, n_most=n)
    return [
        {
            "sentence": labelled[s.sentence],
            "token": s.token,
            "label": s.label,
            "prob": s.prob,
            "suggestion": s.suggestion,
            "suggestion_prob": s.suggestion_prob,
            **in_context(sentences[s.sentence].tokens, s.token),
        }
        for s in suspects
    ]


def in_context(tokens: list[str], t: int) -> dict[str, Any]:
    """Return a token with those around it."""
    return {
        "before": [short(w) for w in tokens[max(t - CONTEXT, 0) : t]],
        "word": short(tokens[t]),
        "after": [short(w) for w in tokens[t + 1 : t + 1 + CONTEXT]],
    }


def short(word: str, most: int = 80) -> str:
    r"""Cut a very long token, and replace half surrogate pairs, which JSON cannot contain.

    Examples
    --------
    >>> short("a" * 100)[-3:], short("\ud800")
    ('aa…', '�')
    """
    word = word if len(word) <= most else word[: most - 1] + "…"
    return "".join("\ufffd" if 0xD800 <= ord(c) < 0xE000 else c for c in word)
