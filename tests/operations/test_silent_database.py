"""A database server that takes questions and answers none: its line looks sound, and holds no page for ever."""

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from declarations.surfaces import patience
from declarations.surfaces.web import error_pages

pytestmark = pytest.mark.django_db(transaction=True)


class Relay:
    """A port before the test's database. `is_silent`: what comes is taken, and nothing is handed on, either way; who
    comes anew is refused."""

    def __init__(self, host: str, port: int) -> None:
        self.is_silent = threading.Event()
        self._listener, self._opened = socket.create_server(("127.0.0.1", 0)), list[socket.socket]()
        self.port = self._listener.getsockname()[1]
        self._target: Any = f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port)
        threading.Thread(target=self._accept, daemon=True).start()

    def be_silent(self) -> None:
        self.is_silent.set()
        self._listener.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for each in (self._listener, *self._opened):
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                here = self._listener.accept()[0]
            except OSError:
                return
            there = socket.socket(socket.AF_UNIX if isinstance(self._target, str) else socket.AF_INET)
            there.connect(self._target)
            self._opened += [here, there]
            for ends in ((here, there), (there, here)):
                threading.Thread(target=self._hand_on, args=ends, daemon=True).start()

    def _hand_on(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while said := source.recv(65_536):
                if not self.is_silent.is_set():
                    target.sendall(said)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return


@pytest.fixture
def relay(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Relay]:
    """This thread's connection goes through it."""
    usual = connection.settings_dict
    made = Relay(usual["HOST"] or "127.0.0.1", int(usual["PORT"] or 5432))
    connection.close()
    monkeypatch.setitem(usual, "HOST", "127.0.0.1")
    monkeypatch.setitem(usual, "PORT", str(made.port))
    yield made
    connection.close()
    made.close()


def hurry(patch: pytest.MonkeyPatch) -> None:
    """Let a page wait for a second at the most: a busy machine answers what comes before the silence in that time."""
    patch.setattr(patience, "SIGN_OF_LIFE_SECONDS", 0.2)
    patch.setattr(patience, "ON_ITS_WAY_SECONDS", 0.2)
    patch.setattr(error_pages, "PAGE_SECONDS", 0.8)


def before_the_first_question(relay: Relay) -> None:
    connection.close_if_unusable_or_obsolete()  # as before each request
    relay.be_silent()


def in_the_middle(relay: Relay) -> None:
    def execute(then: Callable[..., Any], sql: str, *statement: Any) -> Any:
        if "sources_source" in sql:
            relay.be_silent()
        return then(sql, *statement)

    connection.execute_wrappers.append(execute)


@pytest.mark.parametrize("silenced", [before_the_first_question, in_the_middle])
def test_a_page_is_given_up_and_the_next_one_is_answered(
    silenced: Callable[[Relay], None], admin_client: Client, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert admin_client.get("/").status_code == 200
    hurry(monkeypatch)
    silenced(relay)
    answer = admin_client.get("/")
    assert (answer.status_code, answer["Retry-After"]) == (503, "10")
    assert "<h1>The database does not answer</h1>" in answer.content.decode()
    connection.execute_wrappers.clear()
    monkeypatch.undo()  # and without the relay
    assert admin_client.get("/").status_code == 200


def test_what_has_no_bound_of_its_own_has_that_of_its_process(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        monkeypatch.setattr(patience.BoundedConnection, "usual_seconds", 0.2)
        relay.be_silent()
        with pytest.raises(Exception, match=r"the server has not answered for 0\.2 s"):
            cursor.execute("SELECT 1")
    assert connection.connection.closed
