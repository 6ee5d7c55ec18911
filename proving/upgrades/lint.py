"""`python -m proving.upgrades.lint`: checks the migrations since the newest release by `rules`. Needs no database.

Exit codes: 0; 1 for problems, which it prints; 2 if `releases.toml` is not as it should be.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

import django
from django.apps import apps
from django.db.migrations.loader import MigrationLoader

from proving.upgrades.releases import ROOT, Allowance, Release, read
from proving.upgrades.rules import MigrationLook, MigrationProblem


def problems_since(release: Release, allowed: Iterable[Allowance] = ()) -> list[MigrationProblem]:
    """All problems that are not allowed, and allowances without a problem. Raises: ValueError for a migration of the
    release that is not there.
    """
    loader = MigrationLoader(None)
    released: set[tuple[str, str]] = set()
    for leaf in release.migrations.items():
        if leaf not in loader.graph.nodes:
            raise ValueError(
                f"release {release.version} has the migration {'.'.join(leaf)}, which is not there any more"
            )
        released.update(loader.graph.forwards_plan(leaf))
    ours = {each.label for each in apps.get_app_configs() if Path(each.path).parent in (ROOT, ROOT / "backupsched")}
    look, found = MigrationLook(frozenset(released)), []
    for leaf in loader.graph.leaf_nodes():
        for name in loader.graph.forwards_plan(leaf):
            if name in released or name[0] not in ours:
                continue
            released.add(name)
            found += look.problems(loader.graph.nodes[name], loader.project_state(name, at_end=False))
    excused = {(each.migration, each.rule) for each in allowed}
    unneeded = excused - {(each.migration, each.rule) for each in found}
    return [each for each in found if (each.migration, each.rule) not in excused] + [
        MigrationProblem(migration, rule, "releases.toml allows it, but it is not a problem")
        for migration, rule in sorted(unneeded)
    ]


def main() -> int:
    os.environ["DJANGO_SETTINGS_MODULE"] = "backupsched.settings"
    os.environ["DATABASE_URL"] = "postgresql://127.0.0.1:1/none"
    django.setup()
    try:
        releases = read()
        found = problems_since(releases.newest, releases.allowed) if releases.newest else []
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for each in found:
        sys.stderr.write(f"{each}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
