"""Recipes of docs/hooks.md: their scripts as they stand there, over real images of disks."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from engines.base import Verdict
from tests.engines.peers import back_up, local_folder

DOCUMENT = Path(__file__).parents[3] / "docs/hooks.md"
VIRSH = """#!/bin/sh
# libvirt's part, with one guest that has one disk: its state is the name of the image it writes to
set -eu
disk=$(cat "$STATE")
case "$1" in
domblklist) printf ' Target   Source\\n-----------\\n vda      %s\\n\\n' "$disk" ;;
dumpxml) echo "<domain/>" ;;
snapshot-create-as)
    qemu-img create -q -f qcow2 -b "$disk" -F qcow2 "${disk%.qcow2}.backup"
    echo "${disk%.qcow2}.backup" > "$STATE" ;;
blockcommit)
    qemu-img commit -q "$disk"
    echo "${disk%.backup}.qcow2" > "$STATE" ;;
esac
"""


def script(name: str) -> str:
    [found] = [
        each for each in re.findall(r"```bash\n(.*?)```", DOCUMENT.read_text(), re.DOTALL) if f"/{name}:" in each
    ]
    return found


@pytest.mark.needs("qemu-utils", "qemu-img", "qemu-io")
@pytest.mark.slow
def test_a_guest_writes_on_while_its_disk_is_copied_as_it_was(tmp_path: Path) -> None:
    images, programs = tmp_path / "images", tmp_path / "bin"
    state, disk = tmp_path / "state", images / "web.qcow2"
    for folder in (images, programs):
        folder.mkdir()
    for name, text in (("virsh", VIRSH), ("snapshot-vm", script("snapshot-vm"))):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    state.write_text(str(disk))
    seen = {"PATH": f"{programs}:{os.environ['PATH']}", "STATE": str(state), "BACKUPSCHED_PATH": str(images)}

    def run(*argv: str) -> str:
        return subprocess.run(argv, env=seen, check=True, capture_output=True, text=True).stdout

    def write(byte: int) -> None:
        run("qemu-io", "-f", "qcow2", "-c", f"write -P {byte} 0 1M", state.read_text().strip())

    def reads(image: Path) -> list[int]:
        ask = ("qemu-io", "-r", "-f", "qcow2", str(image), "-c")
        codes = (subprocess.run((*ask, f"read -P {each} 0 1M"), env=seen, check=False).returncode for each in range(4))
        return [byte for byte, code in enumerate(codes) if code == 0]

    run("qemu-img", "create", "-q", "-f", "qcow2", str(disk), "16M")
    write(1)
    run("snapshot-vm", "make", "web")
    write(2)
    (tmp_path / "repository").mkdir()
    result = back_up(local_folder(images), tmp_path / "repository/copy", options={"exclude": ["*.backup"]})
    assert result.verdict is Verdict.SUCCEEDED, result.error
    copied = tmp_path / "repository/copy/files" / result.snapshot
    assert sorted(os.listdir(copied)) == ["web.qcow2", "web.xml"]
    assert (reads(copied / "web.qcow2"), reads(Path(state.read_text().strip()))) == ([1], [2])
    run("snapshot-vm", "make", "web")  # of a worker that was killed meanwhile, the next run merges what is left
    assert reads(disk) == [2]
    write(3)
    run("snapshot-vm", "release", "web")
    assert (reads(disk), sorted(os.listdir(images))) == ([3], ["web.qcow2", "web.xml"])
    run("qemu-img", "check", str(disk))
