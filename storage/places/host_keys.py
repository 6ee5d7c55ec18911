"""SSH host keys that are pinned, in the forms in which people have them and rclone wants them. Pure."""

import itertools

KEY_ALGORITHMS = {"ssh-rsa": "rsa-sha2-512,rsa-sha2-256,ssh-rsa"}


def pinned_keys(host_key: str) -> list[tuple[str, str]]:
    """(type, base64) of each line, be it `type base64` or, as ssh-keyscan prints it, `host type base64`."""
    keys = []
    for line in host_key.splitlines():
        pairs = itertools.pairwise(line.partition("#")[0].split())
        # the length of the type's name comes first in a key, and is less than 64 KiB
        keys += [(kind, key) for kind, key in pairs if key.startswith("AAAA")][:1]
    return keys


def algorithms_of(host_key: str) -> list[str]:
    """What to ask a host for that has keys of several types: those that are pinned."""
    return list(dict.fromkeys(KEY_ALGORITHMS.get(kind, kind) for kind, _ in pinned_keys(host_key)))
