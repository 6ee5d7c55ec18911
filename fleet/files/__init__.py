"""Fleet files: all declarations, in one file of JSON or YAML."""
