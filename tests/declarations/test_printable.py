"""Texts of sources and programs cannot steer the terminal of the user who reads them."""

import io
import logging
import sys

import pytest
from rich.table import Table

from declarations.surfaces.printable import PrintableFormatter, PrintableStream, printable
from declarations.surfaces.terminal import text_of
from operations.finding import ExaminedCondition, Severity
from operations.management.commands.doctor import report
from simulation.management.commands import simulate
from storage.recover import showing
from storage.restoring.base import RestoreProgress

HOSTILE = "a\x1b]0;title\x07b\x1b[2Jc\rd\u202ee\x9b31m\x00"
HARMLESS = r"a\u001b]0;title\u0007b\u001b[2Jc\u000dd\u202ee\u009b31m\u0000"


def test_control_characters_become_escapes_and_lines_stay_lines() -> None:
    assert printable(f"{HOSTILE}\n\tÄ") == f"{HARMLESS}\n\tÄ"


def test_colours_stay_where_they_are_ours_and_nothing_else_does() -> None:
    red = "\x1b[1;31mred\x1b[0m"
    assert printable(f"{red}\x1b[2J\x1b[8m\x1b[30m", colours=True) == red + r"\u001b[2J\u001b[8m\u001b[30m"


def test_a_log_line_with_its_traceback_steers_nothing() -> None:
    log, stream = logging.Logger("test"), io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(PrintableFormatter("%(message)s"))
    log.addHandler(handler)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        log.exception("it said %s", HOSTILE)
    assert "\x1b" not in stream.getvalue()
    assert f"it said {HARMLESS}" in stream.getvalue()


@pytest.mark.parametrize("forged", ["a\nWARNING all is well", "a\r\n\nb", "a\n\x1b[2K"])
def test_a_name_with_a_line_break_forges_no_line_of_a_log(forged: str) -> None:
    line = PrintableFormatter("%(levelname)s %(message)s").format(
        logging.LogRecord("jobs", logging.INFO, "", 0, "%s: it was not copied", (forged,), None)
    )
    assert line.splitlines() == [line]
    assert line.startswith(r"INFO a")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bars_of_progress_move_at_a_terminal_and_leave_no_escapes_there(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "__stderr__", terminal)
    monkeypatch.setattr(sys, "stderr", PrintableStream(terminal))
    with showing.ProgressDisplay(print, as_json=False) as shown:
        shown(RestoreProgress(1, 2, 10, 20))
    with simulate._progress() as progress:
        progress.add_task("fifo", total=1.0)
    assert "1 of 2 files" in terminal.getvalue()
    assert "fifo" in terminal.getvalue()
    assert "\\u00" not in terminal.getvalue()


@pytest.mark.parametrize("terminal", [False, True])
def test_tables_steer_nothing_either(terminal: bool) -> None:
    table = Table.grid()
    table.add_row(f"[bold]{HOSTILE}")
    shown = text_of(table, terminal=terminal)
    assert "\x1b]" not in shown
    assert "\x1b[2J" not in shown
    found = text_of(report([ExaminedCondition("disk", Severity.PROBLEM, HOSTILE, HOSTILE, {}, [])]), terminal=terminal)
    assert "\x1b]" not in found
    assert "\x1b[2J" not in found
