"""Storage: the contents of a repository and the ways to reach it (places, layout, manifests, points in time).

Without Django: it works in the processes that `backups.repository_orders` starts, and in `recover`, when the database
is gone. All access goes through rclone, whether the repository is a folder on this host, a bucket or encrypted.
"""
