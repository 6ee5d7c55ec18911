"""Lists a folder of this host as rclone does: 10,000 files take 0.06 s here, and 0.2 s there."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

RAW = re.compile("([\u201b\u2401-\u241f\u2421])|([\x01-\x1f])|(\x7f)")


def rows_below(top: Path, called: str = "", *, files_only: bool = False) -> Iterator[dict[str, Any]]:
    """All that lies below `top`, as rows of rclone's lsjson: Path (from `called` on), Size, ModTime, IsDir. No links,
    sockets, pipes and devices; nothing where `top` is missing, or of a folder that vanishes meanwhile."""
    waiting = [(str(top), called)]
    while waiting:
        folder, parent = waiting.pop()
        with suppress(FileNotFoundError), os.scandir(folder) as found:
            for each in found:
                is_folder = each.is_dir(follow_symlinks=False)
                if not is_folder and not each.is_file(follow_symlinks=False):
                    continue
                path = f"{parent}/{shown(each.name)}" if parent else shown(each.name)
                if is_folder:
                    waiting.append((each.path, path))
                    if files_only:
                        continue
                with suppress(FileNotFoundError):
                    facts = each.stat(follow_symlinks=False)
                    yield {
                        "Path": path,
                        "Size": facts.st_size,
                        "ModTime": written(facts.st_mtime_ns),
                        "IsDir": is_folder,
                    }


def shown(name: str) -> str:
    """How rclone shows a name of this host: the way back of `path_in`. What is not UTF-8 has U+FFFD in it."""
    if name.isascii() and name.isprintable():
        return name
    return RAW.sub(_shown, os.fsencode(name).decode("utf-8", "replace"))


def written(time_ns: int) -> str:
    """The way back of `nanoseconds`, as rclone writes it; empty for a time that no calendar has."""
    seconds, fraction = divmod(time_ns, 10**9)
    minutes, second = divmod(seconds, 60)
    minute = _written(minutes)
    return minute and f"{minute}:{second:02}.{fraction:09}Z"


@lru_cache(maxsize=10_000)
def _written(minutes: int) -> str:
    try:
        year, month, day, hour, minute = time.gmtime(minutes * 60)[:5]
    except (OverflowError, OSError, ValueError):
        return ""
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}"


def _shown(found: re.Match[str]) -> str:
    quoted, control, _ = found.groups()
    return f"\u201b{quoted}" if quoted else chr(ord(control) + 0x2400) if control else "\u2421"
