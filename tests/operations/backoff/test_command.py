"""`manage.py policies backoff`: pictures, figures and tables; and what it says to bad usage."""

import json
from pathlib import Path
from typing import Any

import pytest

from fleet.management.policies.backoff import _write
from jobs.models import RetryPolicy
from jobs.retries import ALGORITHMS, Rule
from operations.backoff.study import every_algorithm, study
from tests.commands import command
from tests.factories import make_retry_policy

pytestmark = pytest.mark.django_db

PNG = b"\x89PNG"


run, refused = command("policies backoff")


class TestFigures:
    def test_as_json_with_the_instants_of_each_job_of_two_by_name_of_all_without_them(self) -> None:
        found = json.loads(run("constant", "--jobs", 2, "--retries", 3, "--json"))
        assert found == {
            "horizon_seconds": 900,
            "peak_per_minute": 2,
            "idle_share": pytest.approx(13 / 16),
            "wait_cv": 0,
            "retries": [[300, 600, 900], [300, 600, 900]],
        }
        found = json.loads(run("buckets", "--compare", "phased", "--json"))
        assert set(found) == {"buckets", "phased"}
        assert found["buckets"]["retries"] == [list(job) for job in study("", Rule("buckets")).jobs]
        found = json.loads(run("--all", "--jobs", 3, "--json"))
        assert set(ALGORITHMS) < set(found)
        assert found["constant"] == {
            "horizon_seconds": 3600,
            "peak_per_minute": 3,
            "peak_after_three": 3,
            "idle_share": pytest.approx(49 / 61),
            "wait_cv": 0,
            "calls_per_hour": {"1": 11, "2": 12, "3": 12, "24": 12},
            "gives_up": None,
        }
        assert found["progressive"]["gives_up"]["after_seconds"] == 360 * 86_400

    def first(self, *arguments: Any) -> list[float]:
        found: list[float] = json.loads(run(*arguments, "--jobs", 1, "--json"))["retries"][0]
        return found

    def test_of_parameters_that_are_given_one_by_one(self) -> None:
        assert self.first("fibonacci", "--set", "unit=1.5")[:3] == [1.5, 3, 6]
        exponential = self.first("exponential", "--set", "least=1", "--set", "unit=1", "--set", "jitter=none")
        assert exponential[:3] == [2, 5, 10]

    def test_of_an_algorithm_before_a_policy_of_its_name(self) -> None:
        policy = {"algorithm": "constant", "parameters": {"base": 5}}
        RetryPolicy.objects.update_or_create(name="fibonacci", defaults=policy)
        assert self.first("fibonacci")[0] == 60
        assert self.first("policy:fibonacci")[:2] == [5, 10]
        assert "own parameters" in refused("policy:fibonacci", "--set", "unit=3")

    def test_in_a_table_that_no_name_steers(self) -> None:
        make_retry_policy(name="re\x1b[31md")
        assert "\x1b" not in run("re\x1b[31md")


def test_a_picture_is_drawn_by_the_name_of_its_file_and_the_poster_has_each_algorithm_twice(tmp_path: Path) -> None:
    path = tmp_path / "plot.PNG"
    assert str(path) in run("fibonacci", "--jobs", 5, "--output", path)
    assert path.read_bytes().startswith(PNG)
    run("--all", "--jobs", 3, "--retries", 3, "--output", tmp_path / "all.svg")
    written = (tmp_path / "all.svg").read_text()
    assert written.startswith("<svg ")
    assert all(f">{name}<" in written for name in ALGORITHMS)
    assert "At equal mean load: half of the jobs are through by 15 min" in written
    assert written.count("waits × ") == len(list(every_algorithm()))


class TestBadUsage:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((), "name an algorithm (buckets, constant"),
            (("constant", "--retries", "-1"), "at least 1 job and 1 retry"),
            (("constant", "--set", "base"), "is not NAME=VALUE"),
            (("constant", "--set", "base=" + "9" * 5_000), "parameters: base must be"),
            (("constant", "--max-failures", "0"), "max failures: must be a number from 1"),
            (("--all", "--max-delay", "3"), "leave out --max-delay"),
        ],
    )
    def test_is_answered_with_a_sentence_and_2(self, arguments: tuple[str, ...], message: str) -> None:
        assert message in refused(*arguments)

    def test_a_policy_stored_past_its_form_is_named(self) -> None:
        make_retry_policy(name="broken", algorithm="constant", parameters={"unit": 3})
        assert "constant has no parameter 'unit'" in refused("broken")


def test_a_file_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "sub.svg").mkdir()
    (tmp_path / "old.svg").write_text("old")
    assert "ends in .svg or .png" in refused("constant", "--jobs", 1, "--output", tmp_path / "plot.gif")
    assert "add --force" in refused("constant", "--jobs", 1, "--output", tmp_path / "old.svg")
    for name, message in (
        ("sub.svg", "sub.svg exists already"),
        ("none/x.svg", "cannot be written: it is not there"),
        ("x" * 300 + ".svg", "File name too long"),
    ):
        with pytest.raises(ValueError, match=message):
            _write(tmp_path / name, b"x", force=False)
    assert (tmp_path / "old.svg").read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"sub.svg", "old.svg"}
    run("constant", "--jobs", 1, "--output", tmp_path / "old.svg", "--force")
    assert (tmp_path / "old.svg").read_text().startswith("<svg")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full is Linux's")
def test_a_full_disk_is_named_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "plot.svg").symlink_to("/dev/full")
    with pytest.raises(ValueError, match="cannot be written: its disk is full"):
        _write(tmp_path / "plot.svg", b"x", force=True)
    assert list(tmp_path.iterdir()) == []
