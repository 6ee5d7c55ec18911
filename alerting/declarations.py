"""The declaration of a route of alerts, and its edits: by superusers only, since its URL holds tokens."""

import re
from typing import Annotated, Any, ClassVar

from django.core.exceptions import ValidationError
from pydantic import AfterValidator, BaseModel, Field

from alerting import urls
from alerting.models import AlertKind, AlertRoute, Digest
from declarations.parts import Rows
from declarations.service import Service
from declarations.types import STORABLE, STRICT, Choice, JsonObject, Reference, Title
from schedules.declarations import Zone
from sealing import stored_secrets
from sealing.lookup import check_reference, problem_with_stored
from sealing.models import StoredSecret
from sealing.references import PREFIX
from sources.declarations.policies import RANGE
from sources.domain.windows import Window
from sources.models import Policy

MOST = 200
SEALED = "alert-"
"""The beginning of the name of a stored secret that was sealed for a route."""


def _ranges(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    Window.parse(rows, "UTC")
    return rows


def _kinds(kinds: list[str]) -> list[str]:
    if unknown := sorted(set(kinds) - set(AlertKind.values)):
        raise ValueError(f"there is no kind {unknown[0]!r:.50}; there are {', '.join(AlertKind.values)}")
    return sorted(set(kinds))


def _url(url: str) -> str:
    check_reference(url, "URL")
    return url


QUIET = Rows(
    "range", RANGE,
    "Quiet hours, in its zone: alerts wait until they end, and those that are over by then are not sent. None if empty",
)  # fmt: skip


class Route(BaseModel):
    """A route of alerts: where they go, and which. Set by superusers only."""

    model_config = STRICT

    name: Title
    url: Annotated[str, Field(min_length=1, max_length=500), STORABLE, AfterValidator(_url)] = Field(
        description="Where its Apprise URL, which holds tokens, is found: stored:NAME, env:NAME or file:/path"
    )
    enabled: bool = Field(True, description="Nothing is sent to it while it is disabled")
    kinds: Annotated[list[Annotated[str, STORABLE]], Field(max_length=MOST), AfterValidator(_kinds)] = Field(
        default_factory=list, description=f"Which alerts: {', '.join(AlertKind.values)}; all if empty"
    )
    policies: Annotated[list[Reference], Field(max_length=MOST), AfterValidator(lambda names: sorted(set(names)))] = (
        Field(
            default_factory=list,
            description=(
                "Only alerts of sources under these policies, and those that concern no policy. All alerts if empty"
            ),
        )
    )
    quiet: Annotated[list[JsonObject], Field(max_length=MOST), AfterValidator(_ranges), QUIET] = Field(
        default_factory=list,
        description="Quiet hours, in its zone, such as "
        '[{"days": "mon-sun", "start": "22:00", "end": "07:00"}]: alerts wait until they end, and '
        "those that are over by then are not sent",
    )
    zone: Zone = Field("UTC", description="IANA time zone of its quiet hours and digests, such as Europe/Berlin")
    digest: Annotated[Digest, Choice()] = Field(
        Digest.NONE, description="A summary at eight in the morning in its zone, also when all is well"
    )


class Routes(Service[AlertRoute]):
    """Also takes `secret_url`, the URL itself: it is sealed as the stored secret `alert-NAME`, and never shown. The
    secret is deleted when its route is, or refers to another one, unless something else refers to it."""

    model, declaration = AlertRoute, Route
    many: ClassVar[str] = "policies"

    def values(self, row: AlertRoute) -> dict[str, Any]:
        found = {name: getattr(row, name) for name in Route.model_fields if name != self.many}
        wanted = getattr(row, "wanted", None)
        if wanted is None:
            wanted = list(row.policies.values_list("schedule__name", flat=True)) if row.pk else []
        return found | {self.many: sorted(wanted)}

    def refers(self, row: AlertRoute, field: str) -> bool:
        return field == self.many

    def fill(self, row: AlertRoute, sent: dict[str, Any]) -> set[str] | None:
        """Raises: ValidationError, which quotes no URL."""
        row.left = row.url  # type: ignore[attr-defined]
        rest = {name: value for name, value in sent.items() if name != "secret_url"}
        if not (url := sent.get("secret_url")):
            return super().fill(row, rest)
        if problem := urls.problem_with(url):
            raise ValidationError({"secret_url": problem})
        name = f"{SEALED}{re.sub(r'[^A-Za-z0-9._-]+', '-', str(sent.get('name', row.name)))}"[:100].rstrip("-._")
        reference = f"{PREFIX}{name}"
        if reference != row.url and StoredSecret.objects.filter(name=name).exists():
            raise ValidationError({"secret_url": f"there is a stored secret {name} already: refer to it, or remove it"})
        row.sealing = name, url  # type: ignore[attr-defined]
        changed = super().fill(row, rest | {"url": reference})
        return changed if changed is None else changed | {"url"}

    def problems(self, row: AlertRoute, changed: set[str] | None) -> dict[str, str]:
        if (changed is None or "url" in changed) and not hasattr(row, "sealing"):
            if text := problem_with_stored(row.url):
                return {"url": text}
            if row.url.startswith(PREFIX):
                try:
                    problem = urls.problem_with(stored_secrets.read(row.url.removeprefix(PREFIX)))
                except stored_secrets.NotStored as error:
                    return {"url": str(error)}
                return {"url": f"the stored secret that it refers to {problem}"} if problem else {}
        return {}

    def write(self, row: AlertRoute, changed: set[str] | None) -> list[str]:
        if sealing := getattr(row, "sealing", None):
            self._seal(*sealing)
        super().write(row, None if changed is None else changed - {self.many})
        if hasattr(row, "wanted"):
            row.policies.set(Policy.objects.filter(schedule__name__in=row.wanted))
        if row.url != row.left:  # type: ignore[attr-defined]
            self._forget(row.left)  # type: ignore[attr-defined]
        return []

    def sealed_for(self, row: AlertRoute) -> StoredSecret | None:
        """The stored secret that belongs to a route: sealed for it, and referred to by no other row; None if there is
        none.
        """
        name = row.url.removeprefix(PREFIX)
        if (
            not row.url.startswith(f"{PREFIX}{SEALED}")
            or sum(map(len, stored_secrets.users_of([name])[name].values())) > 1
        ):
            return None
        return StoredSecret.objects.filter(name=name).first()

    def delete(self, row: AlertRoute) -> None:
        super().delete(row)
        self._forget(row.url)

    def _forget(self, url: str) -> None:
        """Delete the stored secret that a route no longer refers to: one sealed for a route, that nothing uses now."""
        secrets = stored_secrets.StoredSecrets(by=self.by)
        sealed = StoredSecret.objects.filter(name=url.removeprefix(PREFIX)).first()
        if sealed and url.startswith(f"{PREFIX}{SEALED}") and secrets.lock(sealed.pk) and not secrets.uses(sealed):
            secrets.delete(sealed)

    def _seal(self, name: str, url: str) -> None:
        service = stored_secrets.StoredSecrets(by=self.by)
        row = StoredSecret.objects.filter(name=name).first()
        service.edit(row or service.new(), {"name": name, "value": url})

    def _put(self, row: AlertRoute, values: dict[str, Any]) -> dict[str, str]:
        found = super()._put(row, {name: value for name, value in values.items() if name != self.many})
        if self.many in values:
            wanted = values[self.many]
            known = set(Policy.objects.filter(schedule__name__in=wanted).values_list("schedule__name", flat=True))
            broken = self.remembered("broken", set[str])
            if unknown := [name for name in wanted if name not in known | broken]:
                return found | {self.many: f"there is no policy {', '.join(map(repr, unknown))}"}
            row.wanted = wanted  # type: ignore[attr-defined]
        return found


def use_of(row: Any) -> str:
    """The reason why a policy is not deleted: routes get its alerts alone, and without a policy would get those of all
    policies. The routes are locked, so that none loses its other policies in the meantime. Empty if no such route
    exists.
    """
    if not isinstance(row, Policy):
        return ""
    routes = AlertRoute.objects.filter(policies=row).order_by("pk").select_for_update(no_key=True, of=("self",))
    names = [route.name for route in routes if route.policies.count() == 1]
    them = "routes get" if len(names) > 1 else "route gets"
    text = f"the alert {them} alerts of this policy only ({', '.join(names)}): name another policy there, or delete it"
    return text if names else ""
