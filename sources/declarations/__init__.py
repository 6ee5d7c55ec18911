"""Rules for the values of a repository, a policy and a source, and for the paths and servers that an
editor may name.
"""
