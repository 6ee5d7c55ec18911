"""The board and the alert rules: each metric that they name is there, and a real Prometheus takes them."""

import json
import re
import subprocess
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from dashboard import metrics
from jobs.states import AttemptOutcome
from operations.models import AttemptTotal
from tests.backupsched.scraping import token_for
from tests.documents import ROOT
from tests.engines.peers import free_port
from tests.programs import needed
from tests.sources.factories import make_assignment
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)

FILES = ROOT / "docs/monitoring"


def board() -> list[str]:
    panels = json.loads((FILES / "grafana.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    return [target["expr"].replace("$__rate_interval", "5m") for panel in panels for target in panel["targets"]]


def rules() -> list[dict]:
    groups = YAML(typ="safe").load((FILES / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_each_metric_of_the_board_and_of_the_rules_is_given():
    families = list(text_string_to_metric_families(metrics.exposition().decode()))
    given = {family.name + suffix for family in families for suffix in ("", *SUFFIXES.get(family.type, ()))}
    named = set(re.findall(r"backupsched_\w+", " ".join([*board(), *(rule["expr"] for rule in rules())])))
    assert len(named) > 10
    assert named <= given


SUFFIXES = {"histogram": ("_bucket", "_count", "_sum")}


@pytest.mark.slow
def test_a_real_prometheus_reads_the_metrics_the_rules_and_the_board(live_server, tmp_path: Path) -> None:
    program = needed("prometheus", "prometheus")
    make_assignment(failures=1)
    facts = {"kind": "backup", "queue": "backups", "sort": "sftp", "outcome": AttemptOutcome.FAILED, "up_to": 10.0}
    AttemptTotal.objects.create(**facts, number=3, seconds=12.0)
    (tmp_path / "token").write_text(token_for("view_source")["HTTP_AUTHORIZATION"].split()[1])
    text = (FILES / "prometheus.yml").read_text()
    for shipped, here in (
        ("127.0.0.1:8000", live_server.url.removeprefix("http://")),
        ("/etc/prometheus/backupsched.token", str(tmp_path / "token")),
        ("[alerts.yml]", f"[{FILES / 'alerts.yml'}]"),
        ("scrape_interval: 30s", "scrape_interval: 1s"),
    ):
        assert shipped in text
        text = text.replace(shipped, here)
    (tmp_path / "prometheus.yml").write_text(f"global: {{evaluation_interval: 1s}}\n{text}")
    port = free_port("127.0.0.1")
    argv = [
        program, f"--config.file={tmp_path / 'prometheus.yml'}", f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    with (
        subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as prometheus,
        httpx.Client(base_url=f"http://127.0.0.1:{port}/api/v1/") as client,
    ):
        try:

            def ask(path: str, **values: str) -> dict:
                try:
                    found = client.get(path, params=values)
                except httpx.HTTPError:
                    return {}
                if found.status_code == 503:  # it still starts
                    return {}
                answer = found.json()
                assert answer["status"] == "success", answer
                return answer["data"]

            def value(expression: str) -> str | None:
                found = ask("query", query=expression).get("result")
                return found[0]["value"][1] if found else None

            assert eventually(lambda: value('backupsched_sources{status="failing"}')) == "1"
            failed = 'backupsched_attempt_seconds_count{engine="rclone", outcome="failed"}'
            assert eventually(lambda: value(failed)) == "3"  # a scrape that took too long hides it until the next one
            expected = {"BackupSourcesNeedAPerson", "BackupSchedulerWithoutWorker"}
            judged = eventually(lambda: judged_as(expected, ask("rules").get("groups", [])))
            assert [(rule["name"], rule.get("lastError")) for rule in judged if rule["health"] != "ok"] == []
            assert [rule["alert"] for rule in rules()] == [rule["name"] for rule in judged]
            for expression in board():
                ask("query", query=expression)
        finally:
            prometheus.terminate()


def judged_as(alerts: set[str], groups: list[dict]) -> list[dict]:
    """All rules, once these and no others are pending or firing."""
    found = [rule for group in groups for rule in group["rules"]]
    return found if {rule["name"] for rule in found if rule["state"] != "inactive"} == alerts else []
