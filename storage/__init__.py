"""What lies in a repository, and how it is reached: places, layout, manifests, points in time.

Without Django: it works in the processes that `backups.repository_orders` starts, and in `recover`, when there is no
database any more. All access goes through rclone, be the repository a folder of this host, a bucket or encrypted.
"""
