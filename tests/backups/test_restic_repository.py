"""A restic repository from its making to the recovery without a database, by a real worker and real sources."""

import json
import threading
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from backups.upkeep import retention
from jobs.clock import database_clock
from jobs.models import BacklogRecord
from sealing import stored_secrets
from sources import planning
from sources.models import Assignment, Backup, Repository
from storage.recover import program
from tests.commands import command
from tests.engines.peers import PASSWORD, USER, sftp_host, tree, write_files
from tests.engines.restic_keys import make_quick
from tests.programs import needs_restic
from tests.sources.factories import make_assignment, make_policy, make_source
from tests.sources.worker_process import worker_process
from tests.storage.recovering import follow
from tests.waiting import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow, needs_restic]

QUEUES = f"{planning.AVAILABILITY}:10,{planning.BACKUPS}:2"
run, refused = command("repositories")
foreign, _ = command("repositories foreign")


def back_up(scratch: Path, assignments: list[Assignment]) -> None:
    """Back these up by the worker that runs, now."""
    began = database_clock()
    ours = Assignment.objects.filter(pk__in=[each.pk for each in assignments])
    planning.back_up_now(assignments)
    done = lambda: ours.filter(last_backup_at__gt=began).count() == len(assignments)  # noqa: E731
    eventually(lambda: done() or BacklogRecord.objects.exclude(last_error="").exists())
    eventually(lambda: not BacklogRecord.objects.unfinished().exists())
    errors = list(BacklogRecord.objects.values_list("status", "last_error"))
    assert done(), (errors, (scratch / "worker.log").read_text())


def test_from_a_command_to_plain_restic(tmp_path: Path) -> None:
    place = tmp_path / "it's backups"
    made = json.loads(run("add", "vault", str(place), "--format", "restic", "--json"))
    assert (made["format"], made["encrypted"], len(made["new_key"])) == ("restic", True, 64)
    assert {each.name for each in place.iterdir()} == {"RECOVER.txt", "repository.json", "restic", "locks"}
    make_quick(place / "restic", made["new_key"])
    repository = Repository.objects.get()
    local = write_files(tmp_path / "local", **{"a/b": "text", "c": "other", "same": "x" * 100_000})
    remote = write_files(tmp_path / "remote", **{"d/e": "far", "same": "x" * 100_000})
    policy = make_policy(repository=repository, keep={})
    with sftp_host(remote) as host, worker_process(QUEUES, tmp_path):
        stored_secrets.store("host", PASSWORD)
        sources = [
            make_source(name="local", path=str(local)),
            make_source(
                name="host", kind="sftp", address=host.address, port=host.port, path="/", options={"user": USER},
                host_key=host.host_key, secret="stored:host",
            ),
        ]  # fmt: skip
        assignments = [make_assignment(policy, each) for each in sources]
        back_up(tmp_path, assignments)
        assert foreign("--source", "local") == "No point is foreign.\n"
        (local / "c").write_text("changed")
        (remote / "new").write_text("new")
        back_up(tmp_path, assignments)
        policy.keep = {"last": 1}
        policy.save()
        # of one source: a second one would find the repository busy, and look again after a minute
        assert retention.plan(Assignment.objects.filter(pk=assignments[0].pk)) == 1
        eventually(lambda: not BacklogRecord.objects.unfinished().exists())
    of_host = Backup.objects.filter(assignment=assignments[1]).latest("started_at")
    assert (of_host.engine, of_host.new, of_host.unchanged, of_host.files) == ("restic", 1, 2, 3)
    text = StringIO()
    call_command("restores", "run", "host", "--to", str(tmp_path / "back"), stdout=text)
    assert tree(tmp_path / "back") == tree(remote)
    assert Backup.objects.count() == 3, "a point of it stays"
    assert Repository.objects.get().pruned_at

    key, options = tmp_path / "key", {"remote": [], "repository": str(place), "key_file": tmp_path / "key"}
    key.write_text(made["new_key"] + "\n")
    store = program.opened_at(options, threading.Event())
    assert len(program.assignments_in(store, None)) == 2
    arguments = [str(place), "--key-file", str(key), "--source", "local", "--to", str(tmp_path / "recovered")]
    assert program.main(arguments) == 0
    assert tree(tmp_path / "recovered") == tree(local)
    key.write_text("0" * 64)
    assert program.main(arguments) == 2
    key.write_text(made["new_key"])
    snapshot = Backup.objects.filter(assignment=assignments[0]).latest("started_at").snapshot.split("/")[1]
    choices = {"RESTIC_PASSWORD_FILE": str(key), "SNAPSHOT": snapshot, "TO": str(tmp_path / "plain")}
    follow((place / "RECOVER.txt").read_text(), tmp_path, {}, **choices)
    assert tree(tmp_path / "plain") == tree(local)
