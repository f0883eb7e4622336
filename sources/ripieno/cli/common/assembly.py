"""Creation of assemblies for all commands that call tools or models."""

from collections.abc import Callable, Sequence

from ripieno.approvals import Confirmer
from ripieno.approvals.grants import Grants
from ripieno.assembly import Assembly
from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.canisters.events import Alert
from ripieno.cli.common.ensembles import Reporting, say_alert
from ripieno.cli.common.layers import load_valid_layers
from ripieno.cli.common.options import Settings
from ripieno.conducting import Watcher


class ReportingAssembly(Reporting, Assembly):
    """An assembly that reports once, on a terminal, which ensembles are slow to connect."""


def make_assembly(
    loaded: LoadedConfiguration,
    *,
    confirmer: Confirmer | None = None,
    alert: Callable[[Alert], None] | None = None,
    grants: Grants | None = None,
    watchers: Sequence[Watcher] = (),
) -> Assembly:
    """The assembly, not entered yet. By default its alerts go to standard error."""
    return ReportingAssembly(
        loaded, confirmer=confirmer, alert=say_alert if alert is None else alert, grants=grants, watchers=watchers
    )


def assembly_of(settings: Settings, *, confirmer: Confirmer | None = None) -> Assembly:
    """The assembly for a plugin's command, not entered yet. Errors: ``AssemblyFailure``."""
    return make_assembly(load_valid_layers(settings), confirmer=confirmer)
