"""The exception tree. Every class also derives from the built-in that a caller would expect.

::

    TagloomError
    ├── ShapeError          (ValueError)    array shapes, types or offsets do not fit
    ├── ScoreError          (ValueError)    NaN or +inf where a score is expected
    ├── LabelError          (ValueError)    a label is missing or not in the label set
    │   └── SchemeError                     labels violate their scheme, or the scheme is unknown
    ├── ParameterError      (ValueError)    an argument is outside its range
    ├── InfeasibleError     (ValueError)    the constraints leave no path
    ├── SentenceError       (TypeError)     not a sentence, such as a str where a list is expected
    ├── FormatError         (ValueError)    a file does not fit its format
    ├── TemplateError       (ValueError)    a feature template is malformed or does not fit the data
    ├── TrainingError       (ArithmeticError)  training diverged: the loss is NaN or infinite
    ├── FeatureError        (ValueError)    a feature is not a finite number or not valid Unicode
    ├── NotFittedError      (ValueError, AttributeError)  the model is not fitted
    ├── ModelFileError      (ValueError)    a model file is damaged, foreign or too new
    ├── DatasetError        (ValueError)    the data set does not exist or cannot be generated
    ├── MissingExtraError   (ImportError)   an optional package is not installed
    ├── RequestError        (ValueError)    an HTTP request is refused or fails
    ├── ConflictError       (ValueError)    an edit was made for data that have changed since
    ├── ReadOnlyError       (PermissionError)  an edit of data that are open for reading only
    ├── WorkerError         (RuntimeError)  a worker process is lost again and again
    └── DataWarning         (UserWarning)   a warning: the data look wrong, but can be used

An error is a set of fields, and its text is rendered from them. Python shows parameters by name,
the command line shows them as options, and a server can send the fields unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

#: Renders a parameter in a message from its name and a value to try (``...``: the name alone).
NameOption = Callable[[str, Any], str]


def python_option(name: str, value: Any = ...) -> str:
    """Render a parameter as a keyword argument, or its name alone.

    Examples
    --------
    >>> python_option("sep", ";"), python_option("sep")
    ('sep=";"', 'sep')
    """
    if value is ...:
        return name
    shown = json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
    return f"{name}={shown}"


class TagloomError(Exception):
    """Base class of all errors that tagloom raises deliberately.

    The text is ``where: message hint``. Without a message it is built from the fields:
    ``parameter must be expected; got found.`` or ``expected ..., found ...``.

    Parameters
    ----------
    message : str, optional
        A sentence about the error, if the fields alone are not clear enough.
    where : str, optional
        The place: ``"sentence 3, token 2"``, ``"train.conll:14"``, ``"template 3"``.
    found : str, optional
        The value as shown to the user; see `tagloom.checks.show`.
    expected : str, optional
        The condition that the value violates: ``"a number of at least 0"``.
    hint : str, optional
        What to do next, as a sentence. ``{name}`` stands for a parameter listed in ``options``.
    parameter : str, optional
        Name of the parameter that holds the value.
    options : mapping, optional
        Parameters named in ``hint``, each with a value to try, or ``...`` to show the name alone.

    Examples
    --------
    >>> from tagloom.errors import FormatError, ParameterError
    >>> str(ParameterError(parameter="l2", expected="a number of at least 0", found="-1"))
    'l2 must be a number of at least 0; got -1.'
    >>> error = FormatError(
    ...     path="train.conll", line=14, expected="3 columns", found="2",
    ...     hint="Wrong separator? Try {sep}.", options={"sep": ";"},
    ... )
    >>> str(error)
    'train.conll:14: expected 3 columns, found 2. Wrong separator? Try sep=";".'
    >>> error.render(lambda name, value: f"--{name} {value!r}")
    "train.conll:14: expected 3 columns, found 2. Wrong separator? Try --sep ';'."
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        where: str | None = None,
        found: str | None = None,
        expected: str | None = None,
        hint: str | None = None,
        parameter: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.found = found
        self.expected = expected
        self.hint = hint
        self.parameter = parameter
        self.options = dict(options or {})

    def render(self, option: NameOption = python_option) -> str:
        """Render the error as one line that a terminal can show.

        The fields may contain parts of damaged files: characters that cannot be printed are
        escaped as in the repr of a str, and each field is cut after 1,000 characters.

        Parameters
        ----------
        option : callable
            Renders a parameter, given its name and a value to try (or ``...``).
        """
        text = _shown(self.message)
        expected, found, where = _shown(self.expected), _shown(self.found), _shown(self.where)
        if text is None and self.parameter is not None:
            text = f"{option(self.parameter, ...)} must be {expected}; got {found}."
        elif text is None:
            parts = (("expected", expected), ("found", found))
            text = ", ".join(f"{word} {part}" for word, part in parts if part is not None) + "."
        if where is not None:
            text = f"{where}: {text}"
        if self.hint is not None:
            names = {name: option(name, value) for name, value in self.options.items()}
            text = f"{text} {_shown(self.hint.format_map(names) if names else self.hint)}"
        return text

    def __str__(self) -> str:
        return self.render()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are set, and the class and text, as plain data.

        Examples
        --------
        >>> ParameterError(parameter="l2", expected="a number", found="'x'").to_dict()["message"]
        "l2 must be a number; got 'x'."
        """
        names = ("where", "parameter", "found", "expected", "hint")
        fields = {name: getattr(self, name) for name in names}
        if self.hint is not None and self.options:
            names_only = {name: python_option(name, value) for name, value in self.options.items()}
            fields["hint"] = self.hint.format_map(names_only)
        fields = {name: value for name, value in fields.items() if value is not None}
        return {"error": type(self).__name__, "message": str(self), **fields}

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.args, self.__dict__))


def _shown(text: str | None) -> str | None:
    if text is None or (len(text) <= _LONGEST and text.isprintable()):
        return text
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:_LONGEST])
    return shown + ("…" if len(text) > _LONGEST else "")


_LONGEST = 1000  # characters of a field in the text of an error


def _rebuild(
    kind: type[TagloomError], arguments: tuple[Any, ...], fields: dict[str, Any]
) -> TagloomError:
    """Restore a pickled error without its constructor, whose arguments differ by class."""
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(fields)
    return error


def from_native(
    kind: type[TagloomError], error: Exception, hint: str | None = None
) -> TagloomError:
    """Convert an error of the native code to a TagloomError with its place as a field.

    Native code reports ``place: expected this, found that.``, ``place: that; expected this.`` or
    ``place: a sentence.``

    Examples
    --------
    >>> error = from_native(LabelError, ValueError("token 3: expected a label, found None."))
    >>> error.where, error.expected, error.found
    ('token 3', 'a label', 'None')
    """
    where, colon, rest = str(error).partition(": ")
    if not colon or " " not in where.strip() or not where[-1].isdigit():
        return kind(str(error), hint=hint)
    parts = re.fullmatch(r"expected (.*), found (.*)\.", rest, re.DOTALL)
    if parts is None:
        parts = re.fullmatch(r"(.*); expected (.*)\.", rest, re.DOTALL)
        found, expected = (None, None) if parts is None else parts.groups()
        return kind(rest, where=where, found=found, expected=expected, hint=hint)
    return kind(where=where, expected=parts[1], found=parts[2], hint=hint)


def about_file(error: OSError, path: str) -> OSError:
    """Return the same operating system error with the file name that the user passed.

    Files are first written under a temporary name, and errors about a full disk have no name.
    """
    return OSError(error.errno, error.strerror, path)


class ShapeError(TagloomError, ValueError):
    """Shapes, types or offsets of arrays do not match."""


class ScoreError(TagloomError, ValueError):
    """A score is NaN or +inf; −inf is allowed and means forbidden."""


class LabelError(TagloomError, ValueError):
    """A label is missing or not in the label set."""


class SchemeError(LabelError):
    """Labels violate their scheme (BIO, BIOES, ...), or the scheme is unknown."""


class ParameterError(TagloomError, ValueError):
    """An argument is outside its range."""


class UnknownParameterError(ParameterError, TypeError):
    """An argument has a name that the object does not take."""


class InfeasibleError(TagloomError, ValueError):
    """The scores and constraints leave no path.

    Attributes
    ----------
    sequence : int
        Index of the sequence in its batch.
    position : int
        First position that no path reaches; the length of the sequence if
        every position is reachable but no path may stop.

    Examples
    --------
    >>> import tagloom as tl
    >>> try:
    ...     tl.Trellis([[0.0], [float("-inf")]]).viterbi()
    ... except InfeasibleError as error:
    ...     error.position
    1
    """

    def __init__(self, message: str, sequence: int, position: int, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.sequence = sequence
        self.position = position


class FormatError(TagloomError, ValueError):
    r"""A file does not fit its format.

    Attributes
    ----------
    path : str or None
        Name of the file, as the caller passed it.
    line : int or None
        The line, counted from 1.

    Examples
    --------
    >>> import io, tagloom as tl
    >>> try:
    ...     tl.read(io.StringIO("a X\nb\n"), "conll")
    ... except FormatError as error:
    ...     error.line
    2
    """

    def __init__(
        self,
        message: str | None = None,
        path: str | None = None,
        line: int | None = None,
        **fields: Any,
    ) -> None:
        place = ":".join(str(part) for part in (path, line) if part is not None)
        super().__init__(message, **{"where": place or None, **fields})
        self.path = path
        self.line = line


class SentenceError(TagloomError, TypeError):
    """A value is not a sentence, for example a str instead of a list of tokens."""


class TemplateError(TagloomError, ValueError):
    """A feature template is malformed or does not fit the data."""


class TrainingError(TagloomError, ArithmeticError):
    """Training diverged: the loss is NaN or infinite."""


class FeatureError(TagloomError, ValueError):
    """A feature value is not a finite number, or its text is not valid Unicode."""


class NotFittedError(TagloomError, ValueError, AttributeError):
    """The model is not fitted."""


class ModelFileError(TagloomError, ValueError):
    """A model file is damaged, foreign, or written by a newer version."""


class DatasetError(TagloomError, ValueError):
    """A data set does not exist or cannot be generated as requested."""


class MissingExtraError(TagloomError, ImportError):
    """An optional package is not installed; the hint gives the install line."""


class RequestError(TagloomError, ValueError):
    """An HTTP request is refused: raised by a server, and by the client that gets the answer.

    Attributes
    ----------
    status : int
        The status code: 404, 429, ...
    retry_after : int or None
        Seconds after which it is worth trying again.

    Examples
    --------
    >>> error = RequestError(status=404, where="model", expected="one of pos, ner", found="'x'")
    >>> error.status, str(error)
    (404, "model: expected one of pos, ner, found 'x'.")
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        status: int = 400,
        retry_after: int | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(message, **fields)
        self.status = status
        self.retry_after = retry_after


class ConflictError(TagloomError, ValueError):
    """An edit was made for another version of the data, which have changed since."""


class ReadOnlyError(TagloomError, PermissionError):
    """The data are open for reading only."""


class WorkerError(TagloomError, RuntimeError):
    """A worker, a process on this or another machine, was lost again and again."""


class DataWarning(TagloomError, UserWarning):
    """The data look wrong, but can be used; a warning with the fields of an error."""
