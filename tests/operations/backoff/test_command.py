"""`manage.py backoff`: pictures, figures and tables; and what it says to bad usage."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.models import RetryPolicy
from jobs.retries import ALGORITHMS, Rule
from operations.backoff.study import every_algorithm, study
from operations.management.commands.backoff import _write
from tests.commands import command
from tests.factories import make_retry_policy

pytestmark = pytest.mark.django_db

PNG = b"\x89PNG"


run, refused = command("backoff")


class TestJson:
    def test_has_the_figures_and_the_instants_of_each_job(self) -> None:
        found = json.loads(run("constant", "--jobs", 2, "--retries", 3, "--json"))
        assert found == {
            "horizon_seconds": 900,
            "peak_per_minute": 2,
            "idle_share": pytest.approx(13 / 16),
            "wait_cv": 0,
            "retries": [[300, 600, 900], [300, 600, 900]],
        }

    def test_of_two_is_named_by_each(self) -> None:
        found = json.loads(run("buckets", "--compare", "phased", "--json"))
        assert set(found) == {"buckets", "phased"}
        assert found["buckets"]["retries"] == [list(job) for job in study("", Rule("buckets")).jobs]


class TestParameters:
    def first(self, *arguments: Any) -> list[float]:
        found: list[float] = json.loads(run(*arguments, "--jobs", 1, "--json"))["retries"][0]
        return found

    def test_are_given_one_by_one(self) -> None:
        assert self.first("fibonacci", "--set", "unit=15")[:3] == [15, 30, 60]
        assert self.first("fibonacci", "--set", "unit=1.5")[:3] == [1.5, 3, 6]
        exponential = self.first("exponential", "--set", "least=1", "--set", "unit=1", "--set", "jitter=none")
        assert exponential[:3] == [2, 5, 10]

    def test_an_algorithm_is_meant_before_a_policy_of_its_name(self) -> None:
        RetryPolicy.objects.update_or_create(
            name="fibonacci", defaults={"algorithm": "constant", "parameters": {"base": 5}}
        )
        assert self.first("fibonacci")[0] == 60
        assert self.first("policy:fibonacci")[:2] == [5, 10]
        assert "own parameters" in refused("policy:fibonacci", "--set", "unit=3")


class TestTable:
    def test_a_name_cannot_steer_the_terminal(self) -> None:
        make_retry_policy(name="re\x1b[31md")
        assert "\x1b" not in run("re\x1b[31md")

    def test_of_all_algorithms_as_json(self) -> None:
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


class TestPictures:
    def test_by_the_name_of_the_file(self, tmp_path: Path) -> None:
        for form in ("svg", "PNG"):
            path = tmp_path / f"plot.{form}"
            assert str(path) in run("fibonacci", "--jobs", 5, "--output", path)
        assert (tmp_path / "plot.svg").read_text().startswith("<svg ")
        assert (tmp_path / "plot.PNG").read_bytes().startswith(PNG)

    def test_the_poster_has_each_algorithm_twice(self, tmp_path: Path) -> None:
        run("--all", "--jobs", 3, "--retries", 3, "--output", tmp_path / "all.svg")
        written = (tmp_path / "all.svg").read_text()
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
        ("sub.svg", "sub.svg is there already"),
        ("none/x.svg", "cannot be written: No such file or directory"),
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
    with pytest.raises(ValueError, match="cannot be written: No space left on device"):
        _write(tmp_path / "plot.svg", b"x", force=True)
    assert list(tmp_path.iterdir()) == []
