"""Constraints on the arguments of a predicate, by the names of their roles.

Roles are named as in PropBank: core roles ARG0 to ARG5 (or A0 to A5), adjuncts such as ARGM-TMP,
references such as R-ARG0 and continuations such as C-ARG1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from tagloom.trellis import AtMostOnce, OnlyAfter, OnlyIf, SpanConstraint

#: Names of constraints that follow from the names of roles.
ROLE_CONSTRAINTS = ("core", "references", "continuations")
_CORE = re.compile(r"(ARG|A)[0-9A]")


def is_core(role: str) -> bool:
    """Whether a role is numbered, or a reference or continuation of a numbered one.

    Examples
    --------
    >>> from tagloom.labels.roles import is_core
    >>> is_core("ARG0"), is_core("R-ARG1"), is_core("ARGM-TMP")
    (True, True, False)
    """
    return _CORE.fullmatch(role.removeprefix("R-").removeprefix("C-")) is not None


def role_constraints(
    roles: Iterable[str], names: Sequence[str] = ROLE_CONSTRAINTS
) -> list[SpanConstraint]:
    """Return the constraints on the roles of a frame.

    - ``core``: each numbered role at most once;
    - ``references``: R-X only if there is an X;
    - ``continuations``: C-X only after X.

    Parameters
    ----------
    roles : iterable of str
        All roles; a reference or continuation of another one, such as C-V, is free.
    names : sequence of str

    Examples
    --------
    >>> from tagloom.labels.roles import role_constraints
    >>> role_constraints(["ARG0", "R-ARG0", "ARGM-TMP", "C-V"])
    [AtMostOnce(label='ARG0'), OnlyIf(label='R-ARG0', other='ARG0')]
    """
    known = sorted(set(roles))
    constraints: list[SpanConstraint] = []
    if "core" in names:
        constraints += [AtMostOnce(role) for role in known if _CORE.fullmatch(role)]
    for name, prefix, kind in (("references", "R-", OnlyIf), ("continuations", "C-", OnlyAfter)):
        if name in names:
            constraints += [
                kind(role, role[2:])
                for role in known
                if role.startswith(prefix) and role[2:] in known
            ]
    return constraints


def is_legal_frame(
    arguments: Iterable[tuple[int, int, str]], constraints: Iterable[SpanConstraint]
) -> bool:
    """Whether arguments do not overlap and satisfy constraints.

    Examples
    --------
    >>> from tagloom.labels.roles import is_legal_frame, role_constraints
    >>> rules = role_constraints(["ARG0"])
    >>> is_legal_frame([(0, 1, "ARG0"), (2, 4, "ARG0")], rules)
    False
    >>> is_legal_frame([(0, 3, "ARG0"), (2, 4, "ARG1")], rules)
    False
    """
    ordered = sorted(arguments)
    if any(a[1] > b[0] for a, b in pairwise(ordered)):
        return False
    labels = [role for _, _, role in ordered]
    return all(one.accepts(labels) for one in constraints)
