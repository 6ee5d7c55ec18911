"""`manage.py backoff`: pictures, figures and tables; and what it says to bad usage."""

import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from PIL import Image

from jobs.models import RetryPolicy
from jobs.retries import ALGORITHMS, Rule
from operations.backoff import charts
from operations.backoff.poster import at_equal_load
from operations.backoff.series import series
from operations.backoff.subjects import every_algorithm, study
from tests.factories import make_retry_policy

pytestmark = pytest.mark.django_db

PNG = b"\x89PNG"


def run(*arguments: Any) -> str:
    written = StringIO()
    call_command("backoff", *map(str, arguments), stdout=written)
    return written.getvalue()


def refused(*arguments: Any) -> str:
    with pytest.raises(CommandError) as caught:
        run(*arguments)
    assert caught.value.returncode == 2
    return str(caught.value)


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

    def test_is_that_of_the_pure_functions_with_the_same_seed(self) -> None:
        found = json.loads(run("buckets", "--json", "--seed", 5))
        assert found["retries"] == [list(job) for job in series(Rule("buckets"), jobs=100, retries=12, seed=5).jobs]

    def test_of_two_is_named_by_each(self) -> None:
        found = json.loads(run("buckets", "--compare", "phased", "--json"))
        assert set(found) == {"buckets", "phased"}
        assert json.loads(run("buckets", "--compare", "phased", "--json")) == found

    def test_of_an_algorithm_beside_itself_both_are_there(self) -> None:
        found = json.loads(run("constant", "--set", "base=7", "--compare", "constant", "--json", "--retries", 1))
        assert found["constant"]["retries"][0] == [7]
        assert found["constant (2)"]["retries"][0] == [300]


class TestParameters:
    def first(self, *arguments: Any) -> list[float]:
        found: list[float] = json.loads(run(*arguments, "--jobs", 1, "--json"))["retries"][0]
        return found

    def test_as_json_and_one_by_one(self) -> None:
        assert self.first("fibonacci", "--parameters", '{"unit": 15}')[:3] == [15, 30, 60]
        assert self.first("fibonacci", "--set", "unit=1.5")[:3] == [1.5, 3, 6]
        exponential = self.first(
            "exponential", "--parameters", '{"least": 1}', "--set", "unit=1", "--set", "jitter=none"
        )
        assert exponential[:3] == [2, 5, 10]

    def test_limits(self) -> None:
        assert self.first("constant", "--max-delay", 5, "--max-failures", 3) == [5, 10]
        assert self.first("constant", "--give-up-after", 600) == [300, 600]

    def test_a_policy_brings_its_own(self) -> None:
        make_retry_policy(name="often", algorithm="constant", parameters={"base": 5}, max_failures=3)
        assert self.first("often") == [5, 10]

    def test_an_algorithm_is_meant_before_a_policy_of_its_name(self) -> None:
        RetryPolicy.objects.update_or_create(
            name="fibonacci", defaults={"algorithm": "constant", "parameters": {"base": 5}}
        )
        assert self.first("fibonacci")[0] == 60
        assert self.first("policy:fibonacci")[:2] == [5, 10]
        assert "own parameters" in refused("policy:fibonacci", "--set", "unit=3")


class TestTable:
    def test_tells_figures_first_waits_and_the_end(self) -> None:
        said = run("fibonacci", "--jobs", 1_000, "--max-failures", 25)
        assert "1,000 jobs that fail together, 12 retries of each at most" in said
        assert "unit 60 s\n" in said
        assert "first waits: 1 min, 1 min, 2 min, 3 min, 5 min, 8 min, 13 min, 21 min, 34 min, 55 min" in said
        assert "It gives up at failure 25" in said
        [line] = [line for line in said.splitlines() if "6 h 16 min" in line]
        assert line.split()[0] == "fibonacci"

    def test_a_name_cannot_steer_the_terminal(self) -> None:
        make_retry_policy(name="re\x1b[31md")
        assert "\x1b" not in run("re\x1b[31md")

    def test_of_all_algorithms_there_is_a_line_each(self) -> None:
        said = run("--all", "--jobs", 3)
        assert all(any(line.strip().startswith(name) for line in said.splitlines()) for name in ALGORITHMS)
        assert "exponential, full jitter" in said
        assert "first waits" not in said

    @pytest.mark.parametrize("form", ["png", "svg"])
    def test_of_all_algorithms_there_is_a_poster_that_has_each_twice(self, form: str, tmp_path: Path) -> None:
        path = tmp_path / f"all.{form}"
        run("--all", "--jobs", 20, "--output", path)
        assert path.read_bytes().startswith(PNG if form == "png" else b"<svg ")
        if form == "svg":
            text = path.read_text()
            assert all(f"{name}: busiest minute" in text for name in ALGORITHMS)
            assert text.count("waits ×") == text.count("at equal mean load, busiest") == len(every_algorithm())

    def test_at_equal_mean_load_all_have_the_horizon_of_the_sweeps(self) -> None:
        equal = at_equal_load([study(subject, jobs=20) for subject in every_algorithm()])
        assert {round(each.figures.horizon_seconds, 6) for each in equal} == {3_600}

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

    def test_by_format_when_the_name_does_not_say_it(self, tmp_path: Path) -> None:
        run("fibonacci", "--jobs", 5, "--output", tmp_path / "plot", "--format", "png")
        assert (tmp_path / "plot").read_bytes().startswith(PNG)

    def test_two_dark_on_a_log_axis(self, tmp_path: Path) -> None:
        path = tmp_path / "plot.png"
        run("fibonacci", "--compare", "phased", "--jobs", 5, "--theme", "dark", "--scale", "log", "--output", path)
        with Image.open(path) as image:
            assert image.convert("RGB").getpixel((1, 1)) == (17, 24, 39)
            assert image.width > 1.6 * image.height

    def test_with_json_only_json_is_printed(self, tmp_path: Path) -> None:
        assert json.loads(run("fibonacci", "--json", "--output", tmp_path / "plot.svg"))["retries"]
        assert (tmp_path / "plot.svg").exists()

    def test_others_may_read_it_as_the_umask_says_and_nothing_else_is_left(self, tmp_path: Path) -> None:
        before = os.umask(0o027)
        try:
            run("fibonacci", "--jobs", 5, "--output", tmp_path / "plot.svg")
        finally:
            os.umask(before)
        assert (tmp_path / "plot.svg").stat().st_mode & 0o777 == 0o640
        assert [path.name for path in tmp_path.iterdir()] == ["plot.svg"]


class TestBadUsage:
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ((), "name an algorithm (buckets, constant"),
            (("fibbonaci",), "there is no algorithm and no retry policy 'fibbonaci'; the algorithms are buckets"),
            (("a\0b",), "there is no algorithm and no retry policy 'a\\x00b'"),
            (("constant", "--compare", "x"), "no retry policy 'x'"),
            (("constant", "--jobs", "0"), "at least 1 job and 1 retry"),
            (("constant", "--retries", "-1"), "at least 1 job and 1 retry"),
            (("constant", "--jobs", "1000000"), "at most 200,000 are worked out"),
            (("constant", "--parameters", "{"), "--parameters is not JSON"),
            (("constant", "--parameters", "[" * 100_000), "--parameters is not JSON"),
            (("constant", "--parameters", "[]"), "--parameters must be an object"),
            (("constant", "--set", "base"), "--set 'base' is not NAME=VALUE"),
            (("constant", "--set", "unit=3"), "constant has no parameter 'unit'; it takes base"),
            (("constant", "--set", "base=0"), "parameters: base must be a positive number"),
            (("constant", "--set", "base=nan"), "parameters: base must be a positive number"),
            (("constant", "--set", "base=" + "9" * 5_000), "parameters: base must be"),
            (("exponential", "--set", "jitter=some"), "jitter is none, full or equal"),
            (("constant", "--max-delay", "0"), "max delay: must be a number from 1"),
            (("constant", "--max-delay", "nan"), "max delay: must be a number from 1"),
            (("constant", "--max-failures", "0"), "max failures: must be a number from 1"),
            (("constant", "--give-up-after", "1e300"), "give up after: must be a number from 1"),
            (("progressive", "--max-failures", "3"), "max failures: leave it empty"),
            (("--all", "constant"), "leave out an algorithm or policy"),
            (("--all", "--scale", "log"), "leave out --scale"),
            (("--all", "--max-delay", "3"), "leave out --max-delay"),
        ],
    )
    def test_is_answered_with_a_sentence_and_2(self, arguments: tuple[str, ...], said: str) -> None:
        assert said in refused(*arguments)

    def test_a_policy_has_no_other_parameters(self) -> None:
        make_retry_policy(name="often", algorithm="constant")
        assert "to try others, name its algorithm: constant" in refused("often", "--set", "base=3")

    def test_a_policy_stored_past_its_form_is_told(self) -> None:
        make_retry_policy(name="broken", algorithm="constant", parameters={"unit": 3})
        assert "constant has no parameter 'unit'" in refused("broken")


class TestFilesThatCannotBe:
    @pytest.mark.parametrize(
        ("name", "options", "said"),
        [
            ("plot.gif", (), "a picture's name ends in .svg or .png"),
            ("plot", (), "a picture's name ends in .svg or .png"),
            ("plot.svg", ("--format", "png"), "ends in .svg, but --format says png"),
            ("none/plot.svg", (), "there is no directory"),
            ("sub.svg", (), "is a directory"),
            ("old.svg", (), "is there already; add --force"),
            ("old.svg/plot.svg", (), "there is no directory"),
            ("x" * 300 + ".svg", (), "File name too long"),
        ],
    )
    def test_are_told_before_anything_is_drawn(
        self, name: str, options: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(charts, "draw", lambda *args, **kwargs: pytest.fail("it was drawn"))
        (tmp_path / "sub.svg").mkdir()
        (tmp_path / "old.svg").write_text("old")
        assert said in refused("constant", "--output", tmp_path / name, *options)
        assert (tmp_path / "old.svg").read_text() == "old"
        assert {path.name for path in tmp_path.iterdir()} == {"sub.svg", "old.svg"}

    def test_force_overwrites(self, tmp_path: Path) -> None:
        (tmp_path / "old.svg").write_text("old")
        run("constant", "--jobs", 2, "--output", tmp_path / "old.svg", "--force")
        assert (tmp_path / "old.svg").read_text().startswith("<svg")

    def test_a_full_disk_leaves_nothing_behind(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(self: Path, target: Path) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "replace", full)
        said = refused("constant", "--jobs", 2, "--output", tmp_path / "plot.svg")
        assert "cannot be written: No space left on device" in said
        assert list(tmp_path.iterdir()) == []

    def test_one_that_came_up_meanwhile_is_kept(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        draw, path = charts.draw, tmp_path / "plot.svg"

        def slowly(*args: Any, **kwargs: Any) -> bytes:
            path.write_text("theirs")
            return draw(*args, **kwargs)

        monkeypatch.setattr(charts, "draw", slowly)
        assert "is there already" in refused("constant", "--jobs", 2, "--output", path)
        assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("plot.svg", "theirs")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("fibonacci", "--jobs", "100", "--retries", "12", "--json"), 0, '"horizon_seconds": 22560'),
        (("fibonacci", "--jobs", "ten"), 2, "invalid int value: 'ten'"),
        (("fibonacci", "--scale", "x"), 2, "invalid choice: 'x'"),
        (("fibonacci", "--set", "unit=-1"), 2, "unit must be a positive number of seconds"),
    ],
)
def test_a_process_ends_with_a_code_and_a_sentence_and_no_traceback(
    arguments: tuple[str, ...], code: int, said: str
) -> None:
    root = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    argv = (sys.executable, "manage.py", "backoff", *arguments)
    done = subprocess.run(argv, cwd=root, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
