"""The parameters of `LinearGaussian`, and the parts of the model that follow from them.

A part is given to the constructor or learnt by `fit`; here it is found, whichever it is. What is
computed with the parts is in `queries`, `forecasts` and `learning`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.dynamics.parameters import (
    SHAPES,
    Floats,
    Parameters,
    check_diffuse,
    check_part,
)
from tagloom.dynamics.priors import Prior
from tagloom.dynamics.series import Series, add_varying, read_series
from tagloom.errors import NotFittedError, ParameterError
from tagloom.models.capabilities import Capability
from tagloom.models.iterative import IterativeModel
from tagloom.parameters import attribute, count, number, parameter

if TYPE_CHECKING:
    from tagloom.training import Record

#: Several sequences, as type checkers tell them from one.
Sequences = list[npt.NDArray[Any]]
#: Parts of the model with an entry for each step, by name.
Varying = Mapping[str, Any] | None

#: The parts that every model has.
NEEDED = ("transition", "transition_covariance", "observation", "observation_covariance")
# How exactly a covariance must have settled to be taken as steady.
_STEADY = 1e-12


@dataclass(frozen=True, eq=False)
class State:
    """What a fit has learnt."""

    parameters: Parameters
    varying: frozenset[str] = frozenset()  # parts that must be passed with every series
    training: dict[str, Any] = field(default_factory=dict)
    history: list[Record] = field(default_factory=list)


class _Part:
    """A part of the model as an attribute: ``transition_`` reads ``parameters_.transition``."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name.removesuffix("_")

    @overload
    def __get__(self, model: None, owner: type) -> Self: ...
    @overload
    def __get__(self, model: Parts, owner: type) -> Floats: ...
    def __get__(self, model: Parts | None, owner: type) -> Self | Floats:
        if model is None:
            return self
        array: Floats = getattr(model.parameters_, self._name)
        return array


class Parts(IterativeModel[Series, Parameters]):
    """Base of `LinearGaussian`: its parameters, and its parts as attributes."""

    transition_ = _Part()
    transition_covariance_ = _Part()
    transition_offset_ = _Part()
    transition_input_ = _Part()
    observation_ = _Part()
    observation_covariance_ = _Part()
    observation_offset_ = _Part()
    observation_input_ = _Part()
    initial_mean_ = _Part()
    initial_covariance_ = _Part()

    _not_in_identity = IterativeModel._not_in_identity | frozenset(SHAPES)

    capabilities = frozenset({Capability.ITERATIONS, Capability.NUMBERS})

    n_states: int | None = count(
        default=None,
        least=1,
        kw_only=False,
        help="Number of states, n; may be left out if a part that has it is given.",
    )
    transition: Any = parameter(
        default=None, type="array_like, shape (n, n)", help="A, from a state to the next."
    )
    transition_covariance: Any = parameter(
        default=None, type="array_like, shape (n, n)", help="Q, the noise of the states."
    )
    transition_offset: Any = parameter(
        default=None,
        type="array_like, shape (n,)",
        help="b; by default 0, and not learnt, since d sets the level of the observations.",
    )
    transition_input: Any = parameter(
        default=None,
        type="array_like, shape (n, k)",
        help="B, what inputs add to the states.",
    )
    observation: Any = parameter(
        default=None, type="array_like, shape (m, n)", help="C, from a state to its observation."
    )
    observation_covariance: Any = parameter(
        default=None, type="array_like, shape (m, m)", help="R, the noise of the observations."
    )
    observation_offset: Any = parameter(
        default=None, type="array_like, shape (m,)", help="d, the level of the observations."
    )
    observation_input: Any = parameter(
        default=None,
        type="array_like, shape (m, k)",
        help="D, what inputs add to the observations.",
    )
    initial_mean: Any = parameter(
        default=None,
        type="array_like, shape (n,)",
        help="Mean of the state at the first step, before its observation.",
    )
    initial_covariance: Any = parameter(
        default=None, type="array_like, shape (n, n)", help="Its covariance."
    )
    diffuse: Any = parameter(
        default=False,
        type="bool or array_like of bool, shape (n,)",
        help="States of which nothing is known at first.",
        details="Their variance is infinite, exactly; it becomes finite with the observations that "
        "determine them.",
    )
    fixed: Collection[str] | Mapping[str, Any] = parameter(
        default=(),
        type="collection of str, or mapping of str to True or a mask",
        help="Names of parts that `fit` leaves as they are given.",
        details="With a mapping, a mask of the shape of a part is True for the entries that are "
        "fixed. Fixed entries of a covariance must leave whole blocks free, such as its diagonal.",
    )
    prior: Mapping[str, Prior] | None = parameter(
        default=None,
        type="mapping of str to Normal or InverseWishart",
        help="Priors on parts; the objective of EM includes them.",
    )
    restarts: int = count(
        default=1,
        least=1,
        help="Number of starts of EM, of which the best is kept.",
        details="The first is guessed from the data, the others are random.",
    )
    max_iterations: int | None = count(
        help="Largest number of EM iterations, by default 100.",
    )
    patience = None
    tolerance: float = number(
        default=1e-6,
        least=0,
        help="EM has converged when the objective rises by less than this per observed number.",
    )
    steady_state: bool | float = parameter(
        default=True,
        type="bool or float",
        help="Whether to stop updating covariances once they have settled, which they do when "
        "nothing is missing and no matrix varies.",
        details="True means that all later changes together are estimated to be below 1e-12 "
        "standard deviations; a number is another bound; False never stops.",
    )
    random_state: int = count(
        default=0,
        help="Seed of random starts, and of `sample` and `generate` unless they are given one.",
    )
    n_threads: int | None = count(
        default=None,
        least=1,
        help="Number of threads for lists of sequences; by default all cores.",
        details="Results do not depend on it.",
        check=checks.threads,
    )

    _fitted: State = attribute(init=False)
    _made: tuple[list[Any], Parameters] = attribute(init=False)  # the parts as given

    # ---- the parts -------------------------------------------------------------------------

    @property
    def is_fitted(self) -> bool:
        """Whether the model can be used: it was fitted, or all its parts are given."""
        return "_fitted" in self.__dict__ or self._is_given()

    @property
    def parameters_(self) -> Parameters:
        """All parts: those that were learnt, or those given to the constructor."""
        if "_fitted" in self.__dict__:
            return self._fitted.parameters
        if not self._is_given():
            missing = [name for name in NEEDED if getattr(self, name) is None]
            if not missing:
                missing = ["initial_covariance, or diffuse=True"]
            raise NotFittedError(
                f"This LinearGaussian has no {missing[0]} yet.",
                hint=f"Call fit(), or pass {', '.join(missing)} to the constructor.",
            )
        return self._given_parameters()

    def _is_given(self) -> bool:
        has_start = self.initial_covariance is not None or bool(np.all(self.diffuse))
        return has_start and all(getattr(self, name) is not None for name in NEEDED)

    def _n_states(self) -> int:
        """The number of states, given or read off a part."""
        if self.n_states is not None:
            return checks.count(self.n_states, "n_states", least=1)
        for name, shape in SHAPES.items():
            value = getattr(self, name)
            if value is not None and shape[-1] == "n":
                size = np.asarray(value).shape
                if len(size) >= len(shape) and size[-1]:
                    return int(size[-1])
        raise ParameterError(
            parameter="n_states", expected="an integer of at least 1", found=checks.show(None)
        )

    def _given(self, sizes: Mapping[str, int | None]) -> dict[str, Floats]:
        return {
            name: check_part(name, getattr(self, name), sizes)
            for name in SHAPES
            if getattr(self, name) is not None
        }

    def _given_parameters(self) -> Parameters:
        """The model as given; made again only if a part has changed."""
        values = [getattr(self, name) for name in (*SHAPES, "diffuse", "n_states")]
        if "_made" in self.__dict__ and all(map(_is_same, self._made[0], values)):
            return self._made[1]
        n = self._n_states()
        observation = check_part("observation", self.observation, {"n": n, "m": None, "k": None})
        m, k = observation.shape[-2], 0
        for name in ("transition_input", "observation_input"):
            if getattr(self, name) is not None:
                array = np.asarray(getattr(self, name))
                k = array.shape[-1] if array.ndim else 0
        sizes = {"n": n, "m": m, "k": k}
        parts = {
            name: np.zeros([sizes[letter] for letter in shape]) for name, shape in SHAPES.items()
        }
        parts |= self._given(sizes)
        made = Parameters(**parts, diffuse=check_diffuse(self.diffuse, n))
        copies = [None if value is None else np.array(value) for value in values]
        self._made = (copies, made)
        return made

    def _steady(self) -> float:
        if self.steady_state is True or self.steady_state is False:
            return _STEADY if self.steady_state else 0.0
        return checks.number(self.steady_state, "steady_state", least=0)

    def _check_parameters(self) -> None:
        from tagloom.dynamics.plans import read_fixed  # here, for a quick start

        super()._check_parameters()
        self._n_states()
        self._steady()
        read_fixed(self.fixed)

    # ---- what users pass -------------------------------------------------------------------

    def _series(
        self,
        Y: Any,
        inputs: Any,
        varying: Varying,
        *,
        first_step: int = 0,
        extra_steps: int = 0,
    ) -> Series:
        parameters = self.parameters_
        sizes = parameters.sizes
        series = read_series(Y, inputs, sizes=sizes, extra_steps=extra_steps)
        series = add_varying(series, varying, parameters.arrays(), sizes, first_step)
        for name in sorted(self._needed() - set(series.varying)):
            raise ParameterError(
                parameter="varying",
                expected=f"an entry {name!r}, which varied when the model was fitted",
                found=checks.show(sorted(series.varying)),
            )
        return series

    def _needed(self) -> frozenset[str]:
        """Return the parts that must be passed with every series."""
        return self._fitted.varying if "_fitted" in self.__dict__ else frozenset()

    def _varies(self) -> bool:
        return bool(self._needed()) or any(map(self.parameters_.is_varying, SHAPES))

    def _threads(self) -> int:
        return checks.threads(self.n_threads)

    def _rng(self, random_state: int | None) -> np.random.Generator:
        seed = self.random_state if random_state is None else random_state
        return np.random.default_rng(checks.count(seed, "random_state"))


def _is_same(known: Any, value: Any) -> bool:
    """Whether a part is what it was when it was copied, as an array or None."""
    return known is value if known is None or value is None else np.array_equal(known, value)
