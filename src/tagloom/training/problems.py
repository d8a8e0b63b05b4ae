"""The native objective of linear models under its public name, with the structs that it takes."""

from tagloom._native import Attributes, Labels, Problem

__all__ = ["Attributes", "Labels", "Problem"]
