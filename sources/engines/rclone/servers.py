"""Which server an rclone remote of any type names, by its settings. Pure."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

NAMES_IT = re.compile(r"host|((api|storage|sas)_)?(url|endpoint)")
USUAL_PORTS = {"ftp": 21, "sftp": 22, "smb": 445}
"""Of types that do not speak HTTP."""


def server_of(remote: Mapping[str, Any]) -> tuple[str, int, bool] | None:
    """Host and port that a remote names, and whether TLS is spoken from the beginning on; None: it names none."""
    kind = str(remote.get("type"))
    if kind in USUAL_PORTS:
        port = str(remote.get("port") or USUAL_PORTS[kind])
        is_tls = str(remote.get("tls", "")).lower() == "true"
        return (str(remote.get("host", "")), int(port) if port.isdecimal() else 0, is_tls)
    for name, value in remote.items():
        if NAMES_IT.fullmatch(name) and value:
            return _read(str(value))
    return None


def _read(text: str) -> tuple[str, int, bool]:
    """An endpoint may be no whole URL: then it is asked by https."""
    try:
        parts = urlsplit(text if "://" in text else f"https://{text}")
        is_tls = parts.scheme != "http"
        return parts.hostname or "", parts.port or (443 if is_tls else 80), is_tls
    except ValueError:
        return "", 0, True
