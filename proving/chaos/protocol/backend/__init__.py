"""The database backend of the simulation. Django asks for a package with a module `base`."""
