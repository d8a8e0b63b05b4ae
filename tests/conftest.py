"""Settings for all tests: random cases are the same on every run and machine."""

from hypothesis import HealthCheck, settings

# A failure must come back when it is run again, so the cases are derived from the test's name. A
# deadline would fail on a busy machine for no fault of the code.
settings.register_profile(
    "tagloom",
    derandomize=True,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
# Before a release, or after a change to a kernel: pytest --hypothesis-profile=thorough
settings.register_profile(
    "thorough", settings.get_profile("tagloom"), derandomize=False, max_examples=2000
)
settings.load_profile("tagloom")
