"""A played repository and its copy, whose steps can be the last."""

import filecmp
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from storage.points import copying
from storage.points.copies import CopyResult
from storage.points.known import Known
from storage.points.store import StorageFailed
from tests.storage.played_runs import ASSIGNMENT, files_below
from tests.storage.stepping import SteppedStore, stepped
from tests.storage.with_digests import WithDigests


@dataclass(frozen=True)
class CopyingStore(SteppedStore):
    """Two of them make a copy. A file that was killed may be there with some of its bytes, as on servers that know no
    partial names. `copied`: the places that were copied from here. `may_overwrite`: as its credentials say."""

    to: SteppedStore | None = None
    copied: list[str] = field(default_factory=list)
    may_overwrite: bool = True

    def _here(self, path: str) -> Path | None:
        return Path(self.location.at(path))

    def run(self, *arguments: str, **watched: Any) -> bool:
        """`rclone check` of listed files, as `confirming` has it run."""
        if arguments[0] != "check":
            return super().run(*arguments, **watched)
        named = dict(each.split("=", 1) for each in arguments if "=" in each)
        source, target = (each for each in arguments[1:] if not each.startswith("--"))
        listed = Path(named["--files-from0"]).read_text().split("\0")[:-1]
        equal = [each for each in listed if filecmp.cmp(f"{source}/{each}", f"{target}/{each}", shallow=False)]
        for each in equal:
            watched["on_line"](each)
        return True

    def sizes(self, path: str, paths: Collection[str] | None = None, *, by_name: bool = False) -> dict[str, int]:
        top = Path(self.location.at(path))
        among = files_below(top) if paths is None else [each for each in paths if (top / each).is_file()]
        return {each: (top / each).stat().st_size for each in among}

    def copy_out(
        self,
        path: str,
        target: str,
        paths: Collection[str],
        on_progress: Callable[[int, int], None],
        *options: str,
        **facts: Any,
    ) -> None:
        for each in paths:
            came, goes = Path(self.location.at(path)) / each, Path(target) / each
            if not came.exists():
                continue
            if self.to is None:  # a note of the copy, which is read here
                shutil.copyfile(came, goes)
                continue
            if goes.exists() and not self.may_overwrite:
                raise StorageFailed("access denied")
            goes.parent.mkdir(parents=True, exist_ok=True)
            self.to.step("half", each)
            goes.write_text(came.read_text()[:-1])
            self.to.step("whole", each)
            shutil.copyfile(came, goes)
            self.copied.append(each)


@dataclass
class Pair:
    """`kind`: what the second one is taken for: a plain or an encrypted (sealed) folder of this host, or a remote."""

    first: WithDigests
    second: WithDigests
    kind: str = "plain"

    @classmethod
    def below(cls, folder: Path, kind: str = "plain") -> "Pair":
        return cls(WithDigests(folder / "first"), WithDigests(folder / "second"), kind)

    def copy(
        self, kill_after: int | None = None, *, may_overwrite: bool = True, known: Known | None = None, **facts: Any
    ) -> tuple[CopyResult, list[str]]:
        """Returns also the places that were copied. `known`: of the copy."""
        target, source = stepped(self.second.root, kill_after), stepped(self.first.root)
        kinds = {"plain": self.second.root, "sealed": self.second.root.parent, "remote": None}
        there = replace(target.location, directory=kinds[self.kind])
        to = CopyingStore(there, target.stop, left=target.left, known=known)
        begun = CopyingStore(source.location, source.stop, to=to, may_overwrite=may_overwrite)
        copied = copying.copy(begun, to, ASSIGNMENT, **facts)
        assert copied.points == self.second.points()
        return copied, begun.copied

    def check(self) -> None:
        for played in (self.first, self.second):
            for point in played.points():
                assert played.restored(point) == self.first.expected[point]
