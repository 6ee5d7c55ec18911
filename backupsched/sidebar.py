"""The menu of the admin: every table that a person may see, and the pages that belong to none."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse

from operations.web.permissions import may_look

ICONS = {
    "source": "devices", "policy": "event_repeat", "assignment": "verified_user", "repository": "database",
    "backup": "backup", "restore": "settings_backup_restore",
    "agenttoken": "key", "enrolmentcode": "qr_code", "backlogrecord": "list_alt",
    "pausedqueue": "low_priority", "worker": "memory", "decision": "fact_check",
    "breaker": "electric_bolt", "sweep": "cleaning_services", "retrypolicy": "replay", "schedule": "schedule",
    "throttle": "speed", "lane": "alt_route", "trigger": "alarm", "endpoint": "webhook",
    "storedsecret": "password",
    "apitoken": "vpn_key", "user": "person", "group": "group",
}  # fmt: skip
OTHER_ICON = "table_rows"

PLACES = {"sources": 0, "schedules": 1, "jobs": 2, "delivery": 3, "api": 4, "django_q": 5}
"""What is looked at daily comes first; accounts come last."""


def sidebar(request: HttpRequest) -> list[dict[str, Any]]:
    """The groups of links, in the form that django-unfold's SIDEBAR takes. Each person sees what he may look at."""
    apps = sorted(admin.site.get_app_list(request), key=lambda app: PLACES.get(app["app_label"], len(PLACES)))
    return [_group(app, request) for app in apps]


def _group(app: dict[str, Any], request: HttpRequest) -> dict[str, Any]:
    links = []
    for model in app["models"]:
        if not model["admin_url"]:
            continue
        name = model["object_name"].lower()
        links.append(_link(model["name"], model["admin_url"], ICONS.get(name, OTHER_ICON)))
        if name == "backlogrecord" and may_look(request):
            dead_letters = reverse("admin:jobs_backlogrecord_dead_letters")
            events = _link("Events", f"{model['admin_url']}?events=yes", "outbox")
            events["active"] = request.path == model["admin_url"] and request.GET.get("events") == "yes"
            here = request.path.startswith(model["admin_url"]) and not request.path.startswith(dead_letters)
            links[-1]["active"] = here and not events["active"]  # its address is how theirs begin
            links += [_link("Dead letters", dead_letters, "mail_off"), events]
        if name == "retrypolicy":
            links.append(_link("Pictures of backoff", reverse("backoff"), "scatter_plot"))
    return {"title": app["name"], "separator": True, "collapsible": False, "items": links}


def _link(title: str, link: str, icon: str) -> dict[str, Any]:
    return {"title": title, "link": link, "icon": icon}
