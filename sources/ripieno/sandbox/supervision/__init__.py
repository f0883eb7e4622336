"""The processes that stand behind every child: a zygote for each application, a keeper for each process it starts.

All of this runs outside of the application, single-threaded, with the standard library alone (``python -I -S``), and
without the package's face. Only ``wire`` is known to both sides.

* ``launcher``: where a zygote begins.
* ``zygote``: forks a keeper for each channel that the application hands over, and takes in what a killed keeper leaves.
* ``keeper``: starts one process, tells how it ends, and leaves nothing of it behind.
* ``leader``: what a keeper's child does before it becomes the program.
* ``descendants``: finds, stops and kills what a process has started.

``workers`` is another matter, for the application itself: it forks workers of a server, and watches over them.
"""
