"""What is computed from the attempts of a sweep, and the hosts that are not there."""

import socket

import pytest

from bench.fleets.deaf_host import NotDeaf, address, check_silent, deaf_host
from bench.fleets.spans import Span, busy_share, seconds_of_one_pass, unit_seconds
from bench.fleets.swept import NoSweep, Tried, swept
from jobs.states import AttemptOutcome

SILENT, HANDED_ON, DONE = AttemptOutcome.UNAVAILABLE, AttemptOutcome.HANDOFF, AttemptOutcome.SUCCEEDED


def silent(start: float, end: float) -> Tried:
    return Tried(True, "availability", start, end, SILENT)


def copied(start: float, end: float, *, absent: bool = False, outcome: int | None = DONE) -> Tried:
    return Tried(absent, "backups", start, end, outcome)


class TestSpans:
    @pytest.mark.parametrize(
        ("span", "within"),
        [
            (Span(1, 2), Span(1, 2)),
            (Span(-5, 2), Span(0, 2)),
            (Span(8, 15), Span(8, 10)),
            (Span(-5, 15), Span(0, 10)),
            (Span(11, 15), Span(11, 11)),
            (Span(-5, -1), Span(0, 0)),
        ],
    )
    def test_only_the_part_that_lies_in_the_other_counts(self, span, within):
        assert span.within(Span(0, 10)) == within

    def test_units_are_busy_for_the_time_that_is_taken_of_all_of_them(self):
        assert busy_share([Span(0, 10), Span(5, 10), Span(9, 19)], units=2, whole=Span(0, 10)) == pytest.approx(0.8)

    def test_the_seconds_of_units_add_up(self):
        assert unit_seconds([Span(0, 2), Span(1, 2)]) == 3

    def test_one_pass_asks_all_in_turns(self):
        assert seconds_of_one_pass(700, 200, 2.0) == pytest.approx(7.0)

    def test_even_the_only_source_is_given_its_time(self):
        assert seconds_of_one_pass(1, 200, 2.0) == 2.0


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
    def test_every_absent_source_has_an_address_of_its_own(self):
        addresses = {address(number) for number in range(10_000)}
        assert len(addresses) == 10_000
        assert all(socket.inet_aton(found)[0] == 127 for found in addresses)

    def test_is_silent_to_everybody(self):
        with deaf_host(last=699) as port:
            for number in (1, 350):
                check_silent(address(number), port)

    def test_a_port_where_nobody_listens_refuses_and_is_not_silent(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        with pytest.raises(NotDeaf, match=f"127.0.0.1:{port} does not stay silent"):
            check_silent("127.0.0.1", port)

    def test_a_port_that_accepts_is_not_silent(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            with pytest.raises(NotDeaf, match=f"127.0.0.1:{port} answers"):
                check_silent("127.0.0.1", port)
