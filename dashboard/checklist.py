"""The steps that a new installation still needs before it protects anything, each with its page."""

from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse

from alerting.models import AlertRoute
from backups.restores.requests import MAY_RESTORE
from jobs.conf import PROGRAM
from jobs.models import Worker
from sources.models import Assignment, Backup, Policy, Repository, Restore, RestoreOutcome, Source


@dataclass(frozen=True)
class ChecklistStep:
    """One step. `url`: of its button, `button`; empty if this user may not take it."""

    title: str
    means: str
    is_done: bool
    button: str = ""
    url: str = ""


def of(request: HttpRequest) -> dict[str, Any]:
    """The steps, while one is missing. `lacks`: nothing was ever backed up, so they come first."""
    found = steps(request)
    done = sum(step.is_done for step in found)
    return {} if done == len(found) else {"steps": found, "done_steps": done, "lacks": not found[-2].is_done}


def steps(request: HttpRequest) -> list[ChecklistStep]:
    """All seven, in their order."""
    restored = Restore.objects.filter(outcome=RestoreOutcome.SUCCEEDED)
    rows: dict[str, QuerySet[Any]] = {
        "repository": Repository.objects.all(), "policy": Policy.objects.all(), "source": Source.objects.all(),
        "assignment": Assignment.objects.all(), "worker": Worker.objects.all(), "backup": Backup.objects.all(),
        "route": AlertRoute.objects.filter(enabled=True), "restore": restored,
        "drill": Assignment.objects.filter(proved_at__isnull=False),
    }  # fmt: skip
    done = {name: each.exists() for name, each in rows.items()}
    to_sources = reverse("admin:sources_source_changelist")
    has_sources = done["source"] and done["assignment"]
    return [
        ChecklistStep(
            "A repository", "where backups go", done["repository"], "Add a repository", _add(request, Repository)
        ),
        ChecklistStep(
            "A policy", "how often, when, and to where", done["policy"], "Add a policy", _add(request, Policy)
        ),
        ChecklistStep(
            "A source under a policy", "a machine, share, bucket, folder or database", has_sources,
            *(("Open the sources", to_sources) if done["source"] else ("Add a source", _add(request, Source))),
        ),
        ChecklistStep(
            "A worker", f"start it on the host that makes the backups: `{PROGRAM} worker`", done["worker"],
            "How", reverse("docs"),
        ),
        ChecklistStep(
            "An alert route", "so that operators hear of problems without looking here", done["route"],
            "Add a route", _add(request, AlertRoute),
        ),
        ChecklistStep(
            "The first backup", "it begins automatically while the window of the policy is open", done["backup"],
            *(("Back up now", to_sources) if has_sources else ()),
        ),
        ChecklistStep(
            "The first restore", "a backup is only proved once it has been restored",
            done["restore"] or done["drill"], *_restore(request, done["backup"]),
        ),
    ]  # fmt: skip


def _add(request: HttpRequest, model: Any) -> str:
    page = admin.site.get_model_admin(model)
    label = f"{model._meta.app_label}_{model._meta.model_name}"
    return reverse(f"admin:{label}_add") if page.has_add_permission(request) else ""


def _restore(request: HttpRequest, has_backup: bool) -> tuple[str, str] | tuple[()]:
    may = has_backup and request.user.has_perm(MAY_RESTORE)
    first = Backup.objects.order_by("pk").values_list("assignment__source", flat=True).first() if may else None
    return ("Restore", reverse("admin:sources_source_restore", args=[first])) if first else ()
