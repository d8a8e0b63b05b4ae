"""Score induced labels, whose names mean nothing, against gold labels.

`evaluate_clusters` counts how often each cluster occurs with each gold label. Two scores name the
clusters: *many-to-one* gives each cluster its most frequent label, *one-to-one* gives each label to
at most one cluster. Two others need no names: *V-measure* and *variation of information* compare
the entropies of the two labellings.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagloom import checks
from tagloom.checks import plural
from tagloom.errors import LabelError, ShapeError
from tagloom.evaluation.assignments import assign
from tagloom.evaluation.tables import Cell, Table, html_page, page
from tagloom.labels.label_lists import check_collection, place
from tagloom.sequences.sentences import no_labels

#: A gold label or the name of a cluster.
Name = str | int

# Number of frequent words that are kept, and shown, for each cluster.
_N_WORDS = 6


@dataclass(frozen=True, eq=False, repr=False)
class ClusterEvaluation:
    """The result of :func:`evaluate_clusters`. It prints as tables.

    Attributes
    ----------
    n_tokens : int
    labels : list
        The G gold labels that occur, sorted.
    clusters : list
        The C clusters that occur, sorted.
    counts : ndarray of int64, shape (G, C)
        Number of tokens with each label in each cluster.
    mapping : dict
        From each cluster to its most frequent gold label; of several, to the first.
    one_to_one_mapping : dict
        From clusters to different labels, such that most tokens are right. Clusters that are left
        over are missing.
    many_to_one, one_to_one : float
        Share of tokens whose cluster is mapped to their gold label, by the two mappings.
    homogeneity : float
        1 − H(label | cluster) / H(label): 1 if each cluster has tokens of one label only.
    completeness : float
        1 − H(cluster | label) / H(cluster): 1 if the tokens of a label are in one cluster.
    v_measure : float
        The harmonic mean of homogeneity and completeness.
    variation_of_information : float
        H(label | cluster) + H(cluster | label) in bits; 0 if the two agree but for names.
    words : dict
        The most frequent words of each cluster; empty if the words are not known.

    Examples
    --------
    >>> result = evaluate_clusters([["D", "N", "V"], ["D", "N"]], [[0, 1, 1], [0, 1]])
    >>> result.many_to_one, result.one_to_one, result.mapping
    (0.8, 0.8, {0: 'D', 1: 'N'})
    >>> round(result.homogeneity, 3), round(result.completeness, 3), round(result.v_measure, 3)
    (0.638, 1.0, 0.779)
    """

    labels: list[Name]
    clusters: list[Name]
    counts: NDArray[np.int64]
    words: dict[Name, list[str]] = field(default_factory=dict, repr=False)

    @property
    def n_tokens(self) -> int:
        """Number of tokens."""
        return int(self.counts.sum())

    # ---- mappings --------------------------------------------------------------------------

    @cached_property
    def mapping(self) -> dict[Name, Name]:
        """From each cluster to its most frequent gold label."""
        if not self.clusters:
            return {}
        best = self.counts.argmax(axis=0).tolist()
        return {cluster: self.labels[g] for cluster, g in zip(self.clusters, best, strict=True)}

    @cached_property
    def one_to_one_mapping(self) -> dict[Name, Name]:
        """From clusters to different labels, such that most tokens are right."""
        matched = assign(self.counts.T).tolist()  # [C] label of each cluster, or −1
        return {
            cluster: self.labels[g]
            for c, (cluster, g) in enumerate(zip(self.clusters, matched, strict=True))
            if g >= 0 and self.counts[g, c]
        }

    @property
    def many_to_one(self) -> float:
        """Share of tokens that are right if each cluster has its most frequent label."""
        return self._share(self.mapping)

    @property
    def one_to_one(self) -> float:
        """Share of tokens that are right under the best matching of clusters and labels."""
        return self._share(self.one_to_one_mapping)

    def _share(self, mapping: Mapping[Name, Name]) -> float:
        if not self.n_tokens:
            return 0.0
        row = {label: g for g, label in enumerate(self.labels)}
        column = {cluster: c for c, cluster in enumerate(self.clusters)}
        right = sum(int(self.counts[row[g], column[c]]) for c, g in mapping.items())
        return right / self.n_tokens

    # ---- entropies -------------------------------------------------------------------------

    @cached_property
    def homogeneity(self) -> float:
        """1 − H(label | cluster) / H(label); 1 if there is one label."""
        return _explained(self._label_given_cluster, _entropy(self.counts.sum(axis=1)))

    @cached_property
    def completeness(self) -> float:
        """1 − H(cluster | label) / H(cluster); 1 if there is one cluster."""
        return _explained(self._cluster_given_label, _entropy(self.counts.sum(axis=0)))

    @property
    def v_measure(self) -> float:
        """The harmonic mean of homogeneity and completeness."""
        h, c = self.homogeneity, self.completeness
        return 2 * h * c / (h + c) if h + c else 0.0

    @property
    def variation_of_information(self) -> float:
        """H(label | cluster) + H(cluster | label), in bits."""
        return self._label_given_cluster + self._cluster_given_label

    @cached_property
    def _label_given_cluster(self) -> float:
        return _conditional_entropy(self.counts)

    @cached_property
    def _cluster_given_label(self) -> float:
        return _conditional_entropy(self.counts.T)

    # ---- as data and as text -----------------------------------------------------------------

    def summary(self) -> dict[str, float]:
        """Return the scores by name.

        Examples
        --------
        >>> evaluate_clusters(["N", "V"], [1, 1]).summary()["many_to_one"]
        0.5
        """
        names = ("many_to_one", "one_to_one", "v_measure", "homogeneity", "completeness")
        return {name: getattr(self, name) for name in (*names, "variation_of_information")}

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON.

        Examples
        --------
        >>> evaluate_clusters(["N", "V"], ["1", "1"]).to_dict()["counts"]
        [[1], [1]]
        """
        return {
            "n_tokens": self.n_tokens,
            **self.summary(),
            "labels": list(self.labels),
            "clusters": list(self.clusters),
            "counts": self.counts.tolist(),
            "mapping": {str(cluster): label for cluster, label in self.mapping.items()},
            "one_to_one_mapping": {
                str(cluster): label for cluster, label in self.one_to_one_mapping.items()
            },
            "words": {str(cluster): list(words) for cluster, words in self.words.items()},
        }

    def _parts(self) -> list[str | Table]:
        scores: list[list[Cell]] = [
            [name.replace("_", "-" if "one" in name or name[0] == "v" else " "), value]
            for name, value in self.summary().items()
        ]
        scores[-1][0] = "variation of information (bits)"
        return [
            f"{plural(self.n_tokens, 'token')}, {plural(len(self.labels), 'label')}, "
            f"{plural(len(self.clusters), 'cluster')}.",
            Table(["", "score"], scores),
            self._cluster_table(),
        ]

    def _cluster_table(self) -> Table:
        """List the clusters by size, with the labels and words in them."""
        sizes = self.counts.sum(axis=0)
        rows: list[list[Cell]] = []
        for c in np.argsort(-sizes, kind="stable").tolist():
            column, cluster = self.counts[:, c], self.clusters[c]
            commonest = np.argsort(-column, kind="stable")[:3]
            shares = [
                f"{self.labels[g]} {column[g] / sizes[c]:.0%}" for g in commonest if column[g]
            ]
            matched = self.one_to_one_mapping.get(cluster, "")
            row: list[Cell] = [str(cluster), int(sizes[c]), str(matched), ", ".join(shares)]
            rows.append([*row, " ".join(self.words[cluster])] if self.words else row)
        header = ["cluster", "tokens", "one-to-one", "labels"]
        return Table([*header, "words"] if self.words else header, rows, (0, 2, 3, 4))

    def __repr__(self) -> str:
        scores = ", ".join(f"{name}={value:.4f}" for name, value in self.summary().items())
        return f"ClusterEvaluation({scores})"

    def __str__(self) -> str:
        return page(self._parts())

    def _repr_html_(self) -> str:
        return html_page(self._parts())


def evaluate_clusters(
    gold: Iterable[Any], predicted: Iterable[Any], *, tokens: Iterable[Any] | None = None
) -> ClusterEvaluation:
    """Score induced labels, such as the states of an HMM, against gold labels.

    Parameters
    ----------
    gold : Corpus, sequence of list of labels, or flat sequence of labels
        Gold labels, each a str or an int.
    predicted : the same
        The cluster of each token; its name may be anything.
    tokens : sequence of list of str, or flat sequence of str, optional
        The words, to list frequent ones of each cluster; by default those of a corpus.

    Returns
    -------
    ClusterEvaluation
        Without tokens, the shares are 0 and the V-measure is 1, as in scikit-learn.

    Raises
    ------
    ShapeError
        If the numbers of labels differ.
    LabelError
        If a label is neither a str nor an int.

    Examples
    --------
    >>> gold = [["DET", "NOUN", "VERB"], ["DET", "NOUN", "VERB"]]
    >>> print(evaluate_clusters(gold, [["0", "1", "2"], ["0", "1", "1"]]))
    6 tokens, 3 labels, 3 clusters.
    <BLANKLINE>
                                      score
    many-to-one                      0.8333
    one-to-one                       0.8333
    v-measure                        0.7397
    homogeneity                      0.7103
    completeness                     0.7716
    variation of information (bits)  0.7925
    <BLANKLINE>
    cluster  tokens  one-to-one  labels
    1             3  NOUN        NOUN 67%, VERB 33%
    0             2  DET         DET 100%
    2             1  VERB        VERB 100%
    """
    sources = {"gold": _collect(gold, "gold"), "predicted": _collect(predicted, "predicted")}
    _check_lengths(*sources.values())
    flat = {name: _flatten(source, name) for name, source in sources.items()}
    n = len(flat["gold"])
    if len(flat["predicted"]) != n:
        raise ShapeError(
            where="predicted",
            expected=f"{plural(n, 'label')}, as in gold",
            found=f"{len(flat['predicted']):,}",
            hint="Both need one label per token.",
        )
    labels, rows = _number(flat["gold"])
    clusters, columns = _number(flat["predicted"])
    counts = np.zeros((len(labels), len(clusters)), dtype=np.int64)  # [G, C]
    np.add.at(counts, (rows, columns), 1)
    words = _words(tokens, sources.values(), n)
    frequent = {} if words is None else _frequent_words(words, columns, clusters)
    return ClusterEvaluation(labels, clusters, counts, frequent)


# ---- reading -------------------------------------------------------------------------------------


def _collect(labels: Iterable[Any], parameter: str) -> Sequence[Any]:
    check_collection(labels, parameter)
    if isinstance(labels, np.ndarray):
        return list(labels.tolist())
    return labels if isinstance(labels, Sequence) else list(labels)


def _is_flat(source: Sequence[Any]) -> bool:
    return len(source) > 0 and (isinstance(source[0], str) or not hasattr(source[0], "__len__"))


def _labels_of(sentence: Any, i: int, name: str) -> Any:
    labels = getattr(sentence, "labels", sentence)
    if labels is None:
        raise no_labels(f"{name}: {place(sentence, i)}")
    if isinstance(labels, str) or not hasattr(labels, "__len__"):
        raise ShapeError(
            where=f"{name}[{i}]", expected="a list of labels", found=checks.show_type(labels)
        )
    return labels.tolist() if isinstance(labels, np.ndarray) else labels


def _check_lengths(gold: Sequence[Any], predicted: Sequence[Any]) -> None:
    """Raise if both have sentences and a sentence has another length in one of them."""
    if _is_flat(gold) or _is_flat(predicted) or not len(gold) or not len(predicted):
        return
    if len(gold) != len(predicted):
        raise ShapeError(
            where="predicted",
            expected=f"{plural(len(gold), 'sentence')}, as in gold",
            found=f"{len(predicted):,}",
            hint="Both need the same sentences in the same order.",
        )
    for i, (a, b) in enumerate(zip(gold, predicted, strict=True)):
        lengths = len(_labels_of(a, i, "gold")), len(_labels_of(b, i, "predicted"))
        if lengths[0] != lengths[1]:
            raise ShapeError(
                where=f"predicted: {place(b, i)}",
                expected=f"{plural(lengths[0], 'label')}, as in gold",
                found=str(lengths[1]),
                hint="Both need one label per token.",
            )


def _flatten(source: Sequence[Any], name: str) -> list[Name]:
    if _is_flat(source):
        rows: Iterable[Any] = [source]
    else:
        rows = (_labels_of(sentence, i, name) for i, sentence in enumerate(source))
    flat = [label for row in rows for label in row]
    if not set(map(type, flat)) <= {str, int}:
        flat = [_plain(label, f"{name}, token {t}") for t, label in enumerate(flat)]
    return flat


def _plain(label: Any, where: str) -> Name:
    if isinstance(label, str):
        return str(label)
    if isinstance(label, int | np.integer) and not isinstance(label, bool):
        return int(label)
    raise LabelError(where=where, expected="a label: str or int", found=checks.show_type(label))


def _number(flat: Sequence[Name]) -> tuple[list[Name], NDArray[np.intp]]:
    """Return the names that occur, sorted, and the number of each token's name."""
    seen: set[Name] = set(flat)
    names = sorted(seen, key=_sort_key)
    number = {name: i for i, name in enumerate(names)}
    return names, np.fromiter(map(number.__getitem__, flat), dtype=np.intp, count=len(flat))


def _sort_key(name: Name) -> tuple[int, int, str]:
    """Sort numbers, also those written as text, by value, before other names."""
    if isinstance(name, int):
        return 0, name, ""
    is_number = name.isascii() and name.isdigit()
    return (0, int(name), name) if is_number else (1, 0, name)


# ---- words ---------------------------------------------------------------------------------------


def _words(
    tokens: Iterable[Any] | None, sources: Iterable[Sequence[Any]], n: int
) -> list[Hashable] | None:
    """Return the words as passed, or those of a corpus; None if they are not known."""
    if tokens is None:
        for source in sources:
            if len(source) and all(hasattr(sentence, "tokens") for sentence in source):
                return [word for sentence in source for word in sentence.tokens]
        return None
    rows = _collect(tokens, "tokens")
    words = list(rows) if _is_flat(rows) else [w for row in rows for w in _tokens_of(row)]
    if len(words) != n:
        raise ShapeError(
            where="tokens",
            expected=f"{plural(n, 'token')}, as in the labels",
            found=f"{len(words):,}",
            hint="Every token needs one label.",
        )
    return words


def _tokens_of(row: Any) -> Any:
    return getattr(row, "tokens", row)


def _frequent_words(
    words: Sequence[Hashable], columns: NDArray[np.intp], clusters: Sequence[Name]
) -> dict[Name, list[str]]:
    counters: defaultdict[int, Counter[Hashable]] = defaultdict(Counter)
    for (c, word), n in Counter(zip(columns.tolist(), words, strict=True)).items():
        counters[c][word] = n
    return {
        cluster: [str(word) for word, _ in counters[c].most_common(_N_WORDS)]
        for c, cluster in enumerate(clusters)
    }


# ---- entropies, in bits --------------------------------------------------------------------------


def _entropy(counts: NDArray[np.int64]) -> float:
    """H = −Σ_i p_i log p_i of counts [n]."""
    probs = counts[counts > 0] / max(int(counts.sum()), 1)
    return max(float(-(probs * np.log2(probs)).sum()), 0.0)


def _conditional_entropy(counts: NDArray[np.int64]) -> float:
    """H(row | column) = −Σ_ij n_ij / n · log(n_ij / n_j) of counts [rows, columns]."""
    rows, columns = np.nonzero(counts)
    n = counts[rows, columns]
    shares = n / counts.sum(axis=0)[columns]
    # 0 first: of equal numbers max returns the first, and the other may be −0.
    return max(0.0, float(-(n * np.log2(shares)).sum() / max(int(counts.sum()), 1)))


def _explained(conditional: float, whole: float) -> float:
    """1 − H(a | b) / H(a), within 0 and 1; 1 if H(a) is 0."""
    return min(max(1 - conditional / whole, 0.0), 1.0) if whole else 1.0
