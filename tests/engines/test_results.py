"""The results that engines put together for exceptions."""

import errno
import os
from pathlib import Path

import pytest

from engines.base import EngineResult, Verdict
from engines.results import result_of
from storage.places.location import of_directory
from tests.engines.peers import local_folder, task_for


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("vault/.repository.json.ac235a16.new", "vault"),
        ("vault/nas-7/nightly/manifests/.x.0123abcd.new", "vault/nas-7/nightly"),
        ("vault/nas-7", "vault"),
        ("vault", "vault"),
        ("vaults/a", "vaults/a"),
        (None, "vault/nas-7/nightly"),
    ],
)
def test_an_error_is_about_a_folder_of_the_repository_and_no_temporary_file_in_it(
    name: str | None, shown: str, tmp_path: Path
) -> None:
    """Sources that fail by the same words are listed together."""
    location = of_directory(tmp_path / "vault")
    task = task_for(local_folder(tmp_path), tmp_path, location=location, folder="nas-7/nightly")

    def run() -> EngineResult:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), *([str(tmp_path / name)] if name else []))

    result = result_of(task, run)
    assert (result.verdict, result.error) == (
        Verdict.REPOSITORY_FAILED,
        f"{tmp_path / shown} cannot be written: Read-only file system",
    )
