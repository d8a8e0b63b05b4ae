"""What one run of the studio works on: a model, a corpus, and their views as plain data.

Nothing here knows HTTP. Every method may be called from any thread.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from tagloom import checks, labels
from tagloom.datasets import load as load_dataset
from tagloom.datasets import shipped
from tagloom.errors import NotFittedError, ParameterError, ReadOnlyError
from tagloom.models import Capability, Tagger
from tagloom.models.constraints import look_like_spans
from tagloom.sequences import Corpus, Sentence
from tagloom.sequences.sentences import Label, show_label
from tagloom.studio import examples, facts, mistakes, trellises
from tagloom.studio.mistakes import Judgement, short
from tagloom.studio.projects import EditedCorpus
from tagloom.studio.training import Trainer

MOST_SUSPECTS = 500
QUICK = 50_000  # transitions of a trellis that is computed at once; others wait for a thread
MOST_NAMES = 300  # labels that the page lists
MOST_FREQUENT = 60  # labels with a button of their own
FIRST_MODEL = 20.0  # seconds for which a request waits for a model that is being trained
EMBEDDED = "english"  # the corpus of a studio without arguments
Publish = Callable[[dict[str, Any]], None]


class Session:
    """A model and a corpus that are open in the studio.

    Parameters
    ----------
    tagger : Tagger, optional
        A fitted model; without one, a CRF is trained on the corpus.
    model_path : str, optional
        Its file, which `save_model` replaces.
    corpus_path : str, optional
        The corpus to edit. Without it and without a model, a copy of the included corpus.
    options : mapping, optional
        Options of `tagloom.read` for the corpus.
    test : Corpus, optional
        Held-out sentences, for the learning curve and for errors.
    other : Tagger, optional
        A second model to compare with.
    read_only : bool
    """

    def __init__(
        self,
        tagger: Tagger | None = None,
        model_path: str | None = None,
        corpus_path: str | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        test: Corpus | None = None,
        other: Tagger | None = None,
        read_only: bool = False,
    ) -> None:
        self.is_practice = corpus_path is None
        self._folder: str | None = None
        if corpus_path is None:
            self._folder, corpus_path = _practice_copy()
            options = {"format": "conll", "label": "upos", "header": True, "sep": "\t"}
            options |= {"comment": "#"}
            if test is None and tagger is None:
                test = load_dataset(EMBEDDED, "dev")
        self.edited = EditedCorpus(corpus_path, read_only=read_only, options=options)
        self.test, self.other = test, other
        self.model_path = model_path or (None if self.is_practice else f"{corpus_path}.tagloom")
        self._listeners: list[Publish] = []
        self.trainer = Trainer(
            self.edited, template=tagger, tagger=tagger, test=test, publish=self.publish
        )
        self._lock = threading.Lock()
        # Sentences that were offered at random without any label: their weight, and the labels that
        # were predicted before the model could learn from the answers.
        self._random: dict[int, tuple[float, list[str]]] = {}
        self._judged: tuple[Any, Judgement] | None = None
        self._suspects: dict[str, Any] = {"state": "none", "rows": []}
        self.trainer.start()
        if tagger is None:
            self.trainer.request()

    def close(self) -> None:
        """End the training thread and release the corpus."""
        self.trainer.close()
        self.edited.close()
        if self._folder is not None:
            shutil.rmtree(self._folder)

    def listen(self, listener: Publish) -> Callable[[], None]:
        """Call a function with every event; the result ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def publish(self, event: dict[str, Any]) -> None:
        """Send an event to all pages."""
        for listener in list(self._listeners):
            listener(event)

    # ---- the model -------------------------------------------------------------------------

    @property
    def tagger(self) -> Tagger:
        """The present tagger; the first one is waited for.

        Raises
        ------
        NotFittedError
            If no sentence is labelled yet.
        """
        if self.trainer.learned is None:
            self.trainer.wait(FIRST_MODEL)
        learned = self.trainer.learned
        if learned is None:
            raise NotFittedError(
                self.trainer.failure or "There is no model yet.",
                hint="Label two sentences; a model is then trained.",
            )
        return learned.tagger

    def state(self) -> dict[str, Any]:
        """Return what the frame of the page shows."""
        edited, learned = self.edited, self.trainer.learned
        return {
            "model": None
            if learned is None
            else {
                "kind": type(learned.tagger).__name__,
                "number": learned.number,
                "seconds": round(learned.seconds, 3),
                "path": None if self.model_path is None else os.path.basename(self.model_path),
            },
            "failure": self.trainer.failure,
            "corpus": {
                "name": "included English corpus" if self.is_practice else edited.corpus.path,
                "is_practice": self.is_practice,
                "sentences": len(edited.corpus),
                "tokens": edited.corpus.n_tokens,
                "label": edited.corpus.label,
                "read_only": edited.is_read_only,
                "owner": edited.journal.owner,
                "unsaved": edited.n_unsaved,
                "can_redo": bool(edited.undone),
                "lost": [
                    {
                        "tokens": [short(w) for w in lost.tokens],
                        "token": lost.token,
                        "old": show_label(lost.old),
                        "new": show_label(lost.new),
                        "reason": lost.reason,
                    }
                    for lost in edited.lost[:100]
                ],
            },
            "has_test": self.test is not None,
            "has_other": self.other is not None,
            **self._names(),
            "progress": self._progress(),
            "curve": self.trainer.curve,
        }

    def _names(self) -> dict[str, Any]:
        """Return the labels to choose from, and the types of spans if they mark spans."""
        counts = Counter(y for row in self.edited.labels for y in row)
        names = {y for y in counts if isinstance(y, str)} | set(self.edited.names)
        learned = self.trainer.learned
        if learned is not None:
            names |= set(learned.tagger.labels_.tolist())
        ordered = sorted(names, key=lambda y: (-counts[y], y))
        shown = sorted(ordered[:MOST_NAMES])
        scheme = None
        types: list[str] = []
        if look_like_spans(sorted(names)):
            scheme = getattr(learned.tagger, "scheme_", None) if learned is not None else None
            scheme = scheme or "bio"
            types = sorted({y[2:] for y in shown if y[1:2] == "-"})
        return {
            "labels": [short(y) for y in shown],
            "frequent": [short(y) for y in ordered[:MOST_FREQUENT]],
            "n_labels": len(names),
            "scheme": scheme,
            "types": types,
        }

    def _progress(self) -> dict[str, int]:
        rows = self.edited.labels
        return {
            "labelled": sum(bool(row) and None not in row for row in rows),
            "accepted": len(self.edited.accepted),
            "done": self.trainer.n_done(),
            "sentences": len(rows),
        }

    def save_model(self) -> str:
        """Write the present model into its file; return its name.

        Raises
        ------
        ReadOnlyError
            If the studio was opened for reading only, or without files.
        """
        if self.model_path is None or self.edited.is_read_only:
            raise ReadOnlyError(
                where="model",
                expected="a studio that may write files",
                found="one without files" if self.model_path is None else "a read-only one",
            )
        tagger = self.trainer.complete() or self.tagger
        tagger.save(self.model_path)
        return os.path.basename(self.model_path)

    # ---- sentences -------------------------------------------------------------------------

    def sentence(self, text: str | None, tokens: list[str] | None, index: int | None) -> Any:
        """Return the sentence that a request is about: typed, given as tokens, or of the corpus."""
        if index is not None:
            self._check_index(index)
            return self.edited.corpus[index]
        if tokens is None:
            cut = self.tagger.tokenizer_.split(text or "")
            tokens = [token for sentence in cut for token in sentence.tokens]
        if not tokens:
            raise ParameterError(parameter="text", expected="some words", found="none")
        return Sentence(tokens)

    def length_of(self, index: int | None) -> int:
        """Return the number of tokens of a sentence of the corpus; 0 if it does not exist."""
        rows = self.edited.labels
        return 0 if index is None or not 0 <= index < len(rows) else len(rows[index])

    def is_quick(self, n_tokens: int) -> bool:
        """Return whether a trellis of so many tokens takes about a millisecond."""
        learned = self.trainer.learned
        if learned is None:
            return False
        tagger = learned.tagger
        order = getattr(tagger, "order", 1)
        is_linear = tagger.can(Capability.WEIGHTS)
        return is_linear and n_tokens * len(tagger.labels_) ** (order + 1) <= QUICK

    def view_trellis(
        self, sentence: Any, force: Mapping[int, str], n_best: int, show_all: bool
    ) -> dict[str, Any]:
        """Return the trellis of a sentence, with its tokens."""
        view = trellises.view_trellis(
            self.tagger, sentence, force, n_best=n_best, show_all=show_all
        )
        return {"tokens": [short(w) for w in sentence], **view}

    def view_scores(self, sentence: Any) -> dict[str, Any]:
        """Return the scores of a sentence, for Steps."""
        return {
            "tokens": [short(w) for w in sentence],
            **trellises.view_scores(self.tagger, sentence),
        }

    def view_nodes(self, sentence: Any, force: Mapping[int, str], position: int) -> dict[str, Any]:
        """Return forward and backward scores of one token, by label."""
        return trellises.view_nodes(self.tagger, sentence, force, position)

    def view_why(self, sentence: Any, force: Mapping[int, str], position: int) -> dict[str, Any]:
        """Return the terms that decide the label of one token, the strongest first."""
        known: list[str | None] | None = None
        if force:
            known = [force.get(t) for t in range(len(sentence))]
        (decision,) = self.tagger.explain(sentence, known=known, positions=[position])
        view = decision.to_dict()
        rest = view["reasons"][12:]
        view["reasons"] = [{**r, "name": short(r["name"], 120)} for r in view["reasons"][:12]]
        view["others"] = {"n": len(rest), "value": sum(r["value"] for r in rest)}
        view["token"] = short(view["token"])
        return view

    def view_sentence(self, index: int) -> dict[str, Any]:
        """Return a sentence of the corpus with its labels and what the model says of them."""
        self._check_index(index)
        edited = self.edited
        sentence, row = edited.corpus[index], list(edited.labels[index])
        view: dict[str, Any] = {
            "index": index,
            "tokens": [short(w) for w in sentence.tokens],
            "labels": [_plain(y) for y in row],
            "version": edited.version(index),
            "accepted": index in edited.accepted,
            "line": sentence.line_of(0) if len(sentence) else sentence.line,
            "predicted": None,
        }
        learned = self.trainer.learned
        if learned is not None and len(sentence):
            tagger = learned.tagger
            names = set(tagger.labels_.tolist())
            known = None
            if None in row:  # what is labelled already helps with the rest
                known = [[y if isinstance(y, str) and y in names else None for y in row]]
            gamma = tagger.predict_marginals([sentence], known=known)[0]
            predicted = tagger.predict([sentence], known=known)[0]
            number = {name: k for k, name in enumerate(tagger.labels_.tolist())}
            view["predicted"] = predicted
            view["probs"] = [round(float(gamma[t, number[y]]), 4) for t, y in enumerate(predicted)]
            view["doubt"] = round(float(learned.doubts.means[index]), 4)
        return view

    def view_queue(self, n: int, kind: str, skip: int | None) -> list[dict[str, Any]]:
        """Return the next sentences to label."""
        chosen = self.trainer.queue(n, kind, skip)
        views = [{**self.view_sentence(i), "is_random": r} for i, r in chosen]
        with self._lock:
            for view in views:
                is_open = all(y is None for y in view["labels"])
                if view["is_random"] and is_open and view["predicted"] is not None:
                    weight = self.trainer.weight_of(view["index"], kind)
                    self._random[view["index"]] = weight, view["predicted"]
        return views

    def search(self, word: str, n: int) -> list[dict[str, Any]]:
        """Find sentences that contain a text."""
        found = []
        for i, sentence in enumerate(self.edited.corpus):
            if word in " ".join(sentence.tokens):
                text = short(" ".join(sentence.tokens), 200)
                found.append({"sentence": i, "text": text})
                if len(found) == n:
                    break
        return found

    # ---- edits -----------------------------------------------------------------------------

    def change(
        self,
        index: int,
        changes: Mapping[int, Label],
        version: str,
        *,
        accept: bool = False,
        span: tuple[int, int, str | None] | None = None,
        leave: list[int] | None = None,
    ) -> dict[str, Any]:
        """Change labels of a sentence, or accept it.

        Parameters
        ----------
        index : int
        changes : mapping of int to Label
        version : str
            The version that the page shows.
        accept : bool
            Whether tokens without a label get the predicted ones, except those in ``leave``.
        span : (start, end, type), optional
            Label these tokens as one span; without a type, as outside of spans.
        leave : list of int, optional

        Returns
        -------
        dict
            The sentence as it now is.
        """
        self._check_index(index)
        new: dict[int, Label] = dict(changes)
        if span is not None:
            new = self._span_labels(index, *span)
        if accept:
            new = self._completed(index, new, set(leave or ()))
        action = self.edited.change(index, new, version, "accept" if accept else "label")
        if action is not None:
            self._changed(action.sentences)
        return self.view_sentence(index)

    def _completed(self, index: int, new: dict[int, Label], leave: set[int]) -> dict[int, Label]:
        """Add the predicted label of each token that has none."""
        view = self.view_sentence(index)
        predicted = view["predicted"]
        if predicted is not None:
            row = self.edited.labels[index]
            for t, label in enumerate(predicted):
                if row[t] is None and t not in new and t not in leave:
                    new[t] = label
            with self._lock:
                offered = self._random.pop(index, None)
            if offered is not None:
                weight, before = offered
                self.trainer.observe(before, [new.get(t, y) for t, y in enumerate(row)], weight)
        return new

    def _span_labels(self, index: int, start: int, end: int, type: str | None) -> dict[int, Label]:
        row = self.edited.labels[index]
        scheme = self._names()["scheme"] or "bio"
        if not 0 <= start < end <= len(row):
            raise ParameterError(
                parameter="span", expected=f"tokens from 0 to {len(row)}", found=f"{start}, {end}"
            )
        current = [y if isinstance(y, str) else "O" for y in row]
        spans = [s for s in labels.to_spans(current) if s.end <= start or s.start >= end]
        if type is not None:
            spans.append(labels.Span(type, start, end))
        written = labels.from_spans(spans, len(row), scheme, merge=True)
        touched = range(max(start - 1, 0), min(end + 1, len(row)))
        return {
            t: y
            for t, y in enumerate(written)
            if y != current[t] or (row[t] is None and t in touched and start <= t < end)
        }

    def find_same(self, index: int, token: int) -> dict[str, Any]:
        """Return where else the corpus has the same word with the same label."""
        word, old = self._word(index, token)
        places = self.edited.find_same(word, old)
        return {
            "word": short(word),
            "old": _plain(old),
            "total": len(places),
            "rows": [
                {"sentence": i, "token": t, **mistakes.in_context(self.edited.corpus[i].tokens, t)}
                for i, t in places[:50]
            ],
        }

    def change_everywhere(self, index: int, token: int, label: Label) -> dict[str, Any]:
        """Change the label of the same word with the same label in the whole corpus."""
        word, old = self._word(index, token)
        action = self.edited.change_everywhere(word, old, label)
        if action is not None:
            self._changed(action.sentences)
        n = 0 if action is None else sum(len(c.tokens) for c in action.changes)
        return {"changed": n, "sentence": self.view_sentence(index)}

    def _word(self, index: int, token: int) -> tuple[str, Label]:
        self._check_index(index)
        tokens = self.edited.corpus[index].tokens
        if not 0 <= token < len(tokens):
            raise ParameterError(
                parameter="token", expected=f"a number below {len(tokens)}", found=str(token)
            )
        return tokens[token], self.edited.labels[index][token]

    def undo(self, redo: bool = False) -> dict[str, Any]:
        """Take back the last action, or repeat it; return the sentences that it changed."""
        action = self.edited.redo() if redo else self.edited.undo()
        if action is None:
            return {"sentences": []}
        self._changed(action.sentences)
        return {"sentences": action.sentences[:100], "kind": action.kind}

    def add_name(self, name: str) -> None:
        """Add a label."""
        self.edited.add_name(name)
        self.publish({"kind": "names"})

    def save(self) -> dict[str, Any]:
        """Write the corpus."""
        self.edited.save()
        self.publish({"kind": "saved"})
        return {"name": os.path.basename(self.edited.path), "lost": len(self.edited.lost)}

    def _changed(self, sentences: list[int]) -> None:
        self.publish({"kind": "edit", "sentences": sentences[:1000]})
        self.trainer.request(sentences)

    def _check_index(self, index: int) -> None:
        n = len(self.edited.corpus)
        if not 0 <= index < n:
            raise ParameterError(
                parameter="sentence", expected=f"a number below {n}", found=checks.show(index)
            )

    # ---- errors and facts ------------------------------------------------------------------

    def judgement(self) -> Judgement:
        """Compare the labels that the model predicts with those of the test or of the corpus."""
        tagger = self.tagger
        key = (id(tagger), None if self.test is not None else len(self.edited.journal.records))
        with self._lock:
            if self._judged is None or self._judged[0] != key:
                gold = self.edited.with_labels() if self.test is None else self.test
                self._judged = key, Judgement(tagger, gold)
            return self._judged[1]

    def view_confusion(self) -> dict[str, Any]:
        """Return the confusion matrix, and which sentences it is of."""
        return {"on": "test" if self.test is not None else "corpus", **self.judgement().confusion()}

    def test_sentence(self, index: int) -> list[str]:
        """Return the tokens of a held-out sentence."""
        if self.test is None or not 0 <= index < len(self.test):
            raise ParameterError(
                parameter="sentence", expected="one of the test file", found=str(index)
            )
        return [short(w) for w in self.test[index].tokens]

    def view_comparison(self) -> dict[str, Any]:
        """Return where the second model differs."""
        if self.other is None:
            raise ParameterError(
                parameter="compare",
                expected="a second model",
                found="none",
                hint="Start with: tagloom studio MODEL CORPUS --compare OTHER",
            )
        mine = self.judgement()
        on = "test" if self.test is not None else "corpus"
        return {"on": on, **mistakes.compare(mine, Judgement(self.other, mine.gold))}

    def view_suspects(self) -> dict[str, Any]:
        """Return the labels that are probably wrong; the first call starts looking for them."""
        with self._lock:
            if self._suspects["state"] == "none":
                self._suspects = {"state": "running", "rows": []}
                threading.Thread(target=self._find_suspects, daemon=True).start()
            return self._suspects

    def _find_suspects(self) -> None:
        try:
            template = self.tagger
            rows = mistakes.find_suspects(template, self.edited.with_labels(), MOST_SUSPECTS)
            self._suspects = {"state": "ready", "rows": rows}
        except Exception as error:  # shown on the page: the thread has nobody else to tell
            self._suspects = {"state": "failed", "rows": [], "message": str(error)}
        self.publish({"kind": "suspects"})

    def forget_suspects(self) -> None:
        """Look for suspect labels anew."""
        with self._lock:
            if self._suspects["state"] != "running":
                self._suspects = {"state": "none", "rows": []}

    def view_model(self) -> dict[str, Any]:
        """Return the facts of the model."""
        learned = self.trainer.learned
        view = facts.view_model(self.tagger)
        view["history"] = [] if learned is None else learned.history
        return view

    def view_weights(self, pattern: str | None, label: str | None, n: int) -> list[dict[str, Any]]:
        """Return weights by pattern and label."""
        return facts.view_weights(self.tagger, pattern, label, n)

    def view_examples(self) -> list[dict[str, Any]]:
        """Return the worked examples."""
        return examples.view_examples()


def _plain(label: Label) -> Any:
    if isinstance(label, frozenset):
        return sorted(short(y) for y in label)
    return None if label is None else short(label)


def _practice_copy() -> tuple[str, str]:
    """Copy the included corpus into a temporary folder, where it may be edited."""
    folder = tempfile.mkdtemp(prefix="tagloom-studio-")
    path = os.path.join(folder, f"{EMBEDDED}.conll")
    shutil.copyfile(os.path.join(os.path.dirname(shipped.__file__), EMBEDDED, "train.conll"), path)
    return folder, path
