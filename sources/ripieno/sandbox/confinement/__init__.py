"""The child side of a confinement: a process gives up rights just before it becomes a tool's program.

It runs in a process forked for one program, without threads, and needs only the standard library and the kernel. The
program's parent enters ``namespaces`` and calls ``get_ready`` ahead of time; the process itself calls ``apply``. A step
that fails raises ``OSError`` with its name; none is silently left out.
"""
