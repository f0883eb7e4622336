"""Benchmarks of all promises about speed: ``make bench``."""
