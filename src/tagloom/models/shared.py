"""Parameters that several models have, declared once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tagloom import _native, checks
from tagloom.models import constraints as constraints_
from tagloom.parameters import Parameterised, choice, count, names, number, path
from tagloom.schemes import SCHEMES

if TYPE_CHECKING:
    from tagloom.training import LBFGS


class LabelParameters(Parameterised):
    """Parameters of a tagger: its labels, and the threads that it may use."""

    labels: Sequence[str] | None = names(
        default=None,
        check=checks.label_names,
        help="The labels in their order; by default those of the training data, sorted.",
    )
    n_threads: int | None = count(
        default=None,
        check=checks.threads,
        help="Number of threads, all cores by default; results do not depend on it.",
    )


class ClusterParameters(Parameterised):
    """Parameters of a model that can learn from files on several processes or machines."""

    n_workers: int | None = count(
        default=None,
        least=1,
        help="Number of processes that learn from files; results do not depend on it.",
        details="For `tagloom.files`. By default this process alone; with ``cluster`` all of its "
        "CPUs.",
    )
    cluster: str | None = path(
        default=None,
        type="str",
        metavar="ADDRESS",
        check=checks.cluster,
        help='Ray cluster that learns from files: "auto", or an address as ray://head:10001.',
        details="Requires ``tagloom[ray]``, and the files under the same names on all nodes.",
    )
    max_memory: str | int | None = path(
        default=None,
        type="str or int",
        metavar="SIZE",
        check=checks.size,
        help="Memory for the sentences of files, such as 2G; the rest stays on disk.",
        details="By default all of them are kept in memory.",
    )


class BatchParameters(Parameterised):
    """Parameters of L-BFGS, for taggers that can learn from all sentences at once."""

    tolerance: float = number(
        default=1e-5,
        least=0,
        help="When lbfgs has converged: its relative gradient or progress is below this.",
        details="That is, ‖gradient‖ ≤ tolerance·max(1, ‖θ‖), or the objective fell by less than "
        "this part over 10 iterations.",
    )
    memory: int = count(
        default=6, least=1, help="Number of vector pairs with which lbfgs models the curvature."
    )
    dtype: str = choice(
        default="float32",
        choices=("float32", "float64"),
        help="Type of scores and probabilities in training; their sums are always float64.",
        details='With "float64", lbfgs over files has the same losses as over a corpus in memory, '
        "but for the last digits; it takes about a fifth longer. Predictions use float32 in any "
        "case.",
    )

    @property
    def _learns_in_float32(self) -> bool:
        return self.dtype == "float32"

    def make_lbfgs(
        self,
        objective: Any,
        theta: Any,
        *,
        l2: float,
        l1: float = 0.0,
        n_threads: int | None = None,
    ) -> LBFGS:
        """Make the optimiser with these parameters.

        Parameters
        ----------
        objective : LinearObjective or RemoteObjective
        theta : ndarray or None
            The weights to start from; None for 0.
        l2, l1 : float
            Penalties.
        n_threads : int, optional
        """
        from tagloom.training import LBFGS

        if theta is None and l1 == 0 and isinstance(objective, _native.LinearObjective):
            objective = _native.BundledObjective(objective)
        return LBFGS(
            objective,
            l1=l1,
            l2=l2,
            memory=self.memory,
            epsilon=self.tolerance,
            delta=self.tolerance,
            n_threads=n_threads,
            theta=theta,
        )


class ConstraintParameters(Parameterised):
    """Parameters of a tagger whose predictions can be constrained."""

    constraints: Any = choice(
        default="auto",
        choices=("auto", None, *SCHEMES),
        type="other",
        check=constraints_.check,
        help="The scheme whose illegal transitions are never predicted.",
        details='"auto" finds it in the training labels, if all of them are legal. A '
        "`TagDictionary`, a `StateSpace`, or a list of such, is also possible.",
    )
