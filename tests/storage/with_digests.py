"""Played runs whose manifests have digests."""

import hashlib
from collections.abc import Iterator
from typing import Any

from storage.points.manifests import Entry
from tests.storage.played_runs import Played, Tree

UNKNOWN = ("new", "red")
"""Contents of one size without a digest in manifests, as of files on a remote, or that changed while they came."""


class WithDigests(Played):
    """Contents of one size are told apart, as in real manifests, or not known."""

    def _entries(self, name: str, tree: Tree, *more: Any) -> Iterator[Entry]:
        for each in super()._entries(name, tree, *more):
            is_known = tree[each.path] not in UNKNOWN
            yield each._replace(digest=digest_of(tree[each.path]), digest_from="copy") if is_known else each


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
