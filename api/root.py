"""The API: its description, and the routers of all resources."""

from api import agents, assignments, backups, enrolment, policies, repositories, sources
from api.application import Api
from api.routers import ROUTERS

api = Api(
    title="Proactive backup scheduler",
    version="1",
    description="People are known by their session, programs by a token as `Authorization: Bearer bst_…` (scopes read, "
    "write, operate; `manage.py api_tokens issue`), agents by that of their source (`bsa_…`). Every error is a problem "
    "document (RFC 9457) with a `hint`. Lists are pages: send `next` as `cursor`. Updates take `If-Match`, creates an "
    "`Idempotency-Key`. All instants are UTC, all durations seconds; one that is sent may be a text as `90s`, "
    "`15m`, `2h` or `7d`. A request with more than 256 KiB of address "
    "and headers gets 431 from the web server, as plain text; a proxy before it may refuse shorter ones with 414.",
    urls_namespace="api",
)
OURS = (enrolment, agents, sources, policies, assignments, repositories, backups)
for router in (*(module.router for module in OURS), *ROUTERS):
    api.add_router("", router)
