"""Runs of kind `check`: each reads a share of the data that an assignment has in its repository, and the data that is
known to be damaged, in each repository, and compares it with manifests.

The findings are kept in `CheckRound`, and named in the log. Repositories that its policy had before, and those with
copies, are read in turn, as long as there are points in them. `checks` plans these runs.
"""

from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from django.template.defaultfilters import filesizeformat

from backups import holdings, known_points, locations, repository_orders
from backups.upkeep import checks, records, restic_turns, retention_decisions
from backups.upkeep.damage import OF_NO_FILE, as_text
from external.formatting import several
from jobs import breakers
from jobs.handlers import Run
from jobs.outcomes import Cancelled, ClaimedRecord, Outcome, Released
from sources.availability import repository_breaker
from sources.models import Assignment, CheckRound, Format, Repository
from storage.places.locks import Busy
from storage.points.checking import CheckResult, Damage
from storage.points.store import StorageFailed, StorageStopped

DAY = 86_400
SLACK = 0.75
"""A factor of the time in which everything is to be read: absent repositories and closed windows take up part of it."""


def check_files(run: Run) -> Outcome:
    """Read a share, and compare. Blocks for as long as that takes."""
    return records.do(run, _check)


@dataclass
class Read:
    """The result of a check in a repository (its id). `unrecorded`: its points without a row; `lost`: folder → points
    of others, for whom it was read, that are not there. `next`: the repository in which the round continues, None if it
    stays where it is; `ends`: whether a round has ended. `again`: the others in which the data that is known to be
    damaged was read. `failed`: why nothing was read in others. `left`: further repositories that were asked for.
    """

    repository: int
    done: CheckResult
    unrecorded: list[dict[str, Any]]
    lost: dict[str, list[str]]
    next: int | None
    ends: bool
    failed: list[str]
    left: list[int]
    again: dict[int, CheckResult] = field(default_factory=dict)


def _check(work: records.Work) -> Read:
    """Read on from the end of the last run, or the requested data; then the data elsewhere that is known to be damaged.
    A repository of earlier days that fails is named, and the next one is read.
    """
    assignment, policy, only = work.assignment, work.assignment.policy, work.record.payload.get(checks.ONLY)
    row = CheckRound.objects.filter(pk=assignment.pk).first() or CheckRound(assignment=assignment)
    holding, failed = holdings.holding(assignment), list[str]()
    homes = list(dict.fromkeys([*holding, *holdings.with_copies(assignment)]))
    if work.record.payload.get(checks.FILES_ONLY):
        homes = [each for each in homes if each.format != Format.RESTIC]
    days = 1.0 if work.is_asked_for else max(1.0, (policy.check_within or 0) / DAY * SLACK)
    at = next((number for number, each in enumerate(homes) if each.pk == row.repository_id), 0)
    turns = [each for each in homes[at:] + homes[:at] if only is None or each.pk in only]
    if not turns:
        raise records.UpkeepRefused(Cancelled("its files are not in that repository any more"))
    for number, repository in enumerate(turns, start=1):
        is_own, is_last = repository.pk == policy.repository_id, repository is turns[-1]
        if is_own and (held := repository_breaker.refusal(assignment, work.record)):
            raise records.UpkeepRefused(held)
        if not is_own and (held := breakers.refusal(repository_breaker.guarded_by(repository), work.record)):
            failed.append(f"repository {repository}: {held.reason}")
            if only and is_last:  # it would keep others from their turns for as long as it is out of reach
                raise records.UpkeepRefused(Cancelled(failed[-1]))
            continue
        work.repository = repository
        try:
            done, beside = _read(work, row, repository, len(homes) / days)
        except StorageFailed as error:
            failed.append(f"repository {repository}: {error}")
            if is_own or is_last:
                raise
            continue
        unrecorded = beside["unrecorded"] if repository in holding else []  # of a copy, its points are not backups
        left = turns[number:] if work.is_asked_for and not done.is_stopped else []
        others = [each for each in homes if each not in turns[:number] and each not in left]
        following = (homes.index(repository) + 1) % len(homes)
        is_in_turn = only is None or repository == homes[at]
        read = Read(
            repository.pk,
            done,
            unrecorded,
            beside["lost"],
            next=(repository if done.part else homes[following]).pk if is_in_turn else None,
            ends=is_in_turn and not done.part and following == 0,
            failed=failed,
            left=[each.pk for each in left],
            again={} if done.is_stopped else _read_again(work, row, others, failed),
        )
        if done.is_stopped:
            stopped = Released(records.CLOSED) if work.closed else Released()
            raise records.UpkeepRefused(replace(stopped, result=read))
        return read
    raise StorageFailed("; ".join(failed))


def _read(
    work: records.Work, row: CheckRound, repository: Repository, share: float
) -> tuple[CheckResult, dict[str, Any]]:
    """Read on in one repository; with a share of 0 only the data that is known to be damaged there. Returns also the
    points that are `unrecorded` and `lost`.

    Raises: StorageFailed, StorageStopped, Busy.
    """
    in_parts = repository.format == Format.RESTIC and work.is_asked_for  # it would read one part
    continues = repository.pk == row.repository_id and not in_parts
    answer = repository_orders.work(
        "check_files",
        repository,
        work,
        grace=work.grace,
        on_progress=work.on_progress,
        folder=work.assignment.directory,
        part=row.part if continues else "",
        after=row.after if continues else "",
        total=row.total if continues else 0,
        share=share,
        known=[each for each in row.damage if each.get("repository") == repository.pk],
        recorded=retention_decisions.to_be_there(work.assignment, repository),
        known_points=known_points.of(work.assignment, repository),
        keep=known_points.keeping(work.assignment, repository),
        owner=locations.owner_of(repository),
        others=restic_turns.recorded_of_others(work.assignment, repository) if share else {},
    )
    beside = {name: answer.pop(name) for name in ("unrecorded", "lost")}
    damaged = [Damage(**each | {"repository": repository.pk}) for each in answer.pop("damaged")]
    return CheckResult(**answer, damaged=damaged), beside


def _read_again(
    work: records.Work, row: CheckRound, others: list[Repository], failed: list[str]
) -> dict[int, CheckResult]:
    """Read the data that is known to be damaged in these, so that it does not wait for their turn. The reason why one
    was not read is added to `failed`; a stop ends it, and the results so far stay.
    """
    found, known = dict[int, CheckResult](), {each.get("repository") for each in row.damage}
    for repository in (each for each in others if each.pk in known):
        try:
            if held := breakers.refusal(repository_breaker.guarded_by(repository), work.record):
                raise StorageFailed(held.reason)
            found[repository.pk], _ = _read(work, row, repository, 0)
        except (StorageFailed, Busy) as error:
            failed.append(f"repository {repository}: {error}")
        except StorageStopped:
            break
    return found


def write_down(record: ClaimedRecord, outcome: Outcome, now: datetime) -> None:
    """Store the place of the round, and the findings. Runs in the settle's transaction."""
    records.log_outcome(record, outcome, now)
    match getattr(outcome, "result", None):  # also of a run that was stopped in the middle
        case Read(done=done) as read:
            if (rounds := restic_turns.lock_rounds(record.payload["assignment"], read.repository)) is None:
                return
            row = rounds.own
            row.checked_at = now
            if read.next is not None:
                _move_on(row, read, record.started_at, now)
            new = [_note(row, each, what, now) for each, what in ({read.repository: done} | read.again).items()]
            row.save()
            for each, what in ({read.repository: done} | read.again).items():
                known_points.replace(row.pk, each, what.digests)
            rounds.share(read.lost)
            records.record_points(row.pk, read.repository, read.unrecorded)
            _log(record, read, [each for found in new for each in found], now)
            if read.left:
                checks.read_further(row.pk, read.left, now)


def _move_on(row: CheckRound, read: Read, began_at: datetime, now: datetime) -> None:
    done, continues = read.done, row.part and row.repository_id == read.repository
    row.read = done.size + (row.read if continues else 0)
    row.began_at = (row.began_at if continues else began_at) if done.part else None
    row.repository_id = read.next
    row.part, row.after, row.total = done.part, done.after, done.total
    if read.ends:
        row.ended_at = now


def _note(row: CheckRound, repository_id: int, done: CheckResult, now: datetime) -> list[Damage]:
    """Store the damage in a repository; a copy brings the data once more. Returns the damage that was not known."""
    before = [(each.get("repository"), each["point"], each["path"]) for each in row.damage]
    row.damage = [each for each in row.damage if each.get("repository") != repository_id]
    row.damage += [asdict(each) for each in done.damaged]
    if any(each.place not in OF_NO_FILE for each in done.damaged):
        of_copy = Assignment.objects.filter(policy__copy_to=repository_id, to_copy_since=None)
        of_copy.filter(pk=row.pk).update(to_copy_since=now)
    return [each for each in done.damaged if (each.repository, each.point, each.path) not in before]


def _log(record: ClaimedRecord, read: Read, found: list[Damage], now: datetime) -> None:
    done, name = read.done, Repository.objects.values_list("name", flat=True).filter(pk=read.repository).first()
    text = f"{several(done.files, 'file')} read in {name}"
    text += f", {filesizeformat(done.size)}" if done.size or not done.files else ""  # restic names no bytes
    text += "; that was the last part of a round" if read.ends else ""
    records.log(record, "checked", text, now, size=done.size, filled=done.filled)
    if found:
        records.log(record, "damaged", as_text(found), now, damage=[asdict(each) for each in found[:20]])
    if mended := [path for each in (done, *read.again.values()) for path in each.mended]:
        records.log(record, "mended", f"{len(mended)} damaged before, such as {mended[0]!r}", now)
    if done.not_filled:
        text = f"digests could not be added to manifests in {name}: {done.not_filled}"
        records.log(record, "failed", text, now)
    for reason in read.failed:
        records.log(record, "failed", f"{reason}; nothing was read there", now)
