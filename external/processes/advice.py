"""Takes out of a program's message what it advises: that is meant for whoever typed its command, and is wrong here.

`clear host_keys and re-run with --sftp-pin-host-key` would trust whoever answers; `unlock`, `rebuild-index` and `prune`
of restic are done here, in their turn, and change what another restic may be at work on; no option of a program can be
added by a person. What is wrong stays in the message; what to do about it is ours to say.
"""

import re

OPTION = r"--[a-z][\w-]+"
ADVISES = (
    r"(?:please |you can |can |it is recommended to )*(?:re-?run|run|use|try|add|set|specify|consider|clear|fix)\b"
)
ADVICE = (
    # a clause behind a sign: `… -- if it has changed, clear host_keys and re-run with --flag`
    re.compile(
        rf"\s*(?:--|\u2014|;|,|\(|(?<=\.))\s*(?:if [^.;]*?,\s*)?{ADVISES}[^.;()]*"
        rf"(?:{OPTION}|`rclone |`?restic |rebuild-index|repair index)[^.;()]*\)?",
        re.IGNORECASE,
    ),
    # of rclone: a configuration that is not kept in a file of its own
    re.compile(r"[^.;:]*(?:`rclone config|rclone config |in the config and re-run)[^.;]*", re.IGNORECASE),
    # of restic
    re.compile(r"[;.,]?\s*[^;.,]*the `?unlock`? command[^;.]*", re.IGNORECASE),
    re.compile(
        r"[;.,]?\s*(?:this is non-critical, )?(?:please |you can )?run [`'](?:restic )?[\w -]+['`][^;.]*",
        re.IGNORECASE,
    ),
    # of ssh: the keys are pinned in a source or a repository, and in no file of an account
    re.compile(r"[;.,]?\s*(?:add correct host key in|remove with:|ssh-keygen -f)[^;]*", re.IGNORECASE),
    # of the programs of PostgreSQL and MariaDB
    re.compile(r"[;.,]?\s*(?:hint: )?(?:consider using|try) [^;.]*" + OPTION + r"[^;.]*", re.IGNORECASE),
)
"""None of them matches across a `.` or `;` but at its beginning: the sentences before and behind stay."""


def without_advice(text: str) -> str:
    """A message without what its program advises; as it is, where nothing would stay."""
    told = text
    for pattern in ADVICE:
        told = pattern.sub("", told)
    told = told.strip().rstrip(",;:(").strip()
    return told or text
