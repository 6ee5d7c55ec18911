"""Ties an engine's program to the life of its worker, then becomes that program. Linux only; standard library only.

Run as `python -I -S launcher.py PARENT ACCOUNT READABLE PROGRAM ARGUMENT…`. PARENT is the process id of the worker;
ACCOUNT is `uid:gid` of the account that the program runs as, or empty; READABLE names the only files and folders that
it may open, one per line, for reading, or after a `+` for writing as well; or is empty.

The kernel sends SIGKILL to the program when the thread that started it ends, so a worker that is killed leaves no
engine behind. A worker that died before the request was made is noticed by its changed process id. Code between fork
and exec would do the same, but may deadlock in a process with threads.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1
SIGKILL = 9
"""The number in `signal`, whose import takes a third of this program's time."""
CANNOT_START = 126
PR_SET_NO_NEW_PRIVS = 38
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
"""Version of Landlock → the number of rights that it knows, a bit each
(https://docs.kernel.org/userspace-api/landlock.html).
"""
RIGHTS_SINCE_5 = 16
OF_FILES, OF_FOLDERS = 0b101, 0b1101
"""The rights to execute, to read, and to list."""
DEVICES = 0b110


def main(arguments: list[str]) -> None:
    parent, account, readable, program = int(arguments[0]), arguments[1], arguments[2], arguments[3:]
    if account:  # before the request below, which a change of account would undo
        user, _, group = account.partition(":")
        os.setgroups([])
        os.setgid(int(group))
        os.setuid(int(user))
    if ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0:
        sys.exit(CANNOT_START)
    if os.getppid() != parent:
        sys.exit(CANNOT_START)
    if readable:
        confine(readable.split("\n"))
    try:
        os.execv(program[0], program)  # noqa: S606 - no shell is the point
    except OSError as error:
        sys.stderr.write(f"{program[0]} cannot be started: {error.strerror}\n")
        sys.exit(CANNOT_START)


def confine(readable: list[str]) -> None:
    """Let this process open nothing but these files, wherever a link leads it. Open files stay open. A kernel without
    Landlock changes nothing.
    """
    handled = (1 << RIGHTS.get(version(), RIGHTS_SINCE_5)) - 1
    rules: list[tuple[int, int]] = []
    for line in readable:
        path = line.removeprefix("+")
        try:
            opened = os.open(path, os.O_PATH)
        except OSError:  # this system does not have it
            continue
        rights = OF_FOLDERS if os.path.isdir(path) else DEVICES if path.startswith("/dev/") else OF_FILES
        rules.append((opened, handled if line.startswith("+") else rights))
    restrict(handled, rules)


def version() -> int:
    """The version of Landlock in this kernel; less than 1 if it has none."""
    return int(ctypes.CDLL(None).syscall(CREATE_RULESET, None, 0, 1)) if sys.platform == "linux" else 0


def restrict(handled: int, rules: list[tuple[int, int]], *, is_optional: bool = False) -> bool:
    """Take the `handled` rights from this process and all that it starts, except below the opened files and folders of
    `rules`, with the rights that each has there. Closes them. Returns False, and takes nothing, if the kernel lacks
    Landlock, or if it `is_optional` and a rule, or all of it, is refused.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    ruleset = libc.syscall(CREATE_RULESET, ctypes.byref(ctypes.c_uint64(handled)), 8, 0) if version() >= 1 else -1
    is_refused = ruleset < 0
    for opened, rights in rules:
        rule = rights.to_bytes(8, sys.byteorder) + opened.to_bytes(4, sys.byteorder)
        is_refused |= ruleset >= 0 and bool(libc.syscall(ADD_RULE, ruleset, 1, rule, 0)) and is_optional
        os.close(opened)
    if not is_refused:
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if libc.syscall(RESTRICT_SELF, ruleset, 0):
            is_refused = True
            if not is_optional:
                sys.exit(CANNOT_START)
    if ruleset >= 0:
        os.close(ruleset)
    return not is_refused


if __name__ == "__main__":
    main(sys.argv[1:])
