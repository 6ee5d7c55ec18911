"""From a point into a folder of this host."""
