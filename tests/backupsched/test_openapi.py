"""Whatever is sent to the API, its OpenAPI document describes the answer: asked is all that it allows, and what it
does not.

`BACKUPSCHED_OPENAPI_EXAMPLES=100` asks so much more, with all bounds: some minutes.
"""

import logging
import os
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import Permission

from api import tokens as api_tokens
from fleet import repository_edits
from jobs.models import BacklogRecord
from sources.agents import tokens
from tests.api.asking import make_user
from tests.backupsched.conformance import Asker, Findings, ask
from tests.backupsched.one_of_each import make_one_of_each
from tests.factories import install_presets

EXAMPLES = int(os.environ.get("BACKUPSCHED_OPENAPI_EXAMPLES") or 0)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(7200 if EXAMPLES else 600),
]

SOME = () if EXAMPLES else ("sources", "backlog")
"""Tags of the operations that are asked by who may do little or nothing. That each operation asks who it is, is seen
in `test_roles.py`, that each describes its refusals in `tests/api/test_document.py`; what refuses is the same for
all."""

REFUSED = {400, 401, 404, 405, 411, 413, 415, 422}
"""The answers if no request is let in. (An enrolment code is looked at without one.)"""

OnHand = dict[str, list[str | int]]


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Thousands of refusals are no news. And no directory is made for a repository at a made-up place."""
    monkeypatch.setattr(repository_edits, "make_directory", lambda location: None)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
    install_presets()


@pytest.fixture
def on_hand() -> OnHand:
    values, assignment = make_one_of_each()
    found: OnHand = {f"path.{name}_id": [pk] for name, pk in values.items()}
    found |= {f"body.{name}": [pk] for name, pk in values.items()}
    found |= {f"query.{name}": [pk] for name, pk in values.items()}
    records = BacklogRecord.objects.order_by("pk")
    found["path.record_id"] = list(records.values_list("pk", flat=True))
    found["query.subject"] = list(records.values_list("subject", flat=True))
    return found | {"path.name": ["callbacks", assignment.policy.schedule.name]}


def asked(asker: Asker, on_hand: OnHand) -> Findings:
    """A summary of the answers; whole answers where they were wrong."""
    found = ask(asker, on_hand)
    print(found.summary())  # noqa: T201 - what pytest -s shows
    assert not found.wrong, "\n".join([found.summary(), *list(found.wrong.values())[:50]])
    return found


def test_to_a_superuser(on_hand):
    token = api_tokens.issue(make_user(is_superuser=True), "all", ("read", "write", "operate")).text
    asker = Asker(f"Bearer {token}", EXAMPLES or 3, bounds=bool(EXAMPLES), leaves=("agent",))
    found = asked(asker, on_hand)
    assert found.statuses[200] > len(found.operations)
    assert found.statuses[201]
    assert found.statuses[204]


def test_to_an_account_that_may_only_look(on_hand):
    user = make_user()
    user.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    token = api_tokens.issue(user, "look", ("read",)).text
    asker = Asker(f"Bearer {token}", EXAMPLES or 1, bounds=bool(EXAMPLES), tags=SOME, leaves=("agent",))
    found = asked(asker, on_hand)
    assert found.statuses[200]
    assert found.statuses[403]
    assert not found.statuses[201]
    assert not found.statuses[204]


def test_to_a_token_that_is_none(on_hand):
    """Requests without a token are refused in the same way: test_roles.py."""
    found = asked(Asker("Bearer bst_made-up", EXAMPLES or 1, bounds=bool(EXAMPLES), tags=SOME), on_hand)
    assert set(found.statuses) <= REFUSED
    assert found.statuses[401] > len(found.operations) / 2


def test_to_an_agent_and_to_one_with_a_code():
    _, assignment = make_one_of_each()
    authorization = f"Bearer {tokens.issue(assignment.source)}"
    code = tokens.make_code(assignment.source)
    asker = Asker(authorization, EXAMPLES or 5, bounds=bool(EXAMPLES), tags=("agent",))
    found = asked(asker, {"body.code": [code]})
    assert found.statuses[200]
    assert found.statuses[201]
