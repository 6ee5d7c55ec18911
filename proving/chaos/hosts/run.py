"""One fault, from new servers to its audit. Everything is bounded, and nothing is left behind."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import Any

from django.db import connection, connections
from django.db.utils import Error

from jobs import conf
from jobs.clock import boot_seconds, database_clock
from jobs.models import BacklogRecord
from proving.chaos import collect
from proving.chaos.facts import Deeds, StormFacts
from proving.chaos.filler import Filler, Portion
from proving.chaos.hosts.faults import Fault
from proving.chaos.hosts.fleet import HostFleet
from proving.chaos.hosts.lan import Lan
from proving.chaos.hosts.processes import HostProcesses
from proving.chaos.hosts.servers import Pooler, ReplicatedPair
from proving.chaos.hosts.services import HealingWatch, ServiceDoesNotStart, Services
from proving.chaos.hosts.stage import WORKERS, HostsStage
from proving.chaos.hosts.verdict import judge
from proving.chaos.sampler import Sampler

STEP_SECONDS = 0.1
TOP_UP_SECONDS = 0.5
START_SECONDS = 180.0
HEAL_SECONDS = 180.0
"""The most seconds for web, qcluster, agent and every worker to do something after the fault: machines may be slow."""
DRAIN_SECONDS = 180.0
PICKED_UP = """
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY waited), max(waited)
  FROM (SELECT extract(epoch FROM a.started_at - b.inserted_at)::float8 AS waited
          FROM jobs_backlogrecord b
          JOIN jobs_attempt a ON a.record_id = b.id AND a.number = 1
         WHERE b.kind = 'quick' AND b.inserted_at BETWEEN %s AND %s) AS each
"""
PORTIONS = (
    Portion("quick", 60, 3),
    Portion("answer", 40, 2),
    Portion("flaky", 30, 1),
    Portion("booked", 30, 1),
    Portion("relay", 30, 1, capped=True),
    Portion("capped", 20, 0.5, capped=True),
    Portion("slow", 20, 1),
    Portion("long", 8, 0.2),
)


@dataclass
class HostsRun:
    """`fault` on the hosts of `lan`, with the servers of `pair`, in `directory`; `seed` is for all random draws."""

    name: str
    fault: Fault
    lan: Lan
    pair: ReplicatedPair
    directory: Path
    seed: int
    _pause: Event = field(default_factory=Event)

    def run(self) -> dict[str, Any]:
        """Start, harm, heal, drain, audit. Returns the report."""
        connections.close_all()
        self.pair.fresh(synchronous=self.fault.synchronous)
        self._deeds, self._began = Deeds(), boot_seconds()
        self._filler = Filler(self.seed, self._deeds, portions=PORTIONS)
        self._filler.prepare()
        processes = HostProcesses(self.directory)
        stage = self._stage(processes)
        services = Services(self.lan.hosts, processes, self.directory)
        sampler = Sampler(self.pair.url(), conf.feeding_queues())
        try:
            self._start(stage, services)
            sampler.start()
            self._say("the fault begins")
            began, since = boot_seconds(), database_clock()
            for seconds in self.fault.play(stage):
                self._go_on(stage, seconds)
            connections.close_all()  # the storm's connections may lead to the old primary
            self._say("the fault is over")
            healed = self._heal(stage, services)
            until = database_clock()
            drained = self._drain(stage)
            stage.fleet.end()
            died = processes.died()
        finally:
            stage.trouble({})
            stage.fleet.kill_all()
            processes.end_all()
        facts = self._facts(stage, sampler, drained)
        found = {"fault": self.name, "summary": self.fault.summary, "pick_up": _pick_up(since, until)}
        found |= judge(facts, stage, healed, died, HEAL_SECONDS)
        return found | {"seconds": round(boot_seconds() - began, 1)}

    def _stage(self, processes: HostProcesses) -> HostsStage:
        pooler = Pooler(self.directory, self.lan.hosts["pooler"], self.pair.one, processes)
        environment = {
            "DATABASE_URL": pooler.url() if self.fault.pooled else self.pair.lan_url(),
            "BACKUPSCHED_WAKE": "poll" if self.fault.pooled else "listen",
        }
        services = {"DJANGO_SETTINGS_MODULE": "proving.chaos.hosts.settings", "ALLOWED_HOSTS": "*"}
        processes.environment = environment | services
        hosts = [self.lan.hosts[name] for name in WORKERS]
        fleet = HostFleet(self.directory, self.seed, hosts, environment, self.fault.clocks)
        return HostsStage(self.lan, self.pair, pooler, processes, fleet, conf.lease_seconds(), self._deeds)

    def _start(self, stage: HostsStage, services: Services) -> None:
        if self.fault.pooled:
            stage.pooler.start()
        services.start_tasks_and_web()
        stage.fleet.fill_up()
        self._filler.top_up(0)
        self._began = boot_seconds()
        if not self._wait(stage, START_SECONDS, lambda: stage.processes.died() or services.log_in()):
            raise ServiceDoesNotStart(f"web does not let a user log in within {START_SECONDS:.0f} s")
        if died := stage.processes.died():
            raise ServiceDoesNotStart(f"{', '.join(died)} ended at once: see the log in {self.directory}")
        services.start_agent()
        if missing := self._see(stage, services, START_SECONDS)[1]:
            raise ServiceDoesNotStart(f"{', '.join(missing)}: nothing done within {START_SECONDS:.0f} s")

    def _heal(self, stage: HostsStage, services: Services) -> dict[str, float | None]:
        found, missing = self._see(stage, services, HEAL_SECONDS)
        return {**found, **dict.fromkeys(missing)}

    def _see(self, stage: HostsStage, services: Services, seconds: float) -> tuple[dict[str, float], list[str]]:
        """Wait until all have done something from now on. Returns the seconds of each, and the names of the others."""
        began = boot_seconds()
        watch = HealingWatch(services, database_clock(), began)
        services.ask_for_a_task()
        workers: dict[str, float] = {}

        def all_work() -> bool:
            for member in stage.fleet.members:
                host = stage.fleet.host_of(member)
                if host not in workers and (at := _began_after(member.journal, began)):
                    workers[host] = round(at - began, 1)
            return watch.look() and len(workers) == len(WORKERS)

        self._wait(stage, seconds, all_work)
        watch.end()
        found = {**watch.found, **workers}
        return found, [name for name in ("web", "qcluster", "agent", *WORKERS) if name not in found]

    def _go_on(self, stage: HostsStage, seconds: float) -> None:
        self._wait(stage, seconds, lambda: False)

    def _wait(self, stage: HostsStage, seconds: float, condition: Callable[[], object]) -> bool:
        """Keep the backlog filled until `condition`, or for `seconds`. Returns True if it came true."""
        until, filled_at = boot_seconds() + seconds, 0.0
        while (now := boot_seconds()) < until:
            stage.fleet.bury()
            if now - filled_at > TOP_UP_SECONDS:
                self._filler.settle_doubts()
                self._filler.top_up(now - self._began)
                filled_at = now
            if condition():
                return True
            self._pause.wait(STEP_SECONDS)
        return False

    def _drain(self, stage: HostsStage) -> bool:
        until = boot_seconds() + DRAIN_SECONDS
        while boot_seconds() < until:
            stage.fleet.bury()
            try:
                if self._filler.settle_doubts() and not BacklogRecord.objects.unfinished().exists():
                    return True
            except Error:
                connection.close()
            self._pause.wait(STEP_SECONDS * 2)
        return False

    def _facts(self, stage: HostsStage, sampler: Sampler, drained: bool) -> StormFacts:
        facts = collect.facts(stage.fleet, self._deeds, sampler.end(), self._filler.caps, drained=drained)
        spans = {member.pid: stage.in_doubt.get(stage.fleet.host_of(member), []) for member, _ in stage.fleet.gone}
        processes = {
            pid: replace(process, stood=(*process.stood, *spans[pid])) for pid, process in facts.processes.items()
        }
        return replace(facts, processes=processes)

    def _say(self, line: str) -> None:
        sys.stderr.write(f"{self.name}: {boot_seconds() - self._began:4.0f} s: {line}\n")
        sys.stderr.flush()


def _began_after(journal: Path, instant: float) -> float | None:
    """The instant at which the worker of that journal first began something after `instant`."""
    for line in journal.read_text().splitlines() if journal.exists() else []:
        what, at, *_ = json.loads(line)
        if what == "began" and at > instant:
            return float(at)
    return None


def _pick_up(since: datetime, until: datetime) -> dict[str, float]:
    """The seconds for which quick records that were enqueued in between waited for their first attempt."""
    with connection.cursor() as cursor:
        cursor.execute(PICKED_UP, [since, until])
        median, longest = cursor.fetchone()
    return {"median": round(median or 0.0, 2), "longest": round(longest or 0.0, 2)}
