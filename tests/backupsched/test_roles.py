"""Each role asks for each page of the admin, each action and each operation of the API. What the table of
`role_table.py` does not name fails here, so a new page cannot be left open."""

import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from copy import copy
from functools import cache
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Permission, User
from django.core.management import get_commands
from django.db import transaction
from django.template.response import SimpleTemplateResponse
from django.test import Client, RequestFactory
from django.urls import URLPattern, get_resolver

from api import tokens as api_tokens
from api.root import api
from backupsched import urls  # noqa: F401 - loads the pages of the admin
from operations.backoff import charts
from sources.agents import tokens
from sources.models import Assignment
from tests.api.asking import make_user
from tests.backupsched.one_of_each import make_one_of_each
from tests.backupsched.role_table import ACTIONS, COMMANDS, MAY, OPERATIONS, OURS, PAGES
from tests.documents import ROOT, table_rows
from tests.product import PACKAGES

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

EDITED = ("apitoken", "endpoint", "retrypolicy", "schedule", "throttle", "assignment", "policy", "repository", "source")
SCOPES = ("read", "write", "operate")


def permissions(*verbs: str) -> list[str]:
    """The permissions of our apps that Django makes for these verbs."""
    found = Permission.objects.filter(content_type__app_label__in=OURS).values_list("codename", flat=True)
    return [name for name in found if name.split("_")[0] in verbs]


@pytest.fixture
def people() -> dict[str, User | None]:
    looks = permissions("view")
    edits = [f"{verb}_{model}" for verb in ("add", "change", "delete") for model in EDITED]
    return {
        "anonymous": None,
        "account": make_user(is_staff=False),
        "staff": make_user(),
        "looks": make_user(*looks),
        "operates": make_user(*looks, "change_backlogrecord"),
        "edits": make_user(*looks, *edits),
        "restores": make_user(*looks, "restore_source"),
        "superuser": make_user(is_superuser=True),
    }


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[None]:
    """Draw no pages: permissions are checked before, and other tests draw them all. Each account is read once, and
    its session never. Refusals are no news."""
    monkeypatch.setattr(SimpleTemplateResponse, "render", drawn_empty)
    monkeypatch.setattr(admin.site.__class__, "each_context", lambda *_: {})
    monkeypatch.setattr(charts, "draw", lambda *_, **__: b"")
    monkeypatch.setattr(ModelBackend, "get_user", staticmethod(cache(ModelBackend().get_user)))
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def drawn_empty(page: SimpleTemplateResponse) -> SimpleTemplateResponse:
    page.content = b""
    return page


RANKS = {
    name: rank
    for rank, names in enumerate(("anonymous", "account", "staff", "looks", "operates edits restores", "superuser"))
    for name in names.split()
}
"""Role → its rank. One of a higher rank has all permissions of those below, and no permission keeps an account out."""


def at_the_edge(who: str) -> list[str]:
    """The lowest roles that are let in, the highest that are refused, and anonymous: the others follow from these."""
    may = MAY[who].split()
    least = min((RANKS[role] for role in may), default=None)
    most = max((rank for role, rank in RANKS.items() if role not in may), default=None)
    return [role for role, rank in RANKS.items() if rank == (least if role in may else most) or role == "anonymous"]


def session_of(user: User | None) -> Client:
    """A browser, in which `user` is logged in."""
    client = Client(raise_request_exception=False)
    if user:
        client.force_login(user)
    return client


def ask(client: Client, method: str, address: str, content: str = "", **headers: str) -> int:
    """The status of the answer, 401 for the way to the login. What the request changed is taken back."""
    cookies = copy(client.cookies)
    kind = "application/json" if content else "application/x-www-form-urlencoded"
    with transaction.atomic():
        answer: Any = client.generic(method, address, content, content_type=kind, headers=headers)
        transaction.set_rollback(True)
    client.cookies = cookies  # another session's key, or none, after a logout
    to_login = answer.status_code == 302 and answer.url.startswith("/admin/login/")
    return 401 if to_login else int(answer.status_code)


def is_wrong(status: int, may: bool) -> bool:
    return status >= 500 or may is (status in (401, 403, 404))


def addresses(patterns: Any, before: str = "/") -> Iterator[tuple[str, str | None]]:
    """Route and name of each page."""
    for pattern in patterns:
        if isinstance(pattern, URLPattern):
            yield before + str(pattern.pattern), pattern.name
        elif str(pattern.pattern) != "api/":
            yield from addresses(pattern.url_patterns, before + str(pattern.pattern))


def rows_on_hand() -> dict[str, Any]:
    """App and model → the key of a row of it."""
    found = {
        model._meta.label_lower.replace(".", "_"): model._default_manager.first() for model in admin.site._registry
    }
    return {name: row.pk for name, row in found.items() if row is not None}


def test_each_role_at_each_page(people):
    make_one_of_each()
    rows, wrong, unknown = rows_on_hand(), [], []
    sessions = {role: session_of(user) for role, user in people.items()}
    for route, name in addresses(get_resolver().url_patterns):
        if name is None:  # only leads to another page, or to none
            assert route == "/admin/(?P<url>.*)$" or route.endswith("/<path:object_id>/"), route
            continue
        if name not in PAGES:
            unknown.append(f"{name}: {route}")
            continue
        table = name.rsplit("_", 1)[0]
        if table not in rows and name.endswith("_history"):
            continue  # leads away from a row that is not there, for every role
        key = next((rows[each] for each in rows if name.startswith(each + "_")), 1)
        address = re.sub(r"\^\(\?P<app_label>[^)]*\)/\$", "jobs/", route)
        address = re.sub(r"<[^>]*>", str(key), address)
        for_get, _, for_post = PAGES[name].partition(" ")
        asked = [("GET", for_get), ("POST", for_post or for_get)]
        if not for_post and (for_get == "none" or name.endswith(("_changelist", "_history"))):
            asked.pop()  # shows the same again; the actions of lists are a test of their own
        for method, who in asked:
            for role in at_the_edge(who):
                status = ask(sessions[role], method, address)
                if is_wrong(status, role in MAY[who].split()):
                    wrong.append(f"{method} {name} by {role}: {status}, the table says {who}")
    assert not unknown
    assert not wrong, "\n".join(wrong)


def test_each_role_is_offered_its_actions(people):
    for role, user in people.items():
        if user is None or not user.is_staff:
            continue  # has no list to choose from
        request = RequestFactory().get("/")
        request.user = user
        for model, page in admin.site._registry.items():
            offered = ACTIONS.get(model._meta.label, {})
            may = {name for name, who in offered.items() if role in MAY[who].split()}
            assert set(page.get_actions(request)) == may, f"{model._meta.label} for {role}"


@pytest.fixture
def on_hand() -> tuple[dict[str, Any], Assignment]:
    return make_one_of_each()


def operations(values: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Entry of the table, method and address of each operation."""
    for path, methods in api.get_openapi_schema()["paths"].items():
        for method in map(str.upper, methods):
            address = re.sub(r"{(\w+?)(_id)?}", lambda found: str(values.get(found[1], "callbacks")), path)
            yield f"{method} {path.removeprefix('/api/')}", method, address


def test_each_role_at_each_operation(people, on_hand):
    values, assignment = on_hand
    values["name"] = assignment.policy.schedule.name
    root = make_user(is_superuser=True)
    bearers = {scope: api_tokens.issue(root, scope, (scope,)).text for scope in SCOPES}
    bearers["agent"] = tokens.issue(assignment.source)
    sessions = {role: session_of(user) for role, user in people.items()}
    anonymous = Client()
    wrong, seen = [], set()
    for name, method, address in operations(values):
        address = address.replace("/queues/" + values["name"], "/queues/callbacks")
        assert name in OPERATIONS, f"the table of roles does not know {name}"
        seen.add(name)
        scope, who = OPERATIONS[name].split()
        answers = {
            role: (ask(sessions[role], method, address, "{}"), role in MAY[who].split()) for role in at_the_edge(who)
        }
        for bearer, text in bearers.items():
            may = scope == bearer or (scope == "any" and (who == "anybody" or bearer != "agent"))
            answers[f"token {bearer}"] = ask(anonymous, method, address, "{}", Authorization=f"Bearer {text}"), may
        wrong += [f"{name} by {asker}: {status}" for asker, (status, may) in answers.items() if is_wrong(status, may)]
    assert not wrong, "\n".join(wrong)
    assert seen == set(OPERATIONS)


EACH_BY_ITSELF = """
import os, sys
from backupsched.command_line import main
import django.core.management, declarations.surfaces.printable
try:
    import backupsched.settings
except django.core.exceptions.ImproperlyConfigured:
    pass
for name in sys.argv[1:]:
    if not (child := os.fork()):
        sys.argv = ["manage.py", name]
        os._exit(main())
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Commands, each in a process of its own, and their exit codes. The settings are read in each; what they import
is there already: thirty starts would take ten seconds."""


def test_no_command_serves_an_account_that_cannot_read_the_key(tmp_path):
    """Root can: without the right to pass over modes it is as any other account."""
    (tmp_path / "secret_key").touch(mode=0)
    as_another = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    environment = {name: text for name, text in os.environ.items() if name not in ("DATABASE_URL", "SECRET_KEY")}
    environment |= {"BACKUPSCHED_VAR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "backupsched.settings"}
    ours = {name for name, app in get_commands().items() if app in PACKAGES}
    assert ours == set(COMMANDS)
    names = sorted(ours - {"demo"})  # it has a directory of its own, and looks into no other
    argv = [*as_another, sys.executable, "-c", EACH_BY_ITSELF, *names]
    ended = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert (ended.stdout, ended.stderr.count("Error: cannot keep a secret key in")) == ("2\n" * len(names), len(names))


def test_the_table_of_the_document_has_these_roles(people):
    rows = table_rows(ROOT / "docs" / "security.md", "Who may do what")
    assert [row[0].split("*")[1] for row in rows] == [*people, *(f"token: {s}" for s in SCOPES), "agent", "host"]
