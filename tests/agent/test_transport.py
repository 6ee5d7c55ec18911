"""Whom the token is shown to: certificates, redirects, proxies."""

from pathlib import Path

import pytest

from tests.agent.contract import CODE, STATUS, TOKEN, Answer, ContractServer
from tests.agent.processes import BAD_USAGE, FINE, REFUSED, UNREACHABLE
from tests.delivery.certificates import make_certificate, served_with

pytestmark = pytest.mark.slow


def serving(path: Path) -> ContractServer:
    return ContractServer(context=served_with(path))


class TestCertificates:
    def test_an_authority_of_ones_own_is_named_once_and_remembered(self, machine, tmp_path):
        path = make_certificate(tmp_path, "127.0.0.1")
        with serving(path) as server:
            url = server.url.replace("https", "HTTPS")
            assert machine.agent("enrol", url, CODE, "--ca-file", str(path)).returncode == FINE
            assert machine.agent("announce").returncode == FINE
        assert [asked.token for asked in server.asked] == ["", TOKEN]

    @pytest.mark.parametrize(("of", "is_named", "why"), [
        ("127.0.0.1", False, "self"), ("192.0.2.1", True, "IP address mismatch"),
    ])  # fmt: skip
    def test_an_unknown_authority_or_another_host_is_shown_neither_code_nor_token(
        self, machine, tmp_path, of, is_named, why
    ):
        path = make_certificate(tmp_path, of)
        with serving(path) as server:
            done = machine.agent("enrol", server.url, CODE, *(("--ca-file", str(path)) if is_named else ()))
        assert (done.returncode, server.asked) == (UNREACHABLE, [])
        assert f"does not prove who it is: {why}" in done.stderr
        assert "--ca-file" in done.stderr

    @pytest.mark.parametrize("text", [None, "no certificate"])
    def test_a_bad_ca_file_is_said_before_the_code_is_spent(self, machine, server, tmp_path, text):
        path = tmp_path / "authorities.pem"
        if text:
            path.write_text(text)
        done = machine.agent("enrol", server.url, CODE, "--ca-file", str(path))
        assert (done.returncode, server.asked) == (BAD_USAGE, [])
        assert f"CA file {path}" in done.stderr


class TestRedirects:
    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_none_is_followed(self, enrolled, server, status):
        with ContractServer() as other:
            server.always = Answer(status, b"", {"Location": f"{other.url}/api/agent/status"})
            done = enrolled.agent("status")
        assert (done.returncode, other.asked) == (REFUSED, [])
        assert f"redirects to {other.url}/api/agent/status" in done.stderr
        assert "enrol with the address that it leads to" in done.stderr


class TestProxies:
    def test_one_of_the_environment_is_used(self, machine):
        with ContractServer() as proxy:
            proxy.always = Answer(200, STATUS)
            machine.store(url="http://192.0.2.7", token=TOKEN, source="laptop", insecure_http=True)
            assert machine.agent("status", http_proxy=proxy.url).returncode == FINE
        assert [asked.path for asked in proxy.asked] == ["http://192.0.2.7/api/agent/status"]

    def test_loopback_needs_none(self, enrolled, server):
        with ContractServer() as proxy:
            assert enrolled.agent("status", http_proxy=proxy.url).returncode == FINE
        assert (len(server.asked), proxy.asked) == (1, [])
