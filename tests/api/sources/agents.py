"""An agent for tests: requests with a token through Django's own client."""

import json
from typing import Any

from django.test import Client

from sources.agents import tokens
from sources.models import Source
from tests.sources.factories import make_source


class Agent:
    """Speaks for `source` (a new one, if none is given) from `remote`."""

    def __init__(self, source: Source | None = None, remote: str = "192.0.2.7") -> None:
        self.source = source or make_source()
        self.token = tokens.issue(self.source)
        self.client = Client(REMOTE_ADDR=remote)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        """POST `body` as JSON (text as it is)."""
        content = body if isinstance(body, str | bytes) else json.dumps({} if body is None else body)
        return self.client.post(f"/api/{path}", content, content_type="application/json", headers=self._with(headers))

    def send(self, body: str, content_type: str = "application/json", headers: Any = None, **extra: Any) -> Any:
        """POST a check-in as it is, with whatever a server may be sent: `extra` goes into its environment."""
        headers = self._with(headers or {})
        return self.client.post("/api/check-in", body, content_type=content_type, headers=headers, **extra)

    def get(self, path: str) -> Any:
        return self.client.get(f"/api/{path}", headers=self._with({}))

    def delete(self, path: str) -> Any:
        return self.client.delete(f"/api/{path}", headers=self._with({}))

    def check_in(self, **facts: Any) -> Any:
        return self.post("check-in", facts)

    def _with(self, headers: dict[str, str]) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", **headers}
