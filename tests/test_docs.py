"""The documents say what the code does: states, transitions, words, settings, links."""

import re
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from backupsched import settings
from fleet.files.schema import RENAMED_FROM, Fleet
from jobs.outcomes import Cancelled, Failed, Handoff, Held, Outcome, Postponed, Released, Succeeded, Unavailable
from jobs.retries import Rule
from jobs.states import AttemptOutcome, Status, WaitingFor
from jobs.transitions import transition
from tests.documents import DOCUMENTS, ROOT, links, table_rows
from tests.factories import make_claimed

GLOSSARY = ROOT / "docs/glossary.md"
LIFECYCLE = ROOT / "docs/lifecycle.md"
DECISIONS = sorted((ROOT / "docs/decisions").glob("*.md"))
NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
CELL = re.compile(r"`(\w+)`(?: \(`(\w+)`\))?")

OUTCOMES: list[Outcome] = [
    Succeeded(),
    Cancelled(),
    Released(),
    Postponed(NOW, WaitingFor.SNOOZE, "its user wants none before"),
    Handoff("backups", exclusive_key="source:1"),
    Unavailable("silent", recheck_after=900),
    Unavailable("woken", recheck_after=180, woken=True),
    Failed("refused"),
    Failed("lost", rescued=True),
    Held(7, "the breaker of a repository is open"),
]


def first_cells(document: Path, heading: str) -> list[str]:
    return [cells[0].strip("`") for cells in table_rows(document, heading)]


@pytest.mark.parametrize(
    ("heading", "states"),
    [("States", Status), ("Why a waiting record waits", WaitingFor), ("How an attempt ends", AttemptOutcome)],
)
def test_the_lifecycle_page_has_one_line_per_state(heading: str, states: Any) -> None:
    assert first_cells(LIFECYCLE, heading) == [str(label) for label in states.labels]


def documented_transitions() -> set[tuple[str, str, str]]:
    """(from, to, waiting for) of each row; "" where nothing is waited for or there is no state."""
    rows = set()
    for before, after, *_ in table_rows(LIFECYCLE, "Transitions"):
        match = CELL.fullmatch(after)
        assert match, f"not a state: {after}"
        rows.add((before.strip("`–"), match[1], match[2] or ""))
    return rows


def transitions_of_a_settle() -> set[tuple[str, str, str]]:
    found = set()
    day = NOW.date() - timedelta(days=1)
    running = make_claimed(queue="availability", started_at=NOW, due_day=day, rank_day=day)
    for outcome in OUTCOMES:
        for rule in (Rule(), Rule(max_failures=1), Rule("progressive")):
            change = transition(running, outcome, home_queue="availability", rule=rule, zone="UTC", now=NOW)
            reason = WaitingFor(change.waiting_for).label if change.waiting_for else ""
            found.add(("running", str(Status(change.status).label), str(reason)))
    return found


def test_the_lifecycle_page_has_every_way_out_of_running_and_no_other() -> None:
    documented = {row for row in documented_transitions() if row[0] == "running"}
    behind_the_gate = {("running", "waiting", "throttle")}
    assert documented == transitions_of_a_settle() | behind_the_gate


def test_no_documented_transition_leaves_success_and_only_a_retry_leaves_the_other_ends() -> None:
    left = {(before, after) for before, after, _ in documented_transitions()}
    assert {before for before, _ in left} == {"", "waiting", "ready", "running", "failed", "cancelled"}
    assert {after for before, after in left if before in ("failed", "cancelled")} == {"ready"}


def test_the_diagram_draws_the_transitions_of_the_table() -> None:
    text = LIFECYCLE.read_text(encoding="utf-8")
    drawn = set(re.findall(r"^    (\[\*\]|\w+) --> (\w+):", text, re.MULTILINE))
    tabled = {(before or "[*]", after) for before, after, _ in documented_transitions()}
    assert drawn == tabled - {("ready", "ready"), ("waiting", "waiting")}


def test_every_glossary_word_is_bold_where_it_is_defined_and_defined_once() -> None:
    words = [cells[0] for cells in table_rows(GLOSSARY)]
    assert [word for word in words if not re.fullmatch(r"\*\*.+\*\*", word)] == []
    assert len(words) == len({word.lower() for word in words})


@pytest.mark.parametrize("name", ["jobs", "delivery", "schedules", "operations", "api", "sources", "alerting", "audit"])
def test_every_table_of_the_project_is_in_the_glossary(name: str) -> None:
    from django.apps import apps

    text = GLOSSARY.read_text(encoding="utf-8").lower()
    unexplained = {"progress", "attempt"}  # an overwritten number; a view of the attempts
    models = {str(model._meta.verbose_name) for model in apps.get_app_config(name).get_models()} - unexplained
    assert [word for word in sorted(models) if f"**{word.lower()}**" not in text] == []


def test_every_outcome_is_in_the_glossary() -> None:
    text = GLOSSARY.read_text(encoding="utf-8")
    assert [kind for kind in {type(outcome).__name__ for outcome in OUTCOMES} if f"`{kind}`" not in text] == []


def test_the_settings_page_has_the_variables_that_the_settings_read() -> None:
    described = [cells[0].strip("`") for cells in table_rows(ROOT / "docs/settings.md")]
    read = re.findall(
        r"(?:environ\.get\(|environ\[|number\(|seconds\(|whole\(|umask\(|one_of\(|some_of\(|paths\(\s*|networks\(|listed\(|web_address\()\"(\w+)\"",
        Path(settings.__file__).read_text(encoding="utf-8"),
    )
    assert sorted(described) == sorted(set(read) - {"CREDENTIALS_DIRECTORY"})  # that one is systemd's


def test_the_fleet_file_page_has_every_field_that_the_import_takes() -> None:
    described = {
        cells[0].strip("`"): re.findall(r"`(\w+)`(?: \([^)]*\))?", " ".join(cells[1:]))
        for cells in table_rows(ROOT / "docs/fleet-files.md")
    }
    for section, field in Fleet.model_fields.items():
        [declared] = get_args(field.annotation)
        assert set(declared.model_fields) - {RENAMED_FROM} <= set(described[section]), section


def test_the_libraries_page_has_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"].values()
    listed = [*project["project"]["dependencies"], *(each for extra in extras for each in extra)]
    needed = {re.split(r"[^\w.-]", dependency)[0].lower() for dependency in listed} - {"backupsched"}
    rows = table_rows(ROOT / "docs/decisions/0009-libraries.md")
    assert {cells[0].lower().split(" (")[0] for cells in rows} == needed


def test_no_relative_link_is_broken() -> None:
    found = [(document.name, link) for document in DOCUMENTS for link in links(document)
             if not (document.parent / link).exists()]  # fmt: skip
    assert found == []


def test_every_path_named_in_code_marks_exists() -> None:
    rooms = "|".join(sorted(each.parent.name for each in ROOT.glob("*/__init__.py")))
    pattern = re.compile(rf"`((?:{rooms}|agent|fixtures|docs)/[\w./-]*)`")
    named = [(document.name, path) for document in DOCUMENTS for path in pattern.findall(document.read_text("utf-8"))]
    assert [each for each in named if not (ROOT / each[1]).exists() and not (ROOT / f"{each[1]}.py").exists()] == []


@pytest.mark.parametrize("page", ["ways", "architecture"])
def test_every_module_on_the_pages_for_newcomers_exists_also_in_their_pictures(page: str) -> None:
    rooms = "|".join(sorted(each.parent.name for each in ROOT.glob("*/__init__.py")))
    named = set(re.findall(rf"(?<![\w/.])(?:{rooms})/[\w/]*", (ROOT / f"docs/{page}.md").read_text("utf-8")))
    assert named
    assert [each for each in sorted(named) if not (ROOT / each).exists() and not (ROOT / f"{each}.py").exists()] == []


def test_a_decision_says_context_choice_and_cost_in_that_order() -> None:
    for document in DECISIONS:
        text = document.read_text(encoding="utf-8")
        places = [text.find(f"**{part}") for part in ("Context", "Choice", "Cost")]
        assert -1 < places[0] < places[1] < places[2], document.name


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = [int(document.name[:4]) for document in DECISIONS]
    assert numbers == list(range(1, len(numbers) + 1))
