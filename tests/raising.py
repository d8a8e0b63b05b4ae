"""Assert on the fields of errors and warnings, which are their interface.

The wording is pinned in test_messages.py.
"""

from contextlib import contextmanager

import pytest


@contextmanager
def raises(kind, **fields):
    """Expect an error whose fields contain these texts, or equal None where None is given."""
    with pytest.raises(kind) as caught:
        yield caught
    check_fields(caught.value, fields)


@contextmanager
def warns(kind, **fields):
    """Expect warnings, the first of which has fields as `raises` checks them."""
    with pytest.warns(kind) as caught:
        yield caught
    check_fields(caught[0].message, fields)


def check_fields(error, fields):
    """Assert that fields of an error contain texts, or are None where None is given."""
    for name, text in fields.items():
        value = getattr(error, name)
        if text is None:
            assert value is None, (name, value)
        else:
            assert value is not None, f"{name} is not set: {error}"
            assert text in value, (name, value)
