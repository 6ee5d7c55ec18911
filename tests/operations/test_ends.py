"""The expected end of a running record: by its progress and its last duration, and by the latter alone where its
progress would mislead.
"""

import random
from datetime import timedelta
from math import inf
from statistics import median
from typing import Any

import pytest

from jobs.models import BacklogRecord
from jobs.states import Status
from operations.backlog.ends import SPREAD, RunProgress, drawn_seconds, progress_of, rest_of
from operations.backlog.reasons import explain
from sources.models import Progress
from tests.factories import NOON, make_record, make_worker

SECOND = timedelta(seconds=1)
BEGAN = NOON - 100 * SECOND


def known(**fields: Any) -> dict[str, Any]:
    usual = {"bytes_done": 500, "bytes_total": 1_000, "files_done": 7, "attempt": 2, "updated_at": NOON}
    return usual | fields


def test_half_of_the_bytes_take_as_long_as_the_other_half_and_a_little_more():
    half = RunProgress(0.5, 100.0)
    assert progress_of(known(), BEGAN, 2, NOON) == half
    assert rest_of(100.0, None, half) == rest_of(100.0, -20.0, half) == pytest.approx(105.0)
    assert rest_of(130.0, None, half) == pytest.approx(75.0)  # thirty seconds after it was reported
    assert rest_of(300.0, None, half) == 1.0
    assert rest_of(100.0, 20.0, None) == 20.0


def test_the_last_duration_counts_less_the_more_is_done():
    shares = [(share, rest_of(100.0, 2.0 * RunProgress(share, 100.0).rest(100.0), RunProgress(share, 100.0)))
              for share in (0.1, 0.5, 1.0)]  # fmt: skip
    apart = [(rest or 0.0) / RunProgress(share, 100.0).rest(100.0) for share, rest in shares]
    assert apart == pytest.approx([2**0.27, 2**0.15, 1.0])


@pytest.mark.parametrize(
    "fields",
    [
        {"attempt": 1},
        {"updated_at": NOON - 61 * SECOND},  # its worker is dead, or its clock is not ours
        {"updated_at": NOON + 61 * SECOND},
        {"updated_at": BEGAN + 4 * SECOND},
        {"updated_at": None},
        {"bytes_total": 0},
        {"bytes_done": 0},
        {"bytes_done": 1_001},
        {"bytes_done": 99},
        {"bytes_done": -1, "bytes_total": -1},
    ],
    ids=str,
)
def test_progress_that_would_mislead_says_nothing(fields: dict[str, Any]):
    assert progress_of(known(**fields), BEGAN, 2, NOON) is None
    assert progress_of({}, BEGAN, 2, NOON) is None
    assert progress_of(known(), None, 2, NOON) is None


def test_draws_lie_around_the_rest_by_progress_and_by_earlier_durations_without_it():
    rng, almost = random.Random(1), RunProgress(0.999, 100.0)
    drawn = sorted(drawn_seconds(100.0, lambda: inf, RunProgress(0.5, 100.0), rng) for _ in range(2_000))
    assert median(drawn) == pytest.approx(205.0, rel=0.05)
    assert (drawn[1_681] - 100.0) / (median(drawn) - 100.0) == pytest.approx(2.718**SPREAD, rel=0.1)
    assert all(100.0 < drawn_seconds(100.0, lambda: 5_000.0, almost, rng) < 150.0 for _ in range(200))
    assert drawn_seconds(100.0, lambda: 5_000.0, None, rng) == 5_000.0


@pytest.mark.django_db
def test_what_runs_and_what_waits_for_it_name_the_end_by_its_progress():
    make_worker(queues={"default": 1}, heartbeat_at=NOON)
    record = make_record(
        Status.RUNNING, due_day=NOON.date(), expected_seconds=600.0, started_at=BEGAN, attempt=2, subject="it"
    )

    def text_of(row: BacklogRecord) -> str:
        return explain(row, NOON).reasons[0].text

    assert text_of(record).endswith("; by its last duration it ends at 2026-03-02 12:08:20 UTC")
    Progress.objects.create(record_id=record.pk, attempt=2, bytes_done=900, bytes_total=1_000)
    Progress.objects.update(updated_at=NOON)
    # 16.1 s by progress, 500 s by the last duration: 16.1 ** 0.97 * 500 ** 0.03
    [reason] = explain(record, NOON).reasons
    assert ": 90 %, 900 bytes of 1000 bytes; by its progress it ends at 2026-03-02 12:00:17 UTC" in reason.text
    assert reason.until == reason.facts["expected_end"] == NOON + timedelta(seconds=16.111111**0.97 * 500.0**0.03)
    waiting = make_record()
    assert "; by its progress it ends first, at 2026-03-02 12:00:17 UTC" in text_of(waiting)
    Progress.objects.update(attempt=1)
    assert "by its last duration it ends first, at 2026-03-02 12:08:20 UTC" in text_of(waiting)
