"""Servers of queues for tests: a real one, as a process of its own, and one with a scripted answer."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from asgiref.sync import async_to_sync

from delivery import handlers
from delivery.models import Endpoint, EndpointKind
from jobs.handlers import Run
from jobs.outcomes import Failed, Outcome, Succeeded
from tests.engines.peers import free_port, loopback_address
from tests.factories import make_claimed
from tests.waiting import PATIENCE, eventually

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "a secret",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


TAKEN = json.dumps({"MessageId": "message 1"})
"""The answer of a server that took a message."""


@dataclass
class QueueServer:
    """A server that speaks SQS, at `address`:`port`."""

    address: str
    port: int
    log: Path
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"http://{self.address}:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", self.address, "-p", str(self.port)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        eventually(self._answers)

    def kill(self) -> None:
        assert self.process
        self.process.kill()
        self.process.wait(PATIENCE)

    def make_queue(self, name: str, **attributes: str) -> str:
        """A new queue. Returns its address."""
        made = self.client.create_queue(QueueName=name, Attributes=attributes)
        return str(made["QueueUrl"])

    def received(self, url: str) -> list[dict[str, Any]]:
        """The messages that lie in a queue, taken out of it."""
        found: list[dict[str, Any]] = []
        while more := self.client.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"]
        ).get("Messages"):
            found += more
            for message in more:
                self.client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return found

    def make_account(self, may: str) -> dict[str, str]:
        """The credentials of a new account that may do that, as a worker's environment has them."""
        iam = self.client_of("iam")
        iam.create_user(UserName="worker")
        policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": may, "Resource": "*"}]}
        iam.put_user_policy(UserName="worker", PolicyName="may", PolicyDocument=json.dumps(policy))
        key = iam.create_access_key(UserName="worker")["AccessKey"]
        return {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}

    @cached_property
    def client(self) -> Any:
        return self.client_of("sqs")

    def client_of(self, service: str) -> Any:
        from boto3.session import Session  # each process of the tests would spend 0.6 s on it
        from botocore.config import Config

        config = Config(retries={"total_max_attempts": 1}, read_timeout=PATIENCE)
        keys = {name.lower(): CREDENTIALS[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
        return Session().client(service, region_name="eu-west-1", endpoint_url=self.url, config=config, **keys)

    def check_credentials(self, from_call: str) -> None:
        """Let it check credentials from so many calls on ("inf": never): those above belong to no account."""
        headers = {"Content-Type": "text/plain"}
        urlopen(Request(f"{self.url}/moto-api/reset-auth", from_call.encode(), headers), timeout=PATIENCE).close()

    def _answers(self) -> bool:
        assert self.process
        assert self.process.poll() is None, self.log.read_text()
        try:
            urlopen(f"{self.url}/moto-api/data.json", timeout=PATIENCE).close()
        except OSError:
            return False
        return True


@contextlib.contextmanager
def queue_server(directory: Path) -> Iterator[QueueServer]:
    """A running one, until the block ends."""
    address = loopback_address()
    server = QueueServer(address, free_port(address), directory / "queues.log")
    server.start()
    try:
        yield server
    finally:
        server.kill()


@dataclass
class ScriptedServer:
    """Gives every request the same answer, and keeps paths and bodies of those that came."""

    url: str = ""
    status: int = 200
    body: str = "{}"
    headers: dict[str, str] = field(default_factory=dict)
    connections: int = 0
    asked: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def refuses(self, code: str, message: str = "no", *, status: int = 400, **headers: str) -> None:
        self.body = json.dumps({"__type": f"com.amazonaws.sqs#{code}", "message": message})
        self.status, self.headers = status, {name.replace("_", "-"): value for name, value in headers.items()}


@contextlib.contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    script = ScriptedServer()

    class Handler(BaseHTTPRequestHandler):
        def setup(self) -> None:
            script.connections += 1
            super().setup()

        def do_POST(self) -> None:
            script.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            script.asked.append(self.path)
            self.send_response(script.status)
            headers = {"Content-Type": "application/x-amz-json-1.0", "Content-Length": str(len(script.body.encode()))}
            for name, value in (headers | script.headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(script.body.encode())

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer((loopback_address(), 0), Handler)
    script.url = f"http://{server.server_address[0]!s}:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE)


def endpoint_at(url: str, **fields: Any) -> Endpoint:
    """An endpoint of a queue. Its name is its address."""
    usual: dict[str, Any] = {"name": url, "kind": EndpointKind.SQS_MESSAGE, "region": "eu-west-1", "timeout": PATIENCE}
    return Endpoint.objects.create(url=url, **(usual | fields))


def payload_for(endpoint: Endpoint | None, number: int = 3, body: Any = None) -> dict[str, Any]:
    """The payload of an event's record."""
    return {
        "title": f"nightly reports {number}/10",
        "schedule": "nightly reports",
        "trigger_at": "2026-03-02T12:00:00Z",
        "event_id": f"7-20260302T120000Z-{number}",
        "number": number,
        "count": 10,
        "endpoint": endpoint.pk if endpoint else None,
        "url": None,
        "body": {"shard": number} if body is None else body,
    }


def deliver(*runs: Run) -> list[Outcome]:
    """Send them one after the other, as one event loop does."""

    async def one_after_the_other() -> list[Outcome]:
        return [await handlers.deliver(run) for run in runs]

    return async_to_sync(one_after_the_other)()


def run_for(endpoint: Endpoint | None, number: int = 3, body: Any = None, **fields: Any) -> Run:
    """A claimed event on its way to an endpoint."""
    payload = payload_for(endpoint, number, body)
    values = {"kind": EndpointKind.SQS_MESSAGE.value, "queue": "callbacks", "subject": payload["event_id"]}
    return Run(make_claimed(payload=payload, **(values | fields)))


def delivered(run: Run) -> Succeeded:
    """Send it, which has to succeed."""
    [outcome] = deliver(run)
    assert isinstance(outcome, Succeeded), outcome
    return outcome


def failed(run: Run) -> Failed:
    """Send it, which has to fail."""
    [outcome] = deliver(run)
    assert isinstance(outcome, Failed), outcome
    return outcome


def scripted_endpoint(scripted: ScriptedServer, **fields: Any) -> Endpoint:
    return endpoint_at(f"{scripted.url}/1/events", **fields)
