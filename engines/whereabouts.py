"""The place to which the path of a source on this host really leads, and a check that it still leads there.

A user who may write into a folder on the way to a source can put a link in its place, and the worker may read more than
that user. So a source keeps the path without links that it had when it was saved (`Source.real_path`). Each run
resolves the path again, reads nothing if it leads to another place, and otherwise reads by the path without links.
"""

import os
from contextlib import suppress
from dataclasses import replace

from engines.base import RunEnded, SourceSpec, Verdict


def real_path_of(path: str) -> str:
    """The path without links; empty if it is unknown because a part of it is missing or may not be read."""
    with suppress(OSError):
        return os.path.realpath(path, strict=True)
    return ""


def led_elsewhere(path: str, real_path: str) -> str:
    """The reason why a source with this path is not where it was, in a sentence without a full stop; empty if it is.

    `real_path`: the place to which it led when it was saved; empty if not known.
    """
    now = os.path.realpath(path)
    if not real_path or now == real_path:
        return ""
    return (
        f"{path} is not where it was: it leads to {now}, and led to {real_path} when the source was saved; a link on "
        "its way was made, changed or removed. If that is right, save the source again"
    )


def unmoved(source: SourceSpec) -> SourceSpec:
    """The source by its path without links. Raises: RunEnded if that is not the path that was saved."""
    if text := led_elsewhere(source.path, source.real_path):
        raise RunEnded(Verdict.UNAVAILABLE, text)
    return replace(source, path=source.real_path) if source.real_path else source
