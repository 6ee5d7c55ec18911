"""When a worker comes back for a token: after a claim that got less than it asked for."""

from jobs import throttles
from jobs.clock import boot_seconds

SHORTEST_WAIT_SECONDS = 0.05
"""Between two claims for the sake of tokens: of a rate of a thousand a second fifty are claimed at once."""


class Tokens:
    """Asks the database when the next token comes, for each queue once in `SHORTEST_WAIT_SECONDS` at most."""

    def __init__(self) -> None:
        self._found_at: dict[str, float] = {}

    def seconds_until_worth_a_claim(self, queue: str) -> float | None:
        """How long until a ready record of `queue` finds a token. None: none lacks one. Raises: django.db.Error."""
        now = boot_seconds()
        if now - self._found_at.get(queue, float("-inf")) < SHORTEST_WAIT_SECONDS:
            return SHORTEST_WAIT_SECONDS
        seconds = throttles.seconds_to_token(queue)
        if seconds is None:
            return None
        self._found_at[queue] = now
        return max(SHORTEST_WAIT_SECONDS, seconds)
