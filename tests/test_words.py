"""Openings of docstrings in the rooms that have been rewritten so far, and names of classes in all rooms."""

import ast
import re
from collections import defaultdict
from functools import cache

import pytest

from tests.product import modules

REWRITTEN = (
    "alerting",
    "alerting/management/commands",
    "api",
    "audit",
    "backups",
    "backups/copying",
    "backups/hooks",
    "backups/restores",
    "backups/self_backup",
    "backups/upkeep",
    "backupsched",
    "backupsched/embedded",
    "backupsched/management/commands",
    "backupsched/postgresql",
    "dashboard",
    "dashboard/templatetags",
    "declarations",
    "declarations/surfaces",
    "declarations/surfaces/admin",
    "declarations/surfaces/commands",
    "declarations/surfaces/web",
    "delivery",
    "delivery/http",
    "delivery/sqs",
    "demo",
    "demo/management/commands",
    "engines",
    "engines/at_repositories",
    "engines/imap",
    "engines/mariadb",
    "engines/postgresql",
    "engines/rclone",
    "engines/restic",
    "engines/restores",
    "engines/restores/maria",
    "engines/restores/pg",
    "engines/sqlite",
    "external",
    "external/network",
    "external/processes",
    "fleet",
    "fleet/admin",
    "fleet/conditions",
    "fleet/explaining",
    "fleet/files",
    "fleet/foreseeing",
    "fleet/management",
    "fleet/management/backlog",
    "fleet/management/commands",
    "fleet/management/database",
    "fleet/management/policies",
    "fleet/management/repositories",
    "fleet/management/restores",
    "fleet/management/sources",
    "fleet/status",
    "jobs",
    "jobs/backlog",
    "jobs/breakers",
    "jobs/management",
    "jobs/management/commands",
    "jobs/models",
    "jobs/retries",
    "jobs/worker",
    "operations",
    "operations/admin",
    "operations/backlog",
    "operations/backoff",
    "operations/conditions",
    "operations/management/backlog",
    "operations/management/commands",
    "operations/management/schedules",
    "schedules",
    "sealing",
    "simulation",
    "simulation/lookahead",
    "simulation/management/commands",
    "sources",
    "sources/agents",
    "sources/availability",
    "sources/declarations",
    "sources/domain",
    "sources/models",
    "sources/planning",
    "sources/protection",
    "storage",
    "storage/folders",
    "storage/places",
    "storage/points",
    "storage/recover",
    "storage/restic",
    "storage/restoring",
)
"""Folders, without those below them."""
OPENINGS = re.compile(r"\s*(What|Of|Those|Which|Whose|Whether|In|For)\b")
OF_DJANGO = {"Command", "Migration"}
"""Names that Django wants for each command and migration."""
OUTCOMES = {"Succeeded", "Failed", "Cancelled", "Released", "Postponed"}
"""Words for what a handler returns (glossary): read where they are returned, as `return Failed(…)`."""
NOUNS = {"Finding", "Listing", "Meaning", "Opening", "Sighting", "Standing"}
PARTICIPLE = re.compile(r"[A-Z][a-z]+(ed|ing)")


@cache
def trees() -> dict[str, dict[str, ast.Module]]:
    """Folder → module → its syntax tree."""
    found: dict[str, dict[str, ast.Module]] = defaultdict(dict)
    for path, tree in modules():
        folder, _, name = path.rpartition("/")
        found[folder][name] = tree
    return found


@pytest.mark.parametrize("folder", REWRITTEN)
def test_docstrings_open_with_a_noun_or_a_verb(folder: str) -> None:
    texts = {
        f"{name}:{node.lineno}": node.value.value
        for name, tree in trees()[folder].items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    assert texts
    assert {where: text for where, text in texts.items() if OPENINGS.match(text)} == {}


def test_a_class_has_its_name_alone() -> None:
    places = defaultdict(list)
    for folder, found in trees().items():
        if folder.partition("/")[0] == "demo":
            continue
        for name, tree in found.items():
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(f"{folder}/{name}")
    assert {name: where for name, where in places.items() if len(where) > 1 and name not in OF_DJANGO} == {}


def test_no_class_is_a_bare_participle() -> None:
    found = {
        f"{folder}/{name}: {node.name}"
        for folder, found in trees().items()
        for name, tree in found.items()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and PARTICIPLE.fullmatch(node.name) and node.name not in OUTCOMES | NOUNS
    }
    assert found == set()
