"""The exception tree. Every class is also the built-in that a caller would expect.

::

    TagloomError
    ├── ShapeError          (ValueError)    arrays that do not fit each other
    ├── ScoreError          (ValueError)    NaN or +inf where a score is expected
    ├── LabelError          (ValueError)    a label that the label set does not have
    │   └── SchemeError                     labels that a scheme does not allow, or no such scheme
    ├── ParameterError      (ValueError)    an argument outside its range
    ├── InfeasibleError     (ValueError)    the constraints leave no path
    ├── SentenceError       (TypeError)     not a sentence, such as a str where a list is expected
    ├── FormatError         (ValueError)    a file, or a choice about one, that does not fit
    ├── TemplateError       (ValueError)    a feature template that cannot be read or does not fit
    ├── TrainingError       (ArithmeticError) training that went astray, such as a loss of NaN
    ├── FeatureError        (ValueError)    a feature whose value is no finite number
    ├── NotFittedError      (ValueError, AttributeError)  a tagger that has learnt nothing yet
    ├── ModelFileError      (ValueError)    a model file that is damaged, foreign or too new
    ├── DatasetError        (ValueError)    no such data set, or one that cannot be made so
    └── MissingExtraError   (ImportError)   an optional package is not installed
"""

from __future__ import annotations


class TagloomError(Exception):
    """Base of all errors that tagloom raises on purpose."""


def about_file(error: OSError, path: str) -> OSError:
    """Return an error of the system, of the same class, about the file that the user named.

    What is written goes to a hidden file first, and a disk that is full names no file at all.
    """
    return OSError(error.errno, error.strerror, path)


class ShapeError(TagloomError, ValueError):
    """Arrays whose shapes, types or offsets do not fit each other."""


class ScoreError(TagloomError, ValueError):
    """A score that is NaN or +inf; −inf is allowed and means forbidden."""


class LabelError(TagloomError, ValueError):
    """A label that is not in the label set."""


class SchemeError(LabelError):
    """Labels that do not fit a scheme (BIO, BIOES, ...), or a scheme that nobody knows."""


class ParameterError(TagloomError, ValueError):
    """An argument that is outside its range."""


class InfeasibleError(TagloomError, ValueError):
    """The scores and constraints leave no path; says which sequence and position.

    Attributes
    ----------
    sequence : int
        Index of the sequence in its batch.
    position : int
        First position that no path reaches; the length of the sequence if
        every position is reachable but no path may stop.
    """

    def __init__(self, message: str, sequence: int, position: int) -> None:
        super().__init__(message)
        self.sequence = sequence
        self.position = position

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (str(self), self.sequence, self.position))


class SentenceError(TagloomError, TypeError):
    """Something that is not a sentence where one is expected, such as a str."""


class FormatError(TagloomError, ValueError):
    """A file that its format cannot read or hold; says where.

    Attributes
    ----------
    path : str or None
        The file, as the caller named it.
    line : int or None
        The line, counted from 1.
    """

    def __init__(self, message: str, path: str | None = None, line: int | None = None) -> None:
        place = ":".join(str(part) for part in (path, line) if part is not None)
        super().__init__(f"{place}: {message}" if place else message)
        self.path = path
        self.line = line

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_format_error, (str(self), self.path, self.line))


def _rebuild_format_error(message: str, path: str | None, line: int | None) -> FormatError:
    error = FormatError(message)
    error.path, error.line = path, line
    return error


class TemplateError(TagloomError, ValueError):
    """A feature template that cannot be read, or that the data does not fit."""


class TrainingError(TagloomError, ArithmeticError):
    """Training that went astray: the loss is infinite or not a number."""


class FeatureError(TagloomError, ValueError):
    """A feature that no model can use, such as one whose value is NaN."""


class NotFittedError(TagloomError, ValueError, AttributeError):
    """A tagger that has learnt nothing yet is asked to predict."""


class ModelFileError(TagloomError, ValueError):
    """A file that is not a model, is damaged, or was written by a newer version."""


class DatasetError(TagloomError, ValueError):
    """A data set, or a part of one, that does not exist or cannot be made as asked."""


class MissingExtraError(TagloomError, ImportError):
    """An optional package is needed; the message gives the install line."""
