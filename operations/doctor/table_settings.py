"""Autovacuum, and the storage settings that a migration gave the backlog (`0003_table_settings`)."""

from datetime import datetime

from django.db.backends.utils import CursorWrapper

from operations.doctor.asking import rows, settings_of_server
from operations.doctor.finding import Finding, listed, ok, problem, warning

TABLE = "jobs_backlogrecord"

WANTED = {"fillfactor": 80.0, "autovacuum_vacuum_scale_factor": 0.02, "autovacuum_vacuum_cost_delay": 0.0}
"""Upper bounds: less room for updates, or a vacuum that comes later or slower, is what was measured to hurt."""

OPTIONS = """
SELECT split_part(option, '=', 1), split_part(option, '=', 2)
  FROM unnest((SELECT reloptions FROM pg_class WHERE oid = %(table)s::regclass)) AS option
"""

# A table that was never migrated is the finding of others.
SWITCHED_OFF = """
SELECT relname
  FROM pg_class
 WHERE relkind = 'r' AND relname LIKE 'jobs\\_%%' AND pg_table_is_visible(oid)
   AND reloptions && ARRAY['autovacuum_enabled=false', 'autovacuum_enabled=off', 'autovacuum_enabled=0']
 ORDER BY relname
"""


def table_settings(cursor: CursorWrapper, now: datetime) -> Finding:
    """Whether autovacuum runs at all, on these tables, and as soon as the backlog needs it."""
    server = settings_of_server(cursor, "autovacuum", "track_counts")
    off = [name for name, setting in server.items() if setting == "off"]
    if off:
        return problem(
            "table_settings",
            f"{' and '.join(off)} off: dead rows pile up, and claims get slower without end",
            f"set {' and '.join(f'{name} = on' for name in off)} in postgresql.conf, and reload it",
            **server,
        )
    if tables := [str(name) for (name,) in rows(cursor, SWITCHED_OFF)]:
        return problem(
            "table_settings",
            f"autovacuum is switched off for {', '.join(tables)}: dead rows pile up",
            " ".join(f"ALTER TABLE {name} RESET (autovacuum_enabled);" for name in tables),
            tables=tables,
        )
    return _judged({str(name): str(value) for name, value in rows(cursor, OPTIONS, {"table": TABLE})})


def _judged(options: dict[str, str]) -> Finding:
    lost = {name: most for name, most in WANTED.items() if name not in options or float(options[name]) > most}
    if not lost:
        return ok("table_settings", f"{TABLE} has its settings, and autovacuum runs", **options)
    said = [f"{name} is {options.get(name, 'not set')} instead of {most:g}" for name, most in lost.items()]
    return warning(
        "table_settings",
        f"{TABLE}: {listed(said)}: dead rows stay for longer than they should",
        f"ALTER TABLE {TABLE} SET ({', '.join(f'{name} = {most:g}' for name, most in lost.items())});",
        **options,
    )
