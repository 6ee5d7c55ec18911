"""The menu of the admin: three groups, with the entries that the user may view.

Tables that machines write, and that are empty in most installations, appear once they hold rows.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from django.contrib import admin
from django.db import connection
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from declarations.surfaces.web.permissions import may_look

Link = dict[str, Any]

BACKUPS = (
    ("Home", "home", "home"),
    ("Alerts", "alerting.alert", "notifications"),
    ("Calendar", "matrix", "calendar_month"),
    ("Sources", "sources.source", "devices"),
    ("Assignments", "sources.assignment", "assignment"),
    ("Policies", "sources.policy", "event_repeat"),
    ("Repositories", "sources.repository", "database"),
    ("Backups", "sources.backup", "backup"),
    ("Restores", "sources.restore", "settings_backup_restore"),
    ("Backlog", "jobs.backlogrecord", "list_alt"),
    ("What if", "what-if", "query_stats"),
)
EVENTS = (
    ("Schedules", "schedules.schedule", "schedule"),
    ("Events", "events", "outbox"),
    ("Endpoints", "delivery.endpoint", "webhook"),
    ("Triggers", "schedules.trigger", "alarm"),
)
SYSTEM = (
    ("Alert routes", "alerting.alertroute", "campaign"),
    ("Dead letters", "dead letters", "mail_off"),
    ("Workers", "jobs.worker", "memory"),
    ("Queues", "jobs.pausedqueue", "low_priority"),
    ("Throttles", "jobs.throttle", "speed"),
    ("Retry policies", "jobs.retrypolicy", "replay"),
    ("Pictures of backoff", "backoff", "scatter_plot"),
    ("Audit", "audit.auditentry", "history"),
    ("Stored secrets", "delivery.storedsecret", "password"),
    ("API tokens", "api.apitoken", "vpn_key"),
    ("Users", "auth.user", "person"),
    ("Groups", "auth.group", "group"),
)
"""Title, target (a table, or the name of a page), and icon. Tables that have no entry come last, under System."""
LAST = (("Documentation", "docs", "menu_book"), ("The API", "api-docs", "api"))

ALWAYS = {
    "alerting.alert", "sources.source", "sources.policy", "sources.repository", "sources.backup", "sources.restore",
    "schedules.schedule", "jobs.backlogrecord", "jobs.worker", "jobs.pausedqueue", "jobs.decision",
    "audit.auditentry",
}  # fmt: skip
"""Tables that are looked for even while they are empty, also by users who may not add to them."""
OTHER_ICON = "table_rows"


class RecordLists(NamedTuple):
    """Addresses of lists of records: looked up once a page, since each look-up costs as much as an entry."""

    all: str
    events: str
    letters: str


def sidebar(request: HttpRequest) -> list[dict[str, Any]]:
    """The groups of links, in the form that django-unfold's SIDEBAR takes."""
    tables, every = _tables(request), reverse("admin:jobs_backlogrecord_changelist")
    records = RecordLists(every, f"{every}?events=yes", reverse("admin:jobs_backlogrecord_dead_letters"))
    named = {target for _, target, _ in (*BACKUPS, *EVENTS, *SYSTEM)}
    others = [(each["name"], label, OTHER_ICON) for label, each in tables.items() if label not in named]
    groups = (("Backups", BACKUPS), ("Events", EVENTS), ("System", (*SYSTEM, *others, *LAST)))
    return [
        {"title": title, "separator": True, "collapsible": title == "System", "items": items}
        for title, entries in groups
        if (items := list(_links(request, entries, tables, records)))
    ]


def _tables(request: HttpRequest) -> dict[str, Any]:
    """Label → table, of those that this user may view and that hold something, or could be added to."""
    found = {
        model["model"]._meta.label_lower: model
        for app in admin.site.get_app_list(request)
        for model in app["models"]
        if model["admin_url"]
    }
    unsure = {label: each["model"] for label, each in found.items() if label not in ALWAYS and not each["add_url"]}
    empty = {label for label, holds in zip(unsure, _hold(request, list(unsure.values())), strict=True) if not holds}
    return {label: each for label, each in found.items() if label not in empty}


def _hold(request: Any, models: list[Any]) -> list[bool]:
    """True for each table that has a row: one statement a page, for which the theme builds the menu several times."""
    if not models:
        return []
    if not hasattr(request, "menu_holds"):
        asked = [model._default_manager.order_by().values("pk").query.sql_with_params() for model in models]
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT {', '.join(f'EXISTS ({sql})' for sql, _ in asked)}",
                [value for _, values in asked for value in values],
            )
            request.menu_holds = cursor.fetchone()
    return list(request.menu_holds)


def _links(request: HttpRequest, entries: Any, tables: dict[str, Any], records: RecordLists) -> Iterator[Link]:
    for title, target, icon in entries:
        if address := _address(request, target, tables, records):
            yield {"title": title, "link": address, "icon": icon, "active": _is_open(request, address, records)}


def _address(request: HttpRequest, target: str, tables: dict[str, Any], records: RecordLists) -> str:
    """The target of an entry; empty if it has none for this user or in this installation."""
    match target:
        case "matrix" | "what-if" if "sources.source" not in tables:
            return ""
        case "dead letters":
            return records.letters if may_look(request) else ""
        case "events":
            return records.events if may_look(request) else ""
        case "api-docs":
            return reverse("api:openapi-view")
    if "." in target:
        return str(tables[target]["admin_url"]) if target in tables else ""
    try:
        return reverse(target)
    except NoReverseMatch:
        return ""


def _is_open(request: HttpRequest, address: str, records: RecordLists) -> bool:
    """True if the page is that of this entry: among entries that lead to it, or to a part of it, the longest one."""
    if request.path == records.all and request.GET.get("events") == "yes":
        return address == records.events
    if request.path.startswith(records.letters):
        return address == records.letters
    return request.path == address or (address != "/" and request.path.startswith(address))
