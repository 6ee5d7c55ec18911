"""Several processes of this program, started, restarted and ended together by supervisord.

A process that dies is started again, at once if it had run for a while, and otherwise after a wait that grows by a
second each time. SIGTERM and Ctrl-C end all of them, each within its grace. There is no control socket. The
configuration holds no secret: the processes inherit the environment.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PATIENCE_SECONDS = 15
"""The time that a process has to end, beyond the grace that it gives itself."""
RUNS_AFTER_SECONDS = 3
FOR_EVER = 1_000_000
"""Starts that fail one after the other, before a process is given up."""

CONFIGURATION = """\
[supervisord]
nodaemon = true
silent = false
logfile = /dev/null
logfile_maxbytes = 0
loglevel = {level}
pidfile = %(here)s/supervisord.pid
{user}
"""
PROGRAM = """
[program:{name}]
command = {command}
autorestart = true
startsecs = {runs_after}
startretries = {for_ever}
stopwaitsecs = {patience}
stopsignal = TERM
stdout_logfile = /dev/stdout
stdout_logfile_maxbytes = 0
redirect_stderr = true
"""


CARRIER = """\
trap '' INT QUIT TERM
trap : HUP
until /bin/cat; do
    [ $? = 1 ] && [ -f /dev/stdout ] || { trap '' HUP; kill -TERM "$0"; exec /bin/cat >/dev/null; }
    sleep 1
done
"""
"""Carries the output of the supervisor, process $0, which opens /dev/stdout: some outputs cannot be opened, such as the
journal's socket, or the terminal of another account (`runuser -u`). A terminal that is closed ends it as Ctrl-C does,
and so does a pipe that nobody reads: either would kill supervisord itself and leave its processes running. A file on a
full disk only loses lines.
"""


@dataclass(frozen=True)
class SupervisedProcess:
    """One process: its name in messages, the arguments of this program, and the seconds that it takes to end."""

    name: str
    arguments: Sequence[str]
    grace: float = 0.0


HERE = (sys.executable, "-m", "backupsched")
"""This program, where it is installed or the current directory is its checkout."""


def configuration(processes: Sequence[SupervisedProcess], program: Sequence[str] = HERE) -> str:
    """The text of supervisord's configuration, next to which it writes its pid file. `program`: the command that starts
    this program.
    """
    as_user = "user = root" if os.geteuid() == 0 else ""  # otherwise it warns at each start
    text = CONFIGURATION.format(level="info", user=as_user)
    for each in processes:
        command = shlex.join((*program, *each.arguments))
        patience = round(each.grace) + PATIENCE_SECONDS
        text += PROGRAM.format(
            name=each.name, command=_literal(command), runs_after=RUNS_AFTER_SECONDS, for_ever=FOR_EVER,
            patience=patience,
        )  # fmt: skip
    return text


def command(processes: Sequence[SupervisedProcess], home: Path, program: Sequence[str] = HERE) -> tuple[str, ...]:
    """Write the configuration into the directory `home`, and return the command that supervises the processes.

    Raises: OSError.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = home / "supervisord.conf"
    path.write_text(configuration(processes, program), encoding="utf-8")
    return sys.executable, "-m", "supervisor.supervisord", "-n", "-c", str(path)


def become(argv: Sequence[str], environment: Mapping[str, str]) -> None:
    """Turn this process into the supervisor, whose output another process carries. Never returns. Raises: OSError."""
    reading, writing = os.pipe()
    subprocess.Popen(("/bin/sh", "-c", CARRIER, str(os.getpid())), stdin=reading)
    os.dup2(writing, 1)
    # it would start all again when its terminal is closed, and lose the request to end that the carrier sends then
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    os.execve(argv[0], list(argv), {**environment, "PYTHONUNBUFFERED": "1"})  # noqa: S606 - our own


def _literal(text: str) -> str:
    """A quoted text without substitutions, which begin with `%` there, and comments: a space and `#` or `;`."""
    return re.sub(r"(\s)([#;])", r"\1''\2", text.replace("%", "%%"))
