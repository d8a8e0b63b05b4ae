"""Capabilities that a model declares. Commands and pages check these, never the type of a model."""

from __future__ import annotations

from enum import StrEnum


class Capability(StrEnum):
    """A capability that some models have.

    Examples
    --------
    >>> import tagloom as tl
    >>> from tagloom.models import Capability
    >>> Capability.FEATURES in tl.CRF.capabilities, Capability.FEATURES in tl.HMM.capabilities
    (True, False)
    >>> tl.StructuredSVM(algorithm="frank-wolfe").can(Capability.OPEN_LABELS)
    False
    """

    #: Learns step by step: ``fit`` takes ``dev``, ``callback``, ``progress`` and ``checkpoint``.
    ITERATIONS = "learns iteratively"
    #: Has a parameter ``features``: presets, templates, functions.
    FEATURES = "takes features"
    #: Training labels may be None, unknown, or sets, one of several.
    OPEN_LABELS = "takes open labels"
    #: Is trained to give probabilities; those of other models need `calibrate`.
    PROBABILITIES = "gives probabilities"
    #: Sequences may be arrays of numbers.
    NUMBERS = "takes numbers"
    #: Lists the learned weights of each label: ``feature_weights``.
    WEIGHTS = "lists weights"
    #: Predicts dependency trees: sentences have columns ``head`` and ``deprel``.
    TREES = "predicts trees"
    #: Labels the arguments of predicates: sentences have trees and frames.
    ROLES = "labels roles"
