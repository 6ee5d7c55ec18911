"""Digests of a remote source's files, for a policy that compares contents (`checksum: true`): those that the source
offers. Other files, such as all files of an SFTP host, on which no command runs, are read through the network.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from engines.base import RunEnded, SourceSpec, Verdict
from engines.rclone.listing import Ask, listed_of
from engines.rclone.local import Listed
from engines.rclone.options import OF_READING, option_arguments
from engines.rclone.remotes import remote_path
from external.processes.rows import row_of, texts
from storage.points.batches import OF_A_LIST, batches
from storage.points.entries import Entry
from storage.points.store import path_list

KINDS = ("sha256", "sha1", "md5")
"""Kinds of digests; the first one that a source offers is asked for."""
READ = "sha256"
LINE = re.compile(r"([0-9a-f]{64})  (.*)\n?", re.DOTALL)


def offered(source: SourceSpec, ask: Ask) -> str:
    """The kind of digests that a source offers; empty if none. Raises: RunEnded if it does not answer."""
    lines: list[str] = []
    judgement = ask(("backend", "features", remote_path(source)), lines.append)
    if judgement.verdict is not Verdict.SUCCEEDED:
        raise RunEnded(judgement.verdict, judgement.text)
    found = texts(row_of("".join(lines)) or {}, "Hashes")
    return next((each for each in KINDS if each in found), "")


def with_digests(listed: Iterable[Listed], source: SourceSpec, options: dict[str, Any], ask: Ask) -> Iterator[Listed]:
    """The listed entries, each file with a digest, as far as it can be read. Raises: RunEnded for an error that
    concerns all.
    """
    how = option_arguments({name: value for name, value in options.items() if name in OF_READING})
    for batch in batches(listed, OF_A_LIST):
        lacking = [each[0] for each in batch if each[2][1] == "file" and not Entry(*each[2]).told]
        found = _read(source, lacking, how, ask) if lacking else {}
        for each in batch:
            told = found.get(each[0])
            yield listed_of(Entry(*each[2])._replace(told=f"{READ}:{told}")) if told else each


def _read(source: SourceSpec, paths: list[str], how: tuple[str, ...], ask: Ask) -> dict[str, str]:
    found: dict[str, str] = {}

    def take(line: str) -> None:
        if digest := LINE.fullmatch(line):
            found[digest[2]] = digest[1]

    with path_list(paths) as file:
        given = ("hashsum", READ, "--download", remote_path(source), f"--files-from0={file}", *how)
        judgement = ask(given, take)
    if judgement.verdict not in (Verdict.SUCCEEDED, Verdict.WARNINGS):
        raise RunEnded(judgement.verdict, judgement.text)
    return found
