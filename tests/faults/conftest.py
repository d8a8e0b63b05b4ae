"""The inputs of the jobs, made once."""

import pytest

from faults.jobs import prepare


@pytest.fixture(scope="session")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    prepare(folder)
    return folder
