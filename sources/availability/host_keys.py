"""SSH host keys as people paste them: `ssh-ed25519 AAAA…`, one a line."""

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_ssh_public_key

TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")
HOW_TO_GET_ONE = "get it with `ssh-keyscan ADDRESS` and leave out the address in front of it"


def check_host_key(text: str) -> None:
    """Check one or more lines of `TYPE BASE64`. Raises: ValueError saying what is wrong and what to do."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"is missing: an SFTP host must show a known host key; {HOW_TO_GET_ONE}")
    for line in lines:
        kind, _, rest = line.strip().partition(" ")
        if kind not in TYPES:
            raise ValueError(f"{kind!r} is not a type of host key ({', '.join(TYPES)}); {HOW_TO_GET_ONE}")
        try:
            load_ssh_public_key(f"{kind} {rest}".encode())
        except (ValueError, UnsupportedAlgorithm):
            raise ValueError(
                f"the text after {kind} is not such a key: it is cut off or altered; {HOW_TO_GET_ONE}"
            ) from None
