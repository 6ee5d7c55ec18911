"""Asks everything that the OpenAPI document describes, valid or not, and tells each answer that it does not describe.

The application answers in this process. What a request changed is taken back after its answer, so that the rows which
are on hand for ids stay; what it had put off until its commit has run by then. No request counts against a limit.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.core.cache import caches
from django.core.serializers.json import DjangoJSONEncoder
from django.core.signals import request_finished, request_started
from django.db import DEFAULT_DB_ALIAS, close_old_connections, connections, transaction
from schemathesis import Config, engine, openapi
from schemathesis.core.failures import Failure
from schemathesis.engine import Status, events
from schemathesis.engine.recorder import ScenarioRecorder

from api.root import api
from backupsched.wsgi import application

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
)

REFUSALS = ("400", "401", "403", "404", "405", "406", "409", "413", "415", "422", "428", "429")
TOO_LARGE = {"negative_data_rejection": {"enabled": True, "expected-statuses": list(REFUSALS)}}
"""A body that is not valid may be so large that it is refused unread."""

SEED = 20261121

GENERATION = {"deterministic": True, "database": "none", "no-shrink": True, "with-security-parameters": False}

OFTEN = 0.8
"""The share of requests with existing values where these fit; the others have values that the document allows."""


@dataclass
class Findings:
    """The number of judged answers, by status, and the faults as text, each kind once."""

    judged: int = 0
    operations: set[str] = field(default_factory=set)
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: dict[str, str] = field(default_factory=dict)

    def summary(self) -> str:
        """One line for people."""
        answers = ", ".join(f"{count:,} × {status}" for status, count in sorted(self.statuses.items()))
        asked = f"{self.judged:,} of {self.statuses.total():,} answers judged, of {len(self.operations)} operations"
        return f"{asked}: {answers}; {len(self.wrong)} wrong"

    def add(self, recorder: ScenarioRecorder) -> None:
        """Take over what an engine recorded of some requests."""
        self.operations.add(recorder.label)
        for interaction in recorder.interactions.values():
            if interaction.response is not None:
                self.statuses[interaction.response.status_code] += 1
        self.judged += sum(bool(checks) for checks in recorder.checks.values())
        for case_id, checks in recorder.checks.items():
            for check in checks:
                if check.status == Status.FAILURE and check.failure_info is not None:
                    failure, sample = check.failure_info.failure, check.failure_info.code_sample
                    self._tell(failure, sample, recorder, case_id)

    def _tell(self, failure: Failure, sample: str, recorder: ScenarioRecorder, case_id: str) -> None:
        interaction = recorder.interactions.get(case_id)
        response = interaction.response if interaction else None
        answer = f"{response.status_code} {response.text[:500]}" if response is not None else "no answer"
        key = f"{recorder.label}: {failure.title}: {failure.message[:300]}"
        self.wrong.setdefault(key, f"{key}\n    {sample}\n    {answer}")


@dataclass(frozen=True)
class Asker:
    """A caller, its header, the operations that it calls, and how often in addition to the bounds of the document."""

    authorization: str = ""
    examples: int = 5
    bounds: bool = True
    tags: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()


def ask(asker: Asker, on_hand: Mapping[str, Sequence[str | int]]) -> Findings:
    """Ask everything as `asker`. `on_hand`: values by where they are sent, as `path.source_id` and `body.source`."""
    schema = _schema(asker, on_hand)
    found = Findings()
    with _connections_kept():
        for event in engine.from_schema(schema).execute():
            match event:
                case events.ScenarioFinished():
                    found.add(event.recorder)
                case events.NonFatalError():
                    found.wrong.setdefault(f"{event.label}: {event.value}", f"{event.label}: {event.info.format()}")
                case events.FatalError():
                    raise event.exception
    return found


def _schema(asker: Asker, on_hand: Mapping[str, Sequence[str | int]]) -> Any:
    phases = {"stateful": {"enabled": False}, "examples": {"enabled": False}, "coverage": {"enabled": asker.bounds}}
    config = Config.from_dict(
        {
            "seed": SEED,
            "suppress-health-check": ["all"],  # a busy machine is no fault of the API
            "headers": {"Authorization": asker.authorization} if asker.authorization else {},
            "dictionaries": {where: {"values": list(values)} for where, values in on_hand.items()},
            "parameters": {where: {"dictionary": where, "probability": OFTEN} for where in on_hand},
            "checks": {"enabled": False, **{name: {"enabled": True} for name in CHECKS}, **TOO_LARGE},
            "generation": GENERATION | {"max-examples": asker.examples},
            "phases": phases,
            "continue-on-failure": True,
        }
    )
    document = json.loads(json.dumps(api.get_openapi_schema(), cls=DjangoJSONEncoder))
    schema = openapi.from_dict(document, config=config)
    schema.app = taking_back(application)
    if asker.tags:
        schema = schema.include(tag=list(asker.tags))
    return schema.exclude(tag=list(asker.leaves)) if asker.leaves else schema


@contextmanager
def _connections_kept() -> Iterator[None]:
    """A request begins in a transaction of ours, at which Django would close the connection. At the end those of other
    threads are closed here, as the threads do not do it."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    try:
        yield
    finally:
        for signal in signals:
            signal.connect(close_old_connections)
        while OF_THREADS:
            other = OF_THREADS.popitem()[1]
            if other is not connections[DEFAULT_DB_ALIAS]:
                other.inc_thread_sharing()
                other.close()


OF_THREADS: dict[int, Any] = {}
"""The connections of the threads in which it answered, by their identity."""


def taking_back(application: Application) -> Application:
    """`application`, but what a request changed is undone once it has answered."""

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterator[bytes]:
        mine = connections[DEFAULT_DB_ALIAS]
        OF_THREADS[id(mine)] = mine
        environ.setdefault("REMOTE_ADDR", "192.0.2.7")
        caches["limits"].clear()
        with transaction.atomic():
            response = application(environ, start_response)
            content = b"".join(response)
            if hasattr(response, "close"):
                response.close()
            for _, put_off, _ in mine.run_on_commit:
                put_off()
            mine.run_on_commit = []
            transaction.set_rollback(True)
        return iter([content])

    return answer
