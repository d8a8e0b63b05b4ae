"""Compile templates into a native programme, and sentences into attribute ids.

templates ── parse ──▶ records ── compile ──▶ atoms, literals, columns
│
sentences ── columns (tokens, further columns, lexicon matches) ──▶ native ──▶ Encoded
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tagloom import checks
from tagloom._native import Extractor, Index, Scorer, Vocabulary
from tagloom.errors import FeatureError, ParameterError, SentenceError, TemplateError, from_native
from tagloom.features.batches import Encoded, read_tokens, sum_values
from tagloom.features.expressions import QUOTED, WHOLE, Atom, Column, Template, parse
from tagloom.features.functions import Function, Resources, function_of, native_kind
from tagloom.features.label_columns import holds_labels
from tagloom.features.lexicons import Clusters, Lexicon
from tagloom.numeric import np
from tagloom.sequences import Sentence

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Text = Sequence[Sequence[str]]  # one column of a batch: [N][T_n]
# Tokens, as in core/extract.cpp; each distance beyond the ends of a sentence has its own value.
FARTHEST = 1000


class Templates:
    r"""Features from templates.

    Parameters
    ----------
    templates : str or iterable of str
        Expressions such as ``"word[-1] & word"``; the page on templates describes the language.
    lexicons : mapping of str to Lexicon, path or iterable, optional
        Lexicons for ``lexicon(name)``; see `Lexicon`.
    clusters : mapping of str to Clusters, path or mapping, optional
        Clusters for ``cluster(name)``; see `Clusters`.
    lists : mapping of str to iterable of str, optional
        Affix lists for ``suffix(name)`` and ``prefix(name)``.

    Attributes
    ----------
    templates : list of str
        The templates with ranges expanded, as they appear in attribute names.
    transitions : bool
        Whether label bigrams have weights; False only for a CRF++ or Wapiti file that has no
        template for them.

    Raises
    ------
    TemplateError
        If a template is malformed, or names a lexicon, clusters or list that is missing.

    Examples
    --------
    >>> from tagloom.features import Templates
    >>> templates = Templates(["word", "word[-1] & suffix(1..2)", "title"])
    >>> templates.templates
    ['word', 'word[-1]&suffix(1)', 'word[-1]&suffix(2)', 'title']
    >>> for attributes in templates.extract(["Alice", "saw"]):
    ...     print(*attributes)
    word=Alice word[-1]&suffix(1)=<-1>|e word[-1]&suffix(2)=<-1>|ce title
    word=saw word[-1]&suffix(1)=Alice|w word[-1]&suffix(2)=Alice|aw
    """

    def __init__(
        self,
        templates: str | Iterable[str],
        *,
        lexicons: Mapping[str, Any] | None = None,
        clusters: Mapping[str, Any] | None = None,
        lists: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        if not isinstance(templates, Iterable):
            raise TemplateError(
                expected="a list of templates such as ['word', 'suffix(3)']",
                found=checks.show(templates),
            )
        texts = [templates] if isinstance(templates, str) else list(templates)
        for n, text in enumerate(texts):
            if not isinstance(text, str):
                raise TemplateError(
                    where=f"template {n}",
                    expected="a str such as 'word[-1]'",
                    found=checks.show(text),
                )
        resources = Resources(
            {n: x if isinstance(x, Lexicon) else Lexicon(x) for n, x in (lexicons or {}).items()},
            {n: x if isinstance(x, Clusters) else Clusters(x) for n, x in (clusters or {}).items()},
            {n: _affixes(n, x) for n, x in (lists or {}).items()},
        )
        records = [record for n, text in enumerate(texts) for record in parse(text, n)]
        saved = {
            "kind": "templates",
            "templates": texts,
            "lexicons": {n: x.to_dict() for n, x in resources.lexicons.items()},
            "clusters": {n: x.to_dict() for n, x in resources.clusters.items()},
            "lists": {n: list(x) for n, x in resources.lists.items()},
        }
        self._build(records, saved, "<{:+d}>".format, resources)

    def _build(
        self,
        records: list[Template],
        saved: dict[str, Any],
        outside: Callable[[int], str],
        resources: Resources | None = None,
        *,
        transitions: bool = True,
    ) -> None:
        """Compile records; `outside(d)` is the value at distance d before (d < 0) or after."""
        self.templates = [record.text for record in records]
        self.transitions = transitions
        self._saved = saved
        self._records = records
        self._resources = resources or Resources({}, {}, {})
        self._check_resources()

        self._columns: list[Column] = [None]  # input of the native extractor; tokens first
        self._numbers: list[tuple[str | int, int]] = []  # real-valued columns, with their offsets
        atoms: dict[Atom, int] = {}
        for record in records:
            for factor in record.factors:
                atoms.setdefault(factor.atom, len(atoms))
                if factor.atom.column not in self._columns:
                    self._columns.append(factor.atom.column)
            if record.number is not None and record.number not in self._numbers:
                self._numbers.append(record.number)
        farthest = _farthest(records)
        programme = (
            [self._native_atom(atom) for atom in atoms],
            [_gives_marker(atom) for atom in atoms],
            [outside(-d) for d in range(1, farthest + 1)],
            [outside(d) for d in range(1, farthest + 1)],
        )

        def extractor(records: list[Template]) -> Extractor:
            native, marked, before, after = programme
            compiled = [
                (
                    list(record.literals),
                    [(atoms[factor.atom], factor.offset) for factor in record.factors],
                    -1 if record.number is None else self._numbers.index(record.number),
                )
                for record in records
            ]
            return Extractor(native, marked, compiled, before, after)

        edges = [record for record in records if record.edge]
        self._node = extractor([record for record in records if not record.edge])
        self._edge = extractor(edges) if edges else None

    def _check_resources(self) -> None:
        for number, record in enumerate(self._records):
            for kind, name in _named(record):
                resources = getattr(self._resources, kind)
                if name not in resources:
                    raise TemplateError(
                        where=f"template {number}, {checks.show(record.text, QUOTED)}",
                        expected=f"{name!r} among the {kind}",
                        found=", ".join(sorted(resources)) or "none",
                        hint=f"Pass {kind}={{{name!r}: ...}}.",
                    )

    def _function(self, atom: Atom) -> Function:
        return function_of(atom, self._resources)

    def _native_atom(self, atom: Atom) -> tuple[int, str, object]:
        column = self._columns.index(atom.column)
        kind = native_kind(atom)
        if kind is None:
            return column, "python", self._function(atom)
        return column, *kind

    @property
    def reads_only_tokens(self) -> bool:
        """Whether templates read the tokens only, and no other columns."""
        return not self._numbers and self._columns == [None]

    def check_labels_unread(self, X: Sequence[Any], labellings: Sequence[Sequence[Any]]) -> None:
        """Raise if a template reads a column that holds the labels themselves.

        Parameters
        ----------
        X : sequence of list of str, or of Sentence
        labellings : sequence of list
            The training labels of each sentence.

        Raises
        ------
        TemplateError
            If a column equals the labels in every sentence, or a part of them: one of the two
            columns that ``upos+feats`` joins, or spans in another scheme. A model would learn to
            copy that column, which has no labels when the model tags.

        Examples
        --------
        >>> from tagloom import Sentence
        >>> from tagloom.features import Templates
        >>> sentence = Sentence(["Fish", "swim"], columns={"pos": ["N", "V"]})
        >>> Templates(["word"]).check_labels_unread([sentence], [["N", "V"]])  # no error
        >>> try:
        ...     Templates(["word", "col(pos)"]).check_labels_unread([sentence], [["N", "V"]])
        ... except ValueError as error:
        ...     print(error.found)
        column pos
        """
        for column in self._further_columns() if any(labellings) else ():
            if holds_labels(
                (self._further(column, sentence, i, sentence), labels)
                for i, (sentence, labels) in enumerate(zip(X, labellings, strict=True))
            ):
                raise TemplateError(
                    f"{self._user_of(column)} reads column {column}, which holds the labels "
                    "themselves.",
                    found=f"column {column}",
                    expected="columns that exist when the model tags",
                    hint="Remove the template: text to be tagged has no labels to read.",
                )

    def _further_columns(self) -> list[str | int]:
        """List the columns that templates read beside the tokens, by name or number."""
        further: list[str | int] = []
        queue: list[object] = [*self._columns, *(column for column, _ in self._numbers)]
        for column in queue:
            if isinstance(column, Atom):
                queue.append(column.column)
            elif isinstance(column, tuple):
                queue += [part for part in column if isinstance(part, Atom)]
            elif isinstance(column, str | int) and column not in further:
                further.append(column)
        return further

    # ---- sentences ---------------------------------------------------------------------------

    def encode(
        self,
        X: Any,
        index: Index,
        edge_index: Index | None = None,
        *,
        grow: bool = False,
        n_threads: int = 1,
    ) -> Encoded:
        """Turn sentences into attribute ids.

        Parameters
        ----------
        X : iterable of list of str, or of Sentence
            The sentences.
        index, edge_index : Index
            Map attributes to ids; the second is for edge templates, if there are any.
        grow : bool, optional
            Whether new attributes get an id, as in training, or are left out.
        n_threads : int, optional
            Number of threads; the result does not depend on it.

        Returns
        -------
        Encoded

        Raises
        ------
        SentenceError
            If a sentence is malformed, such as a str.
        TemplateError
            If a template reads a column that a sentence lacks.
        FeatureError
            If a value in a real-valued column is not a finite number.

        Examples
        --------
        >>> from tagloom._native import Index
        >>> from tagloom.features import Templates
        >>> index = Index()
        >>> Templates(["word", "lower"]).encode([["Fish", "fish"]], index, grow=True).ids
        array([0, 1, 2, 1], dtype=int32)
        >>> index.size
        3
        """
        columns, numbers = self.columns(X)
        node = call_native(self._node.encode, columns, numbers, index, grow, n_threads)
        if self._edge is None:
            return Encoded(*node)
        if edge_index is None:
            raise ParameterError(
                parameter="edge_index",
                expected="an Index, since there are edge templates",
                found="None",
            )
        return Encoded(
            *node,
            *call_native(self._edge.encode, columns, numbers, edge_index, grow, n_threads)[1:],
        )

    def vocabulary(self, tokens: Sequence[Sequence[str]]) -> Vocabulary:
        """Read the words of sentences for back-off attributes; see `scores.tables`.

        Raises
        ------
        TypeError, ValueError
            If a token is not a str, or not valid Unicode.
        """
        return self._node.vocabulary(tokens)

    @property
    def records(self) -> Sequence[Template]:
        """The parsed templates, in the order of ``templates``."""
        return self._records

    @property
    def has_edges(self) -> bool:
        """Whether there are edge templates."""
        return self._edge is not None

    def extract(self, sentence: Any, *, edges: bool = False) -> list[dict[str, float]]:
        """Return the attributes of one sentence by name.

        Parameters
        ----------
        sentence : list of str, or Sentence
        edges : bool, optional
            Whether to return the attributes of edge templates instead of the others.

        Returns
        -------
        list of dict
            For each token, name to value.

        Examples
        --------
        >>> from tagloom.features import Templates
        >>> Templates(["shape", "edge(word)"]).extract(["B2B"])
        [{'shape=XdX': 1.0}]
        >>> Templates(["shape", "edge(word)"]).extract(["B2B"], edges=True)
        [{'edge(word)=B2B': 1.0}]
        """
        columns, numbers = self.columns([sentence])
        extractor = self._edge if edges else self._node
        if extractor is None:
            return [{} for _ in columns[0][0]]
        names = call_native(extractor.names, columns, numbers)
        return [sum_values(attributes) for attributes in names]

    def columns(self, X: Any) -> tuple[list[_Text], list[NDArray[np.float64]]]:
        """Return the input of the native programme: columns of str and flat arrays of numbers.

        Parameters
        ----------
        X : iterable of list of str, or of Sentence

        Returns
        -------
        columns : list of list of list of str
        numbers : list of ndarray, shape (T,)
        """
        if len(self._columns) > 1 or self._numbers:
            X = checks.sentences(X)  # read more than once
        tokens = read_tokens(X)
        columns = [tokens if c is None else self._column(c, X, tokens) for c in self._columns]
        return columns, [self._number(c, X, tokens) for c in self._numbers]

    def scorer(
        self,
        index: Index | NDArray[np.uint64],
        ptr: NDArray[np.int64],
        cols: NDArray[Any],
        weights: NDArray[np.float32],
        K: int,
        *,
        edges: bool = False,
        takes_last: bool = False,
    ) -> Scorer:
        """Combine the programme with weights: strings to scores, without attribute ids in between.

        Parameters
        ----------
        index : Index, or ndarray of uint64
            The attributes, or the keys of an index in order.
        ptr, cols, weights : ndarray
            The rows of weights, see `tagloom.scores.Rows`.
        K : int
            Outputs: Y, or Y·Y for edge templates.
        edges : bool
            Whether to use the edge templates.
        takes_last : bool
            Whether a token has the weights of the last of its attributes in the index, instead of
            their sum: a table with back-off, for templates that read nothing but their token.

        Returns
        -------
        Scorer
        """
        extractor = self._edge if edges else self._node
        assert extractor is not None
        return Scorer(extractor, index, ptr, cols, weights, K, takes_last)

    def _column(self, column: Column, X: Any, tokens: _Text) -> _Text:
        """Return one column of every sentence, read or derived from others."""
        if column is None:
            return tokens
        if isinstance(column, tuple):
            if column[0] == "lexicon":
                _, name, atom = column
                lexicon = self._resources.lexicons[str(name)]
                assert isinstance(atom, Atom)
                return [lexicon.match(values) for values in self._values(atom, X, tokens)]
            return self._derived(column, X, tokens)
        return [self._further(column, sentence, i, tokens[i]) for i, sentence in enumerate(X)]

    def _derived(self, column: tuple[object, ...], X: Any, tokens: _Text) -> _Text:
        raise AssertionError(column)

    def _values(self, atom: Atom, X: Any, tokens: _Text) -> _Text:
        """Compute an atom at every token, in Python; the empty string for no value."""
        column = self._column(atom.column, X, tokens)
        if not atom.steps:
            return column
        function = self._function(atom)
        cache: dict[str, str] = {}
        results = []
        for values in column:
            for value in values:
                if value not in cache:
                    cache[value] = function(value) or ""
            results.append([cache[value] for value in values])
        return results

    def _further(
        self, column: str | int, sentence: Any, i: int, tokens: Sequence[str]
    ) -> Sequence[str]:
        """Return a column of a sentence by name or number."""
        if not isinstance(sentence, Sentence):
            if column == 0:
                return tokens
            raise TemplateError(
                where=checks.place(i),
                expected=f"column {column}, which {self._user_of(column)} reads",
                found=f"a {type(sentence).__name__} of tokens without further columns",
                hint="Pass a tagloom.Sentence with columns={...}, or read the file with "
                "tagloom.read().",
            )
        columns = sentence.columns
        if str(column) in columns:
            return columns[str(column)]
        if isinstance(column, int):
            # In a file the tokens are one of the columns; otherwise they precede the others.
            numbered = list(columns.values())
            if sentence.line is None:
                numbered.insert(0, sentence.tokens)
            if column < len(numbered):
                return numbered[column]
        names = ", ".join(columns) or "none beside the tokens"
        raise TemplateError(
            where=checks.place(i),
            expected=f"column {column}, which {self._user_of(column)} reads",
            found=f"the columns {names}",
        )

    def _number(self, number: tuple[str | int, int], X: Any, tokens: _Text) -> NDArray[np.float64]:
        """Read a real-valued column; outside the sentence it is 0."""
        column, offset = number
        parts = []
        for i, sentence in enumerate(X):
            values = np.zeros(len(tokens[i]))
            for t, text in enumerate(self._further(column, sentence, i, tokens[i])):
                try:
                    value = float(text)
                except ValueError:
                    value = np.nan
                if not np.isfinite(value):
                    raise FeatureError(
                        where=checks.place(i, t),
                        expected=f"a finite number in column {column}, which "
                        f"{self._user_of(column)} reads",
                        found=checks.show(text),
                    )
                if 0 <= t - offset < len(values):
                    values[t - offset] = value
            parts.append(values)
        return np.concatenate(parts) if parts else np.zeros(0)

    def _user_of(self, column: Column) -> str:
        """Name the first template that reads a column."""
        for number, record in enumerate(self._records):
            columns = [factor.atom.column for factor in record.factors]
            columns += [record.number[0]] if record.number else []
            if any(_reads(c, column) for c in columns):
                return f"template {number}, {checks.show(record.text, QUOTED)},"
        raise AssertionError(column)

    # ---- saving ------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the templates as plain data, with their lexicons, clusters and lists.

        Returns
        -------
        dict
        """
        return self._saved

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Templates:
        """Make templates from the result of `to_dict`.

        Parameters
        ----------
        data : mapping

        Returns
        -------
        Templates
        """
        return cls(
            data["templates"],
            lexicons={n: Lexicon.from_dict(x) for n, x in data["lexicons"].items()},
            clusters={n: Clusters.from_dict(x) for n, x in data["clusters"].items()},
            lists=data["lists"],
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_dict, (self._saved,)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Templates):
            return NotImplemented
        return self._saved == other._saved

    __hash__ = None  # type: ignore[assignment]  # the saved form is a dict

    def __len__(self) -> int:
        return len(self.templates)

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.templates[:4])) + (", …" if len(self) > 4 else "")
        return f"{type(self).__name__}([{shown}])"


def _farthest(records: Iterable[Template]) -> int:
    """Return the largest distance of a position that templates read."""
    farthest = 0
    for number, record in enumerate(records):
        for factor in record.factors:
            if abs(factor.offset) > FARTHEST:
                raise TemplateError(
                    where=f"template {number}, {checks.show(record.text, QUOTED)}",
                    expected=f"positions at most {FARTHEST} tokens away",
                    found=checks.show(factor.offset),
                )
            farthest = max(farthest, abs(factor.offset))
    return farthest


def _gives_marker(atom: Atom) -> bool:
    """Whether an atom gives a value for every word, so that a marker replaces it outside."""
    return all(step[0] in WHOLE for step in atom.steps)


def _named(record: Template) -> Iterable[tuple[str, str]]:
    """Yield the resources that a template names: kind and name."""
    atoms = [factor.atom for factor in record.factors]
    while atoms:
        atom = atoms.pop()
        for step in atom.steps:
            if step[0] == "cluster":
                yield "clusters", str(step[1])
            elif step[0] in ("named_prefix", "named_suffix"):
                yield "lists", str(step[1])
        if isinstance(atom.column, tuple) and atom.column[0] == "lexicon":
            yield "lexicons", str(atom.column[1])
            assert isinstance(atom.column[2], Atom)
            atoms.append(atom.column[2])


def _reads(column: object, target: Column) -> bool:
    if isinstance(column, tuple):
        return any(_reads(part, target) for part in column)
    return column == target and column is not None


def _affixes(name: str, affixes: Iterable[str]) -> tuple[str, ...]:
    if isinstance(affixes, str | os.PathLike):
        raise ParameterError(
            parameter=f"lists[{name!r}]", expected="a list of affixes", found=checks.show(affixes)
        )
    listed = tuple(affixes)
    if not listed or not all(isinstance(affix, str) and affix for affix in listed):
        raise ParameterError(
            parameter=f"lists[{name!r}]", expected="non-empty str", found=checks.show(listed)
        )
    return listed


def call_native(call: Any, *arguments: Any) -> Any:
    """Call the native reader.

    Raises
    ------
    SentenceError
        If a token is not a str.
    FeatureError
        If a token is not valid Unicode.
    """
    try:
        return call(*arguments)
    except TypeError as error:
        hint = "A sentence is a list of str; if tokens are dicts or numbers, use features=None."
        raise from_native(SentenceError, error, hint) from None
    except ValueError as error:
        if "lone surrogate" not in str(error):
            raise
        raise from_native(FeatureError, error) from None
