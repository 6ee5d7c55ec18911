"""Choosing rows of a list of the admin, and answering the question that follows as a browser would."""

import html
import re
from typing import Any

from django.test import Client

from tests.people import staff


def operator() -> Client:
    return staff("view_backlogrecord", "change_backlogrecord")


def choose(action: str, *rows: Any, **fields: Any) -> dict[str, Any]:
    return {"action": action, "_selected_action": [row.pk for row in rows], **fields}


def hidden_fields(page: str) -> dict[str, list[str]]:
    """The fields of the question's form."""
    [form] = [part for part in page.split("<form")[1:] if 'name="confirmed"' in part]
    fields: dict[str, list[str]] = {}
    for name, value in re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form.split("</form>")[0]):
        fields.setdefault(name, []).append(html.unescape(value))
    return fields


def asked(client: Client, url: str, fields: dict[str, Any] | None = None) -> tuple[str, str]:
    """The question that a list, or a button of a page, asks, and the page that follows the answer yes."""
    question = (client.get(url) if fields is None else client.post(url, fields)).content.decode()
    return question, client.post(url, hidden_fields(question), follow=True).content.decode()
