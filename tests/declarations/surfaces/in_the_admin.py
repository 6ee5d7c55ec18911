"""The admin as a surface: pages are opened, and what a browser would send is posted."""

import json
from html import unescape
from pathlib import Path
from typing import Any

from django.contrib import admin
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse

from backupsched import urls  # noqa: F401 - loads the pages of the admin
from declarations.service import Service
from declarations.shapes import shapes_of
from tests.api.asking import make_user
from tests.declarations.surfaces.answers import Answer
from tests.declarations.surfaces.resources import SECRET, SERVICES, Values
from tests.forms import Inputs, typed


class InTheAdmin:
    def __init__(self, resource: str, folder: Path, account: list[str] | None = None) -> None:
        model = SERVICES[resource].model
        page: Any = admin.site._registry[model]
        self.service, self.name = page.form.service, f"admin:{model._meta.app_label}_{model._meta.model_name}"
        user = make_user(*account or (), is_superuser=account is None)
        self.client = Client()
        self.client.force_login(user)
        self.who = (user.username, "web")

    def page(self, name: str, *ids: Any) -> str:
        return reverse(f"{self.name}_{name}", args=ids)

    def secret(self, name: str) -> Values:
        return {name: SECRET} if name else {}

    def create(self, values: Values) -> Answer:
        kind = values.get("kind") if self.service.model._meta.model_name == "source" else None
        return self._save(f"{self.page('add')}{f'?kind={kind}' if kind else ''}", values)

    def change(self, row: Any, values: Values) -> Answer:
        return self._save(self.page("change", row.pk), values)

    def remove(self, row: Any) -> Answer:
        url = self.page("delete", row.pk)
        asked, answered = self.client.get(url), self.client.post(url, {"post": "yes"})
        is_there = self.service.model.objects.filter(pk=row.pk).exists()
        return Answer("", refusal=f"{answered.status_code} {words_of(asked)}" if is_there else "")

    def remove_chosen(self, row: Any) -> Answer:
        sent = {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"}
        text = words_of(self.client.post(self.page("changelist"), sent, follow=True))
        return Answer(text, refusal=text if self.service.model.objects.filter(pk=row.pk).exists() else "")

    def shown(self, row: Any) -> str:
        pages = self.page("changelist"), self.page("change", row.pk), self.page("history", row.pk)
        return "".join(self.client.get(each).content.decode() for each in pages)

    def verb(self, row: Any, verb: str, **given: str) -> Answer:
        page: Any = admin.site._registry[self.service.model]
        action = "pause_until" if verb == "pause" and "pause_until" in page.actions else verb
        sent = {"action": action, "_selected_action": [row.pk], "confirmed": "yes", **given}
        response = self.client.post(self.page("changelist"), sent)
        text = words_of(response)
        return Answer(text, refusal="" if response.status_code == 302 else text)

    def _save(self, url: str, values: Values) -> Answer:
        page = self.client.get(url)
        inputs = Inputs(page.content.decode()).found
        if page.status_code == 200:
            sent = self._typed(values)
            gone = tuple(f"{name}-" for name in values)
            inputs = {name: text for name, text in inputs.items() if not name.startswith(gone)} | sent
        response = self.client.post(url, {name: value for name, value in inputs.items() if value is not False})
        text = words_of(response)
        if response.status_code == 302:
            return Answer(" ".join(map(str, get_messages(response.wsgi_request))))
        if response.status_code != 200:
            return Answer(text, refusal=f"{response.status_code}")
        errors = response.context["adminform"].form.errors
        return Answer(text, {name: "; ".join(texts) for name, texts in errors.items()})

    def _typed(self, values: Values) -> dict[str, Any]:
        """Values as a page's inputs have them."""
        shapes, row, found = shapes_of(self.service.declaration), self.service().new(), {}
        for name, value in typed(self.service.declaration, values).items():
            if name not in values or name not in shapes:
                found[name] = value
            elif isinstance(value, bool):
                found[name] = str(value).lower() if shapes[name].nullable else value and "on"
            elif name == "options":
                found |= {f"option_{option}": text for option, text in value.items()}
            elif self.service().refers(row, name):
                found[name] = keys_of(self.service, row, name, value)
            elif isinstance(value, dict):
                found[name] = json.dumps(value)
            else:
                found[name] = "" if value is None else value
        return found


def words_of(response: Any) -> str:
    """The text of a page, on which no name of a row is markup."""
    page: str = response.content.decode()
    assert "<i>weekly" not in page
    return unescape(page)


def keys_of(service: type[Service[Any]], row: Any, name: str, value: Any) -> Any:
    """The keys of the rows that a field names."""
    model = service()._reference(service().holder(row, name), name) or row._meta.get_field(name).related_model
    path = "schedule__name" if model._meta.model_name == "policy" else "name"
    keys = list(model.objects.filter(**{f"{path}__in": [value] if isinstance(value, str) else value}).values_list("pk"))
    if isinstance(value, list):
        return [key for (key,) in keys]
    return keys[0][0] if keys else value
