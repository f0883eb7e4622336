"""The supervising processes: a zygote for each application, and a keeper for each process that it starts.

They run outside of the application, single-threaded, with the standard library alone (``python -I -S``) and without the
package's ``__init__``. Only ``wire`` is used by both sides.

* ``launcher``: the entry point of a zygote.
* ``zygote``: forks a keeper for each channel from the application, and kills the orphans of a killed keeper.
* ``keeper``: starts one process, reports its end, and leaves none of its descendants running.
* ``leader``: the keeper's child before it becomes the program.
* ``descendants``: finds, stops and kills the descendants of a process.
"""
