"""Points of an assignment: their manifests, and how points are made, read, checked, copied and removed."""
