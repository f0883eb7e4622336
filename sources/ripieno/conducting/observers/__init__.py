"""Observers of runs: the console, structured logs, and OpenTelemetry traces and metrics.

``console`` shows events to people, ``logs`` writes records of ``logging``, ``tracing`` makes spans and metrics with the
names in ``conventions``. Each is imported only where it is used.
"""
