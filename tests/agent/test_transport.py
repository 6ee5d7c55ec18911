"""Whom the token is shown to: certificates, redirects, proxies."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.agent.contract import CODE, STATUS, TOKEN, Answer, ContractServer
from tests.agent.processes import BAD_USAGE, FINE, REFUSED, UNREACHABLE

pytestmark = pytest.mark.slow


def certificate(directory: Path, address: str) -> Path:
    """Certificate and key for `address` in one file, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "backups")])
    today = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - timedelta(days=1))
        .not_valid_after(today + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = directory / f"{address}.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return path


def serving(path: Path) -> ContractServer:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return ContractServer(context=context)


class TestCertificates:
    def test_an_authority_of_ones_own_is_named_once_and_remembered(self, machine, tmp_path):
        path = certificate(tmp_path, "127.0.0.1")
        with serving(path) as server:
            url = server.url.replace("https", "HTTPS")
            assert machine.agent("enrol", url, CODE, "--ca-file", str(path)).returncode == FINE
            assert machine.agent("announce").returncode == FINE
        assert [asked.token for asked in server.asked] == ["", TOKEN]

    def test_an_unknown_authority_is_shown_neither_code_nor_token(self, machine, tmp_path):
        with serving(certificate(tmp_path, "127.0.0.1")) as server:
            done = machine.agent("enrol", server.url, CODE)
        assert (done.returncode, server.asked) == (UNREACHABLE, [])
        assert "does not prove who it is: self" in done.stderr
        assert "--ca-file" in done.stderr

    def test_a_certificate_of_another_host_is_refused(self, machine, tmp_path):
        path = certificate(tmp_path, "192.0.2.1")
        with serving(path) as server:
            done = machine.agent("enrol", server.url, CODE, "--ca-file", str(path))
        assert (done.returncode, server.asked) == (UNREACHABLE, [])
        assert "does not prove who it is: IP address mismatch" in done.stderr

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
        assert f"sends on to {other.url}/api/agent/status" in done.stderr
        assert "enrol with the address that it really has" in done.stderr


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
