"""What a repository, a policy and a source may be, and which paths and servers an editor may name."""
