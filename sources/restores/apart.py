"""A restore in a process of its own, which `process.py` starts and can end: a dead share holds it for ever.

Its one order is a JSON object on standard input. It prints a line of JSON for each step, one about once a second while
it lives, and at its end one with the answer. Without Django.
"""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sources.engines.apart import Stop, bound_memory, say
from sources.processes.programs import ProgramMissing
from sources.storage import restoring
from sources.storage.location import of_directory
from sources.storage.manifests import ManifestDamaged
from sources.storage.restoring import Wish
from sources.storage.store import Stopped, StorageFailed, Store


def restore(location: str, wish: dict[str, Any], cache: str) -> dict[str, Any]:
    """Restore into a folder of this host. Returns the report, or why there is none: *refused*, *failed*, *stopped*."""
    target, paths = Path(wish.pop("target")), tuple(wish.pop("paths"))
    store = Store(of_directory(Path(location)), Stop(Path(location)))
    whole = Wish(target=target, paths=paths, **wish)
    try:
        return {
            "report": asdict(restoring.restore(whole, store, Path(cache), lambda step: say({"step": asdict(step)})))
        }
    except Stopped:
        return {"stopped": True}
    except (StorageFailed, ManifestDamaged, ProgramMissing) as error:
        return {"failed": str(error)}
    except ValueError as error:
        return {"refused": str(error)}
    except OSError as error:
        return {"failed": f"{error.filename or target} cannot be written: {error.strerror or error}"}


def main() -> None:
    order = json.load(sys.stdin)
    os.umask(order.pop("umask"))
    if memory := order.pop("memory"):
        bound_memory(memory)
    say({"answer": restore(**order)})
