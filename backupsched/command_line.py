"""The command line: `backupsched` of an installed package, `manage.py` of a checkout, `python -m backupsched`."""

import gc
import os
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from threading import Event
from typing import Any, TextIO, cast

from external.processes.interrupts import deliver_lost_interrupts

STOPPED = 130
"""The exit code after Ctrl-C, as in a shell: 128 plus the number of the signal."""
COLLECT_AFTER = 10_000
"""The objects after which Python looks for garbage. After 700, its default, a command that reads a whole fleet spends a
seventh of its time on going through the rows that it keeps."""


def main() -> int:
    """Run the command line. Returns the exit code: 2 when the installation itself is at fault."""
    _open_closed_streams()
    deliver_lost_interrupts()
    try:
        return _start()
    except KeyboardInterrupt:
        return STOPPED


def _open_closed_streams() -> None:
    """Lead each standard stream that the caller closed (`<&-`) to /dev/null: otherwise the next file that is opened
    takes its number, and `sys.stdin` is None.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is not None:
            continue
        opened = os.open(os.devnull, os.O_RDWR)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
        os.set_inheritable(number, True)
        setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - until this process ends


def _start() -> int:
    if sys.argv[1:2] == ["recover"]:  # there may be no database and no settings any more
        return _recover(sys.argv[2:])
    if sys.argv[1:] in (["--version"], ["version"]):
        from backupsched.version import own_version

        sys.stdout.write(f"{own_version()}\n")
        return 0
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backupsched.settings")
    gc.disable()  # while modules are loaded nothing is garbage, and looking for it took a seventh of a start
    from declarations.surfaces.printable import PrintableStream

    out, errors = (cast(TextIO, PrintableStream(stream)) for stream in (sys.stdout, sys.stderr))
    with redirect_stdout(out), redirect_stderr(errors):
        return _run()


def _recover(arguments: list[str]) -> int:
    """Run `recover`; SIGINT and SIGTERM end it at a point from which it can continue."""
    from storage.recover.program import main as recover

    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return recover(arguments, stop)


def _run() -> int:
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import ManagementUtility
    from django.core.management.base import BaseCommand, CommandError, SystemCheckError
    from django.db.utils import Error as DatabaseError

    from audit import actors
    from backupsched import places
    from backupsched.overview import overview
    from backupsched.version import own_version

    class Error(CommandError):
        """Django reports an error of a command under the name of its class: this is that of all others here."""

    class Started(ManagementUtility):
        def main_help_text(self, commands_only: bool = False) -> str:
            return super().main_help_text(commands_only) if commands_only else overview(self.prog_name)

        def fetch_command(self, subcommand: str) -> BaseCommand:
            command = super().fetch_command(subcommand)
            verb = self.argv[2:3] if hasattr(command, "noun") else []
            actors.of_process(" ".join([subcommand, *(each for each in verb if not each.startswith("-"))]))
            execute = command.execute

            def execute_or_say_why(*arguments: Any, **options: Any) -> str | None:
                try:
                    return execute(*arguments, **options)
                except SystemCheckError:  # reported as it is
                    raise
                except CommandError as error:
                    raise Error(*error.args, returncode=error.returncode) from error

            command.execute = execute_or_say_why  # type: ignore[method-assign]
            command.get_version = own_version  # type: ignore[method-assign] # else that of Django
            gc.freeze()
            gc.set_threshold(COLLECT_AFTER)
            gc.enable()
            return command

    try:
        if sys.argv[1:2] == ["demo"]:
            places.enter_the_demo(os.environ)
        Started(sys.argv).execute()
    except ImproperlyConfigured as error:
        sys.stderr.write(f"Error: {error}\n")
        return 2
    except SystemExit as end:
        if not isinstance(end.code, str):
            raise
        sys.stderr.write(f"Error: {end.code}\n")  # of `environment`
        return 2
    except BrokenPipeError:
        # the reader of our output has had enough (`| head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except DatabaseError as error:
        from jobs import database_errors

        if not (message := database_errors.describe(error)):
            raise
        sys.stderr.write(f"Error: {message}\n")
        return 2
    return 0
