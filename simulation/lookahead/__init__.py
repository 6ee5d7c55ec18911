"""Our scheduler on a virtual clock. A fleet's time passes for `worker`; what becomes of records is decided by a world:

memory   by the pure functions of `jobs` and `sources`, on heaps
sql      by the statements of the product, in a database

Both are given the same calls and have to answer alike, which a test compares start by start.
"""
