"""Settings for all tests: random cases are the same on every run and machine."""

import importlib.util
import os
import sys

from hypothesis import HealthCheck, settings

# Failures must be reproducible, so the cases are derived from the test's name. A deadline would
# fail on a busy machine.
settings.register_profile(
    "tagloom",
    derandomize=True,
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
# Before a release, or after a change to a kernel: pytest --hypothesis-profile=thorough
settings.register_profile(
    "thorough", settings.get_profile("tagloom"), derandomize=False, max_examples=2000
)
settings.load_profile("tagloom")

# `make sanitize` sets the path of another build of the native module, to replace the installed one.
if path := os.environ.get("TAGLOOM_NATIVE"):
    spec = importlib.util.spec_from_file_location("tagloom._native", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["tagloom._native"] = module
    spec.loader.exec_module(module)


def pytest_collection_modifyitems(config, items):
    """Leave out tests marked soak, some of which take an hour, unless they are asked for."""
    if "soak" in config.option.markexpr or any("::" in path for path in config.args):
        return
    soaks = [item for item in items if item.get_closest_marker("soak")]
    if soaks:
        config.hook.pytest_deselected(items=soaks)
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
