"""`manage.py web`, as a real process behind a proxy that does TLS."""

import http.client
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import psutil
import pytest

from tests.commands import command
from tests.documents import ROOT
from tests.engines.peers import free_port
from tests.waiting import PATIENCE

HOST = "backup.example.org"
TLS = {"BACKUPSCHED_TLS": "1", "ALLOWED_HOSTS": HOST, "DATABASE_URL": "postgresql://127.0.0.1:1/none"}
FORWARDED = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.9"}
FORM = (
    b"POST /admin/login/ HTTP/1.1\r\nHost: localhost\r\nCookie: csrftoken=abcdefghijklmnopqrstuvwxyzabcdef\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\nx"
)


@pytest.fixture(scope="module")
def web() -> Iterator[int]:
    """Its port."""
    port = free_port("127.0.0.1")
    command = [sys.executable, "manage.py", "web", "--listen", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, cwd=ROOT, env=os.environ | TLS, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == f"http://127.0.0.1:{port}/\n"
            yield port
            process.terminate()
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


def test_without_threads_it_would_take_requests_and_answer_none_and_a_port_above_the_last_one_is_another() -> None:
    _, refused = command("web")
    for threads in (0, -1):
        assert "--threads: at least 1" in refused("--listen", "127.0.0.1:0", f"--threads={threads}")
    # to the system that is 7: the number modulo 65,536
    assert refused("--listen=127.0.0.1:65543") == "cannot listen on 127.0.0.1:65543: a port is at most 65535"


def ask(port: int, path: str, **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", path, headers={"Host": HOST, "Connection": "close", **headers})
    answer = connection.getresponse()
    answer.read()
    return answer


@pytest.mark.slow
def test_a_process_answers_what_came_by_tls_beside_connections_that_never_finish_their_request(web):
    with ExitStack() as held:
        for number in range(60):
            slow = held.enter_context(socket.create_connection(("127.0.0.1", web), PATIENCE))
            slow.sendall(FORM if number % 2 else FORM[:40])
        plain = ask(web, "/admin/login/")
    assert (plain.status, plain.headers["Location"]) == (301, f"https://{HOST}/admin/login/")
    answer = ask(web, "/admin/login/?" + "x" * 20_000, **FORWARDED)
    assert answer.status == 200
    assert "max-age=31536000" in answer.headers["Strict-Transport-Security"]
    assert "Secure" in answer.headers["Set-Cookie"]
    assert ask(web, "/?" + "x" * 300_000, **FORWARDED).status == 431, "beyond the server's bound"


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/admin/login/", "/api/me", "/static/admin/css/base.css", "/healthz"])
def test_a_head_is_answered_as_a_get_without_a_body_and_the_next_answer_is_read_as_such(web: int, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", web, timeout=PATIENCE)
    answers = {}
    for method in ("HEAD", "GET"):
        connection.request(method, path, headers={"Host": HOST, **FORWARDED})
        answer = connection.getresponse()
        answers[method] = (answer.status, answer.headers["Content-Type"], answer.headers["Content-Length"])
        assert bool(answer.read()) is (method == "GET")
    assert answers["HEAD"] == answers["GET"]
    connection.close()


def test_check_deploy_has_nothing_to_say_with_tls():
    command = [sys.executable, "manage.py", "check", "--deploy", "--tag", "security", "--fail-level", "WARNING"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | TLS, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (0, "System check identified no issues (2 silenced).\n"), done.stderr


@pytest.mark.slow
def test_who_listens_on_a_port_that_is_taken_is_named_with_a_way_to_another():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [sys.executable, "manage.py", "web", "--listen", place]
        done = subprocess.run(command, cwd=ROOT, env=os.environ | TLS, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2
    listener = f"{psutil.Process().name()} (process {os.getpid()})"
    assert done.stderr.startswith(f"Error: cannot listen on {place}: {listener} listens there. End it, or name another")
    assert re.search(r"`manage.py web (--listen 127\.0\.0\.1:\d+)`, `manage.py run \1`\n$", done.stderr)
