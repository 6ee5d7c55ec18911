"""Secrets that are stored here, sealed; other rows refer to one as `stored:NAME`.

    problem_with   before a reference is saved: the secret exists, and stays until that is committed
    read           when it is needed
    StoredSecrets  store, replace and delete: the API, the admin, a command, `store`; the log names each, never a secret

A table whose rows may refer to one is named in `references.referring`: a secret is not deleted while a row does.
"""

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

from django.core.exceptions import ValidationError
from django.db import close_old_connections, connection, transaction
from django.db.models import Func, JSONField

from declarations.problems import lines_of, validated
from declarations.service import Service, used_by
from jobs import decisions
from jobs.clock import database_clock
from jobs.conf import PROGRAM
from sealing import declarations
from sealing.encryption import Unsealable, seal, unseal
from sealing.models import StoredSecret
from sealing.references import PREFIX, ReferringField, at_set, referring


class NotStored(ValueError):
    """A stored secret is missing or cannot be opened. The message contains advice, never a secret."""


def read(name: str) -> str:
    """The secret of that name, asked of the database by the calling thread. Raises: NotStored; django.db.Error."""
    if not connection.in_atomic_block:
        close_old_connections()  # one that broke while the database was away
    sealed = StoredSecret.objects.filter(name=name).values_list("sealed", flat=True).first()
    if sealed is None:
        raise NotStored(_missing(name))
    try:
        return unseal(sealed)
    except Unsealable as error:
        why = f"the stored secret {name} cannot be opened: {error} by `{PROGRAM} secrets set {name}`"
        raise NotStored(why) from None


def problem_with(name: str) -> str:
    """The reason why nothing may refer to it, in the transaction that is to save the reference. Empty if it may, and
    the secret stays until then.
    """
    row_id = StoredSecret.objects.filter(name=name).values_list("pk", flat=True).first()
    return "" if row_id is not None and StoredSecrets().lock(row_id) else _missing(name)


def store(name: str, value: str) -> str:
    """Store a new secret; returns the reference to it. Raises: ValueError for a name that is taken or invalid."""
    service = StoredSecrets(by="the scheduler")
    try:
        with transaction.atomic():
            service.edit(service.new(), {"name": name, "value": value})
    except ValidationError as error:
        raise ValueError("; ".join(f"{field}: {text}" for field, text in lines_of(error))) from None
    return f"{PREFIX}{name}"


def users_of(names: Collection[str], *, that_stay: bool = False) -> dict[str, dict[str, list[str]]]:
    """Rows that refer to each of these secrets: secret → title of a kind of rows, such as `source` → their names.
    `that_stay`: only rows that open something with it.
    """
    found: dict[str, dict[str, list[str]]] = {name: {} for name in names}
    for each in [each for each in referring if each.stays or not that_stay]:
        title = str(each.model._meta.verbose_name)
        for reference, user in _references(each, {f"{PREFIX}{name}" for name in names}):
            found[reference.removeprefix(PREFIX)].setdefault(title, []).append(user)
    return found


class ValuesAsArray(Func):
    """The values of an object, as an array."""

    template = "jsonb_path_query_array(%(expressions)s, '$.*')"
    output_field = JSONField()


def _references(each: ReferringField, wanted: Collection[str]) -> Iterator[tuple[str, str]]:
    """Reference and name of each row that has one of those."""
    rows = each.model._default_manager.order_by(each.named_by) if wanted else each.model._default_manager.none()
    if isinstance(each.model._meta.get_field(each.field), JSONField):
        rows = (
            rows.exclude(**{each.field: {}}).alias(held=ValuesAsArray(each.field)).filter(held__has_any_keys=[*wanted])
        )
    else:
        rows = rows.filter(**{f"{each.field}__in": wanted})
    for value, user in rows.values_list(each.field, each.named_by):
        held = list(value.values()) if isinstance(value, dict) else [value]
        yield from ((reference, user) for reference in wanted if reference in held)


class StoredSecrets(Service[StoredSecret]):
    """The service of stored secrets: it also takes `value`, and seals it. A name cannot change, since references use
    it."""

    model, declaration = StoredSecret, declarations.StoredSecretDeclaration

    def fill(self, row: StoredSecret, sent: dict[str, Any]) -> set[str] | None:
        """Raises: ValidationError, which quotes no value."""
        is_new = row.pk is None
        if not is_new and sent.get("name", row.name) != row.name:
            raise ValidationError({"name": "stays: what uses the secret refers to it by name; store another one"})
        if not is_new and "value" not in sent:
            return set()
        for title, users in users_of([row.name], that_stay=True)[row.name].items() if not is_new else ():
            why = f"stays: only it opens the content of the {title} {', '.join(users)}; store another one next to it"
            raise ValidationError({"value": why})
        new = validated(declarations.NewStoredSecret, sent if is_new else {"name": row.name, **sent})
        super().fill(row, {"name": new.name})
        row.sealed, row.changed_at = seal(new.value), database_clock()
        return None if is_new else {"value"}

    def write(self, row: StoredSecret, changed: set[str] | None) -> list[str]:
        super().write(row, None if changed is None else {"sealed", "changed_at"})
        self._log(row, "stored" if changed is None else "replaced")
        for task in at_set:
            transaction.on_commit(partial(task, row.name), robust=True)
        return []

    def uses(self, row: StoredSecret) -> list[str]:
        users = users_of([row.name])[row.name]
        return [used_by(row.name, title, names, "secret") for title, names in users.items()]

    def delete(self, row: StoredSecret) -> None:
        self._log(row, "deleted")
        row.delete()

    def _log(self, row: StoredSecret, what: str) -> None:
        text = f"{self.by} {what} the secret {row.name}"
        decisions.log(f"secret {what}", text, kind="secret", subject=f"{PREFIX}{row.name}")


def _missing(name: str) -> str:
    return f"there is no stored secret {name}: store it by `{PROGRAM} secrets set {name}`, or in the admin"
