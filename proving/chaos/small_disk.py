"""A small file system in memory that can be full and have room again. Mounting it needs root."""

import os
import subprocess
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")


class SmallDisk:
    """`directory` as a disk of `megabytes`, from `mount` to `unmount`."""

    def __init__(self, directory: Path, megabytes: int) -> None:
        self.directory = directory
        self._size = megabytes * 2**20

    def mount(self) -> bool:
        """Mount it. Returns True if that was possible."""
        mode = self.directory.stat().st_mode & 0o777
        return self._mount("-t", "tmpfs", "-o", f"size={self._size},mode={mode:o}", "tmpfs")

    def fill(self) -> None:
        """Leave no free space."""
        while not self._mount("-o", f"remount,size={self._used()}"):  # more is in use by now
            pass

    def make_room(self) -> None:
        self._mount("-o", f"remount,size={self._size}")

    def unmount(self) -> None:
        self._run("umount", "--lazy", str(self.directory))

    def _used(self) -> int:
        found = os.statvfs(self.directory)
        return max(PAGE, (found.f_blocks - found.f_bfree) * found.f_frsize)

    def _mount(self, *options: str) -> bool:
        return self._run("mount", *options, str(self.directory))

    def _run(self, *command: str) -> bool:
        return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0
