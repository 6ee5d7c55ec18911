"""`manage.py web`, as a real process."""

import http.client
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SLOW = 60
FORM = (
    b"POST /admin/login/ HTTP/1.1\r\nHost: localhost\r\nCookie: csrftoken=abcdefghijklmnopqrstuvwxyzabcdef\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\nx"
)


def served(**variables: str) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    command = [sys.executable, "manage.py", "web", "--listen", f"127.0.0.1:{port}"]
    environment = {**os.environ, "DATABASE_URL": "postgresql://127.0.0.1:1/none", **variables}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == f"http://127.0.0.1:{port}/\n"
            yield port
            process.terminate()
            assert process.wait(20) == 0
        finally:
            process.kill()


@pytest.fixture(scope="module")
def web() -> Iterator[int]:
    yield from served()


@pytest.fixture(scope="module")
def web_behind_tls() -> Iterator[int]:
    yield from served(BACKUPSCHED_TLS="1", ALLOWED_HOSTS="backup.example.org")


def ask(port: int, path: str = "/", host: str = "localhost", **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path, headers={"Host": host, "Connection": "close", **headers})
    answer = connection.getresponse()
    answer.read()
    return answer


@pytest.mark.slow
class TestSlowConnections:
    def test_requests_are_answered_beside_connections_that_never_finish_theirs(self, web: int) -> None:
        with ExitStack() as held:
            for number in range(SLOW):
                slow = held.enter_context(socket.create_connection(("127.0.0.1", web), 20))
                slow.sendall(FORM if number % 2 else FORM[:40])
            assert ask(web).status == 302


@pytest.mark.slow
class TestBehindAProxyWithTls:
    def test_plain_http_is_redirected(self, web_behind_tls: int) -> None:
        answer = ask(web_behind_tls, "/admin/login/", "backup.example.org")
        assert (answer.status, answer.headers["Location"]) == (301, "https://backup.example.org/admin/login/")

    def test_what_the_proxy_got_by_tls_is_answered_with_hsts_and_secure_cookies(self, web_behind_tls: int) -> None:
        forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.9"}
        answer = ask(web_behind_tls, "/admin/login/", "backup.example.org", **forwarded)
        assert answer.status == 200
        assert "max-age=31536000" in answer.headers["Strict-Transport-Security"]
        assert "Secure" in answer.headers["Set-Cookie"]


def test_check_deploy_has_nothing_to_say_with_tls() -> None:
    environment = {**os.environ, "BACKUPSCHED_TLS": "1", "DATABASE_URL": "postgresql://127.0.0.1:1/none"}
    command = [sys.executable, "manage.py", "check", "--deploy", "--tag", "security", "--fail-level", "WARNING"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "System check identified no issues (2 silenced).\n"), done.stderr


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        environment = {**os.environ, "DATABASE_URL": "postgresql://127.0.0.1:1/none"}
        command = [sys.executable, "manage.py", "web", "--listen", place]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == f"CommandError: cannot listen on {place}: [Errno 98] Address already in use\n"


@pytest.mark.slow
class TestLongAddresses:
    def test_a_long_one_reaches_the_application_and_one_beyond_the_servers_bound_is_refused(self, web: int) -> None:
        assert ask(web, "/?" + "x" * 20_000).status == 302
        assert ask(web, "/api/openapi.json?" + "x" * 300_000).status == 431
