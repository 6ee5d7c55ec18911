"""The REST API, on django-ninja. A router module per theme; errors in one shape (`jobs/api/errors.py`).

enrolment   codes and tokens
agents      check-in, and what else agents ask for
policies    what staff look at
jobs.api    the backlog, its dead letters, retry policies and breakers
"""

from django.contrib.admin.views.decorators import staff_member_required
from ninja import NinjaAPI

from jobs.api import dead_letters, records, rules
from jobs.api.bodies import ObjectParser, checked
from jobs.api.errors import add_handlers
from sources.api import agents, enrolment, policies

api = NinjaAPI(
    title="Proactive backup scheduler",
    version="1",
    description="Agents send their token as `Authorization: Bearer TOKEN`; people are known by their session. "
    'Every error looks like `{"error": "…", "hint": "…"}`. All instants are UTC, all durations seconds.',
    urls_namespace="api",
    parser=ObjectParser(),
    docs_decorator=staff_member_required,
)
add_handlers(api)
api.add_decorator(checked, mode="view")
for module in (enrolment, agents, policies, records, dead_letters, rules):
    api.add_router("", module.router)
