"""A repository of restic's format, presented as the layout of `storage.layout` (`store.py`).

A snapshot with the tags `assignment=<folder>` and `point=<name>` is a point: it exists whole or not at all, so there is
no separate manifest that could go missing. The contents of a manifest are read out of the snapshot when they are wanted
(`listing.py`). restic 0.14 is tested; the differences of later versions are taken from their documentation
(`verdicts.py`).
"""
