"""Each resource on each surface: it is created, changed, paused, refused and removed by one set of rules, in one set of
words.

What a value may be is tested with its declaration, and what an edit does besides with its service. Here each surface is
seen to pass both on. A new resource needs a line in `resources.py`, a new surface a class in `ways.py`.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from audit.models import AuditEntry
from tests.api.asking import Program, ids_of
from tests.declarations.surfaces.answers import Way
from tests.declarations.surfaces.in_the_admin import InTheAdmin
from tests.declarations.surfaces.resources import (
    EXAMPLES,
    SERVICES,
    Values,
    make,
    out_of_range,
    unknown_references,
    wrong_types,
)
from tests.declarations.surfaces.ways import SURFACES, has, operations
from tests.factories import everything_stored

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders_run_here")]
PAIRS = [(resource, surface) for resource in SERVICES for surface in SURFACES if has(resource, surface)]


LARGE = ("repositories", "schedules", "policies", "sources")
"""Asked by `make test-rest`: the others show the same of each surface, in a third of the time."""


def asked(*given: Any) -> Any:
    return pytest.param(*given, marks=[pytest.mark.slow] if given[0] in LARGE else [])


def on_each(wanted: Callable[[str, str], object] = lambda resource, surface: True) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("resource", "surface"), [asked(*pair) for pair in PAIRS if wanted(*pair)])


@pytest.fixture
def way(resource: str, surface: str, tmp_path: Path) -> Way:
    """The surface of a resource, for who may do everything."""
    made: Way = SURFACES[surface](resource, tmp_path)
    return made


def known(way: Way, whole: Values) -> Values:
    """The fields among these that it has."""
    return {name: value for name, value in whole.items() if name in way.service.declaration.model_fields}


class Written:
    """The changes from now on: of the rows of a resource, and in the audit, except for accounts and their tokens."""

    def __init__(self, resource: str) -> None:
        self.model = SERVICES[resource].model
        self.before = self.rows
        self.last = max(AuditEntry.objects.values_list("pk", flat=True), default=0)

    @property
    def rows(self) -> set[Any]:
        return set(self.model.objects.values_list("pk", flat=True))

    @property
    def entries(self) -> list[AuditEntry]:
        return list(AuditEntry.objects.filter(pk__gt=self.last).exclude(about__regex="^(auth|api)").order_by("pk"))

    @property
    def is_nothing(self) -> bool:
        return not self.entries and self.rows == self.before

    def columns(self, verb: str, way: Way) -> set[str]:
        """The columns of an edit of the resource, which was seen, and who made it where the surface knows."""
        found = self.entries
        assert (self.model._meta.label_lower, verb) in {(each.about, each.verb) for each in found}, found
        assert not way.who or {(each.who, each.via) for each in found} == {way.who}
        return {column for each in found for column in each.after}


def test_each_resource_has_an_example_with_a_value_for_each_field(tmp_path: Path) -> None:
    assert EXAMPLES.keys() == SERVICES.keys()
    without = {(resource, surface) for resource in SERVICES for surface in SURFACES} - {*PAIRS}
    assert {each for each, surface in without if surface == "command"} == {"retry_policies", "stored_secrets"}
    assert len(without) == 3, "and no file holds a secret"
    for name, example in EXAMPLES.items():
        declared = SERVICES[name].declaration.model_fields.items()
        whole = example.whole(tmp_path / name)
        left = {field for field, about in declared if field not in whole or whole[field] == about.default}
        assert left == example.usual, name


@on_each()
def test_it_is_created_changed_and_removed_and_what_is_not_named_stays(
    resource: str, surface: str, way: Way, tmp_path: Path
) -> None:
    example = EXAMPLES[resource]
    whole, secret = known(way, example.whole(tmp_path)), way.secret(example.secret)
    given = {name: value for name, value in whole.items() if (name, *secret) != ("url", "secret_url")}
    written = Written(resource)

    made = way.create(given | secret)
    assert made.is_done, made
    [row] = way.service().existing([whole["name"]]).values()
    assert written.rows - written.before == {row.pk}
    stored = way.service().values(row)
    assert surface != "api" or json.loads(made.text).items() >= given.items()
    assert {name: stored[name] for name in given} == given
    assert not secret or example.opened(row) == example.secret_value
    written.columns("created", way)

    same = Written(resource)
    again = way.create(whole if example.secret != "value" else given | secret)
    assert "nothing changed" in again.text or "with this name already" in again.problems["name"], again
    unchanged = {} if surface == "admin" else {name: stored[name] for name in whole}
    assert example.secret == "value" or way.change(row, unchanged).is_done
    assert same.is_nothing

    change = Written(resource)
    changed = way.change(row, example.change)
    assert changed.is_done, changed
    edited = {name: value for name, value in example.change.items() if name in stored}
    assert change.columns("changed", way) >= edited.keys()
    [row] = way.service().existing([str(example.change.get("name", whole["name"]))]).values()
    assert way.service().values(row) == stored | edited
    assert not secret or example.opened(row) == example.change.get(example.secret, example.secret_value)

    shown = way.shown(row)
    assert way.service().name_of(row) in shown
    told = [*(each.text for each in (made, again, changed)), shown, everything_stored() if example.secret else ""]
    assert [text for text in told if "sw0rd" in text] == []

    removal = Written(resource)
    removed = way.remove(row)
    assert removed.is_done, removed
    assert removal.rows == written.before
    removal.columns("deleted", way)


@on_each()
def test_what_is_wrong_is_named_by_field_in_the_words_of_its_declaration_and_nothing_is_kept(
    resource: str, surface: str, way: Way, tmp_path: Path
) -> None:
    example, good = EXAMPLES[resource], known(way, EXAMPLES[resource].whole(tmp_path))
    good |= way.secret(example.secret) if "url" not in example.secret else {}
    written, texts = Written(resource), {"name", "url", "location"}
    out, wrong, unknown = (find(way.service) for find in (out_of_range, wrong_types, unknown_references))
    rounds = [{name: value for name, value in out.items() if name not in example.usual | {"kind"}}]
    if surface != "admin":  # whose inputs are texts, and choices of what there is
        rounds += [{name: wrong[name] for name in wrong.keys() - texts} | {"colour": 1}, unknown]
    for sent in (good | each for each in rounds if each):
        with pytest.raises(ValidationError) as caught:
            way.service().fill(way.service().new(), sent)
        expected = {name: "; ".join(found) for name, found in caught.value.message_dict.items()}
        answer = way.create(sent)
        chosen = set(unknown) if surface == "admin" else set()  # there they are chosen of what there is
        assert answer.problems.keys() == expected.keys(), answer
        assert [name for name in expected.keys() - chosen if answer.problems[name] != expected[name]] == [], answer
        assert "sw0rd" not in answer.text
    assert written.is_nothing


@on_each(lambda resource, surface: resource != "stored_secrets")
def test_a_change_that_is_wrong_is_named_by_field_as_well_and_the_row_stays(
    resource: str, surface: str, way: Way, tmp_path: Path
) -> None:
    service = way.service()
    row = service.model.objects.get(pk=make(resource, tmp_path).pk)
    not_typed = EXAMPLES[resource].usual | {"kind"} | unknown_references(way.service).keys()
    bad = {name: value for name, value in out_of_range(way.service).items() if name not in not_typed}
    stored, written = service.values(row), Written(resource)
    with pytest.raises(ValidationError) as caught:
        service.fill(row, bad)
    answer = way.change(row, bad)
    assert answer.problems == {name: "; ".join(found) for name, found in caught.value.message_dict.items()}, answer
    row.refresh_from_db()
    assert service.values(row) == stored
    assert written.is_nothing


@pytest.mark.parametrize(
    ("resource", "surface", "use"),
    [asked(*pair, use) for pair in PAIRS for use in EXAMPLES[pair[0]].uses],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_in_use_stays_and_its_use_is_told_in_the_words_of_its_service(
    resource: str, surface: str, use: Callable[[Any], object], way: Way, tmp_path: Path
) -> None:
    use(row := make(resource, tmp_path))
    uses, written = SERVICES[resource]().uses(row), Written(resource)
    assert uses
    for answer in (way.remove(row), *([way.remove_chosen(row)] if isinstance(way, InTheAdmin) else [])):
        assert [text for text in uses if text not in answer.refusal] == [], answer
    assert written.is_nothing


@on_each()
def test_what_a_save_warns_of_is_told(
    resource: str, surface: str, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = make(resource, tmp_path)
    for verb in ("write", "write_all"):
        write = getattr(way.service, verb)
        monkeypatch.setattr(way.service, verb, lambda *given, write=write: [*write(*given), "mind the gap"])
    assert "mind the gap" in way.change(row, EXAMPLES[resource].change).text


@on_each(lambda resource, surface: surface in ("api", "admin"))
def test_each_verb_needs_its_permission(resource: str, surface: str, tmp_path: Path) -> None:
    row, example = make(resource, tmp_path), EXAMPLES[resource]
    written = Written(resource)
    for verb in ("add", "change", "delete"):
        others = {"view", "add", "change", "delete"} - {verb}
        one: Way = SURFACES[surface](resource, tmp_path, [f"{each}_{row._meta.model_name}" for each in others])
        values = one.service().values(row) | one.secret(example.secret) | {"name": "another"}
        done = {"add": (one.create, values), "change": (one.change, row, example.change), "delete": (one.remove, row)}
        do, *given = done[verb]
        assert do(*given).refusal.startswith("403"), verb  # type: ignore[operator]
    assert written.is_nothing


@on_each(lambda resource, surface: EXAMPLES[resource].paused and surface != "fleet file")
def test_it_is_paused_until_an_instant_with_a_reason_and_resumed(
    resource: str, surface: str, way: Way, tmp_path: Path
) -> None:
    row, is_paused = make(resource, tmp_path), EXAMPLES[resource].paused
    assert is_paused
    over = "until: must be in the future; 2020-12-24 08:00 UTC is in the past"
    for until, problem in (("2020-12-24T08:00:00Z", over), ("soon", "instant|datetime")):
        refused = way.verb(row, "pause", until=until, reason="move")
        assert not refused.is_done
        assert re.search(problem, refused.text)
        row.refresh_from_db()
        assert not is_paused(row)
    assert way.verb(row, "pause", until="2999-12-24T08:00:00Z", reason="move").is_done
    row.refresh_from_db()
    assert (is_paused(row), row.paused_until.year, row.paused_why) == (True, 2999, "move")
    assert way.verb(row, "resume").is_done
    row.refresh_from_db()
    assert (is_paused(row), row.paused_until, row.paused_why) == (False, None, "")


@pytest.mark.parametrize("resource", [asked(each) for each in SERVICES])
def test_the_api_finds_it_by_each_value_that_it_shows(resource: str, tmp_path: Path) -> None:
    program, (path, of) = Program(), operations()[SERVICES[resource].model]
    rows = make(resource, tmp_path), EXAMPLES[resource].another()
    first, second = (program.get(f"{path}/{row.pk}").json() for row in rows)
    asked = [name for name in of.filters if name in first]
    for name in asked:
        for shown in (each for each in (first, second) if each[name] is not None):
            value = str(shown[name]).lower() if isinstance(shown[name], bool) else shown[name]
            ids = ids_of(program.get(path, **{name: value}))
            assert shown["id"] in ids, name
            assert first[name] == second[name] or not {first["id"], second["id"]} <= {*ids}, name
    assert ids_of(program.get(path, name=first["name"][:-1])) == []
