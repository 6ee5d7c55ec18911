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
from engines.rclone.verdicts import Judgement
from external.processes.rows import row_of, texts
from storage.points.batches import OF_A_LIST, batches
from storage.points.entries import Entry
from storage.points.store import path_list

KINDS = ("sha256", "sha1", "md5")
"""Kinds of digests; the source is asked for the first one that it offers."""
READ = "sha256"
LINE = re.compile(r"([0-9a-f]{64})  (.*)\n?", re.DOTALL)
MOST_LIMITS = 20
"""Limits that are reached in a row; the digests of files that are left then are not known, so that they are copied."""


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
        entries = [Entry(*each[2]) for each in batch]
        lacking = {each.path: each.size for each in entries if each.kind == "file" and not each.told}
        found = _read(source, lacking, how, ask) if lacking else {}
        for each, entry in zip(batch, entries, strict=True):
            told = found.get(entry.path)
            yield listed_of(entry._replace(told=f"{READ}:{told}")) if told else each


def _read(source: SourceSpec, sizes: dict[str, int], how: tuple[str, ...], ask: Ask) -> dict[str, str]:
    """Path → digest. An endless file ends rclone at the limit for all files: those that were being read then are read
    one by one afterwards, each with its own limit. An rclone that hangs is followed by another, too. Raises: RunEnded.
    """
    found, cut, left = dict[str, str](), list[str](), [*sizes]

    def take(line: str) -> None:
        if digest := LINE.fullmatch(line):
            found[digest[2]] = digest[1]

    def read(paths: list[str]) -> Judgement:
        with path_list(paths) as file:
            given = ("hashsum", READ, "--download", remote_path(source), f"--files-from0={file}", *how)
            judgement = ask(given, take, sum(sizes[each] for each in paths))
        if judgement.verdict not in (Verdict.SUCCEEDED, Verdict.WARNINGS) and not judgement.stood_still:
            raise RunEnded(judgement.verdict, judgement.text)
        return judgement

    for _ in range(MOST_LIMITS):
        if not left or not ((judgement := read(left)).is_cut or judgement.stood_still):
            break
        named = {each.name for each in judgement.problems}
        cut += [each for each in left if each in named]
        left = [each for each in left if each not in found and each not in named]
    for path in cut:
        read([path])
    return found
