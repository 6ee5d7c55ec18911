"""Where a drill may run a database server of its own for some minutes."""

from pathlib import Path
from typing import Any

from backupsched.embedded.binaries import make_passable, server_bin
from backupsched.embedded.layout import Layout


def scratch_server(var_dir: Path, *, with_programs: bool) -> dict[str, Any]:
    """The (uid, gid) it runs as (None: the present ones), a folder that this account can reach, and of PostgreSQL
    the directory of the embedded server's programs. Raises: EmbeddedDatabaseError, OSError."""
    layout = Layout(var_dir)
    account = layout.account and (layout.account.pw_uid, layout.account.pw_gid)
    folder = layout.home.with_name(f"{layout.home.name}-drills")
    make_passable(folder)
    return {"programs": str(server_bin(layout)) if with_programs else "", "account": account, "folder": str(folder)}
