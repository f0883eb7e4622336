"""Programs that do what they can to outlive whoever started them, for shells that hold a ``Living`` open."""

import sys

#: Forks as fast as it can, in a session of its own each time; whoever looks at one sees the one before.
HOPPER = "import os\nwhile True:\n    if os.fork(): os._exit(0)\n    os.setsid()\n"
#: Each starts something that goes on after its leader.
ADVERSARIES = {
    "plain": "sleep 600 & sleep 600 &",
    "setsid": "setsid sleep 600 &",
    "double fork": "(setsid sh -c '(sleep 600 &) ; sleep 600' &) ; (sleep 600 &) ;",
    "deaf": "trap '' TERM HUP INT QUIT USR1; setsid sh -c \"trap '' TERM HUP INT; while :; do sleep 600; done\" &",
    "env-cleared": "env -i setsid sleep 600 & (env -i sleep 600 &) ;",
    "stopped": "sh -c 'kill -STOP $$; sleep 600' & setsid sh -c 'kill -STOP $$; sleep 600' &",
    "hopper": f"{sys.executable} -I -S -c '{HOPPER}' &",
}
#: What the leader does then.
LEADERS = {"stays": "while :; do sleep 600; done", "exits": "exit 0"}
#: Every adversary with every leader. ``ALIVE`` is the path of a ``Living``.
SCRIPTS = {
    f"{name}, leader {doing}": f'exec 9>"$ALIVE"; {start} echo ready; {end}'
    for name, start in ADVERSARIES.items()
    for doing, end in LEADERS.items()
}
