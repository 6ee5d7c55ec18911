"""The arguments of rclone. Pure."""

from sources.engines.base import BackupTask
from sources.engines.rclone.options import option_arguments
from sources.engines.rclone.remotes import remote_path
from sources.storage import layout
from sources.storage.store import PARTIAL_SUFFIX

IDLE_SECONDS = 300.0


def sync_arguments(task: BackupTask, verb: str, run: str) -> tuple[str, ...]:
    """The arguments that sync or copy the source to `current`, with what that replaces moved to the version of `run`.

    Raises: ValueError on a bad option.
    """
    is_sync = verb == "sync"
    # rclone takes either a list of files or filters
    options = {name: value for name, value in task.options.items() if is_sync or name != "exclude"}
    return (
        verb,
        remote_path(task.source),
        task.location.at(f"{task.folder}/{layout.CURRENT}"),
        f"--backup-dir={task.location.at(f'{task.folder}/{layout.VERSIONS}/{run}')}",
        f"--partial-suffix={PARTIAL_SUFFIX}",
        *(("--create-empty-src-dirs", "--delete-excluded") if is_sync else ()),
        *(("--size-only",) if is_sync and not task.location.sees_changes else ()),
        "--skip-specials",
        # a source that names a huge size would get all free space before its first byte
        "--local-no-preallocate",
        *common_arguments(task),
        *option_arguments(options),
    )


def common_arguments(task: BackupTask) -> tuple[str, ...]:
    """The arguments of every rclone that talks to a source: no configuration file, no retries of its own."""
    return (
        "--config=",
        "--use-json-log",
        "--stats=500ms",
        "--stats-log-level=NOTICE",
        "--retries=1",
        # rclone sorts longer listings in /var/tmp, whose space nothing bounds; its memory is bounded
        "--list-cutoff=1000000000000",
        "--low-level-retries=3",
        f"--contimeout={task.connect_timeout:g}s",
        f"--timeout={min(IDLE_SECONDS, task.stall_timeout):g}s",
    )
