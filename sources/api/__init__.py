"""The REST API, on django-ninja. A router module per theme; errors in one shape (`errors.py`).

enrolment   codes and tokens
agents      check-in, and what else agents ask for
policies    what staff look at
"""

from django.contrib.admin.views.decorators import staff_member_required
from ninja import NinjaAPI

from sources.api import agents, enrolment, policies
from sources.api.bodies import ObjectParser, checked
from sources.api.errors import add_handlers

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
for module in (enrolment, agents, policies):
    api.add_router("", module.router)
