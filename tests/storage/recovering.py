"""The program `recover`, and the shell commands of RECOVER.txt, run as their reader runs them."""

import os
import re
import subprocess
import sys
from pathlib import Path

from external.processes.programs import find_rclone
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]


def recover(*arguments: object, code: int = 0, **environment: str) -> str:
    """Run it as a program that has neither database nor settings, and where it writes Django is not imported."""
    return ended(started(*arguments, **environment), code)


def started(*arguments: object, **environment: str) -> "subprocess.Popen[str]":
    program = "import sys; from backupsched.command_line import main; code = main(); assert 'django' not in sys.modules"
    return subprocess.Popen(
        (sys.executable, "-c", f"{program}; sys.exit(code)", "recover", *map(str, arguments)),
        cwd=ROOT, env={"PATH": os.environ["PATH"], "TZ": "Europe/Berlin", **environment},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def ended(process: "subprocess.Popen[str]", code: int) -> str:
    """The output of the program."""
    with process:
        try:
            out, errors = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == code, errors
    return out + errors


def follow(text: str, scratch: Path, environment: dict[str, str], **choices: str) -> str:
    """Run what `RECOVER.txt` says, after the choices that it leaves to its reader. Returns what that prints."""
    script = "\n".join(line for line in text.splitlines() if line.startswith("    "))
    for name, value in choices.items():
        script, number = re.subn(rf"(?m)^( +(export )?{name}=).*$", lambda found: found[1] + f"'{value}'", script)  # noqa: B023
        assert number == 1, name
    path = f"{Path(find_rclone()).parent}:{os.environ['PATH']}"
    ended = subprocess.run(
        ("bash", "-eu", "-c", script), cwd=scratch, check=True, env={"PATH": path, "HOME": str(scratch)} | environment,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    return ended.stdout.decode()
