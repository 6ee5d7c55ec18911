"""Comings and goings: hosts come up, check in, and leave in the middle of a backup. Agents are enrolled over real HTTP
with a one-time code, and then left running.
"""

import sys
import time
from collections.abc import Callable

from django.conf import settings

from demo import processes
from demo.hosts import Host
from demo.processes import DemoError
from jobs.models import BacklogRecord
from sources.agents import tokens
from sources.models import Assignment, Progress, Source
from sources.planning import subject_of

VANISHES_AFTER_BYTES = 500_000
AWAY_SECONDS = 10.0
"""Longer than the grace of its policy, so it is let go, and its next check-in puts it first in line."""


class Comings:
    """The hosts of a session over time. `say` prints one line for the user."""

    def __init__(self, hosts: list[Host], url: str, say: Callable[[str], None]) -> None:
        self.hosts, self.url, self.say = hosts, url, say
        self.began = time.monotonic()

    def look(self) -> None:
        """Do everything that is due. Raises: DemoError if a host that should be up has ended."""
        elapsed = time.monotonic() - self.began
        for host in self.hosts:
            if host.command and host.process is None and host.up_after is not None and elapsed >= host.up_after:
                host.start()
                if host.up_after:
                    self.say(f"{host.name} comes up")
            if host.process is not None and host.process.poll() is not None:
                raise DemoError(f"{host.name} ended by itself: see {host.log}")
            if host.has_agent and host.process is not None and host.agent is None and start_agent(host, self.url):
                self.say(f"the agent of {host.name} checks in")
            if host.vanishes and host.process is not None and _has_copied(host, VANISHES_AFTER_BYTES):
                self.say(f"{host.name} vanishes in the middle of its backup")
                host.vanishes = False
                self.leave(host, AWAY_SECONDS)

    def leave(self, host: Host, seconds: float) -> None:
        """Take a host away as a closing lid does, without notice. It comes back after `seconds`."""
        for process in filter(None, (host.process, host.enrolment, host.agent)):
            process.kill()
            process.wait()
        host.process = host.enrolment = host.agent = None
        host.up_after = time.monotonic() - self.began + seconds

    def end(self) -> None:
        """End all hosts and agents."""
        started = (process for host in self.hosts for process in (host.enrolment, host.agent, host.process))
        processes.end([process for process in started if process is not None], grace=3.0)


def _has_copied(host: Host, size: int) -> bool:
    subjects = [subject_of(pk) for pk in Assignment.objects.filter(source__name=host.name).values_list("pk", flat=True)]
    running = BacklogRecord.objects.running().filter(kind="backup", subject__in=subjects)
    return Progress.objects.filter(record_id__in=running.values("pk"), bytes_done__gte=size).exists()


def start_agent(host: Host, url: str) -> bool:
    """Enrol the agent of a host that is up, if it is not enrolled, and leave it running. False if it is not up yet.

    Waits for nothing: on a slow machine the pages answer late, and another host may have to vanish in the meantime.
    """
    config, log = host.home / "agent.json", host.home / "agent.log"
    if host.enrolment is not None and host.enrolment.poll() is None:
        return False
    host.enrolment = None
    if config.exists():
        argv = [sys.executable, str(settings.AGENT), "run", "--config", str(config), "--verbose"]
        host.agent = processes.start(argv, log=log)
        return True
    # the web pages may not be up yet: then the next look tries again
    argv = [sys.executable, str(settings.AGENT), "enrol", url, "-", "--config", str(config)]
    code = tokens.make_code(Source.objects.get(name=host.name))
    host.enrolment = processes.start(argv, log=log, given=code.encode())
    return False
