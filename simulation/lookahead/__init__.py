"""The product's scheduler on a virtual clock. A fleet's time passes for `worker`; a world decides about records:

memory   by the pure functions of `jobs` and `sources`, on heaps
sql      by the statements of the product, in a database

Both get the same calls and must give the same answers, which a test compares start by start.
"""
