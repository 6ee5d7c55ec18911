"""Ties an engine's program to the life of its worker, then becomes that program. Linux only; standard library only.

Run as `python -I -S launcher.py PARENT ACCOUNT PROGRAM ARGUMENT…`, where PARENT is the process id of the worker, and
ACCOUNT is `uid:gid` of the account that the program runs as, or empty. The kernel
sends SIGKILL to the program when the thread that started it ends, so a worker that is killed leaves no engine
behind. A worker that died before the request was made is seen by its changed process id. Code between fork and exec
would do the same, but may deadlock in a process with threads.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1
SIGKILL = 9
"""Of `signal`, whose import takes a third of the time that this takes."""
CANNOT_START = 126


def main(arguments: list[str]) -> None:
    parent, account, program = int(arguments[0]), arguments[1], arguments[2:]
    if account:  # before the request below, which a change of account would undo
        user, _, group = account.partition(":")
        os.setgroups([])
        os.setgid(int(group))
        os.setuid(int(user))
    if ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0:
        sys.exit(CANNOT_START)
    if os.getppid() != parent:
        sys.exit(CANNOT_START)
    try:
        os.execv(program[0], program)  # noqa: S606 - no shell is the point
    except OSError as error:
        sys.stderr.write(f"{program[0]} cannot be started: {error.strerror}\n")
        sys.exit(CANNOT_START)


if __name__ == "__main__":
    main(sys.argv[1:])
