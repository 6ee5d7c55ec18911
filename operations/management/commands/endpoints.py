import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from declarations.surfaces.commands.declared_commands import DeclaredCommand
from declarations.surfaces.terminal import columns, one_line
from delivery.endpoints import SignedEndpoints, endpoint_facts, secret_facts
from delivery.models import Endpoint
from delivery.signing import KEEP_FOR, rotate
from external.durations import duration, span
from external.formatting import moment
from jobs.conf import PROGRAM
from operations.endpoint_tests import describe, send_test, wait_for_test

MARGIN_SECONDS = 10.0
"""The time on top of an endpoint's timeouts: until a worker has claimed a test event and settled it."""

LONGEST_KEEP_FOR = 366 * 86_400


class Command(DeclaredCommand):
    help = (
        "Endpoints: where events are delivered. Alone, or with list: all of them. Exit codes: 0; 1 when a test event "
        "was not delivered, or something was refused; 2 for bad usage, or when the database does not answer."
    )
    service, positional = SignedEndpoints, ("name", "url")
    columns = columns("name", "kind", "URL", "Authorization", "secrets>", "schedules>")
    empty = f"There are no endpoints. `{PROGRAM} endpoints add NAME URL` makes one."
    shown_once = {"signing_secret": "signing secret"}
    examples = {
        "add": "hooks https://example.com/hooks/backup", "set": "hooks --timeout 10s --authorization-file -",
        "rotate": "hooks --keep-for 7d",
    }  # fmt: skip

    def add_to_changes(self, changes: ArgumentParser) -> None:
        secret = changes.add_mutually_exclusive_group()
        secret.add_argument(
            "--authorization-file", metavar="FILE",
            help="file with the Authorization header of callbacks; -: standard input. It is never shown again",
        )  # fmt: skip
        secret.add_argument("--no-authorization", action="store_true", help="send no Authorization")

    def add_more_verbs(self, verbs: Any) -> None:
        rotates = self.add_named(verbs, "rotate", "make a new signing secret, and print it: it is not shown again")
        rotates.add_argument(
            "--keep-for", type=duration(0, LONGEST_KEEP_FOR), default=KEEP_FOR, metavar="DURATION",
            help=(
                f"time for which the earlier secrets still sign, such as 12h or 7d ({span(KEEP_FOR)}); not at "
                "all if 0"
            ),
        )  # fmt: skip
        tests = self.add_each(verbs, "test", "let a worker deliver a test event, and report its answer")
        tests.add_argument("--wait", type=duration(0, 3600), metavar="DURATION", help="(its timeouts, and 10 s)")

    def facts(self, row: Endpoint) -> dict[str, Any]:
        return endpoint_facts(row)

    def cells(self, facts: dict[str, Any]) -> tuple[object, ...]:
        return tuple(facts[name] for name in ("name", "kind", "url", "authorization", "secrets", "schedules"))

    def _show(self, options: dict[str, Any]) -> None:
        endpoint = self.found(options)
        now = timezone.now()
        secrets = [secret_facts(secret, now) for secret in endpoint.signing_secrets.all()]
        self.show_out(endpoint_facts(endpoint) | ({"signing_secrets": secrets} if self.json else {}))
        for secret in secrets if not self.json else ():
            until = f", retires at {moment(secret['retires_at'])} UTC" if secret["retires_at"] else ""
            self.stdout.write(f"signing secret #{secret['id']}: {secret['state']}, {span(secret['age'])} old{until}")

    def sent(self, options: dict[str, Any]) -> dict[str, Any]:
        """The values to send, with the Authorization, when it is set or removed."""
        text = _authorization(options)
        return super().sent(options) | ({} if text is None else {"authorization": text})

    def _rotate(self, options: dict[str, Any]) -> None:
        endpoint = self.found(options)
        secret = rotate(endpoint, options["keep_for"])
        self.answer({"endpoint": endpoint.name, "secret": secret, "keep_for": options["keep_for"]}, secret)
        until = f"in {span(options['keep_for'])}" if options["keep_for"] else "now"
        if not self.json:
            text = f"The new signing secret of {one_line(endpoint)}: it is not shown again. Others retire {until}."
            self.stderr.write(text)

    def _test(self, options: dict[str, Any]) -> None:
        endpoint = self.found(options)
        patience = options["wait"]
        if patience is None:
            patience = endpoint.connect_timeout + endpoint.timeout + MARGIN_SECONDS
        tested = wait_for_test(send_test(endpoint), patience)
        if self.json or tested.delivered:
            facts = {"record": tested.record_id, "delivered": tested.delivered, "ended": tested.ended}
            self.answer(facts | {"code": tested.code, "seconds": tested.seconds, "why": tested.why}, describe(tested))
        if not tested.delivered:
            raise CommandError(f"{describe(tested)} (`{PROGRAM} backlog show {tested.record_id}`)", returncode=1)


def _authorization(options: dict[str, Any]) -> str | None:
    """The new value of Authorization; None if it stays as it is. Raises: ValueError for a file that cannot be read."""
    if options.get("no_authorization"):
        return ""
    file = options.get("authorization_file")
    if not file:
        return None
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        text = getattr(error, "strerror", None) or error
        raise ValueError(f"cannot read the Authorization from {file}: {text}") from error
    if not text.strip():
        raise ValueError(f"{file} holds no Authorization; --no-authorization removes the one that is set")
    return text.strip()
