"""The parts of the demo, each for itself."""

import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from demo.compare import differences
from demo.display import summary_table
from demo.files import AWKWARD_NAMES, generate
from demo.sleeper import magic_packet
from demo.summary import SourceSummary, Summary
from tests.waiting import PATIENCE

MAC = "02:00:5e:00:00:01"


def test_equal_seeds_give_equal_files_and_other_seeds_give_others(tmp_path):
    for name, seed in (("one", "a"), ("same", "a"), ("other", "b")):
        generate(tmp_path / name, seed=seed, total_bytes=50_000)
    assert differences(tmp_path / "one", tmp_path / "same") == []
    assert differences(tmp_path / "one", tmp_path / "other")
    names = {path.name for path in (tmp_path / "one").iterdir()}
    assert set(AWKWARD_NAMES) <= names
    assert (tmp_path / "one" / "empty file").stat().st_size == 0


def test_one_changed_byte_a_missing_and_a_surplus_file_are_found(tmp_path):
    for name in ("original", "copy"):
        generate(tmp_path / name, seed="a", total_bytes=50_000)
    changed = tmp_path / "copy" / "notes with spaces.txt"
    content = bytearray(changed.read_bytes() or b"x")
    content[-1] ^= 1
    changed.write_bytes(content)
    (tmp_path / "copy" / "-rf").unlink()
    (tmp_path / "copy" / "surplus").touch()
    assert differences(tmp_path / "original", tmp_path / "copy") == [
        "missing in the copy: -rf",
        "only in the copy: surplus",
        "differs: notes with spaces.txt",
    ]


@pytest.mark.slow
def test_a_sleeper_wakes_for_its_own_packet_only(tmp_path):
    woken = tmp_path / "woken"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = [sys.executable, "-c", f"import pathlib; pathlib.Path({str(woken)!r}).touch()"]
    sleeper = subprocess.Popen(
        [sys.executable, "-m", "demo.sleeper", "127.0.0.1", str(port), MAC, "--", *program],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
    )
    try:
        assert sleeper.stdout is not None
        assert b"asleep" in sleeper.stdout.readline()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as network:
            network.sendto(magic_packet("02:00:5e:00:00:99"), ("127.0.0.1", port))
            network.sendto(b"noise", ("127.0.0.1", port))
            assert not woken.exists()
            network.sendto(magic_packet(MAC), ("127.0.0.1", port))
        assert sleeper.wait(PATIENCE) == 0
        assert woken.exists()
    finally:
        sleeper.kill()
        sleeper.communicate()


def summary_of(**facts: object) -> SourceSummary:
    defaults = {
        "name": "demo-laptop-01",
        "kind": "sftp",
        "reachable": True,
        "outcome": "succeeded",
        "attempts": 1,
        "bytes": 10,
        "seconds": 1.5,
        "repository": "/r",
        "next_backup_at": (datetime(2026, 3, 2, tzinfo=UTC) + timedelta(days=1)).isoformat(),
        "identical": True,
    }
    return SourceSummary(**{**defaults, **facts})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "complete"),
    [
        (summary_of(), True),
        (summary_of(reachable=False, identical=None, bytes=None), True),
        (summary_of(identical=False), False),
        (summary_of(identical=None, bytes=None), False),
    ],
)
def test_a_run_is_complete_when_every_reachable_source_has_an_identical_copy(source, complete):
    summary = Summary([source], protected=1, reachable=1, seconds=1.0)
    assert summary.complete is complete
    assert summary.as_json()["sources"][0]["name"] == "demo-laptop-01"
    assert summary_table(summary)
