"""What goes to the observers of a whole system: traces and metrics, and logs that programs read.

``tracing`` makes OpenTelemetry's spans and metrics of events, ``conventions`` is the one room that knows their names,
``logs`` makes records of ``logging``. Each is imported by whoever wants it, and costs nothing until then.
"""
