"""The classes of python-crfsuite over tagloom: change the import, keep the programme.

::

    from tagloom.interop import pycrfsuite      # was: import pycrfsuite

`Trainer` writes model files of CRFsuite, `Tagger` reads them; each package reads the files of the
other. Page "Coming from sklearn-crfsuite" lists the differences.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tagloom import checks
from tagloom.errors import NotFittedError, SentenceError
from tagloom.errors import TagloomError as CRFSuiteError
from tagloom.features.batches import sum_values
from tagloom.interop.crfsuite import empty_model, read_crfsuite, read_header, to_crfsuite
from tagloom.models.crf import CRF
from tagloom.models.linear import LinearTagger
from tagloom.models.perceptrons import StructuredPerceptron
from tagloom.models.svm import StructuredSVM
from tagloom.training import Record

__all__ = [
    "CRFSUITE_VERSION",
    "BaseTrainer",
    "CRFSuiteError",
    "ItemSequence",
    "ParsedDump",
    "Tagger",
    "Trainer",
]

#: The version of CRFsuite whose file format and interface these classes have.
CRFSUITE_VERSION = "0.12.2"

T = TypeVar("T")


# ---- features --------------------------------------------------------------------------------


class ItemSequence:
    """The features of a sequence, read once and used several times.

    Parameters
    ----------
    pyseq : iterable
        For each token a dict or iterable of features, as in python-crfsuite; keys and values may
        also be bytes in UTF-8.

    Examples
    --------
    >>> from tagloom.interop.pycrfsuite import ItemSequence
    >>> ItemSequence([["foo"], {"bar": {"baz": 1}, "is": False}]).items()
    [{'foo': 1.0}, {'bar:baz': 1.0, 'is': 0.0}]
    """

    def __init__(self, pyseq: Any) -> None:
        self._tokens: list[dict[str, float]]
        if isinstance(pyseq, ItemSequence):
            self._tokens = pyseq._tokens
        else:
            self._tokens = [sum_values(_attributes(item, t)) for t, item in enumerate(pyseq)]

    def items(self) -> list[dict[str, float]]:
        """Return the attributes of each token: name to value."""
        return [dict(token) for token in self._tokens]

    def __len__(self) -> int:
        return len(self._tokens)

    def __repr__(self) -> str:
        return f"<ItemSequence of size {len(self)}>"


def _attributes(item: Any, t: int) -> Iterator[tuple[str, float]]:
    """Yield names and values of a token's attributes."""
    if isinstance(item, str | bytes) or not isinstance(item, Iterable):
        raise SentenceError(
            where=f"token {t}",
            expected="a dict or an iterable of features",
            found=checks.show_type(item),
        )
    for key in item:
        name = _text(key, t)
        value = item[key] if isinstance(item, Mapping) else 1.0
        if isinstance(value, Mapping | list | tuple | set | frozenset):
            for inner, number in _attributes(value, t):
                yield f"{name}:{inner}", number
        elif isinstance(value, str | bytes):
            yield f"{name}:{_text(value, t)}", 1.0
        else:
            try:
                yield name, float(value)
            except (TypeError, ValueError):
                raise SentenceError(
                    where=f"token {t}, feature {name!r}",
                    expected="a str, a number, a bool, a dict or a list",
                    found=checks.show_type(value),
                ) from None


def _text(value: Any, t: int) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8")
    raise SentenceError(
        where=f"token {t}", expected="names of features as str", found=checks.show_type(value)
    )


def with_items(call: Callable[[list[Any]], T], X: Iterable[Any]) -> T:
    """Call a function of tagloom with sequences in any form that python-crfsuite accepts.

    tagloom reads lists of dicts and of lists natively; the rare other forms (bytes, generators,
    views of keys) are converted first.
    """
    sequences = [x._tokens if isinstance(x, ItemSequence) else x for x in X]
    sequences = [x if isinstance(x, list) else list(x) for x in sequences]
    try:
        return call(sequences)
    except SentenceError:
        return call([ItemSequence(x)._tokens for x in sequences])


# ---- tagging ---------------------------------------------------------------------------------


class ParsedDump:
    """The contents of a model, as `Tagger.info` returns them.

    Attributes
    ----------
    header : dict of str to str
    labels, attributes : dict of str to str
        Name to number.
    transitions : dict
        (from, to) → weight.
    state_features : dict
        (attribute, label) → weight.
    """

    def __init__(self, header: dict[str, str], crf: LinearTagger) -> None:
        scores = crf.scores_
        self.header = header
        self.labels = {name: str(y) for y, name in enumerate(scores.labels)}
        names = list(scores.names)
        self.attributes = {name: str(a) for a, name in enumerate(names)}
        self.transitions = crf.transition_features_
        pairs = zip(scores.rows.attributes.tolist(), scores.rows.cols.tolist(), strict=True)
        self.state_features = {
            (names[a], scores.labels[y]): weight
            for (a, y), weight in zip(pairs, scores.rows.weights.tolist(), strict=True)
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines that CRFsuite's ``dump`` prints."""
        yield from _braced("FILEHEADER", (f"{k}: {v}" for k, v in self.header.items()))
        yield from _braced("LABELS", (f"{y:>5}: {k}" for k, y in self.labels.items()))
        yield from _braced("ATTRIBUTES", (f"{a:>5}: {k}" for k, a in self.attributes.items()))
        rows = ((1, self.transitions, "TRANSITIONS"), (0, self.state_features, "STATE_FEATURES"))
        for kind, weights, title in rows:
            yield from _braced(
                title, (f"({kind}) {a} --> {b}: {w:f}" for (a, b), w in weights.items())
            )


def _braced(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"{title} = {{\n"
    yield from (f"  {line}\n" for line in lines)
    yield "}\n\n"


class Tagger:
    """Predicts labels with a model of CRFsuite.

    Examples
    --------
    >>> import tempfile
    >>> from tagloom.interop.pycrfsuite import Tagger, Trainer
    >>> trainer = Trainer(verbose=False)
    >>> trainer.append([{"word": "they"}, {"word": "fish"}], ["N", "V"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trainer.train(folder + "/model.crfsuite")
    ...     with Tagger().open(folder + "/model.crfsuite") as tagger:
    ...         tagger.tag([["word:they"], ["word:fish"]])
    ['N', 'V']
    """

    def __init__(self) -> None:
        self._crf: LinearTagger | None = None
        self._header: dict[str, str] = {}
        self._sequence: Any = []
        self._marginals: Any = None

    def open(self, name: Any) -> Any:
        """Open a model file; the result is a context manager that closes it."""
        with open(name, "rb") as file:
            return self._open(file.read(), os.fspath(name))

    def open_inmemory(self, value: bytes) -> Any:
        """Open a model from the bytes of its file."""
        return self._open(value, "<bytes>")

    def _open(self, data: bytes, where: str) -> Any:
        crf = read_crfsuite(data, where=where)
        self._use(crf, read_header(data))
        return contextlib.closing(self)

    def _use(self, crf: LinearTagger, header: dict[str, str]) -> None:
        self._crf, self._header = crf, header
        self._sequence, self._marginals = [], None

    def close(self) -> None:
        """Close the model."""
        self._crf, self._marginals = None, None

    @property
    def _model(self) -> LinearTagger:
        if self._crf is None:
            raise NotFittedError("The tagger is closed.", hint="Call open(path) first.")
        return self._crf

    def labels(self) -> list[str]:
        """Return the labels, in the order of the model."""
        return list(self._model.scores_.labels)

    def set(self, xseq: Any) -> None:
        """Set the sequence that `tag`, `probability` and `marginal` use."""
        self._sequence = xseq if isinstance(xseq, list | ItemSequence) else list(xseq)
        self._marginals = None

    def tag(self, xseq: Any = None) -> list[str]:
        """Predict the labels of a sequence, by default of that passed to `set`."""
        model = self._model
        if xseq is not None:
            self.set(xseq)
        return with_items(model.predict, [self._sequence])[0]

    def probability(self, yseq: Sequence[str]) -> float:
        """Return the probability of labels for the current sequence."""
        trellis = with_items(self._model.trellis, [self._sequence])
        return float(np.exp(trellis[0].log_prob(list(yseq))))

    def marginal(self, y: str, pos: int) -> float:
        """Return the probability of a label at a position of the current sequence."""
        model = self._model
        if self._marginals is None:
            (self._marginals,) = with_items(model.predict_marginals, [self._sequence])
        try:
            column = model.scores_.labels.index(y)
        except ValueError:
            raise ValueError(f"{y!r} is not a label of the model") from None
        return float(self._marginals[pos, column])

    def info(self) -> ParsedDump:
        """Return the contents of the model."""
        self._check_open()
        return ParsedDump(self._header, self._model)

    def dump(self, filename: Any = None) -> None:
        """Write the model as text, by default to stdout."""
        self._check_open()
        lines = self.info().lines()
        if filename is None:
            sys.stdout.writelines(lines)
            return
        with open(filename, "w", encoding="utf-8") as file:
            file.writelines(lines)

    def _check_open(self) -> None:
        if self._crf is None:
            raise RuntimeError("The tagger is closed. Call open(path) first.")


# ---- training --------------------------------------------------------------------------------


class _Option(NamedTuple):
    default: Any  # its type is that of the values
    help: str


_COMMON = {
    "feature.minfreq": _Option(0.0, "Ignore attributes that occur less often."),
    "feature.possible_states": _Option(False, "Weights for all pairs of attribute and label."),
    "feature.possible_transitions": _Option(False, "Weights for all pairs of labels."),
}
_C2 = _Option(1.0, "Coefficient of the L2 penalty.")
_EPOCHS = {
    "max_iterations": _Option(100, "The largest number of epochs."),
    "epsilon": _Option(0.0, "Accepted, not used: training stops when no label is wrong."),
}
_UNUSED = "Accepted, not used."
_OPTIONS: dict[str, dict[str, _Option]] = {
    "lbfgs": {
        "c1": _Option(0.0, "Coefficient of the L1 penalty; above 0, OWL-QN is used."),
        "c2": _C2,
        "max_iterations": _Option(2147483647, "The largest number of iterations."),
        "num_memories": _Option(6, "Number of vector pairs that model the curvature."),
        "epsilon": _Option(1e-5, "Converged if the relative gradient is below this."),
        "period": _Option(10, "Accepted, not used: progress is measured over 10 iterations."),
        "delta": _Option(1e-5, "Converged if the relative progress over 10 iterations is below."),
        "linesearch": _Option("MoreThuente", _UNUSED),
        "max_linesearch": _Option(20, _UNUSED),
    },
    "l2sgd": {
        "c2": _C2,
        "max_iterations": _Option(1000, "The largest number of iterations."),
        "period": _Option(10, "Accepted, not used: progress is measured over 10 iterations."),
        "delta": _Option(1e-6, "Converged if the relative progress over 10 iterations is below."),
        "calibration.eta": _Option(0.1, _UNUSED),
        "calibration.rate": _Option(2.0, _UNUSED),
        "calibration.samples": _Option(1000.0, _UNUSED),
        "calibration.candidates": _Option(10, _UNUSED),
        "calibration.max_trials": _Option(20, _UNUSED),
    },
    "averaged-perceptron": _EPOCHS,
    "passive-aggressive": {
        "type": _Option(1, _UNUSED),
        "c": _Option(1.0, "Weight of the hinge loss relative to the size of the weights."),
        "error_sensitive": _Option(True, _UNUSED),
        "averaging": _Option(True, _UNUSED),
        **_EPOCHS,
    },
    "arow": {
        "variance": _Option(1.0, _UNUSED),
        "gamma": _Option(1.0, "Inverse weight of the hinge loss."),
        **_EPOCHS,
    },
}
_ALIASES = {"ap": "averaged-perceptron", "pa": "passive-aggressive"}


class LabelScore(NamedTuple):
    """Counts and scores of one label on the held-out sequences."""

    match: int
    model: int
    ref: int
    precision: float | None
    recall: float | None
    f1: float | None


def _count_features(tagger: LinearTagger) -> int:
    """Count the weights that are not zero: the features that the model file has."""
    scores = tagger.scores_
    return int(np.count_nonzero(scores.rows.weights) + np.count_nonzero(scores.trans))


class TrainingLog:
    """The log of a run, as ``Trainer.logparser``.

    Attributes
    ----------
    log : list of str
        The messages.
    iterations : list of dict
        ``num``, ``loss``, ``time``, and where they exist ``error_norm``, ``linesearch_trials``. The
        last one also has ``scores``, ``item_accuracy_float`` and ``avg_f1`` of held-out sequences.
    last_iteration : dict or None
    featgen_num_features : int or None
        Number of weights that are not zero.
    training_seconds : float or None
    """

    def __init__(self) -> None:
        self.log: list[str] = []
        self.last_log = ""
        self.iterations: list[dict[str, Any]] = []
        self.last_iteration: dict[str, Any] | None = None
        self.featgen_percent = 100
        self.featgen_num_features: int | None = None
        self.training_seconds: float | None = None


class Trainer:
    """Trains a model by tagloom and writes it in CRFsuite's format.

    Parameters
    ----------
    algorithm : {"lbfgs", "l2sgd", "ap", "pa", "arow"}, optional
        "lbfgs" finds the optimum of CRFsuite's objective, and so does "l2sgd", whose objective is
        the same without ``c1``. "ap" is `StructuredPerceptron`. "pa" and "arow", which tagloom does
        not have, are `StructuredSVM`.
    params : dict, optional
        Parameters by name; see `params` and `help`.
    verbose : bool
        Whether to print messages while training.

    Examples
    --------
    >>> from tagloom.interop.pycrfsuite import Trainer
    >>> trainer = Trainer("lbfgs", {"c1": 0.1}, verbose=False)
    >>> trainer.get("c1"), trainer.get("c2")
    (0.1, 1.0)
    """

    logparser: TrainingLog | None = None

    # Subclasses of python-crfsuite's Trainer need not call __init__, so the state begins here.
    def __new__(cls, *arguments: Any, **options: Any) -> Trainer:
        """Make a trainer for lbfgs without data."""
        self = super().__new__(cls)
        self.verbose = True
        self._sequences = []
        self._labels = []
        self._groups = []
        self._handled = False
        self.select("lbfgs")
        return self

    def __init__(
        self,
        algorithm: str | None = None,
        params: Mapping[str, Any] | None = None,
        verbose: bool = True,
    ) -> None:
        if algorithm is not None:
            self.select(algorithm)
        if params is not None:
            self.set_params(params)
        self.verbose: bool = verbose
        self._sequences: list[Any]
        self._labels: list[list[str]]
        self._groups: list[int]
        self._handled: bool

    # ---- parameters ------------------------------------------------------------------------

    def select(self, algorithm: str, type: str = "crf1d") -> None:
        """Choose the algorithm; parameters get its defaults."""
        name = _ALIASES.get(algorithm.lower(), algorithm.lower())
        if name not in _OPTIONS or type != "crf1d":
            raise ValueError(f"Bad arguments: algorithm={algorithm!r}, type={type!r}")
        self._algorithm = name
        self._options = {**_COMMON, **_OPTIONS[name]}
        self._values = {key: option.default for key, option in self._options.items()}

    def params(self) -> list[str]:
        """Return the names of the algorithm's parameters."""
        return list(self._options)

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Set several parameters."""
        for name, value in params.items():
            self.set(name, value)

    def get_params(self) -> dict[str, Any]:
        """Return all parameters by name."""
        return dict(self._values)

    def set(self, name: str, value: Any) -> None:
        """Set a parameter."""
        default = self._option(name).default
        self._values[name] = bool(int(value)) if isinstance(default, bool) else type(default)(value)

    def get(self, name: str) -> Any:
        """Return a parameter."""
        self._option(name)
        return self._values[name]

    def help(self, name: str) -> str:
        """Describe a parameter."""
        return self._option(name).help

    def _option(self, name: str) -> _Option:
        if name not in self._options:
            raise ValueError(
                f"Parameter not found: {name}. {self._algorithm} has {', '.join(self._options)}."
            )
        return self._options[name]

    # ---- data ------------------------------------------------------------------------------

    def append(self, xseq: Any, yseq: Iterable[str], group: int = 0) -> None:
        """Add a sequence with its labels; ``group`` is for ``holdout``."""
        items = xseq if isinstance(xseq, list | ItemSequence) else list(xseq)
        labels = list(yseq)
        if len(items) != len(labels):
            raise ValueError(
                f"The numbers of items and labels differ: |x| = {len(items)}, |y| = {len(labels)}"
            )
        self._sequences.append(items)
        self._labels.append(labels)
        self._groups.append(group)

    def clear(self) -> None:
        """Remove all sequences."""
        self._sequences, self._labels, self._groups = [], [], []

    # ---- training --------------------------------------------------------------------------

    def train(self, model: Any, holdout: int = -1) -> None:
        """Train, and write the model.

        Parameters
        ----------
        model : str or path
            The file; nothing is written if it is empty.
        holdout : int, optional
            The group of sequences that are not used for training, but scored at the end.
        """
        crf = self.fit(holdout)
        data = empty_model() if crf is None else to_crfsuite(crf)
        if os.fspath(model):
            with open(model, "wb") as file:
                file.write(data)
        self._emit("end", ["Storing the model\n", f"Size: {len(data)} bytes\n", "\n"])

    def fit(self, holdout: int = -1) -> LinearTagger | None:
        """Train, and return the tagger; None if there are no sequences.

        python-crfsuite has no such method. The result is a tagger of tagloom.
        """
        began = time.perf_counter()
        self.logparser = log = TrainingLog()
        self._before_train()
        filled = [i for i, labels in enumerate(self._labels) if labels]  # CRFsuite skips the rest
        used = [i for i in filled if self._groups[i] != holdout]
        held_out = [i for i in filled if self._groups[i] == holdout]
        self._emit("start", ["Feature generation\n", "type: CRF1d\n", *self._settings()])
        labels = [self._labels[i] for i in used]
        if not any(labels):
            return None
        order = list(dict.fromkeys(label for sequence in labels for label in sequence))
        tagger = self._make_tagger(order)
        with_items(
            lambda X: tagger.fit(X, labels, callback=self._on_record, progress=False),
            [self._sequences[i] for i in used],
        )
        log.featgen_num_features = _count_features(tagger)
        log.training_seconds = time.perf_counter() - began
        lines = [f"Total seconds required for training: {log.training_seconds:.3f}\n", "\n"]
        if held_out:
            lines = [*self._score(tagger, held_out), *lines]
        self._emit("optimization_end", lines)
        return tagger

    def _settings(self) -> list[str]:
        return [f"{name}: {value}\n" for name, value in self._values.items()] + ["\n"]

    def _make_tagger(self, labels: list[str]) -> LinearTagger:
        """Make the tagger of tagloom for the algorithm and its parameters."""
        values = self._values
        shared: dict[str, Any] = {
            "features": None,
            "labels": labels,
            "boundaries": False,
            "constraints": None,
            "min_count": max(1, int(np.ceil(values["feature.minfreq"]))),
            "combinations": "all" if values["feature.possible_states"] else "seen",
            "transitions": "all" if values["feature.possible_transitions"] else "seen",
            "max_iterations": min(values["max_iterations"], 100_000),
        }
        if self._algorithm in ("lbfgs", "l2sgd"):
            return CRF(
                algorithm="lbfgs",
                l1=values.get("c1", 0.0),
                l2=values["c2"],
                memory=values.get("num_memories", 6),
                tolerance=min(values.get("epsilon", np.inf), values["delta"]),
                **shared,
            )
        if self._algorithm == "averaged-perceptron":
            return StructuredPerceptron(**shared)
        C = values["c"] if "c" in values else 1 / values["gamma"]
        return StructuredSVM(C=C, **shared)

    def _on_record(self, record: Record) -> None:
        """Report one iteration."""
        assert self.logparser is not None
        before = sum(info["time"] for info in self.logparser.iterations)
        info = {
            "num": record.iteration,
            "scores": {},
            "loss": record.loss,
            "time": record.seconds - before,
        }
        lines = [f"***** Iteration #{record.iteration} *****\n", f"Loss: {record.loss:.6f}\n"]
        if record.grad_norm is not None:
            info |= {"error_norm": record.grad_norm, "linesearch_trials": record.n_evaluations}
            lines.append(f"Error norm: {record.grad_norm:.6f}\n")
            lines.append(f"Line search trials: {record.n_evaluations}\n")
        lines += [f"Seconds required for this iteration: {info['time']:.3f}\n", "\n"]
        self.logparser.iterations.append(info)
        self.logparser.last_iteration = info
        self._emit("iteration", lines, info)

    def _score(self, tagger: LinearTagger, held_out: list[int]) -> list[str]:
        """Score held-out sequences; return the lines that report it."""
        assert self.logparser is not None
        predicted = with_items(tagger.predict, [self._sequences[i] for i in held_out])
        gold = [self._labels[i] for i in held_out]
        scores = label_scores(gold, predicted)
        pairs = [
            pair for both in zip(gold, predicted, strict=True) for pair in zip(*both, strict=True)
        ]
        right = sum(a == b for a, b in pairs)
        whole = sum(list(a) == list(b) for a, b in zip(gold, predicted, strict=True))
        means = [
            float(np.mean([getattr(score, name) or 0.0 for score in scores.values()]))
            for name in ("precision", "recall", "f1")
        ]
        info = self.logparser.last_iteration or {}
        info["scores"] = scores
        info |= dict(zip(("avg_precision", "avg_recall", "avg_f1"), means, strict=True))
        info["item_accuracy_float"] = right / max(len(pairs), 1)
        info["instance_accuracy_float"] = whole / len(gold)
        return [
            "Performance by label (#match, #model, #ref):\n",
            *(f"    {label}: ({s.match}, {s.model}, {s.ref})\n" for label, s in scores.items()),
            "Macro-average precision, recall, F1: ({:f}, {:f}, {:f})\n".format(*means),
            f"Item accuracy: {right} / {len(pairs)}\n",
            f"Instance accuracy: {whole} / {len(gold)}\n",
            "\n",
        ]

    # ---- messages --------------------------------------------------------------------------

    def _emit(self, event: str, lines: list[str], info: Any = None) -> None:
        """Send lines to `message`; then call the method of the event, unless that is overridden."""
        self._handled = False
        for line in lines:
            self.message(line)
        if self._handled and self.verbose:
            text = "".join(lines)
            assert self.logparser is not None
            self.logparser.last_log = text
            handle = getattr(self, f"on_{event}")
            handle(text) if info is None else handle(text, info)

    def message(self, message: str) -> None:
        """Receive a message; override it to receive all of them."""
        self._handled = True
        if self.logparser is not None:
            self.logparser.log.append(message)

    def _before_train(self) -> None:
        """Prepare a run; for subclasses."""

    def on_start(self, log: str) -> None:
        """Print the settings."""
        print(log, end="")

    def on_iteration(self, log: str, info: dict[str, Any]) -> None:
        """Print an iteration."""
        print(log, end="")

    def on_optimization_end(self, log: str) -> None:
        """Print the time, and the scores of held-out sequences."""
        print(log, end="")

    def on_end(self, log: str) -> None:
        """Print the size of the model."""
        print(log, end="")


# python-crfsuite's base class of its Trainer, from which programs also derive their own.
BaseTrainer = Trainer


def label_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, LabelScore]:
    """Count and score each label, token by token.

    Examples
    --------
    >>> from tagloom.interop.pycrfsuite import label_scores
    >>> label_scores([["N", "V"]], [["N", "N"]])["N"]
    LabelScore(match=1, model=2, ref=1, precision=0.5, recall=1.0, f1=0.6666666666666666)
    """
    counts: dict[str, list[int]] = {}
    for a, b in zip(gold, predicted, strict=True):
        for label, guess in zip(a, b, strict=True):
            counts.setdefault(label, [0, 0, 0])[2] += 1
            counts.setdefault(guess, [0, 0, 0])[1] += 1
            counts[label][0] += label == guess
    return {label: _label_score(*counts[label]) for label in sorted(counts)}


def _label_score(match: int, model: int, ref: int) -> LabelScore:
    precision = match / model if model else 0.0
    recall = match / ref if ref else 0.0
    f1 = 2 * match / (model + ref)
    return LabelScore(match, model, ref, precision, recall, f1)
