"""Work on the contents of repositories: retention, checks, copies, looks and removals."""
