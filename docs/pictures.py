"""Takes the pictures of the README anew: the home page, the matrix and a source's page, of the demo's fleet.

    .venv/bin/python docs/pictures.py [--into docs/images]

The demo runs as anyone runs it. Its fleet is some minutes old, so sixty days of made-up history are added, the same at
each run; what is shown of today is what happened. Needs Chromium.
"""

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
PORT = 8797
DAYS = 60
LONGEST_SECONDS = 180
WIDTH, HEIGHT = 1400, 900
OFTEN_AWAY = ("demo-late", "demo-vanisher", "demo-sleeper")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=ROOT / "docs" / "images")
    into = parser.parse_args().into
    with tempfile.TemporaryDirectory(prefix="pictures-") as var:
        os.chmod(var, 0o711)  # noqa: S103 - the database's own user passes through it
        log = Path(var) / "log"
        argv = [sys.executable, "manage.py", "demo", "--port", str(PORT)]
        environment = os.environ | {"BACKUPSCHED_VAR": var, "COLUMNS": "150"}
        with log.open("w") as output:
            demo = subprocess.Popen(argv, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            password = wait_for(lambda: re.search(r"with the password (\S+)", log.read_text()), demo)[1]
            os.environ |= {"BACKUPSCHED_VAR": f"{var}/demo", "DJANGO_SETTINGS_MODULE": "backupsched.settings"}
            os.environ.pop("DATABASE_URL", None)
            sys.path.insert(0, str(ROOT))
            import django

            django.setup()
            source = wait_for(all_but_one_are_protected, demo)
            add_history()
            take(into, password, source)
        finally:
            demo.send_signal(signal.SIGINT)
            demo.wait(60)


def wait_for(look: Any, demo: "subprocess.Popen[bytes]") -> Any:
    deadline = time.monotonic() + LONGEST_SECONDS
    while not (found := look()):
        if demo.poll() is not None or time.monotonic() > deadline:
            raise SystemExit("the demo did not come as far as it should: start it by hand to see why")
        time.sleep(0.5)
    return found


def all_but_one_are_protected() -> int | None:
    """The id of a source for its page, once every source has a backup but the one that refuses its password."""
    from sources.models import Assignment

    protected = Assignment.objects.exclude(last_backup_at=None)
    if protected.count() < Assignment.objects.count() - 1:
        return None
    return protected.get(source__name="demo-laptop-03").source_id


def add_history() -> None:
    """A record for each success, as the scheduler writes it: the silences and failures before it are its attempts."""
    from django.utils import timezone

    from dashboard import days
    from sources.models import Assignment, Source

    rng = random.Random(7)  # noqa: S311 - not for secrets
    first = timezone.now() - timedelta(days=DAYS)
    Source.objects.update(inserted_at=first)
    for assignment in Assignment.objects.select_related("source", "policy__schedule").order_by("source__name"):
        if assignment.last_backup_at:
            Assignment.objects.filter(pk=assignment.pk).update(inserted_at=first)
            _history_of(assignment, first, rng)
    while days.keep():
        pass


def _history_of(assignment: Any, first: datetime, rng: random.Random) -> None:
    from jobs.models import BacklogRecord
    from jobs.states import AttemptOutcome
    from sources.planning import subject_of

    often_away = assignment.source.name.startswith(OFTEN_AWAY)
    size = assignment.last_backup_size * rng.uniform(0.5, 0.7)
    growth = (assignment.last_backup_size / size) ** (1 / DAYS)
    attempts: list[tuple[str, AttemptOutcome, datetime, float]] = []
    trigger = first
    while (trigger := assignment.policy.schedule.period.next_after(trigger)) < assignment.last_backup_at - timedelta(
        days=1
    ):
        size *= growth * rng.uniform(0.99, 1.01)
        at = trigger + timedelta(minutes=rng.uniform(1, 90))
        trouble = rng.random() if trigger < assignment.last_backup_at - timedelta(days=2) else 1.0
        if trouble < (0.2 if often_away else 0.03):
            attempts += [
                ("availability", AttemptOutcome.UNAVAILABLE, at + timedelta(hours=hour), 2) for hour in range(6)
            ]
            continue
        if trouble > 0.97 and trouble < 1.0:
            attempts.append(("backups", AttemptOutcome.FAILED, at, 9))
            continue
        seconds = assignment.last_backup_for * size / assignment.last_backup_size * rng.uniform(0.8, 1.3)
        attempts += [
            ("availability", AttemptOutcome.HANDOFF, at, 0.1),
            ("backups", AttemptOutcome.SUCCEEDED, at + timedelta(seconds=1), seconds),
        ]
        record = BacklogRecord.objects.create(
            kind="backup", queue="backups", subject=subject_of(assignment.pk), status=3, run_after=at,
            payload={"assignment": assignment.pk, "title": assignment.source.name}, attempt=len(attempts),
            inserted_at=trigger, finished_at=at + timedelta(seconds=1 + seconds),
        )  # fmt: skip
        _write(assignment, record, attempts, int(size))
        attempts = []


def _write(assignment: Any, record: Any, attempts: list[Any], size: int) -> None:
    from jobs.models import Attempt
    from jobs.states import AttemptOutcome
    from sources.models import Backup

    errors = {AttemptOutcome.UNAVAILABLE: "no route to host", AttemptOutcome.FAILED: "the connection was reset"}
    Attempt.objects.bulk_create(
        Attempt(
            record=record, number=number, queue=queue, outcome=outcome, started_at=at,
            ended_at=at + timedelta(seconds=seconds), error=errors.get(outcome, ""),
        )
        for number, (queue, outcome, at, seconds) in enumerate(attempts, 1)
    )  # fmt: skip
    *_, (_, _, at, seconds) = attempts
    last = assignment.backups.order_by("-ended_at").first()
    Backup.objects.create(
        assignment=assignment, repository=last.repository, record_id=record.pk, attempt=len(attempts),
        engine=last.engine, started_at=at, ended_at=at + timedelta(seconds=seconds), size=size, files=last.files,
        new=3, changed=5, unchanged=max(0, last.files - 8), removed=1, read=size // 9, added=size // 20,
        snapshot=f"{at:%Y-%m-%dT%H-%M-%SZ}",
    )  # fmt: skip


def take(into: Path, password: str, source: int) -> None:
    into.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT}, timezone_id="Europe/Berlin", locale="en-GB"
        )
        page.goto(f"http://127.0.0.1:{PORT}/admin/login/")
        page.fill("[name=username]", "admin")
        page.fill("[name=password]", password)
        page.press("[name=password]", "Enter")
        page.wait_for_load_state("networkidle")
        _picture(page, "/", into / "home.png")
        _picture(page, "/matrix/", into / "matrix.png")
        _picture(page, f"/admin/sources/source/{source}/change/", into / "source.png")
        browser.close()


def _picture(page: Page, address: str, file: Path) -> None:
    page.goto(f"http://127.0.0.1:{PORT}{address}")
    page.wait_for_load_state("networkidle")
    page.screenshot(path=file)


if __name__ == "__main__":
    main()
