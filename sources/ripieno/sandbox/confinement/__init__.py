"""How a process gives up what it must not have, in itself, just before it becomes the program of a tool.

This is the child's side: it runs in a process that was forked for one program, without threads, and needs nothing but
the standard library and the kernel. ``namespaces`` is entered by the parent of the program, which does ahead what
``get_ready`` does; ``apply`` is for the process that becomes it. Whatever cannot be had raises ``OSError`` with what
failed: nothing is quietly left out.
"""

from ripieno.sandbox.confinement.apply import apply, get_ready, prepare

__all__ = ["apply", "get_ready", "prepare"]

prepare()
