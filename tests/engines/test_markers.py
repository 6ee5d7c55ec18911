"""A marker on storage of another host tells an empty mount point from a folder that was emptied."""

import dataclasses
import threading
from contextlib import ExitStack
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from engines.at_repositories import questions
from engines.base import EngineResult, RunEnded, SourceSpec, Verdict
from tests.engines.peers import (
    PASSWORD,
    STARTED_AT,
    USER,
    back_up,
    s3_bucket,
    serving,
    sftp_host,
    specification,
    webdav_share,
    write_files,
)
from tests.waiting import PATIENCE


@pytest.mark.slow
def test_storage_of_another_host_without_its_marker_is_unavailable(tmp_path: Path) -> None:
    """A server that serves an empty mount point."""
    name = "the disk [1]*.mounted"
    folder = write_files(tmp_path / "files", **{"photos/a": "a", f"photos/in/{name}": ""})

    def marked(peer: SourceSpec) -> SourceSpec:
        return dataclasses.replace(peer, options=peer.options | {"marker": f"in/{name}"})

    def copied(peer: SourceSpec) -> EngineResult:
        return back_up(marked(peer), tmp_path / f"repository/{peer.kind}", started_at=next(moments))

    moments = (STARTED_AT + timedelta(days=each) for each in count())
    (tmp_path / "repository").mkdir()
    with ExitStack() as opened:
        sftp, s3, dav = (opened.enter_context(each(folder)) for each in (sftp_host, s3_bucket, webdav_share))
        host, port = opened.enter_context(serving("ftp", folder, f"--user={USER}", f"--pass={PASSWORD}"))
        ftp = {"type": "ftp", "host": host, "port": str(port), "user": USER}
        other = specification("rclone", path="photos", options=ftp, secret=None, secrets={"pass": PASSWORD})
        peers = [
            s3,  # whose bucket is the folder
            dataclasses.replace(dav, path=f"{dav.path}/photos".lstrip("/")),
            dataclasses.replace(sftp, path=f"{sftp.path}/photos"),
            other,
        ]
        for peer in peers:
            result = copied(peer)
            assert (result.verdict, result.files) == (Verdict.SUCCEEDED, 2), (peer.kind, result)
        (folder / f"photos/in/{name}").unlink()
        for peer in peers:
            with pytest.raises(RunEnded, match="lacks its marker"):
                questions.look(marked(peer), PATIENCE, threading.Event())
            result = copied(peer)
            assert (result.verdict, "lacks its marker" in result.error) == (Verdict.UNAVAILABLE, True), (
                peer.kind,
                result,
            )
