"""Proofs of an agent: enrolment codes and tokens. Only their digests are stored.

An operator makes a **code** for a source (`make_code`) and types it on its machine. The agent exchanges it, once, for a
**token** (`redeem`), and shows that with every request (`authenticate`). A source may have several tokens: a new one
from `redeem` or `rotate` leaves the older ones valid, and its *first use* revokes them. So an answer that was lost on
the way locks no agent out, and a token that was copied ends when the agent takes the next one.

Every function that makes or ends a token of a source first locks the source's row: one that `revoke` does not see yet
waits for it, and then finds that it has been revoked.
"""

import hashlib
import json
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import DEFAULT_DB_ALIAS, transaction
from django.db.models import JSONField
from django.db.models.functions import Now

from jobs.clock import database_clock
from jobs.prepared_statements import execute
from sources.models import AgentToken, EnrolmentCode, Source

PREFIX = "bsa_"
"""A prefix by which a token that turns up in a log or a repository is recognised."""

USED_AT_PRECISION = timedelta(hours=1)
"""The least time between two writes of `used_at`: agents come every few minutes, and a write is half the
cost of one.
"""

KEPT_FOR = timedelta(days=90)
"""The time for which the row of a token is kept after its end, to show until when it could have been used."""

CODE_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Digits and letters without I, L, O and U, so that a code that is read aloud or copied by hand arrives."""

CODE_LENGTH = 16
"""The number of letters, out of 32: 80 bits."""

CODE_GROUP = 4
MISREAD = str.maketrans("OIL", "011")

VALID_FOR_SECONDS = 3600.0


# Served by the unique index of the digest.
VALID = """
SELECT clock_timestamp(), {columns}
  FROM sources_agenttoken t
  JOIN sources_source s ON s.id = t.source_id
 WHERE t.digest = %(digest)s AND t.revoked_at IS NULL
"""


class CredentialRefused(Exception):
    """A code or token is unknown, used, expired or revoked, without a hint which."""


@dataclass(frozen=True)
class Agent:
    """The agent whose token was accepted: the row of the token, its source, and the database's clock at that moment."""

    token: AgentToken
    source: Source
    now: datetime


@transaction.atomic
def issue(source: Source) -> str:
    """Make a token for the agent of `source`. It is returned this once: it cannot be read again.

    Raises: CredentialRefused when the source has been deleted in the meantime.
    """
    return _issue(_locked(source.pk))


def _issue(source: Source) -> str:
    text = PREFIX + secrets.token_urlsafe(32)
    AgentToken.objects.create(source=source, digest=digest_of(text))
    return text


@transaction.atomic
def rotate(token: AgentToken) -> str:
    """Make the token that follows `token`, which stays valid until the new one is first used.

    Raises: CredentialRefused when `token` has been revoked in the meantime.
    """
    source = _locked(token.source_id)
    if not AgentToken.objects.filter(pk=token.pk, revoked_at=None).exists():
        raise CredentialRefused
    return _issue(source)


@transaction.atomic
def revoke(source: Source) -> int:
    """End all tokens and open codes of `source`. Returns how many tokens were valid until now.

    Raises: CredentialRefused when the source has been deleted in the meantime.
    """
    _locked(source.pk)
    EnrolmentCode.objects.filter(source=source).delete()
    return AgentToken.objects.filter(source=source, revoked_at=None).update(revoked_at=Now())


def authenticate(text: str, now: datetime | None = None) -> Agent | None:
    """The agent whose token `text` is. None if it is unknown, revoked or not a token at all.

    One lookup by digest, whatever the text looks like, so the three take the same time. An accepted token costs a write
    at most once an hour; at its first use the older ones of its source are revoked.
    """
    found = _valid(digest_of(text))
    if found is None:
        return None
    token, clock = found
    instant = now or clock
    if token.used_at is None:
        _first_use(token, instant)
    elif not timedelta(0) <= instant - token.used_at < USED_AT_PRECISION:  # a clock may have been ahead
        AgentToken.objects.filter(pk=token.pk).update(used_at=instant)
    return Agent(token, token.source, instant)


def _valid(digest: str) -> tuple[AgentToken, datetime] | None:
    """The token with that digest, its source, and the clock. Without the ORM, which took longer than all the rest."""
    of_token, of_source = AgentToken._meta.concrete_fields, Source._meta.concrete_fields
    columns = ", ".join([f"t.{f.column}" for f in of_token] + [f"s.{f.column}" for f in of_source])
    row = execute(VALID.format(columns=columns), {"digest": digest}, prepare=True).fetchone()
    if row is None:
        return None
    clock, *values = row
    token = AgentToken.from_db(DEFAULT_DB_ALIAS, [f.attname for f in of_token], values[: len(of_token)])
    read = [
        json.loads(value) if isinstance(field, JSONField) else value
        for field, value in zip(of_source, values[len(of_token) :], strict=True)
    ]
    token.source = Source.from_db(DEFAULT_DB_ALIAS, [f.attname for f in of_source], read)
    return token, clock


@transaction.atomic
def _first_use(token: AgentToken, now: datetime) -> None:
    AgentToken.objects.filter(pk=token.pk).update(used_at=now)
    AgentToken.objects.filter(source=token.source_id, pk__lt=token.pk, revoked_at=None).update(revoked_at=now)


@transaction.atomic
def make_code(source: Source, valid_for: float = VALID_FOR_SECONDS, now: datetime | None = None) -> str:
    """Make a one-time code for the agent of `source`, such as `K7QP-2M4X-…`. It expires after `valid_for` seconds.

    Codes of the source that were used or have expired are deleted; open ones stay.

    Raises: CredentialRefused when the source has been deleted in the meantime.
    """
    instant = now or database_clock()
    _locked(source.pk)
    letters = "".join(secrets.choice(CODE_ALPHABET) for _ in range(CODE_LENGTH))
    EnrolmentCode.objects.filter(source=source, expires_at__lte=instant).delete()
    EnrolmentCode.objects.filter(source=source, used_at__isnull=False).delete()
    EnrolmentCode.objects.create(source=source, digest=digest_of(letters), expires_at=expires_at(valid_for, instant))
    return "-".join(letters[start : start + CODE_GROUP] for start in range(0, CODE_LENGTH, CODE_GROUP))


def enrol_command(url: str, code: str) -> str:
    """The command to type on the machine of a source whose agent is to use `code` at the server `url`."""
    return f"python3 backupsched-agent enrol {url} {code}"


def expires_at(valid_for: float, now: datetime) -> datetime:
    """The instant at which a code that was made at `now` for `valid_for` seconds expires. It is not accepted from then
    on.
    """
    return now + timedelta(seconds=valid_for)


@transaction.atomic
def redeem(code: str, now: datetime | None = None) -> tuple[Source, str]:
    """Exchange a code for a token of its source. Case, dashes and spaces do not matter.

    Of two that redeem the same code at the same moment one gets a token. Raises: CredentialRefused.
    """
    instant = now or database_clock()
    open_codes = EnrolmentCode.objects.filter(digest=digest_of(_plain(code)), used_at=None, expires_at__gt=instant)
    found = open_codes.values_list("source", flat=True).first()
    if found is None:
        raise CredentialRefused
    source = _locked(found)
    if not open_codes.update(used_at=instant):
        raise CredentialRefused
    return source, _issue(source)


def prune(now: datetime | None = None) -> int:
    """Delete the tokens that were revoked, and the codes that expired, long ago. Returns how many."""
    before = (now or database_clock()) - KEPT_FOR
    tokens, _ = AgentToken.objects.filter(revoked_at__lt=before).delete()
    codes, _ = EnrolmentCode.objects.filter(expires_at__lt=before).delete()
    return tokens + codes


def _locked(source_id: int) -> Source:
    """The source, its row locked until the transaction ends. Raises: CredentialRefused when it is gone."""
    source = Source.objects.select_for_update().filter(pk=source_id).first()
    if source is None:
        raise CredentialRefused
    return source


def first_group(code: str) -> str:
    """The part of a code by which its tries are counted, without keeping the code."""
    return _plain(code)[:CODE_GROUP]


def _plain(code: str) -> str:
    """The letters of a code as they were made: upper case, no dashes or spaces, misread letters put right."""
    return "".join(code.split()).replace("-", "").upper().translate(MISREAD)


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
