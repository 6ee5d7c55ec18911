"""Pinned SSH host keys, in the forms that users have and that rclone needs. Pure."""

import itertools

KEY_ALGORITHMS = {"ssh-rsa": "rsa-sha2-512,rsa-sha2-256,ssh-rsa"}


def pinned_keys(host_key: str) -> list[tuple[str, str]]:
    """The (type, base64) of each line, either `type base64` or, as ssh-keyscan prints it, `host type base64`."""
    keys = []
    for line in host_key.splitlines():
        pairs = itertools.pairwise(line.partition("#")[0].split())
        # the length of the type's name comes first in a key, and is less than 64 KiB
        keys += [(kind, key) for kind, key in pairs if key.startswith("AAAA")][:1]
    return keys


def algorithms_of(host_key: str) -> list[str]:
    """The algorithms to request from a host that has keys of several types: those of the pinned keys."""
    return list(dict.fromkeys(KEY_ALGORITHMS.get(kind, kind) for kind, _ in pinned_keys(host_key)))
