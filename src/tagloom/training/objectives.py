"""The native objective of linear models under its public name, with the structs that it takes."""

from tagloom._native import Attributes, Labels, LinearObjective
from tagloom.renames import renamed_function

__all__ = ["Attributes", "Labels", "LinearObjective", "Problem"]

Problem = renamed_function("training.Problem", LinearObjective)
