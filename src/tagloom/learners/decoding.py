"""Gibbs decoding: the labels of a fitted tagger, drawn one at a time given the others."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import ParameterError
from tagloom.trellis import Trellis
from tagloom.trellis.single_site import RandomState, sample_single_sites


class GibbsDecoding(NamedTuple):
    """Labels and estimated probabilities of labels, one entry per sentence."""

    labels: list[list[str]]
    marginals: list[npt.NDArray[np.float64]]  #: [T_i, Y] each, columns in the order of ``labels_``


def gibbs_decode(
    tagger: Any,
    X: Any,
    *,
    sweeps: int = 500,
    burn_in: int = 50,
    annealed: bool = False,
    known: Any = None,
    random_state: RandomState = None,
) -> GibbsDecoding:
    r"""Label sentences by single-site Gibbs sampling from a fitted tagger.

    Each label is drawn in turn given all others, Pr(y_t | y_{-t}, x), and the most frequent one
    wins. `Tagger.predict_marginals` computes exactly what this estimates.

    Parameters
    ----------
    tagger : Tagger
        Any fitted tagger whose labels form a chain.
    X : sequence of sentences
    sweeps : int, default 500
        Number of sweeps that are counted; each draws every label once.
    burn_in : int, default 50
        Number of sweeps before.
    annealed : bool, default False
        Whether the temperature falls from 1 to 0, to approach the best labelling (Finkel,
        Grenager and Manning 2005).
    known : sequence, optional
        Known labels, as for `Tagger.predict`.
    random_state : int, Generator or None

    Returns
    -------
    GibbsDecoding

    Raises
    ------
    ParameterError
        If the labels of the tagger do not form a chain.

    Examples
    --------
    >>> import tagloom as tl
    >>> train, test = tl.datasets.load("english", label="upos")[::2]
    >>> tagger = tl.HMM().fit(train)
    >>> sampled = tl.learners.gibbs_decode(tagger, test[:2], sweeps=1000, random_state=0)
    >>> exact = tagger.predict_marginals(test[:2])
    >>> bool(abs(sampled.marginals[0] - exact[0]).max() < 0.1)
    True
    """
    trellis = tagger.trellis(X, known=known)
    if not isinstance(trellis, Trellis):
        raise ParameterError(
            parameter="tagger",
            expected="a tagger whose labels form a chain",
            found=checks.show_type(trellis),
        )
    options = {"sweeps": sweeps, "burn_in": burn_in, "annealed": annealed}
    sampled = sample_single_sites(trellis, **options, random_state=random_state)  # type: ignore[arg-type]
    names = np.array([str(label) for label in tagger.labels_], dtype=object)
    labels = [row.tolist() for row in trellis.split(names[sampled.path])]
    return GibbsDecoding(labels, trellis.split(sampled.marginals))
