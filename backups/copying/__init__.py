"""A source is copied into its repository: the handler of the kind `backup`, and what its outcome means."""
