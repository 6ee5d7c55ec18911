"""The terms on which restores let rclone talk to a source."""

from collections.abc import Iterator
from contextlib import contextmanager

from storage.points.store import StorageFailed
from storage.restoring.base import TargetFailed

OPTIONS = ("--contimeout=60s", "--timeout=300s", "--low-level-retries=3")
"""Options of each rclone that talks to a source."""
FOLDER_THERE = "there is a folder of this name at the source: move it away, or restore into another folder"
FILE_THERE = "there is a file of this name at the source: move it away, or restore into another folder"


@contextmanager
def of_the_target() -> Iterator[None]:
    """Take a failure in the block for one of the target. Raises: TargetFailed."""
    try:
        yield
    except StorageFailed as error:
        raise TargetFailed(str(error)) from error
