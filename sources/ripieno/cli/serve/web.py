"""``ripieno serve web``: a web page for conversations, on this machine."""

import asyncio
import contextlib
import dataclasses
import html
import os
import pathlib
import tempfile
from collections.abc import Generator, Sequence

import click

from ripieno.approvals.confirmers import ServingConfirmer
from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.assembly.journal import open_database
from ripieno.cli.common.assembly import ReportingAssembly
from ripieno.cli.common.completion import complete_ensemble
from ripieno.cli.common.ensembles import say_alert
from ripieno.cli.common.layers import load_layers, select_ensembles
from ripieno.cli.common.main import Interrupted, run_async, say
from ripieno.cli.common.models import require_model
from ripieno.cli.common.observers import LogFormat, log_everything, logged, watchers_for
from ripieno.cli.common.options import Settings, common, pass_settings
from ripieno.cli.common.scores import find_model
from ripieno.cli.common.terminal import has_browser, is_attended, open_page
from ripieno.cli.serve.common import leave_input, listening, read_key, report_logs, report_starting
from ripieno.conducting.paused import PausedStore
from ripieno.exceptions import InputError
from ripieno.models import Model
from ripieno.values import Value, unprinted

PORT = 8766


@unprinted("key")
class _Served(Value, kw_only=True):
    loaded: LoadedConfiguration
    host: str
    port: int
    key: str | None
    names: Sequence[str]
    opens: bool
    log: LogFormat | None


@click.command()
@click.option(
    "--model",
    "-m",
    metavar="PROVIDER/MODEL",
    help="The model of new conversations, instead of the configured one. A scripted one: score:FILE.",
)
@click.option(
    "--ensemble",
    "-e",
    "ensembles",
    metavar="E",
    shell_complete=complete_ensemble,
    multiple=True,
    help="Offer only the tools of this ensemble; by default all enabled ones.",
)
@listening(PORT)
@click.option("--no-browser", is_flag=True, help="Print the link, and open no browser.")
@click.option(
    "--key-variable",
    metavar="NAME",
    help="The environment variable with a key that opens the page in place of a printed link: URL/#code=KEY. "
    "Required beyond this machine.",
)
@click.option(
    "--allow-host", "allowed", metavar="NAME", multiple=True, help="Another host name of this machine that you use."
)
@logged
@common
@pass_settings
def web(
    settings: Settings,
    *,
    model: str | None,
    ensembles: tuple[str, ...],
    host: str,
    port: int,
    no_browser: bool,
    key_variable: str | None,
    allowed: tuple[str, ...],
    log: LogFormat | None,
) -> None:
    """Open a web page for conversations, questions, the journal and tools.

    It prints a link that signs in one browser, once, and opens it. The conversations are those of the journal: one that
    begins here can be continued with `ripieno resume`, and the other way round.

    \b
    Example:
      ripieno serve web
      ripieno serve web --no-browser --port 0
      ripieno serve web -m score:./mine.toml
      ripieno serve web --host 192.168.1.5 --key-variable WEB_KEY --allow-host box.local
    """
    from ripieno.servers.http.listeners import check_exposure

    scripted = find_model(model)
    if isinstance(scripted, Model):
        model = scripted.identity
    report_starting()
    with contextlib.ExitStack() as stack:
        stack.enter_context(report_logs(settings) if log is None else log_everything(log, debug=settings.debug))
        key = read_key(key_variable)
        check_exposure(host, keyed=key is not None)
        settings.journal = True  # The page shows what the journal has.
        loaded = select_ensembles(load_layers(settings), ensembles)
        if ensembles and loaded.configuration.durable.servers:
            raise InputError(
                "Workers conduct the runs ([durable] servers = true), with the ensembles of their own configuration: "
                "--ensemble would narrow nothing. Leave it out, or name the ensembles under [ensembles]."
            )
        if model is not None:
            chosen = dataclasses.replace(loaded.configuration, model=model)
            loaded = dataclasses.replace(loaded, configuration=chosen)
        served = _Served(
            loaded=loaded,
            host=host,
            port=port,
            key=key,
            names=allowed,
            opens=not no_browser and is_attended() and has_browser(),
            log=log,
        )
        leave_input()
        with contextlib.suppress(Interrupted):
            run_async(_serve(served))
        say("The server has ended.")


class _PageAssembly(ReportingAssembly):
    """An assembly whose models may also be scripted: ``score:FILE``."""

    def access_model(self, identity: str | None = None) -> Model:
        found = find_model(identity or self.configuration.model)
        return found if isinstance(found, Model) else super().access_model(identity)


async def _serve(served: _Served) -> None:
    from ripieno.cli.serve.cassettes import WorkspaceCassettes
    from ripieno.servers.chat.chat import Chat
    from ripieno.servers.http.hosts import Hosts
    from ripieno.servers.http.keys import Keys, digest_of
    from ripieno.servers.http.server import serve
    from ripieno.servers.web.application import create_application
    from ripieno.servers.web.sessions import Sessions

    assembly = _PageAssembly(
        served.loaded,
        confirmer=ServingConfirmer("ripieno serve web"),
        alert=say_alert,
        watchers=watchers_for(served.log),
        # Approvals that `ripieno approvals` has noted.
        grants=PausedStore(open_database(served.loaded, os.environ)).grants,
    )
    require_model(assembly, None, None, command="serve web")
    sessions = Sessions(None if served.key is None else Keys({"": digest_of(served.key)}))
    links: list[str] = []

    def offer_link() -> None:
        # One at a time: requests that guess cannot fill the terminal.
        if not sessions.has_code:
            say(f"Another link, for one browser:\n\n  {links[0]}/#code={sessions.make_code()}\n")

    async with assembly, Chat(assembly) as chat:
        application = create_application(
            assembly,
            chat,
            sessions,
            hosts=Hosts(served.names, host=served.host),
            refused=offer_link,
            cassettes=WorkspaceCassettes(served.loaded.workspace),
        )
        async with serve(application, host=served.host, port=served.port) as url:
            links.append(url)
            link = f"{url}/#code={sessions.make_code()}"
            say(f"The page is at this link, which signs in one browser, until Ctrl-C:\n\n  {link}\n")
            with opened(link) if served.opens else contextlib.nullcontext():
                await asyncio.Event().wait()


@contextlib.contextmanager
def opened(link: str) -> Generator[None, None, None]:
    """Opens a link in a browser, through a file of mode 0600: arguments of processes can be read by other users."""
    number, name = tempfile.mkstemp(prefix="ripieno-", suffix=".html")
    with open(number, "w", encoding="utf-8") as file:
        file.write(
            f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(link)}"><title>ripieno</title>\n'
        )
    try:
        open_page(pathlib.Path(name).as_uri())
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)
