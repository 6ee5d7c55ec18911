"""Pauses over the API: as a body, or as query parameters."""

from typing import Any

from api.errors import not_valid
from api.fields import Body, Instant, Line
from jobs.backlog.pausing import checked_end
from jobs.clock import database_clock


class PauseRequest(Body):
    """`reason`: why nothing starts. `until`: when it resumes automatically; null if only a user resumes it."""

    reason: Line = ""
    until: Instant | None = None

    def checked(self) -> dict[str, Any]:
        """The arguments of a verb that pauses. Raises: ApiError (422) for an `until` in the past."""
        try:
            checked_end(self.until, database_clock())
        except ValueError as error:
            field, _, text = str(error).partition(": ")
            raise not_valid([(field, text)]) from None
        return {"reason": self.reason, "until": self.until}
