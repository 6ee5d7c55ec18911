"""Folders of this host: work in them that follows no link, their room, their owners, and what is on their disk."""
