"""Models as files: save, load, pickle, describe and digest for everything that is fitted.

A model converts itself to a `tagloom.storage.File` and back; the rest is implemented here. The file
names the kind of model, and a registry maps kinds to classes: those of tagloom, those defined in
this process, and those of other packages, announced by entry points in the group
``tagloom.models``::

    [project.entry-points."tagloom.models"]
    "mylab.Tagger" = "mylab.taggers:MyTagger"

A file chooses among classes that are installed. It cannot name code to import.
"""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar, Self

from tagloom import checks, storage
from tagloom.errors import ModelFileError, NotFittedError
from tagloom.models.capabilities import Capability
from tagloom.models.estimators import Estimator
from tagloom.registries import Registry, is_abstract
from tagloom.storage import File

#: The group of entry points in which packages announce their kinds of models.
ENTRY_POINTS = "tagloom.models"

# The classes by kind; a module of tagloom is imported when a file names its model.
_REGISTRY: Registry[Model] = Registry(
    ENTRY_POINTS,
    {
        "CRF": "tagloom.models.crf",
        "DependencyParser": "tagloom.models.parsers",
        "HMM": "tagloom.models.hmm",
        "LinearGaussian": "tagloom.dynamics.linear_gaussian",
        "MEMM": "tagloom.models.memm",
        "MostFrequentTag": "tagloom.models.baselines",
        "NGramModel": "tagloom.language.ngrams",
        "NeuralTagger": "tagloom.models.neural",
        "RoleLabeller": "tagloom.models.roles",
        "SemiCRF": "tagloom.models.semicrf",
        "StructuredPerceptron": "tagloom.models.perceptrons",
        "StructuredSVM": "tagloom.models.svm",
        "TokenClassifier": "tagloom.models.tokens",
        "Tokenizer": "tagloom.models.tokenizers",
    },
)

# Model files of other tools by their first bytes; each module has a function ``load_foreign``. They
# are imported when such a file is read.
_FOREIGN = {
    b"lCRF": "tagloom.interop.crfsuite",
    b"version: ": "tagloom.interop.crfpp",
    b"#mdl#": "tagloom.interop.wapiti",
}
_LONGEST = max(map(len, _FOREIGN))

# Header entries that record where a model comes from; predictions do not depend on them.
_PROVENANCE = ("params", "training", "history")


class Model(Estimator, ABC):
    """Base of everything that is fitted and saved: taggers, language models, filters.

    A subclass implements `to_file` and `from_file`. Its name in files, the *kind*, is the name of
    the class, or the class argument ``kind=``; choose one with a prefix of your package, such as
    ``class Mine(Model, kind="mylab.Mine")``. A class defined later replaces an earlier one of the
    same kind, so that a notebook cell can run again.

    Examples
    --------
    >>> import numpy as np
    >>> import tagloom as tl
    >>> from tagloom.models import Model
    >>> from tagloom.storage import File
    >>> class Mean(Model, kind="examples.Mean"):
    ...     def fit(self, X):
    ...         self.mean_ = np.mean(X, axis=0)
    ...         return self
    ...     def to_file(self):
    ...         return File({}, {"mean": self.mean_})
    ...     @classmethod
    ...     def from_file(cls, file, *, features=None):
    ...         model = cls()
    ...         model.mean_ = file.arrays["mean"]
    ...         return model
    >>> model = Mean().fit([[1.0, 2.0], [3.0, 6.0]])
    >>> tl.load(model.to_bytes()).mean_
    array([2., 4.])
    >>> model.describe()["model"]
    'examples.Mean'
    """

    #: Name of this class in files.
    kind: ClassVar[str]
    #: The entry ``kind`` of the header, common to all models of this base.
    family: ClassVar[str] = "model"

    def __init_subclass__(cls, *, kind: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.kind = cls.__name__ if kind is None else kind
        if not is_abstract(cls):
            _REGISTRY.add(cls.kind, cls)

    # ---- what a model implements -----------------------------------------------------------

    @abstractmethod
    def to_file(self) -> File:
        """Return the fitted state as a header of plain data and arrays."""

    @classmethod
    @abstractmethod
    def from_file(cls, file: File, *, features: Any = None) -> Self:
        """Make a model from the result of `to_file`.

        A file is not trusted: check every shape and number before use. A KeyError, TypeError,
        ValueError, IndexError or the like is reported as a `ModelFileError`.

        Parameters
        ----------
        file : File
        features : callable, optional
            The feature function, if the model was trained with one.
        """

    # ---- what follows from it --------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the model to one file, which `tagloom.load` reads.

        The file is written under another name and then renamed: a crash leaves the old one.

        Parameters
        ----------
        path : str, path, or file object opened for writing bytes

        Raises
        ------
        ModelFileError
            If ``path`` is something else, such as a file opened for text.
        OSError
            If the file cannot be written.
        """
        self._check_fitted("save")
        is_file = hasattr(path, "write") and not isinstance(path, io.TextIOBase)
        if not is_file and not isinstance(path, str | os.PathLike):
            raise ModelFileError(
                expected="a path, or a file object opened for writing bytes",
                found=checks.show_type(path),
            )
        file = self._whole_file()
        if is_file:
            from tagloom.sequences.files import write_all  # here, for a quick start

            write_all(path, _to_bytes(file))
        else:
            storage.write(path, file.header, file.arrays, checked=file.verified)

    def to_bytes(self) -> bytes:
        """Return the bytes that `save` writes; `tagloom.load` takes them, too."""
        self._check_fitted("to_bytes")
        return _to_bytes(self._whole_file())

    @classmethod
    def load(
        cls,
        path: Any,
        *,
        features: Any = None,
        verify: bool | None = None,
        private: bool = False,
    ) -> Self:
        """Read a model of this class or of a subclass; see `tagloom.load`.

        Raises
        ------
        ModelFileError
            If the file holds another kind of model, is damaged, or is newer.

        Examples
        --------
        >>> import tagloom as tl
        >>> data = tl.HMM().fit([["they", "fish"]], [["N", "V"]]).to_bytes()
        >>> tl.Tagger.load(data)
        HMM()
        >>> tl.CRF.load(data)
        Traceback (most recent call last):
        ...
        tagloom.errors.ModelFileError: <bytes>: expected a model of kind CRF, found HMM.
        """
        model = load(path, features=features, verify=verify, private=private)
        if not isinstance(model, cls):
            raise ModelFileError(
                where=_name_of(path), expected=f"a model of kind {cls.__name__}", found=model.kind
            )
        return model

    def describe(self) -> dict[str, Any]:
        """Describe the model as plain data, ready for JSON.

        Returns
        -------
        dict
            ``model``, the kind; ``capabilities``; ``parameters``, those of the constructor that are
            plain data; ``training``, the training record; and entries that the class adds, such as
            ``labels``.

        Examples
        --------
        >>> import tagloom as tl
        >>> tagger = tl.MostFrequentTag().fit([["they", "fish"]], [["N", "V"]])
        >>> about = tagger.describe()
        >>> about["model"], about["labels"], about["training"]["tokens"]
        ('MostFrequentTag', ['N', 'V'], 2)
        """
        self._check_fitted("describe")
        return {
            "model": self.kind,
            "capabilities": [str(x) for x in Capability if self.can(x)],
            "parameters": {k: v for k, v in self.get_params().items() if _is_plain(v)},
            "training": dict(getattr(self, "training_", {})),
        }

    def digest(self) -> str:
        """Return a fingerprint of everything that predictions depend on, 16 hexadecimal digits.

        Parameters of the constructor and the training record do not count: a model that was
        trained on one thread has the digest of the same model trained on two.

        Examples
        --------
        >>> import tagloom as tl
        >>> X, y = [["they", "fish"]], [["N", "V"]]
        >>> tl.HMM(n_threads=1).fit(X, y).digest() == tl.HMM(n_threads=2).fit(X, y).digest()
        True
        """
        from hashlib import blake2b  # here, for a quick start

        self._check_fitted("digest")
        file = self._whole_file()
        header = {k: v for k, v in file.header.items() if k not in _PROVENANCE}
        return blake2b(_to_bytes(File(header, file.arrays)), digest_size=8).hexdigest()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle through the model file's format; a feature function is pickled by reference."""
        if not self.is_fitted:
            return super().__reduce_ex__(protocol)
        state = {"_requests": self._requests} if self._requests else None
        data = _to_bytes(self._whole_file())
        return (_unpickle, (type(self), data, self._feature_function()), state)

    def __copy__(self) -> Self:
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new

    # ---- hooks for bases -------------------------------------------------------------------

    def _feature_function(self) -> Any:
        """Return the user's feature function, which files do not store."""
        return None

    def _whole_file(self) -> File:
        """Return the result of `to_file` with the entries that every model has."""
        file = self.to_file()
        about = {"kind": self.family, "model": self.kind}
        return File(about | file.header, file.arrays, file.unverified)

    @classmethod
    def _from_whole_file(cls, file: File, features: Any) -> Self:
        return cls.from_file(file, features=features)

    def _check_fitted(self, method: str) -> None:
        if not self.is_fitted:
            raise NotFittedError(
                f"This {type(self).__name__} is not fitted.",
                hint=f"Call fit(), or load a saved one with tagloom.load(path), before {method}().",
            )


def load(
    path: Any, *, features: Any = None, verify: bool | None = None, private: bool = False
) -> Any:
    """Read a model that `Model.save` wrote, or a model of CRFsuite, CRF++ or Wapiti.

    A file is mapped into memory, not copied; nothing in it is executed. Models of other tools are
    recognised by their contents and converted; see `tagloom.interop`.

    Parameters
    ----------
    path : str, path, bytes, file object or Copy
        The name of the file, or its contents: bytes, an object with ``read()`` that returns
        bytes, or a `tagloom.storage.Copy`.
    features : callable, optional
        The feature function, if the model was trained with one: a file stores only its name. Also
        for models of CRFsuite.
    verify : bool, optional
        Whether to verify the checksum of every array, which reads the whole file. By default if
        it has at most 64 MB; the header and the feature table are always verified.
    private : bool
        Whether to copy the file into memory first. A file that is mapped must not be changed in
        place: ``cp`` over it may change predictions or end the program. A copy is independent of
        the file; for programs that run for long, such as `tagloom serve`.

    Returns
    -------
    Model
        A `Tagger` for a file of a tagger. For a static type, call ``load`` of a class:
        ``tl.CRF.load(path)``.

    Raises
    ------
    ModelFileError
        If the file is not a model, is damaged, or was written by a newer version.

    Examples
    --------
    >>> import os, tempfile
    >>> import tagloom as tl
    >>> tagger = tl.CRF(features="words").fit([["they", "fish"]], [["N", "V"]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "small.tagloom")
    ...     tagger.save(path)
    ...     tl.load(path).predict([["they", "fish"]])
    [['N', 'V']]
    """
    where = _name_of(path)
    if checks.flag(private, "private") and isinstance(path, str | os.PathLike):
        with storage.Copy.of(path) as copy:
            return load(copy, features=features, verify=verify)
    if hasattr(path, "read"):
        path = path.read()
        if not isinstance(path, bytes):
            raise ModelFileError(
                where=where, expected="a file opened in binary mode", found=checks.show_type(path)
            )
    foreign = _foreign_module(path)
    if foreign is not None:
        source = bytes(path.data) if isinstance(path, storage.Copy) else path
        return import_module(foreign).load_foreign(source, features, where)
    if isinstance(path, storage.Copy):
        header, arrays = storage.read_copy(path, verify=verify)
    elif isinstance(path, str | os.PathLike):
        header, arrays = storage.read(path, verify=verify)
    elif isinstance(path, bytes | bytearray | memoryview):
        header, arrays = storage.read_bytes(path, verify=verify, name=where)
    else:
        raise ModelFileError(
            expected="the path of a model file, its bytes, or a file object",
            found=checks.show_type(path),
        )
    return _restore(File(header, arrays), features, where)


def is_foreign(path: str | os.PathLike[str]) -> bool:
    """Check by its first bytes whether a file is a model of another tool that `load` reads.

    Examples
    --------
    >>> import os
    >>> from tagloom.models.files import is_foreign
    >>> is_foreign(os.devnull)
    False
    """
    return _foreign_module(path) is not None


def _foreign_module(path: Any) -> str | None:
    """Return the module that reads a file of another tool; None for all other files."""
    head = b""
    if isinstance(path, storage.Copy):
        head = path.data[:_LONGEST]
    elif isinstance(path, bytes | bytearray | memoryview):
        head = bytes(path[:_LONGEST])
    elif isinstance(path, str | os.PathLike) and os.path.isfile(path):
        with open(path, "rb") as file:
            head = file.read(_LONGEST)
    return next((module for magic, module in _FOREIGN.items() if head.startswith(magic)), None)


def find_kind(name: str) -> type[Model] | None:
    """Return the class of a kind of model, or None if no package has it.

    Parameters
    ----------
    name : str
        As in the header of a file, ``"CRF"``.
    """
    return _REGISTRY.find(name)


def known_kinds() -> list[str]:
    """Return the names of all kinds of models: of tagloom, of this process, of other packages.

    Examples
    --------
    >>> from tagloom.models.files import known_kinds
    >>> "CRF" in known_kinds()
    True
    """
    return _REGISTRY.names()


def _restore(file: File, features: Any, where: str, cls: type[Model] | None = None) -> Any:
    """Make the model of a file, by the class that its header names, or by a given one."""
    family, name = file.header.get("kind"), file.header.get("model")
    cls = cls or (find_kind(name) if isinstance(name, str) else None)
    if cls is None or family != cls.family:
        if family in ("tagger", "model"):
            raise ModelFileError(
                where=where,
                expected=f"one of {', '.join(known_kinds())}",
                found=f"a model of the kind {checks.show(name)}",
                hint="Install the package that has this kind, or a newer tagloom.",
            )
        raise ModelFileError(
            where=where, expected="a model that save() wrote", found=f"a {checks.show(family)}"
        )
    _check_record(file.header.get("training", {}), where)
    try:
        return cls._from_whole_file(file, features)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        if isinstance(error, NotFittedError):
            raise
        raise ModelFileError(
            f"its contents do not fit together: {error}",
            where=where,
            expected=getattr(error, "expected", None),
            found=getattr(error, "found", None),
            parameter=getattr(error, "parameter", None),
        ) from error


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


# Entries of the training record that commands show, and by which they read further corpora.
_RECORD: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(
        ("sentences", "tokens", "iterations", "best_iteration"), ("a count", _is_count)
    ),
    **dict.fromkeys(("parameters", "sequences", "steps"), ("a count", _is_count)),
    **dict.fromkeys(("loss", "dev", "seconds"), ("a number", _is_number)),
    **dict.fromkeys(("digest", "stopped", "format", "sep", "tool"), ("a str", _is_text)),
    **dict.fromkeys(
        ("label", "token", "sentence"), ("a str or int", lambda x: _is_text(x) or type(x) is int)
    ),
    "columns": ("a list of str", _are_texts),
    "label_names": ("a list of str", lambda x: _is_text(x) or _are_texts(x)),
    "histories": (
        "lists of numbers",
        lambda x: (
            isinstance(x, list)
            and all(isinstance(run, list) and all(map(_is_number, run)) for run in x)
        ),
    ),
}


def _check_record(record: Any, where: str) -> None:
    """Raise if the training record of a file has an entry of another type."""
    if not isinstance(record, dict):
        raise ModelFileError(
            where=where, expected="a training record", found=checks.show_type(record)
        )
    for name, (expected, is_right) in _RECORD.items():
        value = record.get(name)
        if value is not None and not is_right(value):
            raise ModelFileError(
                where=f"{where}, training record, {name}",
                expected=expected,
                found=checks.show(value),
            )


def _to_bytes(file: File) -> bytes:
    return storage.to_bytes(file.header, file.arrays, checked=file.verified)


def _unpickle(cls: type[Model], data: bytes, function: Any) -> Model:
    model: Model = _restore(
        File(*storage.read_bytes(data, verify=False)), function, "a pickled model", cls
    )
    return model


def _name_of(path: Any) -> str:
    """Return the name of a file for errors."""
    if isinstance(path, str | os.PathLike):
        return str(os.fspath(path))
    return str(getattr(path, "name", "<bytes>"))


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | list)
