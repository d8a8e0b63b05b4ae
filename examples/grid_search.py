"""Grid search and cross-validation: choosing a tagger with scikit-learn.

Every tagger is an estimator, so scikit-learn can choose its parameters. scikit-learn has no scorer
for spans, because its scorers require one label per row. `tagloom.evaluation` provides `span_f1`
and others, to be passed as `scoring=`.

Which templates and which penalty find the phrases of a sentence best? Cross-validation on the
training sentences decides. The test sentences are used once, at the end, for the best model and for
the default without a search. Run it:

    python examples/grid_search.py

It needs scikit-learn: pip install scikit-learn.
"""

import sys

import tagloom as tl
from tagloom.evaluation import accuracy, span_f1
from tagloom.features import PRESETS

try:
    from sklearn.model_selection import GridSearchCV, cross_validate
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer
except ImportError:
    sys.exit("This example needs scikit-learn: pip install scikit-learn")

TEMPLATES = {
    "words": PRESETS["words"],
    "words around": ["word", "lower[-1..1]"],
    "endings": ["word", "lower[-1..1]", "suffix(1..3)[-1..1]"],
}
GRID = {
    "tagger__features": list(TEMPLATES.values()),
    "tagger__l2": [0.01, 0.1, 1.0],
}


def hide_numbers(X):
    """Replace all numbers by the same word: 1984 and 3,000 become 0."""
    return [["0" if word[0].isdigit() else word for word in words] for words in X]


def make_pipeline():
    """Return the pipeline to search: a step that changes the sentences, and a tagger."""
    tagger = tl.CRF("words", algorithm="lbfgs", max_iterations=30, n_threads=1)
    return Pipeline([("numbers", FunctionTransformer(hide_numbers)), ("tagger", tagger)])


def name_of(templates):
    return next(name for name, value in TEMPLATES.items() if value == templates)


def main():
    train, _, test = tl.datasets.load("english", label="chunk")
    X, y = train.tokens[:250], train.labels[:250]
    print(f"Phrases of {len(X)} sentences, 3-fold cross-validation; span F1.\n")

    plain = cross_validate(
        make_pipeline(), X, y, cv=3, scoring={"F1": span_f1, "accuracy": accuracy}
    )
    for name in ("F1", "accuracy"):
        folds = "  ".join(f"{score:.1%}" for score in plain[f"test_{name}"])
        print(f"words alone, {name:9} fold by fold: {folds}")

    search = GridSearchCV(make_pipeline(), GRID, scoring=span_f1, cv=3).fit(X, y)
    results = search.cv_results_
    print("\ntemplates        " + "".join(f"l2 = {l2:<8}" for l2 in GRID["tagger__l2"]))
    for name, templates in TEMPLATES.items():
        row = [
            score
            for score, params in zip(results["mean_test_score"], results["params"], strict=True)
            if params["tagger__features"] == templates
        ]
        print(f"{name:16} " + "".join(f"{score:<13.1%}" for score in row))

    best = search.best_params_
    print(f"\nThe best: {name_of(best['tagger__features'])}, l2 = {best['tagger__l2']}.")
    baseline = make_pipeline().fit(X, y)
    print("On the test sentences")
    for name, model in (("words alone", baseline), ("the best", search.best_estimator_)):
        print(f"  {name:12} {span_f1(model, test.tokens, test.labels):.1%}")

    search.best_estimator_["tagger"].set_params(n_threads=None)
    print(f"\nThe best pipeline ends in\n  {search.best_estimator_['tagger']!r}")


if __name__ == "__main__":
    main()
