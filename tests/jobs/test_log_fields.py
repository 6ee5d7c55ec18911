"""Lines of the log as JSON objects, each with the record that its handler works on."""

import asyncio
import io
import json
import logging

import pytest

from backupsched.settings import LINES
from declarations.surfaces.json_lines import JsonLines
from jobs.handlers import Run, registry
from jobs.log_fields import OfRecord
from jobs.outcomes import Outcome, Succeeded
from tests.factories import make_claimed
from tests.jobs.listening import Listening

log = logging.getLogger("a_handler")
HOSTILE = "evil \x1b]0;title\x07 \u202e \x7f name\n"


@pytest.fixture
def lines(monkeypatch):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    handler.addFilter(OfRecord())
    monkeypatch.setattr(log, "handlers", [handler])
    monkeypatch.setattr(log, "propagate", False)
    monkeypatch.setattr(registry, "_handlers", dict(registry._handlers))
    assert LINES["json"] == {"()": "declarations.surfaces.json_lines.JsonLines"}
    return stream


def sync(run: Run) -> Outcome:
    log.warning("works on %s", run.record.subject)
    return Succeeded()


async def beside_others(run: Run) -> Outcome:
    await asyncio.sleep(0)
    return sync(run)


@pytest.mark.django_db
@pytest.mark.parametrize("handler", [sync, beside_others])
def test_a_line_of_a_handler_names_the_record_that_it_works_on(lines, handler):
    registry.handler("test", queue="default")(handler)
    units = Listening()
    claimed = [
        make_claimed(subject=f"s{number}", payload={"title": f"laptop {number}", "source": number})
        for number in range(3)
    ]
    units.run(*claimed)
    units.outcomes(3)
    units.close()
    found = {line["message"]: line for line in map(json.loads, lines.getvalue().splitlines())}
    for number, record in enumerate(claimed):
        line = found[f"works on s{number}"]
        about = {"record": record.id, "attempt": record.attempt, "kind": "test", "queue": "default", "level": "WARNING"}
        assert about | {"title": f"laptop {number}", "source": number, "logger": "a_handler"} == {
            name: line[name] for name in (*about, "title", "source", "logger")
        }


def test_a_line_is_one_object_and_steers_no_terminal(lines):
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        log.exception("%s", HOSTILE, extra={"record": 7, "facts": {"host": HOSTILE}})
    (raw,) = lines.getvalue().splitlines()
    assert raw.isascii()
    assert raw.isprintable()
    line = json.loads(raw)
    assert (line["message"], line["record"], line["facts"]) == (HOSTILE, 7, {"host": HOSTILE})
    assert "Traceback" in line["exception"]
    assert line["timestamp"].endswith("+00:00")
