"""Contents are compared by digests where a policy wants it (`checksum: true`)."""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from engines.base import SourceSpec, Verdict
from tests.engines.peers import back_up, held, local_folder, s3_bucket, sftp_host, webdav_share, write_files

LATER = datetime(2100, 1, 1, tzinfo=UTC)
"""Than what these tests write, so that no file is in doubt."""


def lying(file: Path, text: str) -> None:
    """Write another content of the same size and time."""
    file.write_text(text)
    os.utime(file, (1_700_000_000, 1_700_000_000))


@contextlib.contextmanager
def a_bucket(served: Path) -> Iterator[SourceSpec]:
    with s3_bucket(served.parent) as source:
        yield replace(source, path=served.name)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [local_folder, sftp_host, a_bucket, webdav_share])
def test_contents_are_compared_where_sizes_and_times_lie(kind: Callable[[Path], Any], tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", same="same", other="other")
    for each in ("same", "other"):
        lying(files / each, each)
    wanted = {"checksum": True, "ignore_ctime": True}
    opened = kind(files)
    with contextlib.nullcontext(opened) if isinstance(opened, SourceSpec) else opened as source:
        for day, options, text, read in (
            (0, {}, "other", 9), (1, {"ignore_ctime": True}, "first", 0), (2, wanted, "first", 5),
            (3, wanted, "first", 0),
            (4, wanted, "third", 5), (5, wanted, "third", 0),
        ):  # fmt: skip
            lying(files / "other", text)
            started_at = LATER + timedelta(days=day)
            result = back_up(source, tmp_path / "copy", options=options, started_at=started_at)
            assert result.verdict is Verdict.SUCCEEDED, result
            if day != 2 or kind is local_folder:  # else the first run with digests brings all
                assert result.read == read, (day, result)
            assert held(tmp_path / "copy")["other"] == ("other" if day < 2 else text)
