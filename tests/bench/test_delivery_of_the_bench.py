"""The part on delivery as a process, with few callbacks: that what the receiver counts is what was sent."""

import urllib.request

import pytest

from bench.parts.delivery import counts, receiver
from tests.bench.test_bench_command import LONGEST_SECONDS, directory, measure

pytestmark = [pytest.mark.slow, pytest.mark.timeout(LONGEST_SECONDS + 60)]

__all__ = ["directory"]


def post(url: str, event: str, **headers: str) -> None:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, data=b"{}", headers={"Idempotency-Key": event, **named})
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200


def test_the_receiver_counts_requests_and_events():
    with receiver() as url:
        for event in ("a", "b", "a"):
            post(url, event, webhook_signature="v1,x")
        post(url, "c")
        assert counts(url) == {"requests": 4, "signed": 3, "events": 3, "connections": 4}
        assert counts(url)["requests"] == 0


def test_our_worker_delivers_as_many_as_the_bare_client(directory):
    found = measure(directory, "delivery", "--repeats", "1", "--jobs", "300")
    assert found["failures"] == []
    assert {row["contestant"] for row in found["measured"]} == {"delivery-ours", "delivery-bare"}
    assert [ratio["target"] for ratio in found["ratios"]] == ["≥ 0.4"]
    assert list(directory.iterdir()) == []
