"""How a kind of source comes back: databases into servers and files, folders to where they came from; and drills."""
