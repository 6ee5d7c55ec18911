"""The actor of a change, and its way to the database.

A process has one actor, who started it; a request has another one, who signed in. Before each statement that may fire a
trigger, the actor is written to a setting that ends with the transaction, so that it does not leak to others through a
pooler. A statement outside of a transaction gets a transaction for that.
"""

import json
import os
import pwd
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, NamedTuple

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from audit.tables import followed

SETTING = "backupsched.actor"
LOOKED_AT = 20_000
"""The characters of a statement that are read: the rest is a list of values."""
WRITES = re.compile(r'\b(INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+(?:ONLY\s+)?"?(\w+)"?', re.IGNORECASE)


class Actor(NamedTuple):
    """`who`: an account, or a system user and its host. `via`: web, API, or the command."""

    who: str
    via: str


_of_process: Actor | None = None
_of_request: ContextVar[Callable[[], Actor] | None] = ContextVar("actor", default=None)


def of_process(command: str) -> None:
    """Attribute everything in this process to the system user who started it."""
    global _of_process
    _of_process = Actor(f"{system_user()}@{socket.gethostname()}", f"command {command}")


def system_user() -> str:
    """The user at this process; behind sudo, the user who called it."""
    if user := os.environ.get("SUDO_USER"):
        return user
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


@contextmanager
def acting(who: Callable[[], Actor]) -> Iterator[None]:
    """Attribute changes made within this context to the actor that `who` returns, when first asked."""
    token = _of_request.set(who)
    try:
        yield
    finally:
        _of_request.reset(token)


def actor() -> Actor | None:
    """The present actor; None if unknown here, so that the database names the role."""
    of_request = _of_request.get()
    return of_request() if of_request else _of_process


def follow_connection(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Tell this connection who acts, from now on."""
    if _tell not in connection.execute_wrappers:
        connection.execute_wrappers.append(_tell)


def _tell(execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
    if not isinstance(sql, str) or not may_fire(sql) or (found := actor()) is None:
        return execute(sql, params, many, context)
    connection = context["connection"]
    if connection.in_atomic_block:
        _set(connection, found)
        return execute(sql, params, many, context)
    with transaction.atomic(using=connection.alias):
        _set(connection, found)
        return execute(sql, params, many, context)


def _set(connection: BaseDatabaseWrapper, found: Actor) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config(%s, %s, true)", [SETTING, json.dumps(found._asdict())])


@lru_cache(maxsize=2_000)
def may_fire(sql: str) -> bool:
    """True if a statement writes a column that is followed; frequent writes by machines are recognised by their column
    names.
    """
    text = sql[:LOOKED_AT]
    for verb, table in WRITES.findall(text):
        if found := followed.get(table):
            names = found.columns if verb.upper() == "UPDATE" else ("",)
            if any(re.search(rf"\b{name}\b", text) for name in names):
                return True
    return False
