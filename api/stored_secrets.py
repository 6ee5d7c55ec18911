"""Stored secrets: they go in, and never come out again."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from api.auth import Staff
from api.declared_resources import DeclaredResource
from api.fields import Name
from api.models import Scope
from sealing import declarations, models
from sealing.stored_secrets import StoredSecrets, users_of
from sources.declarations.reach import SET_SECRET


class StoredSecretAnswer(declarations.StoredSecretDeclaration):
    """A stored secret without its value. `used_by`: the names of rows that refer to it, by kind, such as `source`."""

    id: int
    changed_at: datetime
    used_by: dict[str, list[str]]


class StoredSecretsOfTheApi(DeclaredResource[models.StoredSecret]):
    """Stored by accounts that may set references, and by no others."""

    service, body, tag, answer = StoredSecrets, declarations.NewStoredSecret, "sources", StoredSecretAnswer
    filters, orderings = {"name": Name}, ("id", "name")
    edited_besides = ("changed_at",)
    seen_by, edited_by = (SET_SECRET,), Staff(Scope.WRITE, SET_SECRET)

    def facts(self, rows: Sequence[models.StoredSecret]) -> list[dict[str, Any]]:
        users = users_of([row.name for row in rows])
        return [self.own_facts(row) | {"used_by": users[row.name]} for row in rows]


router = StoredSecretsOfTheApi().router
