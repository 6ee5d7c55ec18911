"""Work on what is in repositories: retention, checks, copies, looks and removals."""
