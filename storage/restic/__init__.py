"""A repository of restic's own format, seen as the layout of `storage.layout` (`store.py`).

A snapshot with the tags `assignment=<folder>` and `point=<name>` is a point: it is there whole or not at all, so there
is no manifest beside it that could go missing. What a manifest says is read out of the snapshot when it is wanted
(`listing.py`). restic 0.14 is tested; what later versions do otherwise is taken from their documentation
(`verdicts.py`).
"""
