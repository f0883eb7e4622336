"""Where a zygote begins: ``python -I -S launcher.py DESCRIPTOR``, without the package's face and site-packages."""

import os
import sys
import types


def main() -> None:
    """Becomes a zygote that is no child of the application, so that whoever waits for its own children meets none.

    Its number is written to standard output, which ends then.
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
