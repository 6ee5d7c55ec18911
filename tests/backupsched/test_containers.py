"""The image and the compose file agree with the package, and shut in what they run. What was run of them once, and by
what, is in docs/containers.md.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
from ruamel.yaml import YAML

from backupsched.secret_files import FROM_FILES, SUFFIX
from tests.documents import ROOT

OURS = ("migrate", "web", "qcluster", "worker")
COMPOSE = (ROOT / "compose.yaml").read_text(encoding="utf-8")
CONTAINERFILE = (ROOT / "Containerfile").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return dict(YAML(typ="safe").load(COMPOSE)["services"])


def test_the_image_has_every_folder_of_the_package_and_nothing_else() -> None:
    taken = {each[1:] for each in (ROOT / ".dockerignore").read_text().split() if each.startswith("!")}
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    left_out = {each.strip("/") for each in wheel["exclude"]} - wheel["force-include"].keys()
    tracked = {each.parent.name for each in ROOT.glob("*/__init__.py")} | wheel["force-include"].keys()
    files = {"LICENSE", "README.md", "pyproject.toml", "requirements-dev.lock", "requirements-sqs.lock"}
    assert taken == (tracked - left_out) | files


@pytest.mark.parametrize("name", OURS)
def test_a_service_writes_into_its_volumes_alone_and_has_no_right_to_more(name: str, services: dict[str, Any]) -> None:
    service = services[name]
    assert (service["read_only"], service["cap_drop"], service["user"]) == (True, ["ALL"], "10001:10001")
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["build"] == {"context": ".", "dockerfile": "Containerfile"}
    assert f"USER {service['user']}" in CONTAINERFILE
    given = {each for each in service["environment"] if each.endswith(SUFFIX)}
    assert given <= {each + SUFFIX for each in FROM_FILES}
    assert {service["environment"][each].rpartition("/")[2] for each in given} == set(service["secrets"])


def test_no_probe_ends_a_migration_and_nothing_starts_before_its_end(services: dict[str, Any]) -> None:
    assert (services["migrate"]["restart"], services["migrate"]["healthcheck"]) == ("no", {"disable": True})
    for name in OURS[1:]:
        assert services[name]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
        assert "migrate" not in str(services[name]["command"])
    assert "/livez" in str(services["web"]["healthcheck"])  # which an outage of the database does not change


def test_a_worker_is_given_longer_than_it_gives_itself(services: dict[str, Any]) -> None:
    assert services["worker"]["command"] == ["worker", "--grace", "15m"]
    assert services["worker"]["stop_grace_period"] == "16m"


def test_without_secrets_compose_starts_nothing_and_says_what_to_make() -> None:
    asked = re.findall(r"^    file: \$\{BACKUPSCHED_SECRETS:\?([^}]+)\}/(\w+)$", COMPOSE, re.MULTILINE)
    assert {name for _, name in asked} == {"database_password", "secret_key"}
    assert all("make a folder with the files database_password and secret_key" in sentence for sentence, _ in asked)
    assert re.search(r"image: docker\.io/library/postgres:17\.\d+-\w+\n", COMPOSE), "by its full tag"


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(int(self.server.status) if self.path == "/livez" else 404)  # type: ignore[attr-defined]
        self.end_headers()

    def log_message(self, *args: Any) -> None: ...


def test_the_probe_asks_this_container_and_no_proxy(services: dict[str, Any]) -> None:
    [image] = re.findall(r"^HEALTHCHECK .*\\\n +CMD (.*)$", CONTAINERFILE, re.MULTILINE)
    command = json.loads(image)
    assert services["web"]["healthcheck"]["test"] == ["CMD", *command]
    with HTTPServer(("127.0.0.1", 0), Pages) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        found = []
        for server.status in (200, 503):  # type: ignore[attr-defined]
            here = [sys.executable, "-c", command[2].replace("8000", str(server.server_port))]
            proxied = os.environ | dict.fromkeys(("http_proxy", "HTTP_PROXY", "ALL_PROXY"), "http://127.0.0.1:1")
            found.append(subprocess.run(here, env=proxied, stderr=subprocess.DEVNULL, check=False).returncode)
        server.shutdown()
    assert found == [0, 1]
