"""Advice of another program is not passed on: it is meant for whoever typed its command."""

import json
import time
from threading import Event

import pytest

from engines.rclone.log import RcloneLog
from external.processes.advice import without_advice
from storage.places.servers import explained
from storage.restic.program import StuckSignal
from storage.restic.verdicts import text_of, trouble_of

PINNED = (
    "sftp: host key mismatch for nas:22: server offered ssh-ed25519 key with fingerprint SHA256:x; pinned: SHA256:y"
)
RUN_AGAIN = " -- if the server key has changed legitimately, clear host_keys and re-run with --sftp-pin-host-key"
LOCKED = "unable to create lock in backend: repository is already locked by PID 1 on nas"
UPGRADED = (
    "unable to get drive_id and drive_type - if you are upgrading from older versions of rclone, please run "
    "`rclone config` and re-configure this backend"
)
OFFERED = (
    "sftp: server offered ssh-rsa key with fingerprint SHA256:x but no key is pinned for this algorithm in host_keys"
)
OF_OTHER_COMMANDS = ("--sftp-pin-host-key", "unlock", "rebuild-index", "rclone config", "--checksum", "known_hosts")


@pytest.mark.parametrize(
    ("stays", "advice"),
    [
        (PINNED, f"{RUN_AGAIN} "),
        (OFFERED, "; re-run with --sftp-pin-host-key to accept on first use"),
        (
            "Modtime compare was requested but at least one remote does not support it",
            ". It is recommended to use --checksum or --size-only instead.",
        ),
        (LOCKED, "; the `unlock` command can be used to remove stale locks"),
        ("tree 1f2e is not known; the repository could be damaged", ", run `rebuild-index` to try to repair it"),
        ("pack 1f2e: not found in index", "; run 'restic rebuild-index' to correct this"),
        (
            "Host key verification failed",
            ". Add correct host key in /home/a/.ssh/known_hosts to get rid of this message.",
        ),
        ("no space left on device", ""),
        ("open /srv/a--b/use --this.txt: permission denied", ""),
        ("couldn't connect SSH: dial tcp 10.0.0.1:22: i/o timeout", ""),
    ],
)
def test_what_is_wrong_stays_and_what_to_do_goes(stays: str, advice: str) -> None:
    told = without_advice(stays + advice)
    assert told.rstrip(".") == stays
    assert not any(each in told for each in OF_OTHER_COMMANDS)


def test_it_is_taken_out_of_what_each_program_says() -> None:
    assert not any(each in without_advice(UPGRADED) for each in OF_OTHER_COMMANDS)
    assert explained(PINNED + RUN_AGAIN) == PINNED, "of a repository"
    log = RcloneLog()
    log.take(json.dumps({"level": "error", "msg": PINNED + RUN_AGAIN}))
    assert log.everything[0].message == PINNED, "of a source"
    lines = ["Fatal: unable to create lock in backend", "run `restic unlock` to remove it"]
    assert text_of(lines) == "unable to create lock in backend"


LONG = {
    "clauses": "--x, if ,run ,run" * 2_000,
    "options": ",run --" * 5_000,
    "spaces": "restic " + " " * 15_000,
    "quotes": "run `" + "a -" * 10_000,
    "of a gate": "socks connect tcp a" + "->a" * 10_000,
    "of restic": "unable to open config file locks/0 data/0/" * 800,
}


@pytest.mark.parametrize("message", LONG.values(), ids=LONG)
def test_the_longest_message_of_a_server_is_looked_through_in_no_time(message: str) -> None:
    """Minutes, and hours of the first one, with expressions that try each part of a text from each other one."""
    began = time.process_time()
    log, restic = RcloneLog(), StuckSignal(Event(), None)
    log.take(json.dumps({"level": "error", "msg": message}))
    restic.take(lambda line: None, f"rclone: a b ERROR : {message} returned error, retrying after 1s")
    trouble_of(1, message)
    without_advice(message)
    assert time.process_time() - began < 10
