"""``ripieno serve responses``: models behind the wires of other programs. ``ripieno serve key``: keys for clients."""

import asyncio
import contextlib
import dataclasses
import gc
import importlib
import ipaddress
import os
import re
import secrets
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from ripieno.approvals import DeferredConfirmer
from ripieno.approvals.confirmers import ServingConfirmer
from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.cli.common import exit_codes
from ripieno.cli.common.assembly import make_assembly
from ripieno.cli.common.completion import complete_ensemble
from ripieno.cli.common.layers import load_layers, only, require_ensembles
from ripieno.cli.common.main import Interrupted, Reaction, run_async, say
from ripieno.cli.common.observers import LogFormat, log_everything, logged, watchers_for
from ripieno.cli.common.options import Number, Settings, common, journaled, pass_settings
from ripieno.cli.serve.common import (
    approvable,
    approving,
    check_approvals,
    leave_input,
    listening,
    read_key,
    report_logs,
    report_starting,
    shared_metrics,
)
from ripieno.descriptors import GatewayDescriptor
from ripieno.descriptors.gateway import GATEWAY, store_fault
from ripieno.descriptors.reader.keys import toml_line
from ripieno.descriptors.reader.problems import Problems, Source
from ripieno.exceptions import InputError
from ripieno.servers.http.workers import NOTICED, Place, Workers
from ripieno.values import Value

PORT = 8080
#: Seconds after the grace of open answers, in which a worker closes its tools before it is killed.
_CLOSING = 10.0
#: Seconds in which answers that outlast the grace report that to their clients.
_FAREWELL = 1.0
#: Seconds that an idle connection stays open: longer than load balancers keep theirs, which would lose requests.
_IDLE = 75.0
_CUT = "Open answers were cut off."
#: The beginning of a message about the option.
_MODELS = re.compile(r"^models(\[[0-9]+\])?")


class _Served(Value, kw_only=True):
    loaded: LoadedConfiguration
    chosen: GatewayDescriptor
    approve: Sequence[str]
    listener: socket.socket
    host: str
    log: LogFormat | None


@click.command(short_help="Serve models over the wire formats of several providers.")
@click.option(
    "--model",
    "-m",
    "models",
    metavar="PROVIDER/MODEL",
    multiple=True,
    help="Serve this model, under this name and without the provider; otherwise the default model.",
)
@click.option(
    "--map",
    "mapped",
    metavar="NAME=PROVIDER/MODEL",
    multiple=True,
    help="Serve this model under another name; '*' stands for any other name.",
)
@click.option(
    "--ensemble",
    "-e",
    "ensembles",
    metavar="E",
    shell_complete=complete_ensemble,
    multiple=True,
    help="Offer the tools of this ensemble in every request, and run them here.",
)
@approvable
@click.option("--max-turns", metavar="N", type=Number(1), help="The maximum number of model turns in one request.")
@click.option(
    "--hide-calls", is_flag=True, help="Hide calls that run here, for clients that would run every call they see."
)
@click.option("--strict", is_flag=True, help="Refuse hosted tools that have no binding, instead of warning.")
@click.option(
    "--events",
    type=click.Choice(("official", "seed")),
    help="The event names of streamed responses.  [default: official]",
)
@listening(PORT)
@click.option(
    "--workers", metavar="N", type=Number(1, 256), default=1, show_default=True, help="The number of processes."
)
@click.option("--grace", metavar="SECONDS", type=float, help="Seconds for open answers after a signal.  [default: 5]")
@click.option(
    "--key-variable",
    metavar="NAME",
    help="The environment variable with a key that clients must send. A key is required beyond this machine; "
    "`ripieno serve key` makes keys for the configuration.",
)
@click.option(
    "--allow-host", "allowed", metavar="NAME", multiple=True, help="Another host name of this machine that clients use."
)
@logged
@journaled
@common
@pass_settings
def responses(
    settings: Settings,
    /,
    *,
    approve: tuple[str, ...],
    host: str,
    port: int,
    workers: int,
    log: LogFormat | None,
    **options: Any,
) -> None:
    """Serve models over the Responses, chat completions and messages APIs.

    A request over any of these wires can be answered by a model behind any other. Options override the table [gateway].
    Tools that run here go through the usual pipeline, and no one can be asked for approval.

    \b
    Example:
      ripieno serve responses --model house/small-1
      ripieno serve responses --map '*=house/small-1' --ensemble io --workspace ~/notes
      ripieno serve responses --model house/small-1 --host 192.168.1.5 --key-variable GATEWAY_KEY --workers 2
    """
    report_starting()
    with contextlib.ExitStack() as stack:
        stack.enter_context(report_logs(settings) if log is None else log_everything(log, debug=settings.debug))
        served = _prepare(settings, approve, (host, port), log, options)
        # Closes the port also if the start fails.
        stack.enter_context(served.listener)
        code = _run(served, workers)
        if code is not None:
            say("The server has ended.")
            click.get_current_context().exit(code)


def _run(served: _Served, workers: int) -> int | None:
    """Serves until it is ended. Returns the exit code, or None in a worker, whose parent reports the end."""
    leave_input()
    names = _names(served)

    def report_ready(url: str) -> None:
        many = f" with {workers} workers" if workers > 1 else ""
        say(f"Serving {names}{many} at {url}/v1, until Ctrl-C.")

    def report_ending() -> None:
        say(f"Ending: open answers have {served.chosen.grace:g} s. Another signal ends them at once.")

    def ending(_: int) -> Reaction:
        asyncio.get_running_loop().call_later(NOTICED, report_ending)
        return "cancel"

    def end_now(number: int) -> None:
        # Remaining tools and connections end with the process, as if it were killed.
        say(_CUT)
        os._exit(exit_codes.SIGNAL + number)

    if workers > 1:
        with shared_metrics(served.chosen):
            return _serve_together(served, workers, report_ready, report_ending)
    with contextlib.suppress(Interrupted):
        run_async(_serve(served, report_ready), wake=ending, again=end_now)
    return 0


def _prepare(
    settings: Settings,
    approve: Sequence[str],
    address: tuple[str, int],
    log: LogFormat | None,
    options: Mapping[str, Any],
) -> _Served:
    """Reads everything, and binds the port without listening yet. Errors: ``InputError``."""
    from ripieno.servers.http.listeners import bind, check_exposure

    host, port = address
    loaded = approving(load_layers(settings, needs=lambda whole: _ensembles_of(whole.gateway, options)), approve)
    chosen = _choose(loaded.configuration.gateway, host, options)
    check_exposure(host, keyed=bool(chosen.keys))
    if not loaded.failures:
        # Otherwise the table may lack what could not be read, which is reported when it is assembled.
        if (fault := store_fault(chosen)) is not None:
            _, why, advice = fault
            raise InputError(f"{why}. {advice}.")
        needed = _ensembles_of(chosen, options)
        require_ensembles(loaded, needed)
        loaded = only(loaded, needed)
    # Imported once for all workers.
    importlib.import_module("ripieno.servers.gateway.application")
    return _Served(loaded=loaded, chosen=chosen, approve=approve, listener=bind(host, port), host=host, log=log)


def _ensembles_of(known: GatewayDescriptor, options: Mapping[str, Any]) -> Sequence[str]:
    """The ensembles whose tools run here."""
    hosted = (tool.partition(".")[0] for tool in known.hosted.values())
    return (*(options["ensembles"] or known.ensembles), *known.mcp, *hosted)


def _choose(known: GatewayDescriptor, host: str, options: Mapping[str, Any]) -> GatewayDescriptor:
    """The configured settings, overridden by the options. Errors: ``UsageError``, ``InputError``."""
    from ripieno.servers.http.keys import digest_of

    names = [*known.hosts, *options["allowed"]]
    if not _is_address(host):
        names.append(host)
    mapped = dict(_pair(one) for one in options["mapped"])
    given: dict[str, Any] = {
        "models": list(options["models"]) or None,
        "map": mapped or None,
        "ensembles": list(options["ensembles"]) or None,
        "max_turns": options["max_turns"],
        "show_calls": False if options["hide_calls"] else None,
        "strict": options["strict"] or None,
        "events": options["events"],
        "grace": options["grace"],
        "hosts": list(dict.fromkeys(names)),
    }
    problems = Problems(Source())
    read = GATEWAY.read_parts({name: value for name, value in given.items() if value is not None}, (), problems)
    for problem in problems.finished():
        raise click.UsageError(_MODELS.sub("--model", f"{problem.message}. {problem.hint or ''}".rstrip()))
    chosen = dataclasses.replace(known, **read)
    variable = options["key_variable"]
    key = read_key(variable)
    if key is not None:
        chosen = dataclasses.replace(chosen, keys=chosen.keys.set(variable, digest_of(key)))
    # One secret for all workers: each must accept the signatures of the others.
    return chosen if chosen.secret else dataclasses.replace(chosen, secret=secrets.token_urlsafe(32))


def _pair(option: str) -> tuple[str, str]:
    name, separator, model = option.partition("=")
    if not (name and separator and model):
        raise click.UsageError(f"--map {option} must have the form NAME=PROVIDER/MODEL, such as '*=house/small-1'.")
    return name, model


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return not host
    return True


def _names(served: _Served) -> str:
    chosen, configuration = served.chosen, served.loaded.configuration
    mapped = [f"{model} (as {'any other name' if name == '*' else name})" for name, model in chosen.map.items()]
    return ", ".join((*chosen.models, *mapped)) or configuration.model or "no model"


def _serve_together(
    served: _Served, count: int, report_ready: Callable[[str], None], report_ending: Callable[[], None]
) -> int | None:
    """Serves with several workers. Returns the exit code, or None in a worker, whose parent reports the end."""
    from ripieno.servers.http.listeners import url_of

    workers = Workers(
        count,
        served.listener,
        grace=served.chosen.grace + _CLOSING,
        complete=lambda: report_ready(url_of(served.listener, served.host)),
        lost=lambda text: say(f"! {text}"),
        ending=report_ending,
    )
    try:
        place = workers.run()
    except RuntimeError as error:
        raise InputError(f"{error} Use one worker, or start this command several times.") from error
    if not isinstance(place, Place):
        if place > exit_codes.SIGNAL:
            say(_CUT)
        return place
    with contextlib.suppress(Interrupted):
        run_async(_work(served, place))
    return None


async def _work(served: _Served, place: Any) -> None:
    loop = asyncio.get_running_loop()

    def end() -> None:
        loop.remove_reader(place.parent.fileno())
        os.kill(os.getpid(), signal.SIGTERM)

    # Systems that do not kill a worker without its parent: it ends by itself.
    loop.add_reader(place.parent.fileno(), end)
    try:
        await _serve(served, lambda _: place.tell())
    finally:
        loop.remove_reader(place.parent.fileno())


async def _serve(served: _Served, report_ready: Callable[[str], None]) -> None:
    from ripieno.conducting.observers.logs import log_runs
    from ripieno.servers.gateway.application import create_application
    from ripieno.servers.http.connections import Bounds
    from ripieno.servers.http.server import serve

    chosen = served.chosen
    bounds = Bounds(
        header_bytes=chosen.header_bytes,
        header_seconds=chosen.header_seconds,
        idle_seconds=_IDLE,
        stalled_seconds=chosen.stalled,
        connections=chosen.connections,
        grace=chosen.grace,
        farewell=_FAREWELL,
        message_bytes=chosen.body_bytes if chosen.sockets else 0,
    )
    can_wait = chosen.absent == "defer"
    confirmer = DeferredConfirmer() if can_wait else ServingConfirmer("ripieno serve responses")
    watchers = watchers_for(served.log)
    async with make_assembly(served.loaded, confirmer=confirmer, watchers=watchers) as assembly:
        check_approvals(assembly, served.approve)
        # Without tools here, the request log's line is enough.
        tracers = [one for one in watchers if one is not log_runs]
        application = create_application(assembly, settings=chosen, watchers=tracers)
        # Everything loaded so far stays: exclude it from garbage collection.
        gc.collect()
        gc.freeze()
        async with serve(application, host=served.host, listener=served.listener, bounds=bounds) as url:
            report_ready(url)
            await asyncio.Event().wait()


@click.command()
@click.option("--name", metavar="NAME", default="client", show_default=True, help="The client that gets the key.")
@common
def key(name: str) -> None:
    """Make a key for a client of `ripieno serve responses`.

    The key is printed once, on standard output, and stored nowhere. The configuration gets its digest.

    \b
    Example:
      ripieno serve key --name laptop
    """
    from ripieno.servers.http.keys import digest_of, make_key

    made = make_key()
    digest = digest_of(made)
    problems = Problems(Source())
    GATEWAY.read_parts({"keys": {name: digest}}, (), problems)
    for problem in problems.finished():
        raise click.UsageError(problem.message)
    click.echo(made)
    say(f"Add its digest to the configuration:\n  [gateway.keys]\n  {toml_line(name, digest)}")
