"""The entry point of a zygote: ``python -I -S launcher.py DESCRIPTOR``, without ``__init__`` and site-packages."""

import os
import sys
import types


def main() -> None:
    """Becomes a zygote that is not a child of the application, so that the application never reaps it.

    Its number is written to standard output, which then ends.
    """
    pid = os.fork()
    if pid:
        os.write(1, str(pid).encode())
        os._exit(0)
    os.dup2(0, 1)
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for name, path in (("ripieno", os.path.dirname(folder)), ("ripieno.sandbox", folder)):
        package = types.ModuleType(name)
        package.__path__ = [path]
        sys.modules[name] = package
    from ripieno.sandbox.supervision.zygote import serve

    serve(int(sys.argv[1]))


if __name__ == "__main__":
    main()
