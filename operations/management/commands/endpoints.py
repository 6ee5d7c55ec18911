import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db import transaction
from django.db.models import ProtectedError
from django.utils import timezone

from delivery.endpoint_checks import asks_for_authorization_again, check, problem_of_authorization
from delivery.endpoints import (
    endpoint_facts,
    obstacle_to_removing,
    rotate,
    secret_facts,
    set_authorization,
    undelivered,
)
from delivery.models import Endpoint, EndpointKind
from jobs.durations import span
from jobs.formatting import moment
from operations import endpoint_arguments
from operations.backlog.facts import as_json
from operations.backlog.rendering import Column, plain, table
from operations.endpoint_tests import describe, send_test, wait_for_test
from operations.management.base import VerbCommand, describe_taken_name

MARGIN_SECONDS = 10.0
"""Beyond an endpoint's own timeouts: until a worker has claimed a test event and settled it."""

MOST_KNOWN = 20


class Command(VerbCommand):
    help = (
        "Endpoints: where events are delivered. Alone, or with list: all of them. Exit codes: 0; 1 when a test event "
        "was not delivered, or something was refused; 2 for bad usage, or when the database does not answer."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        endpoint_arguments.add_arguments(parser)

    def describe_problems(self, error: ValidationError, options: dict[str, Any]) -> str:
        said = {field: " ".join(texts) for field, texts in error.message_dict.items()}
        if options["verb"] == "add" and "name" in said:
            said["name"] = describe_taken_name(error, said["name"], "endpoints set", options["name"])
        return "\n".join(["nothing was saved:", *(f"{field}: {text}" for field, text in said.items())])

    def _list(self, options: dict[str, Any]) -> None:
        found = [endpoint_facts(endpoint) for endpoint in Endpoint.objects.order_by("name")]
        if options["json"]:
            self.stdout.write(as_json(found))
        elif not found:
            self.stdout.write("There are no endpoints. `manage.py endpoints add NAME URL` makes one.")
        else:
            columns = [Column("name"), Column("kind"), Column("URL"), Column("Authorization"), Column("secrets", True)]
            rows = (
                (
                    facts["name"],
                    facts["kind"],
                    facts["url"],
                    facts["authorization"],
                    facts["secrets"],
                    facts["schedules"],
                )
                for facts in found
            )
            self.print_out(table([*columns, Column("schedules", True)], rows))

    def _show(self, options: dict[str, Any]) -> None:
        endpoint = _endpoint(options["name"])
        now = timezone.now()
        secrets = [secret_facts(secret, now) for secret in endpoint.signing_secrets.all()]
        facts = endpoint_facts(endpoint)
        if options["json"]:
            self.stdout.write(as_json(facts | {"signing_secrets": secrets}))
            return
        for name, value in facts.items():
            said = json.dumps(value) if isinstance(value, dict) else value
            self.stdout.write(f"{name.replace('_', ' ')}: {plain(said).plain}")
        for secret in secrets:
            until = f", retires at {moment(secret['retires_at'])} UTC" if secret["retires_at"] else ""
            self.stdout.write(f"signing secret #{secret['id']}: {secret['state']}, {span(secret['age'])} old{until}")

    def _add(self, options: dict[str, Any]) -> None:
        endpoint = Endpoint(name=options["name"], kind=options["kind"], url=options["url"])
        with transaction.atomic():
            self._save(endpoint, options)
            secret = rotate(endpoint) if endpoint.kind == EndpointKind.HTTP_CALLBACK else None
        if options["json"]:
            self.stdout.write(as_json(endpoint_facts(endpoint) | {"signing_secret": secret}))
            return
        self.stdout.write(f"{_name(endpoint)} is there")
        if secret:
            self.stdout.write(f"its signing secret, shown this once: {secret}")

    def _set(self, options: dict[str, Any]) -> None:
        endpoint = _endpoint(options["name"])
        given = [options[name] for name in (*endpoint_arguments.FIELDS, "rename", "authorization_file")]
        if not options["no_authorization"] and all(value is None for value in given):
            raise ValueError("say what to set; `manage.py endpoints set --help` lists it")
        if options["rename"] is not None:
            endpoint.name = options["rename"]
        self._save(endpoint, options)
        self.stdout.write(as_json(endpoint_facts(endpoint)) if options["json"] else f"{_name(endpoint)} is changed")

    def _save(self, endpoint: Endpoint, options: dict[str, Any]) -> None:
        old_url = endpoint.url
        for field in endpoint_arguments.FIELDS:
            if options.get(field) is not None:
                setattr(endpoint, field, options[field])
        authorization = _authorization(options)
        if authorization is not None:
            if problem := problem_of_authorization(authorization):
                raise ValueError(f"the Authorization {problem}")
            if authorization and endpoint.kind != Endpoint().kind:
                raise ValueError("Authorization is not for a queue: boto3 finds its credentials where the worker runs")
            set_authorization(endpoint, authorization)
        elif problem := asks_for_authorization_again(endpoint, old_url):
            raise ValueError(f"{problem} (--authorization-file, --no-authorization)")
        check(endpoint)
        endpoint.save()

    def _rotate(self, options: dict[str, Any]) -> None:
        endpoint = _endpoint(options["name"])
        secret = rotate(endpoint, options["keep_for"])
        if options["json"]:
            self.stdout.write(as_json({"endpoint": endpoint.name, "secret": secret, "keep_for": options["keep_for"]}))
            return
        self.stdout.write(secret)
        until = f"in {span(options['keep_for'])}" if options["keep_for"] else "now"
        self.stderr.write(f"The new signing secret of {_name(endpoint)}: it is not shown again. Others retire {until}.")

    def _test(self, options: dict[str, Any]) -> None:
        endpoint = _endpoint(options["name"])
        patience = options["wait"]
        if patience is None:
            patience = endpoint.connect_timeout + endpoint.timeout + MARGIN_SECONDS
        tested = wait_for_test(send_test(endpoint), patience)
        if options["json"]:
            facts = {"record": tested.record_id, "delivered": tested.delivered, "ended": tested.ended}
            self.stdout.write(as_json(facts | {"code": tested.code, "seconds": tested.seconds, "why": tested.why}))
        elif tested.delivered:
            self.stdout.write(describe(tested))
        if not tested.delivered:
            raise CommandError(f"{describe(tested)} (`manage.py backlog show {tested.record_id}`)", returncode=1)

    def _remove(self, options: dict[str, Any]) -> None:
        endpoint = _endpoint(options["name"])
        if obstacle := obstacle_to_removing(endpoint):
            raise CommandError(obstacle, returncode=1)
        left = undelivered(endpoint)
        and_fails = f" {left:,} events that are still to be delivered there will fail." if left else ""
        if not options["yes"] and not self.is_confirmed(f"Remove {_name(endpoint)}?{and_fails}", "add --yes to do it"):
            self.stdout.write("nothing was changed")
            return
        try:
            with transaction.atomic():
                endpoint.delete()
        except ProtectedError as error:
            raise CommandError(f"{_name(endpoint)} has come into use meanwhile; nothing was removed") from error
        removed = {"removed": options["name"], "undelivered": left}
        self.stdout.write(
            as_json(removed) if options["json"] else f"{plain(options['name']).plain} is removed.{and_fails}"
        )


def _endpoint(name: str) -> Endpoint:
    """Raises: ValueError naming those there are."""
    found = Endpoint.objects.filter(name=name).first() if "\0" not in name else None
    if found is None:
        known = list(Endpoint.objects.order_by("name").values_list("name", flat=True)[:MOST_KNOWN])
        there_are = f"there are {', '.join(known)}" if known else "there are none"
        raise ValueError(f"there is no endpoint {name!r}; {there_are}")
    return found


def _authorization(options: dict[str, Any]) -> str | None:
    """What Authorization is to be; None: as it is. Raises: ValueError for a file that cannot be read."""
    if options.get("no_authorization"):
        return ""
    file = options.get("authorization_file")
    if not file:
        return None
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or error
        raise ValueError(f"cannot read the Authorization from {file}: {said}") from error
    if not text.strip():
        raise ValueError(f"{file} holds no Authorization; --no-authorization removes the one that is set")
    return text.strip()


def _name(endpoint: Endpoint) -> str:
    return plain(endpoint).plain
