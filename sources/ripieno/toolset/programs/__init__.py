"""Tools that run programs: shells, background processes, package managers."""
