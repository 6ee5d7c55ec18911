"""What is answered everywhere: problem documents. And breakers, dead letters, workers, queues, who asks."""

from datetime import datetime
from typing import Literal

from ninja import Schema

from api.fields import Name
from api.fields import printable as printable


class FieldProblem(Schema):
    """What is wrong with one field of the body, one query parameter or one header. `field` empty: with the whole."""

    field: str
    message: str


class Problem(Schema):
    """A problem document (RFC 9457). `hint`: what to do. `errors` comes with status 422 alone."""

    type: str
    title: str
    status: int
    detail: str
    hint: str
    instance: str | None = None
    errors: list[FieldProblem] = []


class DeadLettersQuery(Schema):
    """Of which kind and queue."""

    kind: Name | None = None
    queue: Name | None = None


class DeadLetterAnswer(Schema):
    """Failed records that say the same. `says`: with numbers, ids, addresses and paths folded."""

    group: str
    says: str
    count: int
    kinds: list[str]
    queues: list[str]
    first_at: datetime
    last_at: datetime
    example_id: int
    example: str


class DeadLettersAnswer(Schema):
    """The largest group first. `read`: how many of the newest failed records were looked at; `more`: there are older
    ones."""

    groups: list[DeadLetterAnswer]
    read: int
    more: bool


class AttemptAnswer(Schema):
    """One run of a record. `facts`: what its handler found, as the status of an answer; null: nothing. With
    `silences` it stands for so many that found it absent, the first from `started_at`, the last to `ended_at`.
    """

    record: int
    number: int
    queue: str
    worker_id: int | None
    started_at: datetime
    ended_at: datetime
    outcome: Literal["succeeded", "failed", "unavailable", "handoff", "cancelled", "released", "rescued"]
    error: str
    facts: dict[str, object] | None = None


class BreakerAnswer(Schema):
    """A circuit breaker. `on trial`: open, with one record let through. `waiting`: how many records wait for it.

    `trials`: failed since it opened.
    """

    id: int
    key: str
    title: str
    state: Literal["closed", "open", "on trial"]
    failures: int
    last_failure_at: datetime | None
    last_error: str
    opened_at: datetime | None
    probe_at: datetime | None
    trials: int
    waiting: int


class BreakerFilters(Schema):
    """`open`: whether only trials go through."""

    key: Name | None = None
    open: bool | None = None


class WorkerAnswer(Schema):
    """A process that serves queues. `queues`: how many of its records it runs at once. `clock_skew` in seconds."""

    id: int
    name: str
    hostname: str
    pid: int
    queues: dict[str, int]
    alive: bool
    running: int
    started_at: datetime
    heartbeat_at: datetime
    stopped_at: datetime | None
    clock_skew: float | None


class WorkerFilters(Schema):
    """`alive`: its heartbeat is younger than a lease."""

    alive: bool | None = None
    hostname: Name | None = None


class QueueAnswer(Schema):
    """A queue at this moment. Numbers named in `at_least` are lower bounds. `oldest_ready_for`: seconds."""

    name: str
    in_settings: bool
    paused_at: datetime | None
    paused_reason: str
    waiting: int
    backing_off: int
    ready: int
    running: int
    oldest_ready_for: float | None
    overdue_for: float | None
    finished_last_minute: int
    workers: int
    places: int
    at_least: list[str]


class QueuesAnswer(Schema):
    """All queues. There is no second page."""

    items: list[QueueAnswer]
    next: None = None


class MeAnswer(Schema):
    """Who asks. `token` null: by session. `permissions`: what the user may do, within the token's scopes."""

    user: str
    superuser: bool
    permissions: list[str]
    token: "TokenAnswer | None"


class TokenAnswer(Schema):
    """A token of the API, without its text."""

    id: int
    name: str
    scopes: list[Literal["read", "write", "operate"]]
    created_at: datetime
    expires_at: datetime | None


MeAnswer.model_rebuild()
