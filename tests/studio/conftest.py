import contextlib

import pytest

from studio_clients import Client
from tagloom.studio.app import COOKIE, make_app
from tagloom.studio.sessions import Session
from tagloom.web import Access, background


@contextlib.contextmanager
def opened(*arguments, **options):
    """Serve a studio from a thread; yield its session and a client."""
    session = Session(*arguments, **options)
    access = Access(cookie=COOKIE)
    try:
        with background(make_app(session, access)) as base:
            client = Client(f"{base}/?token={access.token}")
            session.trainer.wait()
            yield session, client
    finally:
        session.close()


@pytest.fixture(scope="session")
def open_studio():
    return opened


@pytest.fixture(scope="module")
def practice():
    """A studio of the included corpus."""
    with opened() as studio:
        yield studio
