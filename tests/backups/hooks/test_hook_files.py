"""The file of the hooks of a host: who may have written it, what may be in it, and what a doctor says of it."""

import os
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from backups.hooks import debts
from fleet.conditions.repositories import hooks, owed_hooks
from fleet.policy_edits import Policies
from operations.finding import ExaminedCondition, Look, Severity
from sources.declarations import hook_file
from sources.declarations.hook_file import HookUnusable, hook_of
from sources.models import Assignment
from tests.backups.hooks.hook_of_this_host import Write, copy
from tests.sources.factories import error_of

pytestmark = pytest.mark.django_db(transaction=True)


def refusal() -> str:
    with pytest.raises(HookUnusable) as refused:
        hook_of("it")
    return str(refused.value)


def test_what_others_could_have_written_is_refused(write: Write, tmp_path: Path, settings: Any) -> None:
    write(before="")
    assert hook_file.known() == ["it"]
    file: Path = settings.HOOKS_FILE
    for mode in (0o664, 0o646):
        file.chmod(mode)
        assert refusal() == f"{file} is refused: other accounts can write {file}: chmod go-w {file}"
    file.chmod(0o600)
    tmp_path.chmod(0o770)
    assert f"other accounts can write {tmp_path}" in refusal()
    tmp_path.chmod(0o700)
    (tmp_path / "link.toml").symlink_to(file)
    settings.HOOKS_FILE = tmp_path / "link.toml"
    assert "it is a link" in refusal()
    (tmp_path / "etc").symlink_to(tmp_path)
    settings.HOOKS_FILE = tmp_path / "etc" / "hooks.toml"
    assert f"it is reached by a link; name it {file}" in refusal()
    settings.HOOKS_FILE = tmp_path / "none.toml"
    assert "does not exist on this host" in refusal()
    assert hook_file.known() == []
    if os.geteuid() == 0:
        settings.HOOKS_FILE = file
        os.chown(file, 65534, 0)
        assert "belongs to an account other than root: chown root" in refusal()


WRONG = [
    ("[other]\nbefore = ['/bin/true']", "has no hook it, it has other: add [it] to it"),
    ("[it]", "it must be a table with at least one of before, after, on_failure"),
    ("[it]\nbefore = 'rm -rf /'", "before is a list of words"),
    ("[it]\nbefore = []", "before is a list of words"),
    ("[it]\nafter = ['lvremove']", "absolute path of a program, such as [\"/usr/bin/true\"], not 'lvremove'"),
    ("[it]\nbefore = ['/bin/true']\nshell = true", "shell is unknown; it may have before, after"),
    ("[it]\nbefore = ['/bin/true']\ntimeout = 'soon'", "timeout: 'soon' is not a duration"),
    ("[it]\nbefore = ['/bin/true']\nenvironment = ['A=B']", "environment must be a list of names"),
    ("[it]\nbefore = ['/bin/true']\nexit_codes = {3 = 'fine'}", "exit_codes maps codes from 1 to 255"),
    ("[it]\nbefore = ['/bin/true']\nexit_codes = {0 = 'failed'}", "exit_codes maps codes from 1 to 255"),
    ("it", "is refused: "),
]


def test_a_wrong_file_is_refused_with_the_place_and_the_reason(write: Write, settings: Any, laptop: Assignment) -> None:
    write(before="")
    for text, why in WRONG:
        settings.HOOKS_FILE.write_text(text)
        assert why in refusal()
    assert why in error_of(copy(laptop))
    named = hooks.examined(Look(timezone.now())).what
    assert why in named
    assert str(laptop.policy) in named


def test_a_row_holds_a_name_and_never_a_command(laptop: Assignment) -> None:
    for command in ("/bin/sh -c reboot", "a b", "../x"):
        with pytest.raises(ValidationError, match="never a command"):
            Policies().edit(laptop.policy, {"hook": command})
    assert Policies().edit(laptop.policy, {"hook": "lvm-home_2"}).row.hook == "lvm-home_2"


def test_the_doctor_names_what_is_owed_of_a_hook_that_left_the_file(
    write: Write, laptop: Assignment, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = set[int]()
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.add(os.fstat(descriptor).st_ino))

    def found() -> ExaminedCondition:
        return owed_hooks.examined(Look(timezone.now()))

    settings.VAR_DIR = tmp_path / "var"
    write(after="")
    assert found().severity == Severity.OK
    with debts.noted(laptop.pk, {"hook": "it", "facts": {}}, lambda *_: True):
        assert found().severity == Severity.OK
    settings.HOOKS_FILE.write_text("[other]\n")
    [debt] = debts.debts()
    assert {debt.file.stat().st_ino, debt.file.parent.stat().st_ino} <= synced, "it is there after a power cut, too"
    assert found().severity == Severity.WARNING
    assert f"laptop ({debt.file}), {settings.HOOKS_FILE} on this host has no hook it, it has other" in found().what
    laptop.delete()
    assert f"assignment {debt.assignment} ({debt.file}), {settings.HOOKS_FILE}" in found().what
    debt.file.write_text("{")  # as of a note that was cut off
    assert found().severity == Severity.OK
