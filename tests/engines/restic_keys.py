"""restic spends half a second of a processor on its key at each start, and two on a new repository, on purpose. Here it
need not."""

import base64
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.poly1305 import Poly1305

from external.processes.programs import find_restic

MEMORY = 2**30


def make_empty(repository: Path, password: str) -> None:
    """Put an empty repository of restic there, as it stands when its making was killed before it said whose it is. All
    processes of a test run copy one that restic has made."""
    made = Path(os.environ["BACKUPSCHED_TEST_VAR"]) / f"restic-{hashlib.sha256(password.encode()).hexdigest()[:12]}"
    with open(f"{made}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            shutil.rmtree(unfinished := made.with_suffix(".unfinished"), ignore_errors=True)
            environment = {**os.environ, "RESTIC_PASSWORD": password, "RESTIC_REPOSITORY": str(unfinished)}
            subprocess.run((find_restic(), "init"), env=environment, check=True, stdout=subprocess.DEVNULL)
            make_quick(unfinished, password)
            unfinished.rename(made)
    shutil.copytree(made, repository)


def make_quick(repository: Path, password: str) -> None:
    """Seal the master key of a restic repository, a folder, anew, with parameters of scrypt that cost nothing."""
    for file in (repository / "keys").iterdir():
        about = json.loads(file.read_bytes())
        master = _crypt(_derived(password, about), (sealed := base64.b64decode(about["data"]))[:16], sealed[16:-16])
        about |= {"N": 2, "r": 8, "p": 1}
        key, nonce = _derived(password, about), os.urandom(16)
        content = _crypt(key, nonce, master)
        about["data"] = base64.b64encode(nonce + content + _digest(key, nonce, content)).decode()
        text = json.dumps(about).encode()
        (file.parent / hashlib.sha256(text).hexdigest()).write_bytes(text)
        file.unlink()


def _derived(password: str, about: dict[str, object]) -> bytes:
    salt = base64.b64decode(str(about["salt"]))
    numbers = {name.lower(): int(str(about[name])) for name in ("N", "r", "p")}
    return hashlib.scrypt(password.encode(), salt=salt, maxmem=MEMORY, dklen=64, **numbers)


def _crypt(key: bytes, nonce: bytes, text: bytes) -> bytes:
    return Cipher(algorithms.AES(key[:32]), modes.CTR(nonce)).encryptor().update(text)


def _digest(key: bytes, nonce: bytes, content: bytes) -> bytes:
    """Poly1305-AES."""
    second = Cipher(algorithms.AES(key[32:48]), modes.ECB()).encryptor().update(nonce)
    return Poly1305.generate_tag(key[48:64] + second, content)
