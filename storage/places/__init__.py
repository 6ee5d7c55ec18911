"""Places of repositories: their location, their identity, and the way rclone reaches them."""
