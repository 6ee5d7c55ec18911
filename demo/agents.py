"""The agents of hosts that come and go: enrolled over real HTTP with a one-time code, then left running."""

import sys

from django.conf import settings

from demo import processes
from demo.hosts import Host
from sources.agents import tokens
from sources.models import Source


def start(host: Host, url: str) -> bool:
    """Enrol the agent of a host that is up, if it is not enrolled, and leave it running. False: not yet.

    Waits for nothing: on a slow machine the pages answer late, and another host may have to vanish meanwhile.
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
