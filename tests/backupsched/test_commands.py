"""Texts in rows and arguments cannot steer the terminal of the user who types a command, whichever it is."""

import json
import re
import sys
from contextlib import suppress

import pytest
from django.apps import apps
from django_q.models import Schedule

from backupsched.command_line import main
from declarations.surfaces.printable import printable
from fleet.files import formats
from jobs.models import BacklogRecord
from operations.task_installation import install
from tests.backupsched.managing import manage
from tests.backupsched.one_of_each import make_one_of_each, write_everywhere
from tests.backupsched.role_table import COMMANDS, OURS

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

HOSTILE = "x\x1b]0;t\x07\x1b[2J\x1b[8m\x9b2K\u202e\x7f"
STEERS = re.compile(r"(?!\n)[\x00-\x1f\x7f-\x9f\u202e]")


@pytest.fixture
def _hostile_rows() -> None:
    make_one_of_each()
    install()
    Schedule.objects.create(name="beside", func="jobs.periodic.prune")
    for app in (*OURS, "django_q"):
        for model in apps.get_app_config(app).get_models():
            write_everywhere(model, HOSTILE)


def test_a_fleet_that_is_printed_is_read_back_as_it_is(tmp_path):
    file, data = tmp_path / "fleet", {"sources": [{"path": "a\u202eb", "name": HOSTILE, "host_key": "a\nb"}]}
    for form in ("YAML", "JSON"):
        file.write_text(printable(formats.write(data, form)))
        assert formats.read(str(file)) == data


def test_a_command_does_not_go_through_the_rows_that_it_keeps_again_and_again():
    kept = "import gc; rows = [[each] for each in range(300_000)]"
    looks = "print([each['collections'] for each in gc.get_stats()])"
    young, middle, old = json.loads(manage("shell", "-v", "0", "-c", f"{kept}; {looks}").stdout)
    assert 20 <= young <= 100, "it looks for garbage, and has 300,000 objects more"
    assert middle <= 10
    assert old <= 2


@pytest.mark.usefixtures("_hostile_rows")
def test_no_command_prints_what_steers_a_terminal(monkeypatch, capsys, tmp_path):
    (tmp_path / "fleet.json").write_text(json.dumps({"sources": [{"name": HOSTILE, HOSTILE: HOSTILE}]}))
    values = {"FILE": str(tmp_path / "fleet.json"), "NAME": HOSTILE, "ID": str(BacklogRecord.objects.first().pk)}
    wrong = []
    for name, ways in COMMANDS.items():
        for way in ways:
            monkeypatch.setattr(sys, "argv", ["manage.py", name, *(values.get(each, each) for each in way.split())])
            with suppress(SystemExit):
                main()
            printed = "".join(capsys.readouterr())
            if found := STEERS.search(printed):
                wrong.append(f"{name} {way}: {printed[max(0, found.start() - 80) : found.end() + 40]!r}")
            if "--json" in way:
                [json.loads(line) for line in (printed.splitlines() if way.startswith("log") else [printed])]
    assert not wrong, "\n".join(wrong)
