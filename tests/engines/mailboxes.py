"""A real IMAP server, dovecot, with a mailbox of its own."""

import base64
import contextlib
import hmac
import imaplib
import json
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from engines.base import EngineResult, SourceSpec
from tests.delivery.certificates import make_certificate
from tests.engines.peers import PASSWORD, answers, free_port, loopback_address, run, specification, task_for
from tests.programs import needed
from tests.waiting import eventually

USER = "ann@example.org"
CONFIGURATION = """
protocols = imap
listen = {address}
base_dir = {home}/run
state_dir = {home}/state
log_path = {home}/log
default_login_user = {account}
default_internal_user = {account}
default_internal_group = {group}
ssl = yes
ssl_cert = <{certificate}
ssl_key = <{certificate}
disable_plaintext_auth = no
auth_mechanisms = plain login xoauth2
auth_verbose = yes
first_valid_uid = 1
mail_fsync = never
mail_location = maildir:{home}/mail:LAYOUT=fs
namespace inbox {{
  inbox = yes
  separator = /
}}
passdb {{
  driver = oauth2
  mechanisms = xoauth2
  args = {home}/oauth2.conf
}}
passdb {{
  driver = static
  mechanisms = plain login
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={account} gid={group} home={home}/mail
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = {tls_port}
  }}
}}
service anvil {{
  chroot =
}}
service stats {{
  chroot =
}}
mail_max_userip_connections = 100
"""


TOKENS = """
introspection_mode = local
local_validation_key_dict = fs:posix:prefix={home}/keys/
"""
TOKEN_KEY = b"what the provider signs with"


def access_token(lasts: timedelta) -> str:
    """A token as a provider issues it: a JWT."""

    def written(part: bytes) -> str:
        return base64.urlsafe_b64encode(part).decode().rstrip("=")

    claims = {"sub": "ann", "email": USER, "exp": int((datetime.now(UTC) + lasts).timestamp())}
    signed = ".".join(written(json.dumps(each).encode()) for each in ({"alg": "HS256", "typ": "JWT"}, claims))
    return f"{signed}.{written(hmac.digest(TOKEN_KEY, signed.encode(), 'sha256'))}"


@dataclass
class Mailbox:
    """A mailbox of dovecot, and what a client of its user does with it."""

    home: Path
    address: str
    port: int
    tls_port: int
    certificate: Path

    def source(self, secret: str = PASSWORD, **options: str) -> SourceSpec:
        port = self.port if options.get("tls") in ("starttls", "none") else self.tls_port
        certificates = {} if options.get("tls") == "none" else {"sslrootcert": str(self.certificate)}
        return specification(
            "imap", self.address, port=port, path=options.pop("path", ""), name="mail of Ann",
            secret=secret, options={"user": USER} | certificates | options,
        )  # fmt: skip

    @contextlib.contextmanager
    def client(self) -> Iterator[imaplib.IMAP4]:
        with imaplib.IMAP4(self.address, self.port) as client:
            client.login(USER, PASSWORD)
            yield client

    def deliver(self, folder: str, *messages: bytes, flags: str | None = None) -> None:
        with self.client() as client:
            client.create(quoted(folder))
            for message in messages:
                assert client.append(quoted(folder), flags, f'"{RECEIVED:%d-%b-%Y %H:%M:%S +0000}"', message)[0] == "OK"

    def content(self) -> dict[str, list[bytes]]:
        """Folder → its messages as the server sends them, sorted."""
        found = {}
        with self.client() as client:
            for line in client.list()[1]:
                name = line.decode().rpartition(' "/" ')[2].strip('"')
                if b"\\Noselect" in line:
                    continue
                client.select(quoted(name), readonly=True)
                found[name] = sorted(
                    each[1] for each in client.fetch("1:*", "BODY.PEEK[]")[1] if isinstance(each, tuple)
                )
        return found


RECEIVED = datetime(2020, 2, 3, 4, 5, 6, tzinfo=UTC)


def quoted(folder: str) -> str:
    return '"{}"'.format(folder.replace("\\", "\\\\").replace('"', '\\"'))


@contextlib.contextmanager
def dovecot() -> Iterator[Mailbox]:
    """Serve an empty mailbox until the block ends. Skips the test where dovecot is not installed."""
    program = needed("dovecot", "dovecot-imapd")
    # as root dovecot serves no mail of root's, and another account cannot look into pytest's directories
    account = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        home, address = Path(name), loopback_address()
        home.chmod(0o755)
        (home / "mail").mkdir()
        box = Mailbox(home, address, free_port(address), free_port(address), make_certificate(home, address))
        if os.geteuid() == 0:
            shutil.chown(home / "mail", account.pw_uid, account.pw_gid)
        import grp

        (home / "oauth2.conf").write_text(TOKENS.format(home=home))
        (home / "keys/default/HS256").mkdir(parents=True)
        (home / "keys/default/HS256/default").write_bytes(base64.b64encode(TOKEN_KEY))
        (home / "dovecot.conf").write_text(CONFIGURATION.format(
            address=address, home=home, account=account.pw_name, group=grp.getgrgid(account.pw_gid).gr_name,
            password=PASSWORD, port=box.port, tls_port=box.tls_port, certificate=box.certificate,
        ))  # fmt: skip
        with subprocess.Popen((program, "-F", "-c", str(home / "dovecot.conf")), stderr=subprocess.PIPE) as server:
            try:
                eventually(lambda: answers(address, box.tls_port) or server.poll() is not None)
                assert server.poll() is None, server.stderr.read()
                yield box
            finally:
                server.terminate()


def back_up(source: SourceSpec, destination: Path, **fields: Any) -> EngineResult:
    stop = fields.pop("stop", None)
    return run(task_for(source, destination, **{"staging": str(destination.parent / "staging")} | fields), stop=stop)
