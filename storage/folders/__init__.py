"""Folders on this host: work in them that follows no link, their free space, their owners, and flushing to disk."""
