"""Points of an assignment: the manifests, how they are made, read, checked, copied and removed."""
