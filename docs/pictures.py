"""Takes the pictures of the README again: the home page, the matrix and a source's page, of the demo's fleet.

    .venv/bin/python docs/pictures.py [--into docs/images]

The demo runs as anyone runs it, with the sixty days that it makes up (demo/history.py). Needs Chromium.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
PORT = 8797
LONGEST_SECONDS = 180
WIDTH, HEIGHT = 1400, 900


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
            source = wait_for(all_but_two_are_protected, demo)
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


def all_but_two_are_protected() -> int | None:
    """The id of a source for its page, once each has a backup and a history: all but the one that refuses its password
    and the large one, whose bar moves."""
    from django.utils import timezone

    from sources.models import Assignment

    protected = Assignment.objects.filter(
        inserted_at__lt=timezone.now() - timedelta(days=1), last_backup_at__isnull=False
    )
    if protected.count() < Assignment.objects.count() - 2:
        return None
    return protected.get(source__name="demo-laptop-03").source_id


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
