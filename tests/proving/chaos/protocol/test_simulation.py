"""`python -m proving.chaos.protocol`: plays the same again, breaks no rule, finds and shortens what is planted."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from proving.chaos.protocol import mutants
from proving.chaos.protocol.__main__ import FAST, HASH_SEED, main
from proving.chaos.protocol.mutant_list import MUTANTS
from proving.chaos.server import CrashingServer, make_directory, remove_directory

SEEDS = 3
EMITS = 22
"""A seed in which a worker emits a batch, for half a second at most."""
HURRIED = """
import sys, time
import proving.chaos.protocol.baton, proving.chaos.protocol.monitor, proving.chaos.server, psycopg
real = time.monotonic
time.monotonic = lambda: real() * 10_000
from proving.chaos.protocol.__main__ import main
sys.exit(main())
"""
"""The command on a machine on which every step seems to take minutes. Only who ends a stuck step sees the true time."""
STOPS = 10
"""A seed in which one of several records is stopped."""
AFTER_OTHERS = """
import os, sys
os.environ.update(DJANGO_SETTINGS_MODULE="proving.chaos.protocol.settings", SECRET_KEY="of no use")
os.environ["DATABASE_URL"] = os.environ["SIMULATION_DATABASE"]
import django
django.setup()
from proving.chaos.protocol.__main__ import main
from proving.chaos.protocol.play import Player
play = Player.play
Player.play = lambda self, seed: [play(self, each) for each in (6, 8, seed)][-1]
sys.exit(main())
"""
"""The command, which plays two others before each seed, and says nothing of them."""
PLANTED = "what a renewal skips is lost"
"""One that is found soon and is short."""


def simulate(
    *arguments: str, program: tuple[str, str] = ("-m", "proving.chaos.protocol"), place: Path = settings.BASE_DIR,
    **environment: str,
) -> dict[str, Any]:  # fmt: skip
    command = [sys.executable, *program, *arguments, "--json"]
    done = subprocess.run(command, cwd=place, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == bool(found["violations"]), done.stderr
    return found


@pytest.fixture(scope="module")
def prepared() -> Iterator[dict[str, str]]:
    """The environment of simulations that share a server."""
    directory = make_directory()
    server = CrashingServer(directory, FAST)
    server.ensure_running()
    yield {"SIMULATION_DATABASE": server.url(), "BACKUPSCHED_VAR": str(directory), "PYTHONHASHSEED": HASH_SEED}
    server.destroy()
    remove_directory(directory)


def test_every_mutant_has_its_text():
    functions = "jobs/sql/claim_beside_throttles.sql"
    changes = [(mutant.name, file, old) for mutant in MUTANTS for file, old, _ in mutant.changes]
    changes += [(mutant.name, functions, old) for mutant in MUTANTS for _, old, _ in mutant.functions]
    assert [name for name, file, old in changes if old not in (settings.BASE_DIR / file).read_text()] == []


@pytest.mark.slow
@pytest.mark.long
def test_seeds_break_no_rule_and_are_played_again_to_the_letter_on_a_server_of_their_own(prepared):
    found = [simulate("--seeds", str(SEEDS), **environment) for environment in (prepared, {})]
    assert [each["violations"] for each in found] == [[], []]
    assert found[0]["digest"] == found[1]["digest"]
    assert found[0]["met"]["succeeded"] > 0


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("seed", "program"), [(EMITS, HURRIED), (STOPS, AFTER_OTHERS)])
def test_a_seed_depends_neither_on_how_long_its_steps_take_nor_on_those_before_it(prepared, seed, program):
    plays = [
        simulate("--seed", str(seed), program=each, **prepared)
        for each in (("-m", "proving.chaos.protocol"), ("-c", program))
    ]
    assert plays[0]["digest"] == plays[1]["digest"]


@pytest.mark.slow
@pytest.mark.long
def test_a_planted_fault_is_found_and_made_short(prepared):
    mutant = next(mutant for mutant in MUTANTS if mutant.name == PLANTED)
    with mutants.planted(mutant) as place:
        (violation,) = simulate("--seeds", "150", "--shrink-for", "60", place=place, **prepared)["violations"]
        assert violation["rule"] == "a run is stopped whose lease held"
        assert len(violation["choices"]) < 10


def test_bad_arguments_are_refused_before_anything_starts(monkeypatch, capsys):
    for bad in (["--seeds", "0"], ["--shrink-for", "-1"]):
        monkeypatch.setattr(sys, "argv", ["proving.chaos.protocol", *bad])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        assert bad[0] in capsys.readouterr().err.splitlines()[-1]
