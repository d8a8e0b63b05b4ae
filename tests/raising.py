"""Assert on the fields of an error, which are its interface; the wording is pinned elsewhere."""

from contextlib import contextmanager

import pytest


@contextmanager
def raises(kind, **fields):
    """Expect an error whose fields contain these texts, or equal None where None is given."""
    with pytest.raises(kind) as caught:
        yield caught
    for name, text in fields.items():
        value = getattr(caught.value, name)
        if text is None:
            assert value is None, (name, value)
        else:
            assert value is not None, f"{name} is not set: {caught.value}"
            assert text in value, (name, value)
