"""Where a repository is, whose it is, and how rclone reaches it."""
