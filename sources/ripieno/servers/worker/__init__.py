"""Workers: processes on any machine that conduct submitted runs, one stretch at a time."""
