"""Failures of deliveries by HTTP: the meaning of each answer. Pure.

| answer | outcome |
|---|---|
| 2xx | delivered |
| 307, 308 | followed if the endpoint allows it; else a failure that names the redirect's target |
| other 3xx, 4xx | a failure of the record: the host works, and refuses this |
| 429, 503 with Retry-After | a failure; not tried again before that time |
| 5xx | a failure of the host: its breaker counts it |

A 503 with a Retry-After does not count against the host: it says when to come back, and a breaker's trials would not
wait.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from external.redaction import redacted
from jobs.outcomes import BreakerTarget, Facts, Failed

LONGEST_RETRY_AFTER = 86_400.0
"""Seconds. A server that asks for more is tried again after a day."""
QUOTED = 200
"""Characters of an answer in an error."""
SHORTEST_HIDDEN = 6
"""Characters. Hiding shorter ones would only make the rest unreadable."""

FOLLOWED = frozenset({HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT})
"""The redirects that keep method and body."""
NOT_FOLLOWED = "redirects are not followed, except 307 and 308 if the endpoint allows it: give the endpoint that URL"
SAYS_WHEN = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})


@dataclass(frozen=True)
class HttpAnswer:
    """An HTTP answer. `body`: its beginning. `leads_to`: the origin to which it redirects, as text."""

    status: int
    body: bytes = b""
    retry_after: str = ""
    leads_to: str = ""
    redirects: int = 0

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def facts(self) -> Facts:
        """The facts that are kept with the attempt."""
        facts: Facts = {"status": self.status, "bytes": len(self.body)}
        return {**facts, "redirects": self.redirects} if self.redirects else facts


def failure_of(
    answer: HttpAnswer, guarded: BreakerTarget, origin: str, hidden: Iterable[str], facts: Facts, now: datetime
) -> Failed:
    """The failure that an unsuccessful answer means. `guarded`: the host that is charged with it if the fault is the
    host's. `origin`: who answered. `hidden`: texts that must not be quoted.
    """
    retry_after = seconds_until(answer.retry_after, now) if answer.status in SAYS_WHEN else 0.0
    fault_of = guarded if answer.status >= 500 and not retry_after else None
    error = f"{origin} answered {named(answer.status)}"
    if answer.leads_to:
        error = f"{error}, which leads to {answer.leads_to}; {NOT_FOLLOWED}"
    elif quote := quoted(answer.body.decode("utf-8", "replace"), hidden):
        error = f"{error}: {quote}"
    return Failed(error, fault_of=fault_of, retry_after=retry_after, facts=facts)


def named(status: int) -> str:
    """A status with its name, such as `404 Not Found`."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def seconds_until(retry_after: str, now: datetime) -> float:
    """The wait that a Retry-After header asks for, in seconds; the header holds seconds or an HTTP date. 0 if there is
    no header, the time has passed, or it cannot be read.
    """
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:12])
    else:
        try:
            until = parsedate_to_datetime(text)
            seconds = ((until if until.tzinfo else until.replace(tzinfo=UTC)) - now).total_seconds()
        except (ValueError, TypeError, OverflowError, IndexError):
            return 0.0
    return min(LONGEST_RETRY_AFTER, max(0.0, seconds))


def quoted(text: str, hidden: Iterable[str] = ()) -> str:
    """The beginning of a server's answer, for users: on one line, without our own secrets."""
    text = redacted(text, [each for each in hidden if len(each) >= SHORTEST_HIDDEN])
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text[: QUOTED * 8]).split())
    return line if len(line) <= QUOTED else f"{line[: QUOTED - 1]}…"
