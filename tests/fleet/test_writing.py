"""A fleet as text, piece by piece: what is written without ruamel.yaml and `json` is what these write."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from hypothesis import example, given, settings
from hypothesis import strategies as st

from declarations import service
from fleet.files import formats, writing
from fleet.files.schema import export_fleet
from tests.commands import command
from tests.sources.factories import make_policy, make_source

WORDS = st.text(st.sampled_from("aZ09_./@+~=-:# '\"é\u3042"), max_size=90)
TEXTS = (
    st.lists(WORDS, max_size=5).map(" ".join)
    | st.sampled_from(["no", "~", "1e3", "Null", "y", "=", "<<", "/", "http://x:1", ".inf", "0x1f", "2026-01-01"])
    | st.from_regex(writing.PLAIN, fullmatch=True)
    | st.text(max_size=20)
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(["name", "host_key", "payload_template"]), VALUES, min_size=1))
@example({"host_key": f"ssh-ed25519 {'A' * 68}", "name": "b" * 90})
@example({"host_key": f"https://2.example.org:8080/{'a' * 68}", "name": "10.0.0.1"})
@example({"host_key": f"rsa {'A' * 64}", "name": f"rsa {'A' * 65}"})  # which fills its line
def test_a_row_is_written_as_the_libraries_write_it(row: dict[str, Any]) -> None:
    fleet = {"sources": [json.loads(json.dumps(row)) for _ in range(2)], "policies": []}
    whole = StringIO()
    writing.writer().dump(fleet, whole)
    assert "".join(writing.pieces(fleet.items(), "YAML")) == whole.getvalue()
    assert "".join(writing.pieces(fleet.items(), "JSON")) == json.dumps(fleet, indent=2, ensure_ascii=False) + "\n"


@pytest.mark.django_db
def test_all_rows_are_exported_however_many_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "AT_ONCE", 2)
    names = [make_source(name=f"laptop {number}").name for number in range(4)]
    policies = [str(make_policy()) for _ in range(3)]
    found = export_fleet()
    assert [row["name"] for row in found["sources"]] == names
    assert [row["name"] for row in found["policies"]] == policies


@pytest.mark.django_db
@pytest.mark.parametrize("form", ["yaml", "json"])
def test_what_is_printed_is_what_is_written_however_long_it_is(tmp_path: Path, form: str) -> None:
    for number in range(3):
        make_source(name=f"laptop {number}", options={"exclude": ["some/folder/or/other"] * 3000})
    export, _ = command("sources export")
    export(file := str(tmp_path / f"fleet.{form}"))
    written = Path(file).read_text()
    assert len(written) > 2 * 65_536
    assert export(*(["--json"] if form == "json" else [])) == written


@pytest.mark.django_db
def test_a_fleet_that_is_too_large_to_be_applied_as_yaml_is_exported_with_that_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_source()
    monkeypatch.setitem(formats.LARGEST, "YAML", 10)
    export, _ = command("sources export", with_errors=True)
    assert "takes as JSON alone: export it with --json" in export(str(tmp_path / "fleet.yaml"))
    assert "larger than 10 bytes; write it as JSON" in command("apply")[1](str(tmp_path / "fleet.yaml"))
    assert "takes as JSON" not in export(str(tmp_path / "fleet.json"))


@pytest.mark.django_db
def test_an_export_that_fails_in_the_middle_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    (file := tmp_path / "fleet.yaml").write_text("sources: []\n")
    make_source()
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE alerting_alertroute CASCADE")  # the last section
    assert "is not migrated" in command("sources export")[1](str(file))
    assert file.read_text() == "sources: []\n"
