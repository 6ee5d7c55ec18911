"""Web, qcluster and an agent on separate hosts, and the check that each does its work."""

import re
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, ProxyHandler, build_opener

from django.contrib.auth import get_user_model
from django.db import connection
from django.db.utils import Error
from django_q.models import Schedule

from jobs.clock import boot_seconds, database_clock
from operations.task_installation import install
from proving.chaos.fleet import ROOT
from proving.chaos.hosts.lan import LanHost
from proving.chaos.hosts.processes import HostProcesses
from sources.agents import tokens
from sources.models import Source

PORT = 8000
PROBE_SECONDS = 10.0
LAPTOP, PASSWORD = "laptop", "correct horse battery"
AGENT = ROOT / "agent" / "backupsched-agent"
TASKS = "SELECT count(*) FROM django_q_task WHERE success AND started > %s"


class ServiceDoesNotStart(Exception):
    """Web, qcluster or agent did not begin to work; the message has the end of its log."""


def prepare() -> None:
    """Make the rows that they need: a user, the periodic tasks and a source with an agent."""
    get_user_model().objects.create_superuser("anna", "anna@example.org", PASSWORD)
    install()
    Source.objects.create(name=LAPTOP, kind="local", path="/nowhere")


@dataclass
class Services:
    """The services. `hosts` has web, tasks and laptop. Logs and the agent's token are in `directory`."""

    hosts: Mapping[str, LanHost]
    processes: HostProcesses
    directory: Path

    @property
    def url(self) -> str:
        return f"http://{self.hosts['web'].address}:{PORT}"

    def start_tasks_and_web(self) -> None:
        web = self.hosts["web"]
        self.processes.python("web", web, "manage.py", "web", "--listen", f"{web.address}:{PORT}")
        self.processes.python("qcluster", self.hosts["tasks"], "manage.py", "qcluster")

    def start_agent(self) -> None:
        """Enrol and start the agent. Raises: ServiceDoesNotStart."""
        config = self.directory / "agent.json"
        config.unlink(missing_ok=True)
        code = tokens.make_code(Source.objects.get(name=LAPTOP))
        command = [str(AGENT), "enrol", self.url, code, "--insecure-http", "--config", str(config)]
        done = subprocess.run(
            self.hosts["laptop"].command(sys.executable, *command), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ServiceDoesNotStart(f"the agent cannot enrol: {done.stderr.strip()}")
        self.processes.python("agent", self.hosts["laptop"], str(AGENT), "run", "--verbose", "--config", str(config))

    def ask_for_a_task(self) -> None:
        """Make all periodic tasks due now instead of once a minute."""
        Schedule.objects.update(next_run=database_clock())

    def log_in(self) -> bool:
        """True if a user on the laptop's host can log in, which writes a session."""
        return self.hosts["laptop"].do(lambda: _log_in(self.url))


@dataclass
class HealingWatch:
    """Notes when each of the services works again, in seconds after `began` (boot seconds)."""

    services: Services
    since: datetime
    began: float
    found: dict[str, float] = field(default_factory=dict)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    _asked: "Future[bool] | None" = None

    def look(self) -> bool:
        """Look once. Returns True if all work."""
        if "web" not in self.found:
            if self._asked is None:
                self._asked = self._pool.submit(self.services.log_in)
            elif self._asked.done():
                works, self._asked = self._asked.result(), None
                self._note("web", works)
        for name, question in (("qcluster", self._task_ran), ("agent", self._checked_in)):
            if name not in self.found:
                try:
                    self._note(name, question())
                except Error:
                    connection.close()
        return len(self.found) == 3

    def end(self) -> None:
        self._pool.shutdown(wait=True)

    def _note(self, name: str, works: bool) -> None:
        if works:
            self.found[name] = round(boot_seconds() - self.began, 1)

    def _task_ran(self) -> bool:
        with connection.cursor() as cursor:
            cursor.execute(TASKS, [self.since])
            return bool(cursor.fetchone()[0])

    def _checked_in(self) -> bool:
        return Source.objects.filter(name=LAPTOP, checked_in_at__gt=self.since).exists()


def _log_in(url: str) -> bool:
    login = f"{url}/admin/login/"
    with suppress(OSError, HTTPException):
        session = build_opener(ProxyHandler({}), HTTPCookieProcessor())
        page = session.open(login, timeout=PROBE_SECONDS).read().decode()
        if found := re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page):
            form = {"username": "anna", "password": PASSWORD, "csrfmiddlewaretoken": found[1]}
            answer = session.open(login, urlencode(form).encode(), timeout=PROBE_SECONDS)
            return "/login/" not in answer.url
    return False
