"""The agents of hosts that come and go: enrolled over real HTTP with a one-time code, then left running."""

import subprocess
import sys
from pathlib import Path

from django.conf import settings

from demo import processes
from demo.hosts import Host
from sources.agents import tokens
from sources.models import Source

ENROL_SECONDS = 10


def start(host: Host, url: str) -> bool:
    """Enrol the agent of a host that is up, if it is not enrolled, and leave it running. False: not yet."""
    config = host.home / "agent.json"
    if not config.exists() and not _enrol(host, url, config):
        return False
    argv = [sys.executable, str(settings.AGENT), "run", "--config", str(config), "--verbose"]
    host.agent = processes.start(argv, log=host.home / "agent.log")
    return True


def _enrol(host: Host, url: str, config: Path) -> bool:
    """Exchange a new code for a token. The web pages may not be up yet: then the next look tries again."""
    code = tokens.make_code(Source.objects.get(name=host.name))
    argv = [sys.executable, str(settings.AGENT), "enrol", url, "-", "--config", str(config)]
    with (host.home / "agent.log").open("ab") as log:
        try:
            ended = subprocess.run(
                argv, input=code.encode(), stdout=log, stderr=log, timeout=ENROL_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return False  # a slow machine: as when the pages are not up
    return ended.returncode == 0
