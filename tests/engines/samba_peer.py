"""A real Samba server, with one share that its account may read."""

import contextlib
import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.engines.peers import PASSWORD, answers, free_port, loopback_address
from tests.programs import needed
from tests.waiting import eventually

SHARE = "files"
CONFIGURATION = """[global]
{directories}
interfaces = {address}/8
bind interfaces only = yes
smb ports = {port}
server role = standalone server
disable netbios = yes
log file = {home}/log
load printers = no
[{share}]
path = {files}
read only = yes
"""
DIRECTORIES = ("private dir", "lock directory", "state directory", "cache directory", "pid directory", "ncalrpc dir")


@contextlib.contextmanager
def samba(files: Path) -> Iterator[dict[str, str]]:
    """Serve `files` until the block ends. Yields rclone's settings of the remote."""
    program, address = needed("smbd", "samba"), loopback_address()
    # root's own directories, as pytest's, are closed to the account that reads the share
    account = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home, port = Path(folder), free_port(address)
        home.chmod(0o755)
        for each in DIRECTORIES:
            (home / each).mkdir(mode=0o755)
        shared = files.rename(home / SHARE)
        directories = "\n".join(f"{each} = {home / each}" for each in DIRECTORIES)
        where = {"address": address, "port": port, "home": home, "share": SHARE, "files": shared}
        (home / "smb.conf").write_text(CONFIGURATION.format(directories=directories, **where))
        set_password = (needed("smbpasswd", "samba-common-bin"), "-c", str(home / "smb.conf"), "-s", "-a", account)
        subprocess.run(set_password, input=f"{PASSWORD}\n{PASSWORD}\n".encode(), capture_output=True, check=True)
        serve = (program, "-F", "-s", str(home / "smb.conf"))
        with (home / "output").open("wb") as output, subprocess.Popen(serve, stdout=output, stderr=output) as server:
            try:
                eventually(lambda: answers(address, port) or server.poll() is not None)
                assert server.poll() is None, (home / "log").read_text()
                yield {"type": "smb", "host": address, "port": str(port), "user": account}
            finally:
                server.terminate()
