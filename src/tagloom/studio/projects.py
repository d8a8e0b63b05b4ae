"""A corpus that is being edited: labels, versions, undo, and saving back into its file.

Labels change through `EditedCorpus.change` only, which writes the change to the journal first. The
version of a sentence is a digest of its labels; a change names the version it was made for, so
that two tabs cannot overwrite each other. Undo reads the journal backwards.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tagloom import checks
from tagloom.errors import ConflictError, FormatError, LabelError, ParameterError, ReadOnlyError
from tagloom.sequences import Corpus, Sentence, read, stream, write
from tagloom.sequences.files import stamp_of
from tagloom.sequences.sentences import Label, show_label
from tagloom.storage.replacing import remove_abandoned
from tagloom.studio.journals import SUFFIX, Journal

UNKNOWN = "_"  # what column files have for a label that is not known
_TAKES_UNKNOWN = ("conll", "csv", "slash")
_HOLDS_NO_LABELS = ("text", "brat")


class Change(NamedTuple):
    """New labels of some tokens of one sentence."""

    sentence: int
    tokens: list[int]
    old: list[Label]
    new: list[Label]


@dataclass(frozen=True)
class Action:
    """What one undo takes back: the changes that were made together.

    Attributes
    ----------
    number : int
        Of the record in the journal.
    kind : str
        ``label``, ``accept`` or ``everywhere``.
    changes : tuple of Change
    """

    number: int
    kind: str
    changes: tuple[Change, ...]

    @property
    def sentences(self) -> list[int]:
        """The sentences that it changes."""
        return [change.sentence for change in self.changes]


class Lost(NamedTuple):
    """An edit of the journal that does not fit the corpus any more."""

    tokens: list[str]
    token: int
    old: Label
    new: Label
    reason: str


class EditedCorpus:
    """The labels of a corpus, its journal and its file.

    Parameters
    ----------
    path : str
        A file in a format that can be written.
    read_only : bool
        Open without a journal. A corpus that another process edits is read-only, too.
    options : mapping, optional
        Options of `tagloom.read`.

    Attributes
    ----------
    corpus : Corpus
        As it was read; ``labels`` has the present labels.
    labels : list of list of Label
    accepted : set of int
        Sentences that a person has accepted since the last save.
    lost : list of Lost
        Edits of the journal that do not fit the file, which somebody has changed.
    names : list of str
        Label names that were added on the page.

    Raises
    ------
    FormatError
        If the file or its journal cannot be read, or its format cannot hold labels.
    """

    def __init__(
        self, path: str, *, read_only: bool = False, options: Mapping[str, Any] | None = None
    ) -> None:
        self.path = path
        self._options = dict(options or {})
        self._lock = threading.RLock()
        self.corpus = self._read()
        self.journal = Journal(self.journal_path, read_only=read_only)
        self.lost: list[Lost] = []
        self.names: list[str] = []
        self.accepted: set[int] = set()
        self.done: list[Action] = []  # what undo takes back, the last first
        self.undone: list[Action] = []  # what redo repeats
        self.labels: list[list[Label]] = []
        if self.journal.is_locked:
            remove_abandoned(path)
        self._replay()

    @property
    def journal_path(self) -> str:
        """The journal beside the corpus."""
        return os.path.realpath(self.path) + SUFFIX

    @property
    def is_read_only(self) -> bool:
        """Whether edits are refused."""
        return not self.journal.is_locked

    @property
    def n_unsaved(self) -> int:
        """Number of actions since the last save."""
        return len(self.done)

    @property
    def can_save(self) -> bool:
        """Whether the journal has records that a save would write and remove."""
        return bool(self.journal.records) and not self.is_read_only

    def version(self, sentence: int) -> str:
        """Return the version of a sentence: a digest of its labels."""
        shown = "\0".join("\1" if y is None else show_label(y) for y in self.labels[sentence])
        return hashlib.sha256(shown.encode("utf-8", "surrogatepass")).hexdigest()[:12]

    def with_labels(self) -> Corpus:
        """Return the corpus with the present labels."""
        with self._lock:
            return self.corpus.with_labels(self.labels)

    # ---- changes ---------------------------------------------------------------------------

    def change(
        self,
        sentence: int,
        labels: Mapping[int, Label],
        version: str | None = None,
        kind: str = "label",
    ) -> Action | None:
        """Change labels of one sentence.

        Parameters
        ----------
        sentence : int
        labels : mapping of int to Label
            The new label of each changed token; None if it is not known.
        version : str, optional
            The version that the change was made for.
        kind : {"label", "accept"}
            Whether a person has accepted the sentence as it then is.

        Returns
        -------
        Action or None
            None if nothing changes.

        Raises
        ------
        ConflictError
            If the sentence has another version.
        ReadOnlyError
            If the corpus is read-only.
        """
        with self._lock:
            current = self._labels_of(sentence)
            if version is not None and version != self.version(sentence):
                raise ConflictError(
                    where=checks.place(sentence),
                    expected=f"a change of version {self.version(sentence)}",
                    found=f"one of version {version}",
                    hint="The sentence was changed meanwhile. Look at it again.",
                )
            for token, label in labels.items():
                self._check_label(sentence, token, label)
            tokens = [t for t, label in sorted(labels.items()) if current[t] != label]
            new = [labels[t] for t in tokens]
            change = Change(sentence, tokens, [current[t] for t in tokens], new)
            if not tokens and (kind != "accept" or sentence in self.accepted):
                return None
            return self._act(kind, [change])

    def find_same(self, word: str, old: Label) -> list[tuple[int, int]]:
        """Find the tokens that are this word and have this label.

        Parameters
        ----------
        word : str
        old : Label

        Returns
        -------
        list of (int, int)
            Sentence and token of each.
        """
        with self._lock:
            return [
                (i, t)
                for i, (sentence, labels) in enumerate(zip(self.corpus, self.labels, strict=True))
                for t, (token, label) in enumerate(zip(sentence.tokens, labels, strict=True))
                if token == word and label == old
            ]

    def change_everywhere(self, word: str, old: Label, new: Label) -> Action | None:
        """Change a label wherever the word has it, as one action.

        Parameters
        ----------
        word : str
        old, new : Label

        Returns
        -------
        Action or None
            None if the word has this label nowhere.
        """
        with self._lock:
            places: dict[int, list[int]] = {}
            for i, t in self.find_same(word, old):
                self._check_label(i, t, new)
                places.setdefault(i, []).append(t)
            if not places or old == new:
                return None
            changes = [Change(i, at, [old] * len(at), [new] * len(at)) for i, at in places.items()]
            return self._act("everywhere", changes)

    def add_name(self, name: str) -> None:
        """Add a label name to those that the page offers."""
        with self._lock:
            self._check_writable()
            checks.label(name, "name")
            if not name.strip() or len(name) > 200:
                raise ParameterError(
                    parameter="name", expected="a label of 1 to 200 characters", found=repr(name)
                )
            if name not in self.names:
                self.journal.append({"action": "name", "name": name})
                self.names.append(name)

    def undo(self) -> Action | None:
        """Take back the last action.

        Returns
        -------
        Action or None
            None if there is none.
        """
        with self._lock:
            return self._move(self.done, self.undone, "undo")

    def redo(self) -> Action | None:
        """Repeat the action that was taken back last."""
        with self._lock:
            return self._move(self.undone, self.done, "redo")

    def _move(self, source: list[Action], target: list[Action], kind: str) -> Action | None:
        self._check_writable()
        if not source:
            return None
        self.journal.append({"action": kind, "of": source[-1].number})
        action = source.pop()
        target.append(action)
        self._apply(action, backwards=kind == "undo")
        return action

    def _act(self, kind: str, changes: Sequence[Change]) -> Action:
        self._check_writable()
        record = self.journal.append(
            {"action": kind, "changes": [self._plain(change) for change in changes]}
        )
        action = Action(record["n"], kind, tuple(changes))
        self.done.append(action)
        self.undone.clear()
        self._apply(action)
        return action

    def _apply(self, action: Action, backwards: bool = False) -> None:
        """Put the labels of an action, where the sentence still has those it replaces."""
        for change in action.changes:
            labels = self.labels[change.sentence]
            pairs = zip(change.tokens, change.old, change.new, strict=True)
            for t, old, new in pairs:
                before, after = (new, old) if backwards else (old, new)
                if labels[t] == before:
                    labels[t] = after
            if action.kind == "accept":
                (self.accepted.discard if backwards else self.accepted.add)(change.sentence)

    def _labels_of(self, sentence: int) -> list[Label]:
        if not 0 <= sentence < len(self.labels):
            raise ParameterError(
                parameter="sentence",
                expected=f"a number from 0 to {len(self.labels) - 1}",
                found=str(sentence),
            )
        return self.labels[sentence]

    def _check_label(self, sentence: int, token: int, label: Label) -> None:
        if not 0 <= token < len(self.labels[sentence]):
            raise ParameterError(
                where=checks.place(sentence),
                parameter="token",
                expected=f"a number from 0 to {len(self.labels[sentence]) - 1}",
                found=str(token),
            )
        where = checks.place(sentence, token)
        checks.label(label, where, may_be_open=True)
        if label == "" or (isinstance(label, str) and any(c in label for c in "\t\r\n")):
            raise LabelError(where=where, expected="a label without tabs", found=repr(label))

    def _check_writable(self) -> None:
        if self.is_read_only:
            owner = self.journal.owner
            raise ReadOnlyError(
                where=self.path,
                expected="a corpus that may be edited",
                found="one that is open for reading only" + (f", by {owner}" if owner else ""),
            )

    # ---- files -----------------------------------------------------------------------------

    def save(self) -> None:
        """Write the labels into the file and empty the journal.

        If another program has changed the file meanwhile, it is read again first, and the edits
        are applied to its present contents; those that do not fit stay in ``lost``.

        Raises
        ------
        OSError, FormatError
            If the file cannot be written; the journal then keeps everything.
        """
        with self._lock:
            self._check_writable()
            if not os.path.exists(self.path) or self._is_stale():
                self.corpus = self._read()
                self._replay()
            options = {"unknown": UNKNOWN} if self._needs_unknown(self.corpus) else {}
            write(
                self.with_labels(),
                self.path,
                self.corpus.format,
                encoding=self._options.get("encoding", "utf-8"),
                **options,
            )
            accepted = self.accepted
            self.journal.clear()
            for name in self.names:
                self.journal.append({"action": "name", "name": name})
            self.corpus = self.with_labels()
            self.done, self.undone, self.accepted = [], [], accepted

    def close(self) -> None:
        """Release the lock on the journal."""
        self.journal.close()

    def _is_stale(self) -> bool:
        return self.corpus._stamps.get(os.path.realpath(self.path)) != stamp_of(self.path)

    def _read(self) -> Corpus:
        with stream(self.path, **self._options) as sentences:
            format = sentences.format
        if format in _HOLDS_NO_LABELS:
            raise FormatError(
                path=self.path,
                expected="a format that can hold labels",
                found=format,
                hint=f"Convert it first: tagloom convert {self.path} corpus.jsonl",
            )
        options = dict(self._options)
        if format in _TAKES_UNKNOWN:
            options.setdefault("unknown", UNKNOWN)
        return read(self.path, **{**options, "format": format})

    def _needs_unknown(self, corpus: Corpus) -> bool:
        return corpus.format in _TAKES_UNKNOWN and "unknown" not in self._options

    def _replay(self) -> None:
        """Apply the journal to the corpus as it is in the file."""
        self.labels = [_labels(sentence) for sentence in self.corpus]
        self.done, self.undone, self.lost = [], [], []
        self.accepted, self.names = set(), []
        actions: dict[int, Action] = {}
        index = _Index(self.corpus)
        for record in self.journal.records:
            kind = record["action"]
            if kind == "name":
                self.names.append(record["name"])
            elif kind == "undo":
                self.done.remove(actions[record["of"]])
                self.undone.append(actions[record["of"]])
            elif kind == "redo":
                self.undone.remove(actions[record["of"]])
                self.done.append(actions[record["of"]])
            else:
                action = self._action(record, index)
                actions[action.number] = action
                self.done.append(action)
                self.undone.clear()
        self._apply_net([actions[number] for number in sorted(actions)])

    def _apply_net(self, actions: list[Action]) -> None:
        """Apply what the actions together change, token by token.

        Parameters
        ----------
        actions : list of Action
            All of the journal in their order, also those that were undone.

        Notes
        -----
        A crash after the file was saved, and before the journal was emptied, leaves the records of
        edits that the file already has; later ones may follow them. The file therefore has one of
        the labels that the token had since the journal began. Any other was set by somebody else,
        and stays.
        """
        had: dict[tuple[int, int], list[Label]] = {}  # labels of a token, from the first on
        for action in actions:
            for change in action.changes:
                for t, old, new in zip(change.tokens, change.old, change.new, strict=True):
                    had.setdefault((change.sentence, t), [old]).append(new)
        last: dict[tuple[int, int], Label] = {}  # of the tokens that are not undone
        for action in self.done:
            for change in action.changes:
                for t, new in zip(change.tokens, change.new, strict=True):
                    last[change.sentence, t] = new
                if action.kind == "accept":
                    self.accepted.add(change.sentence)
        for (i, t), labels in had.items():
            now, label = self.labels[i][t], last.get((i, t), labels[0])
            if now in labels:
                self.labels[i][t] = label
            elif (i, t) in last:
                reason = f"the file now has {show_label(now)}"
                self.lost.append(Lost(self.corpus[i].tokens, t, labels[0], label, reason))

    def _plain(self, change: Change) -> dict[str, Any]:
        return {
            "i": change.sentence,
            "digest": _digest(self.corpus[change.sentence].tokens),
            "t": change.tokens,
            "old": [_plain_label(y) for y in change.old],
            "new": [_plain_label(y) for y in change.new],
        }

    def _action(self, record: Mapping[str, Any], index: _Index) -> Action:
        """Read an action from the journal; sentences may have moved in the file."""
        changes = []
        for plain in record["changes"]:
            old, new = ([_label_of(y) for y in plain[key]] for key in ("old", "new"))
            i = index.find(plain)
            if i is None:
                reason = "the file no longer has the sentence"
                triples = zip(plain["t"], old, new, strict=True)
                self.lost += [Lost([], t, a, b, reason) for t, a, b in triples]
                continue
            changes.append(Change(i, list(plain["t"]), old, new))
        return Action(record["n"], record["action"], tuple(changes))


class _Index:
    """Finds the sentences of a journal in a file, where they may have moved."""

    def __init__(self, corpus: Corpus) -> None:
        self._labels = [_labels(sentence) for sentence in corpus]
        self._places: dict[str, list[int]] = {}
        for i, sentence in enumerate(corpus):
            self._places.setdefault(_digest(sentence.tokens), []).append(i)
        self._found: dict[tuple[int, str], int] = {}

    def find(self, change: Mapping[str, Any]) -> int | None:
        """Return the sentence with these tokens, nearest to its old place.

        Of several with the same tokens, those that have the labels before or after the change come
        first.
        """
        i, digest = change["i"], change["digest"]
        if (i, digest) not in self._found:
            taken = set(self._found.values())
            places = [place for place in self._places.get(digest, ()) if place not in taken]
            if not places:
                return None

            def order(place: int) -> tuple[bool, int]:
                labels = [_plain_label(self._labels[place][t]) for t in change["t"]]
                return labels not in (change["old"], change["new"]), abs(place - i)

            self._found[i, digest] = min(places, key=order)
        return self._found[i, digest]


def _digest(tokens: Iterable[str]) -> str:
    data = "\0".join(tokens).encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()[:16]


def _labels(sentence: Sentence) -> list[Label]:
    return [None] * len(sentence) if sentence.labels is None else list(sentence.labels)


def _plain_label(label: Label) -> Any:
    return sorted(label) if isinstance(label, frozenset) else label


def _label_of(plain: Any) -> Label:
    return frozenset(plain) if isinstance(plain, list) else plain
