"""Fleet files: everything that a person declares, in one file of JSON or YAML."""
