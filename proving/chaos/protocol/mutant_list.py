# ruff: noqa: E501 - texts as in the code
"""The mutants: each is a plausible mistake of an edit, in the protocol's text."""

from dataclasses import dataclass

CLAIMING = "jobs/claiming.py"
SETTLING = "jobs/settling.py"
RESCUING = "jobs/rescuing.py"
GATE = "jobs/exclusivity.py"
TICK = "jobs/tick.py"
HEARTBEAT = "jobs/worker/heartbeat.py"
SETTLER = "jobs/worker/settler.py"
PROCESS = "jobs/worker/process.py"
CANCELLING = "jobs/backlog/cancelling.py"
CLAIM_FUNCTION = "jobs_claim_beside_throttles"
ROOM_FUNCTION = "jobs_room"


@dataclass(frozen=True)
class Mutant:
    """`changes`: (file, text, replacement); `functions`: the same in functions of the database."""

    name: str
    changes: tuple[tuple[str, str, str], ...] = ()
    functions: tuple[tuple[str, str, str], ...] = ()


def _one(name: str, file: str, old: str, new: str) -> Mutant:
    return Mutant(name, ((file, old, new),))


FENCE = """       AND b.attempt IS NOT DISTINCT FROM r.attempt
       AND b.leased_by_id IS NOT DISTINCT FROM r.worker_id
       AND b.lease_token IS NOT DISTINCT FROM r.lease_token"""
INSERTED = """       facts::jsonb
  FROM settled
"""
SETTLE_OTHERS = "def _settle_others(results: Results, now: datetime | None, skip_locked: bool) -> SettleResult:\n"
NO_TRANSACTION = '    with __import__("contextlib").nullcontext():\n'
IGNORED = "    ON CONFLICT DO NOTHING\n"
INTEND = '            execute(INTEND, {**columns, "now": now})\n'

MUTANTS = [
    # claim
    _one("a claim waits for locked records", CLAIMING, "        LIMIT %(limit)s::int\n          FOR UPDATE SKIP LOCKED",
         "        LIMIT %(limit)s::int\n          FOR UPDATE"),
    _one("a claim does not count its attempt", CLAIMING, "attempt = attempt + 1, started_at = {ARRIVAL}",
         "started_at = {ARRIVAL}"),
    Mutant("a claim takes what waits as well", (
        (CLAIMING, " WHERE status = {Status.READY}\n   AND ctid", " WHERE ctid"),
        (CLAIMING, "        WHERE status = {Status.READY} AND queue = %(queue)s::text AND lane = 0",
         "        WHERE status < {Status.RUNNING} AND queue = %(queue)s::text AND lane = 0"),
    )),
    # renew
    _one("a renewal waits for locked records", CLAIMING, "       FOR UPDATE SKIP LOCKED\n)\nUPDATE jobs_backlogrecord b",
         "       FOR UPDATE\n)\nUPDATE jobs_backlogrecord b"),
    Mutant("a renewal goes by places", (
        (CLAIMING, "    SELECT id\n      FROM jobs_backlogrecord\n     WHERE {LEASED}\n     ORDER BY id\n       FOR UPDATE "
         "SKIP LOCKED", "    SELECT ctid AS place\n      FROM jobs_backlogrecord\n     WHERE {LEASED}\n     ORDER BY id\n"
         "       FOR UPDATE"),
        (CLAIMING, " WHERE b.id = held.id\nRETURNING", " WHERE b.ctid = held.place\nRETURNING"),
    )),
    _one("what a renewal skips is lost", CLAIMING, "return RenewalResult(frozenset(owned), frozenset(unknown), frozenset(cancelled))",
         "return RenewalResult(frozenset(owned), frozenset(), frozenset(cancelled))"),
    _one("what a renewal skips is renewed", CLAIMING,
         "return RenewalResult(frozenset(owned), frozenset(unknown), frozenset(cancelled))",
         "return RenewalResult(frozenset(owned | unknown), frozenset(), frozenset(cancelled))"),
    _one("a heartbeat renews nothing", HEARTBEAT, "self._renew(runs)", "self._renew([])"),
    # settle
    _one("a settle locks in the opposite order", SETTLING, " WHERE id = ANY(%(ids)s::bigint[])\n ORDER BY id\n   FOR UPDATE\n",
         " WHERE id = ANY(%(ids)s::bigint[])\n ORDER BY id DESC\n   FOR UPDATE\n"),
    Mutant("a settle does not lock", (
        (SETTLING, " WHERE id = ANY(%(ids)s::bigint[])\n ORDER BY id\n   FOR UPDATE\n",
         " WHERE id = ANY(%(ids)s::bigint[])\n ORDER BY id\n"),
        (SETTLING, '{LOCK_IN_ID_ORDER}  SKIP', '{LOCK_IN_ID_ORDER} FOR UPDATE SKIP'),
    )),
    Mutant("a settle has no fence", (
        (SETTLING, FENCE, ""),
        (SETTLING, INSERTED + '"""', INSERTED + IGNORED + '"""'),
        (SETTLING, INSERTED + "RETURNING", INSERTED + IGNORED + "RETURNING"),
    )),
    Mutant("a settle is fenced by the status alone", (
        (SETTLING, FENCE, "       AND b.status = 2"),
        (SETTLING, INSERTED + '"""', INSERTED + IGNORED + '"""'),
        (SETTLING, INSERTED + "RETURNING", INSERTED + IGNORED + "RETURNING"),
    )),
    Mutant("a settle's hooks run for lost results", (
        (SETTLING, "dict.fromkeys(record.kind for record, _ in written)", "dict.fromkeys(record.kind for record, _ in results)"),
        (SETTLING, "hook([result for result in written if", "hook([result for result in results if"),
    )),
    _one("a settle is not a transaction", SETTLING, SETTLE_OTHERS + "    with transaction.atomic():\n",
         SETTLE_OTHERS + NO_TRANSACTION),
    Mutant("a settle reads the clock before its locks", (
        (SETTLING, "        ids = [record.id for record, _ in results]\n        rows",
         "        instant = now or database_clock()\n        ids = [record.id for record, _ in results]\n        rows"),
        (SETTLING, "        instant = now or database_clock()  # after", "        # after"),
    )),
    _one("a success leaves no history", SETTLING, "SELECT id, attempt, queue, worker_id, started_at, GREATEST({ARRIVAL}, started_at), "
         "{AttemptOutcome.SUCCEEDED}, '',\n       facts::jsonb\n  FROM settled\n", "SELECT id, attempt, queue, worker_id, started_at, "
         "started_at, {AttemptOutcome.SUCCEEDED}, '',\n       facts::jsonb\n  FROM settled\n WHERE FALSE\n"),
    _one("a cancel is forgotten by a settle", SETTLING, "if record.id in cancelled and not isinstance(outcome, Succeeded)",
         "if False"),
    # the gate
    _one("the gate takes no advisory lock", GATE, "pg_advisory_xact_lock(hashtextextended(key, 0)) FROM",
         "hashtextextended(key, 0) FROM"),
    _one("the gate lets a whole batch through", GATE, "            taken.add(change.exclusive_key)\n", "            pass\n"),
    _one("the gate counts only what runs", GATE, "status IN ({Status.READY}, {Status.RUNNING})",
         "status IN ({Status.RUNNING})"),
    _one("the gate counts only what is ready", GATE, "status IN ({Status.READY}, {Status.RUNNING})",
         "status IN ({Status.READY})"),
    _one("a settle opens no gate", SETTLING, "        exclusivity.open_gates(", "        0 and exclusivity.open_gates("),
    _one("a cancel opens no gate", CANCELLING, "    exclusivity.open_gates(", "    0 and exclusivity.open_gates("),
    _one("a promoted record keeps its key", "jobs/promotion.py", "waiting_for = NULL, breaker_id = NULL, exclusive_key = NULL",
         "waiting_for = NULL, breaker_id = NULL"),
    # rescue and strays
    _one("a rescue believes the clock", PROCESS, "rescue=bool(unchanged), unchanged=unchanged", ""),
    _one("a rescue waits for too short a time", RESCUING, " - conf.deadline_seconds() - conf.ending_seconds()", " - 1"),
    _one("claims whose answer was lost are forgotten", PROCESS, "self._was_cut_off = True", "self._was_cut_off = False"),
    _one("known runs are strays", RESCUING,
         "   AND (id, lease_token) NOT IN (SELECT * FROM unnest(%(ids)s::bigint[], %(tokens)s::uuid[]))\n", ""),
    # threads
    _one("the guard never stops", HEARTBEAT, "if now - run.renewed_at > deadline:", "if now < 0:"),
    _one("a result is dropped while the database is away", SETTLER, "                self._ended.wait(TRY_AGAIN_AFTER_SECONDS)\n",
         "                self._settled([record for record, _ in batch])\n                return\n"),
    _one("a result beside a locked record is forgotten", SETTLER,
         "                self._kept += [result for result in batch if result[0].id in locked]\n", ""),
    _one("a read-only server is an error of ours", "jobs/database_errors.py", 'READ_ONLY = "25006"', 'READ_ONLY = "25999"'),
    # throttles
    Mutant("a claim does not lock its throttles", (), ((CLAIM_FUNCTION, "FOR UPDATE) AS locked", ") AS locked"),)),
    Mutant("a cap does not count what runs", (), ((ROOM_FUNCTION, "b.status = 2 AND b.lane <> 0", "b.status = 3 AND b.lane <> 0"),)),
    Mutant("a cap is one too high", (), ((ROOM_FUNCTION, "LEAST(b.max_in_flight + CASE", "LEAST(b.max_in_flight + 1 + CASE"),)),
    # emission
    _one("events and their count are two transactions", "schedules/emitter.py",
         "    with transaction.atomic():\n        found, schedules = locked(", NO_TRANSACTION + "        found, schedules = locked("),
    _one("a trigger and its watermark are two transactions", "schedules/triggers.py", INTEND,
         INTEND + '            execute("COMMIT", {})\n            execute("BEGIN", {})\n'),
    _one("the watermark is not moved", "schedules/statements.py", "SET next_trigger_at = r.next_trigger_at",
         "SET next_trigger_at = s.next_trigger_at"),
    _one("what waits is promoted early", TICK, '"run_after <= %(now)s::timestamptz"',
         '"run_after <= %(now)s::timestamptz + interval \'40 s\'"'),
    # edits
    _one("a cancel does not lock", "jobs/backlog/rows.py", ".select_for_update()", ""),
    _one("an edit of a retry policy locks in no order", "jobs/rescheduling.py", '.order_by("pk").only(*FACTS)',
         '.order_by("-pk").only(*FACTS)'),
]  # fmt: skip
