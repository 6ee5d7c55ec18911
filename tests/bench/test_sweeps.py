"""What is computed from the attempts of a sweep, and the hosts that are not there."""

import socket

import pytest

from bench.fleets.deaf_host import NotDeaf, address, check_silent, deaf_host
from bench.fleets.spans import Span
from bench.fleets.swept import NoSweep, Tried, swept
from jobs.states import AttemptOutcome

SILENT, HANDED_ON, DONE = AttemptOutcome.UNAVAILABLE, AttemptOutcome.HANDOFF, AttemptOutcome.SUCCEEDED


def silent(start: float, end: float) -> Tried:
    return Tried(True, "availability", start, end, SILENT)


def copied(start: float, end: float, *, absent: bool = False, outcome: int | None = DONE) -> Tried:
    return Tried(absent, "backups", start, end, outcome)


class TestASweep:
    def test_lasts_from_the_first_claim_to_the_last_absent_source(self):
        attempts = [Tried(False, "availability", 10, 10.1, HANDED_ON), silent(11, 13), silent(12, 14), copied(14, 20)]
        assert swept(attempts, absent=2, units=16, timeout=2).whole == Span(10, 14)

    def test_units_are_busy_with_what_they_copy_and_not_with_what_is_asked(self):
        attempts = [silent(0, 10), silent(0, 10), copied(0, 5), copied(5, 12, outcome=None)]
        assert swept(attempts, absent=2, units=2, timeout=2).busy == pytest.approx(0.5)

    def test_what_absent_sources_take_of_units_is_wasted_and_does_not_make_them_busy(self):
        found = swept([silent(0, 10), copied(3, 5, absent=True), copied(0, 10)], absent=1, units=2, timeout=2)
        assert found.wasted == 2
        assert found.busy == pytest.approx(0.5)

    def test_what_absent_sources_take_after_the_sweep_is_wasted_too(self):
        assert swept([silent(0, 10), copied(11, 12, absent=True)], absent=1, units=2, timeout=2).wasted == 1

    @pytest.mark.parametrize(
        "attempts",
        [
            [silent(0, 2)],
            [silent(0, 2), silent(0, 2), silent(3, 5)],
            [silent(0, 2), Tried(True, "availability", 0, 2, HANDED_ON)],
            [silent(0, 2), silent(0, 2), Tried(True, "availability", 3, 5, HANDED_ON)],
            [silent(0, 2), silent(0, 1.9)],
        ],
        ids=["not asked", "asked twice", "answered", "answered the second time", "not given its time"],
    )
    def test_that_was_none_is_not_measured(self, attempts):
        with pytest.raises(NoSweep):
            swept(attempts, absent=2, units=16, timeout=2)


class TestTheDeafHost:
    def test_is_silent_to_everybody(self):
        with deaf_host(last=699) as port:
            for number in (1, 350):
                check_silent(address(number), port)

    def test_a_port_that_accepts_is_not_silent(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            with pytest.raises(NotDeaf, match=f"127.0.0.1:{port} answers"):
                check_silent("127.0.0.1", port)
