"""The backups of a source, from its page: choose a point, browse its files, download, restore."""

from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.defaultfilters import filesizeformat
from django.template.response import TemplateResponse
from django.utils.html import format_html
from django.utils.http import content_disposition_header
from django.utils.safestring import SafeString
from unfold.decorators import action

from backups import holdings
from backups.restores import downloads, process
from backups.restores.requests import KIND, MAY_RESTORE, Restores, choose
from declarations.surfaces.admin.row_history import ModelAdmin
from external.formatting import several
from external.processes.programs import ProgramMissing
from fleet.admin.protection import of_a_source
from fleet.admin.restore_form import RestoreForm
from jobs import decisions
from jobs.clock import database_clock
from sources.models import Assignment, Repository, Source
from storage import layout
from storage.points.files import nanoseconds
from storage.points.manifests import Entry
from storage.points.store import StorageFailed
from storage.points.trees import Tree

PAGE = 200
VERSIONS_PAGE = 60
SHOWN_POINTS = 1000
UNREADABLE = (ValueError, StorageFailed, ProgramMissing, process.LookUnfinished)


@dataclass
class BrowsedPlace:
    """The subject of a page, from its query: an assignment, one of its points, and a path in there. `only`: the name of
    the repository to read it from; empty for the first that has it.
    """

    assignment: Assignment
    points: dict[str, Repository]
    point: str
    path: str
    only: str = ""

    @property
    def repository(self) -> Repository:
        return self.points[self.point]

    def address(self, **query: str) -> str:
        given = {"assignment": str(self.assignment.pk), "point": self.point, "path": self.path, "from": self.only}
        return _address(**given | query)

    @property
    def tree(self) -> Any:
        return process.tree_of(self.repository, self.assignment.directory, self.point)


class BrowsesBackups(ModelAdmin):
    """The page `restore/` of a source. Needs the permission to restore."""

    actions_detail: Any = ("restore",)

    def has_restore_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm(MAY_RESTORE))

    @action(
        description="Backups: browse, restore",
        url_path="restore",
        permissions=["restore"],
        icon="settings_backup_restore",
    )
    @of_a_source
    def restore(self, request: HttpRequest, source: Source) -> HttpResponseBase:
        try:
            place = _place(source, request.GET)
            if request.method == "POST":
                return self._ask(request, source, place)
            if request.GET.get("what") == "download":
                try:
                    return _download(request, place)
                except downloads.TooManyDownloads as error:
                    page = self._page(request, source, None, RestoreForm(source), {"wrong": str(error)})
                    page.status_code, page.headers["Retry-After"] = 503, "60"
                    return page
            is_versions = request.GET.get("what") == "versions"
            context = _versions(place, request.GET.get("after", "")) if is_versions else _folder(place, request)
        except UNREADABLE as error:
            context, place = {"wrong": str(error)}, None
        return self._page(request, source, place, RestoreForm(source), context)

    def _ask(self, request: HttpRequest, source: Source, place: BrowsedPlace) -> HttpResponse:
        form = RestoreForm(source, request.POST)
        if form.is_valid():
            sent = {
                "source": source.name, "policy": place.assignment.policy.schedule.name, "at": place.point,
                "paths": [place.path] if place.path else [], "repository": place.only or None, **form.cleaned_data,
            }  # fmt: skip
            try:
                restore = Restores(request.user).edit(Restores().new(), sent).row
            except ValidationError as error:
                for field, texts in error.message_dict.items():
                    form.add_error(field if field in form.fields else None, texts)
            else:
                self.log_change(request, source, f"Asked to restore {restore}.")
                self.message_user(request, "It is on the backlog; this page shows its progress.", messages.SUCCESS)
                return redirect("admin:sources_restore_change", restore.pk)
        return self._page(request, source, place, form, _folder(place, request))

    def _page(
        self,
        request: HttpRequest,
        source: Source,
        place: BrowsedPlace | None,
        form: RestoreForm,
        context: dict[str, Any],
    ) -> HttpResponse:
        assignments = [each for each in source.assignments.select_related("policy__schedule") if each.directory]
        page = admin.site.each_context(request) | {
            "title": f"{source}: backups", "opts": source._meta, "original": source, "source": source, "place": place,
            "form": form, "assignments": assignments, "homes": _homes(source, request.GET), **context,
        }  # fmt: skip
        return TemplateResponse(request, "fleet/browse.html", page)


def _place(source: Source, query: Any) -> BrowsedPlace:
    """Raises: ValueError, StorageFailed, ProgramMissing."""
    if (assignment := _assignment(source, query)) is None:
        raise ValueError("It has not been backed up yet: there is nothing to restore.")
    at, only = query.get("at") or query.get("point") or None, query.get("from", "")
    point, points = choose(assignment, at, database_clock(), only or None)
    return BrowsedPlace(assignment, points, point, query.get("path", "").strip("/"), only)


def _assignment(source: Source, query: Any) -> Assignment | None:
    rows = source.assignments.select_related("source", "policy__schedule", "policy__repository").exclude(directory="")
    asked = query.get("assignment", "")
    return rows.filter(**({"pk": int(asked)} if asked.isdecimal() and len(asked) < 19 else {})).first()


def _homes(source: Source, query: Any) -> list[tuple[str, str]]:
    """Address → name of each repository from which this can be read, preceded by the choice of the first one that has
    it; the chosen one's address is empty. An empty list if there is no choice.
    """
    assignment = _assignment(source, query)
    names = [each.name for each in holdings.homes(assignment)] if assignment else []
    given, chosen = {name: query.get(name, "") for name in ("assignment", "at", "point", "path")}, query.get("from", "")
    choices = [("", "the first that has it"), *((each, each) for each in names)] if len(names) > 1 else []
    return [("" if name == chosen else _address(**given, **{"from": name}), shown) for name, shown in choices]


def _address(**query: str) -> str:
    return "?" + urlencode({name: value for name, value in query.items() if value})


def _folder(place: BrowsedPlace, request: HttpRequest) -> dict[str, Any]:
    with place.tree as tree:
        tree.check(place.path)
        entry = tree.entry(place.path)
        if entry.kind != "folder":
            _check_kept(entry)
            return _facts(place, tree) | _versions(place)
        after = request.GET.get("after", "")
        zone = place.assignment.policy.schedule.period.tzinfo
        listed = tree.folder(place.path, after=after, limit=PAGE + 1)
        rows = []
        for each in listed[:PAGE]:
            path = each.entry.path
            is_folder, is_link = each.entry.kind == "folder", each.entry.kind == "link"
            target = each.entry.target.encode("utf-8", "replace").decode()  # it may not be UTF-8
            shown = f"{each.name}/" if is_folder else f"{each.name} → {target}" if is_link else each.name
            name = _links([(place.address(path=path), shown)])
            files = str(each.files) if is_folder else ""
            download = _links([(place.address(path=path, what="download"), "download")]) if each.entry.is_kept else ""
            download = format_html("{} {}", download, exception_of(each.entry, zone))
            size = "link" if is_link else filesizeformat(each.entry.size)
            rows.append((name, size, files, _time(each.entry.modified, zone), download))
        more = place.address(after=listed[PAGE - 1].name) if len(listed) > PAGE else ""
        headers = ("name", "size", "files", "changed", "")
        return _facts(place, tree) | {"table": {"headers": headers, "rows": rows}, "more": more, "is_folder": True}


def _versions(place: BrowsedPlace, after: str = "") -> dict[str, Any]:
    """The versions of the present file, in the points before `after`; if empty, from the newest one on."""
    zone = place.assignment.policy.schedule.period.tzinfo
    older = list(reversed(place.points))
    older = older[older.index(after) + 1 :] if after in place.points else older
    points, found = older[:VERSIONS_PAGE], []
    for repository, names in groupby(points, place.points.__getitem__):
        found += process.versions(repository, place.assignment.directory, list(names), place.path)
    rows = []
    for version in found:
        newest, oldest = version["points"][0], version["points"][-1]
        if "why" in version:
            rows.append((_local(newest, zone), "", "", "", version["why"]))
            continue
        span = _local(newest, zone) if newest == oldest else f"{_local(oldest, zone)} to {_local(newest, zone)}"
        links = [
            (place.address(point=newest, what="download"), "download"),
            (place.address(point=newest), "restore"),
        ]
        here = "this one" if place.point in version["points"] else ""
        rows.append((span, _time(version["modified"], zone), filesizeformat(version["size"]), here, _links(links)))
    headers = ("in the backups of", "changed", "size", "", "")
    more = place.address(what="versions", after=points[-1]) if older[VERSIONS_PAGE:] else ""
    return {"table": {"headers": headers, "rows": rows}, "more": more}


def _facts(place: BrowsedPlace, tree: Tree) -> dict[str, Any]:
    """The context above the table: the points, the way down to the path, and the number and size of the files there."""
    zone = place.assignment.policy.schedule.period.tzinfo
    parts = place.path.split("/") if place.path else []
    way = [(place.address(path="/".join(parts[: number + 1])), part) for number, part in enumerate(parts)]
    files, size = tree.total(place.path)
    points = [(each, _local(each, zone)) for each in list(reversed(place.points))[:SHOWN_POINTS]]
    return {
        "points": points, "zone": place.assignment.policy.schedule.zone, "way": way, "files": files,
        "size": filesizeformat(size), "top": place.address(path=""),
        "download": place.address(what="download"), "what": place.path or "all",
        "is_complete": tree.header.complete,
    }  # fmt: skip


def _download(request: HttpRequest, place: BrowsedPlace) -> StreamingHttpResponse:
    """A file as it is; a folder as a tar archive."""
    repository, folder = place.repository, place.assignment.directory
    with place.tree as tree:
        tree.check(place.path)
        entry = tree.entry(place.path)
        _check_kept(entry)
        files, size = tree.total(place.path)
        if size > downloads.LARGEST:
            raise ValueError(f"{filesizeformat(size)} are too much for a download: restore into a folder instead.")
    name = place.path.rpartition("/")[2] or place.assignment.source.name
    if entry.kind == "file":
        stream, length = downloads.file(repository, folder, place.point, entry), entry.size
    else:
        stream, length, name = _archived(place), None, f"{name}-{place.point}.tar"
    answer = StreamingHttpResponse(downloads.Download(stream), content_type="application/octet-stream")
    what = f"{request.user} downloads {place.path or 'all'} of {place.assignment.source} as of {place.point}"
    line = decisions.DecisionLine(
        "downloaded", f"{what}: {several(files, 'file')}", KIND, f"assignment:{place.assignment.pk}"
    )
    decisions.log_all([line], database_clock())
    shown = "".join(each if each.isprintable() else "_" for each in name)
    answer.headers["Content-Disposition"] = content_disposition_header(True, shown) or "attachment"
    if length is not None:
        answer.headers["Content-Length"] = str(length)
    return answer


def _archived(place: BrowsedPlace) -> Any:
    with place.tree as tree:
        yield from downloads.archive(place.repository, place.assignment.directory, place.point, tree, place.path)


def _check_kept(entry: Entry) -> None:
    """Raises: ValueError for a file that the point does not have."""
    if not entry.is_kept:
        raise ValueError(f"{entry.path} is {exception_of(entry, None)}.")


def exception_of(entry: Entry, zone: Any) -> str:
    """The problem that the run that made the point had with an entry, as text; empty if it had none."""
    if not entry.why:
        return ""
    as_of = f"as of {_local(entry.as_of, zone)}" if entry.as_of else "not in this backup"
    return f"{'could not be listed' if entry.kind == 'folder' else as_of}: {entry.why:.200}"


def _links(links: list[tuple[str, str]]) -> SafeString:
    found = [format_html('<a class="text-link" href="{}">{}</a>', address, words) for address, words in links]
    return format_html(" · ".join(["{}"] * len(found)), *found)


def _local(point: str, zone: Any) -> str:
    return f"{layout.instant_of(point).astimezone(zone):%a %Y-%m-%d %H:%M:%S}"


def _time(modified: str, zone: Any) -> str:
    """An instant in the zone of the policy, as the points are shown."""
    return f"{datetime.fromtimestamp(nanoseconds(modified) // 10**9, zone):%Y-%m-%d %H:%M:%S}" if modified else ""
