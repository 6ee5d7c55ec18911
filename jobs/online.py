"""Operations of migrations on large tables, while workers continue: each can be stopped and run again.

Each is the only operation of a migration with `atomic = False`, since nothing undoes half of one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

BATCH_ROWS = 1000

UNFINISHED = "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(%s) AND NOT indisvalid"


class BuildIndex(AddIndexConcurrently):
    """`AddIndex` without locking statements out. It waits for all older transactions, and so without `lock_timeout`:
    nothing queues behind it. The remains of a stopped build are removed first.

    In an installation that polls, the `lock_timeout` of its role limits it: a pooler would hand another one to others.
    """

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        name = schema_editor.quote_name(self.index.name)
        with _no_lock_timeout(schema_editor.connection), schema_editor.connection.cursor() as cursor:
            cursor.execute(UNFINISHED, [name])
            if cursor.fetchone():
                cursor.execute(f"DROP INDEX CONCURRENTLY {name}")
            super().database_forwards(app_label, schema_editor, from_state, to_state)


@contextmanager
def _no_lock_timeout(connection: Any) -> Iterator[None]:
    from jobs import conf  # reads the settings, which a mere reader of migrations sets up later

    if not conf.listens():
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        before = cursor.fetchone()[0]
        cursor.execute("SET lock_timeout = 0")
        try:
            yield
        finally:
            cursor.execute("SELECT set_config('lock_timeout', %s, false)", [before])


class UpdateInBatches(Operation):
    """`UPDATE table SET … WHERE …`, a thousand rows a transaction. `where` must not hold for a row that was updated:
    so it ends, and is run again from where it stopped. Not undone when it is unapplied.
    """

    reduces_to_sql = False
    reversible = True

    def __init__(self, table: str, changes: str, where: str, key: str = "id") -> None:
        self.table, self.changes, self.where, self.key = table, changes, where, key

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        pass

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        statement = (
            f"UPDATE {self.table} SET {self.changes} WHERE {self.key} IN "
            f"(SELECT {self.key} FROM {self.table} WHERE {self.where} LIMIT {BATCH_ROWS} FOR UPDATE)"
        )
        with schema_editor.connection.cursor() as cursor:
            while True:
                cursor.execute(statement)
                if not cursor.rowcount:
                    return

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        pass

    def describe(self) -> str:
        return f"Update {self.table} in batches"
