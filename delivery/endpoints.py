"""Operations on endpoints: edit one, set its secrets, rotate its signing secret."""

from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.utils import timezone

from declarations.service import Service
from delivery import addresses, declarations, signing
from delivery.models import Endpoint, EndpointKind, SigningSecret
from external.formatting import several
from jobs.models import BacklogRecord
from sealing.encryption import seal

MOST_COUNTED = 1000
NOT_SIGNED = "its callbacks are not signed yet: rotate its secret, which makes the first one"


class Endpoints(Service[Endpoint]):
    """Edits of endpoints. A delivery under way still goes to the URL that it was emitted with."""

    model, declaration = Endpoint, declarations.EndpointDeclaration

    def fill(self, row: Endpoint, sent: dict[str, Any]) -> set[str] | None:
        """Set the fields; `authorization`, sealed, among them: None or empty removes it. Its old value is not compared.

        Raises: ValidationError, also for a new host that would get the present authorization: otherwise an account that
        may edit an endpoint could have a secret sent to any host.
        """
        if row.pk and sent.get("kind", row.kind) != row.kind:
            kept = "cannot be changed: its schedules are of that kind; make another endpoint"
            raise ValidationError({"kind": kept})
        problems: dict[str, Any] = {}
        changed: set[str] | None = None if row.pk is None else set()
        old_url = row.url
        try:
            changed = super().fill(row, {name: value for name, value in sent.items() if name != "authorization"})
        except ValidationError as error:
            problems = error.message_dict
        if "authorization" in sent:
            if problem := self._authorize(row, sent["authorization"] or "", changed):
                problems["authorization"] = problem
        elif row.sealed_authorization and (new := _origin(row.url)) != (old := _origin(old_url)):
            problems["authorization"] = (
                f"the Authorization that is set is for {old}, and would be sent to {new}: enter it again, or remove it"
            )
        if problems:
            raise ValidationError(problems)
        return changed

    def _authorize(self, row: Endpoint, text: str, changed: set[str] | None) -> str:
        """Seal the value of its Authorization header. Returns its problem, without quoting it."""
        try:
            text = declarations.one_line(text)
        except ValueError as error:
            return str(error)
        if text and row.kind != EndpointKind.HTTP_CALLBACK:
            return "is not for a queue: its credentials are found where the worker runs"
        if changed is not None and (text or row.sealed_authorization):
            changed.add("sealed_authorization")
        row.sealed_authorization = seal(text)
        return ""

    def uses(self, row: Endpoint) -> list[str]:
        """Also the events that are still to be delivered there: the schedule may name another endpoint by now."""
        left = undelivered(row)
        number = f"more than {MOST_COUNTED - 1:,} events" if left >= MOST_COUNTED else several(left, "event")
        waiting = f"{row.name}: {number} still to be delivered there would fail; let them end, or cancel them"
        return [*super().uses(row), *([waiting] if left else [])]

    def write(self, row: Endpoint, changed: set[str] | None) -> list[str]:
        """A new one signs nothing until it has a secret, which is shown once: whoever makes it has to rotate it."""
        super().write(row, changed)
        return [NOT_SIGNED] if changed is None and row.kind == EndpointKind.HTTP_CALLBACK else []


class SignedEndpoints(Endpoints):
    """A new one that is called back gets its first signing secret at once, for whoever makes it: `signing_secret`."""

    def write(self, row: Endpoint, changed: set[str] | None) -> list[str]:
        warnings = super().write(row, changed)
        if NOT_SIGNED in warnings:
            warnings.remove(NOT_SIGNED)
            row.signing_secret = signing.rotate(row)  # type: ignore[attr-defined]
        return warnings


def _origin(url: str) -> str:
    return addresses.origin_of(url) or url


def secret_facts(secret: SigningSecret, now: datetime) -> dict[str, Any]:
    """The visible facts about a signing secret, without the secret. `age` in seconds."""
    retired = secret.retires_at is not None and secret.retires_at <= now
    return {
        "id": secret.pk,
        "created_at": secret.created_at,
        "age": (now - secret.created_at).total_seconds(),
        "retires_at": secret.retires_at,
        "state": "retired" if retired else "retiring" if secret.retires_at else "in use",
    }


def undelivered(endpoint: Endpoint) -> int:
    """The number of events still to be delivered there, at most MOST_COUNTED. Without the endpoint they would fail."""
    waiting = BacklogRecord.objects.unfinished().filter(kind=endpoint.kind, payload__endpoint=endpoint.pk)
    return waiting.order_by().values("pk")[:MOST_COUNTED].count()


def endpoint_facts(endpoint: Endpoint) -> dict[str, Any]:
    """An endpoint by name, without secret values. `secrets`: the number that sign for it now."""
    now = timezone.now()
    states = [secret_facts(secret, now)["state"] for secret in endpoint.signing_secrets.all()]
    return {
        "id": endpoint.pk,
        **Endpoints().values(endpoint),
        "authorization": "set" if endpoint.sealed_authorization else "not set",
        "secrets": len(states) - states.count("retired"),
        "schedules": endpoint.schedules.count(),
    }
