"""Models as scikit-learn estimators, without importing scikit-learn.

Parameters are the constructor's arguments. `clone`, searches, pipelines and metadata routing use
the methods below, and only those import scikit-learn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from tagloom.errors import ParameterError
from tagloom.models.capabilities import Capability
from tagloom.parameters import Parameterised, attribute

#: Whether metadata is passed on: True, False, None (an error if it is given), or another name.
Request = bool | str | None

_METHODS = ("fit", "partial_fit", "predict", "score")


class Estimator(Parameterised):
    """Base of models: parameters, capabilities, and the interface of scikit-learn."""

    #: The capabilities of the class; `can` takes the parameters of a model into account.
    capabilities: ClassVar[frozenset[Capability]] = frozenset()

    # method -> metadata -> request
    _requests: Mapping[str, Mapping[str, Request]] = attribute(default={}, init=False)

    @property
    def is_fitted(self) -> bool:
        """Whether the model is fitted: it has a state, or attributes whose names end in ``_``."""
        return "_fitted" in self.__dict__ or any(
            name[-1] == "_" and name[0] != "_" for name in self.__dict__
        )

    def can(self, capability: Capability) -> bool:
        """Whether the model has a capability, given its parameters."""
        return capability in self.capabilities

    # ---- for scikit-learn ------------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import (  # type: ignore[import-untyped]
            InputTags,
            Tags,
            TargetTags,
        )

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True),
            input_tags=InputTags(two_d_array=False, string=not self.can(Capability.NUMBERS)),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return self.is_fitted

    def __sklearn_clone__(self) -> Self:
        import copy  # here, for a quick start

        new = type(self)(**copy.deepcopy(self.get_params()))
        if self._requests:
            new._requests = copy.deepcopy(self._requests)
        return new

    def get_metadata_routing(self) -> Any:
        """Return the requests of metadata as an object of scikit-learn."""
        from sklearn.utils.metadata_routing import (  # type: ignore[import-untyped]
            MetadataRequest,
        )

        routing = MetadataRequest(owner=type(self).__name__)
        for method in _METHODS:
            requests = self._requests.get(method, {})
            for name in self._metadata(method):
                getattr(routing, method).add_request(param=name, alias=requests.get(name))
        return routing

    # ---- metadata --------------------------------------------------------------------------

    def set_fit_request(self, **requests: Request) -> Self:
        """Set which metadata scikit-learn passes to `fit` when its metadata routing is enabled.

        Parameters
        ----------
        **requests : bool, str or None
            For each parameter of `fit` except X and y: True passes it on; False does not; None
            raises an error if it is given; a str passes on the metadata of that name.

        Returns
        -------
        self

        Raises
        ------
        ParameterError
            If `fit` has no such parameter.

        Examples
        --------
        >>> import tagloom as tl
        >>> tl.MostFrequentTag().set_fit_request(sample_weight=True)
        MostFrequentTag()
        >>> tl.MostFrequentTag().set_fit_request(weight=True)
        Traceback (most recent call last):
        ...
        tagloom.errors.ParameterError: MostFrequentTag.fit: expected one of sample_weight, found \
'weight'.
        """
        return self._request("fit", requests)

    def set_partial_fit_request(self, **requests: Request) -> Self:
        """Set which metadata scikit-learn passes to ``partial_fit``; see `set_fit_request`."""
        return self._request("partial_fit", requests)

    def set_predict_request(self, **requests: Request) -> Self:
        """Set which metadata scikit-learn passes to `predict`; see `set_fit_request`."""
        return self._request("predict", requests)

    def set_score_request(self, **requests: Request) -> Self:
        """Set which metadata scikit-learn passes to `score`; see `set_fit_request`."""
        return self._request("score", requests)

    def _request(self, method: str, requests: dict[str, Request]) -> Self:
        names = self._metadata(method)
        for name in requests:
            if name not in names:
                raise ParameterError(
                    where=f"{type(self).__name__}.{method}",
                    expected=f"one of {', '.join(names)}" if names else "no metadata",
                    found=repr(name),
                )
        merged = {**self._requests.get(method, {}), **requests}
        self._requests = {**self._requests, method: merged}
        return self

    @classmethod
    def _metadata(cls, method: str) -> list[str]:
        """The parameters of a method except X and y."""
        import inspect  # here, for a quick start

        function = getattr(cls, method, None)
        parameters = {} if function is None else inspect.signature(function).parameters
        return [name for name in parameters if name not in ("self", "X", "y")]
