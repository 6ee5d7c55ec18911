"""A source is copied into its repository: the handler of the kind `backup`, and the effects of its outcome."""
