"""Why an ensemble is not enabled or left out, and the setting that enables it."""

import json

from ripieno.assembly.configuration import LoadedConfiguration
from ripieno.assembly.trust import trust_command
from ripieno.descriptors.loading.layers import LeftOut
from ripieno.storage.places import Places
from ripieno.values import Value


class Absence(Value, kw_only=True):
    """An ensemble or a file that is left out, and why."""

    name: str
    reason: str
    file: str | None = None


def absences_of(loaded: LoadedConfiguration) -> tuple[Absence, ...]:
    """The absences before anything is connected: files that are left out, and named ensembles that are disabled."""
    left_out = [Absence(name=one.name, reason=one.reason, file=one.file) for one in loaded.left_out]
    return (*left_out, *(Absence(name=name, reason=reason) for name, reason in disabled(loaded).items()))


def disabled(loaded: LoadedConfiguration) -> dict[str, str]:
    """The ensembles that the configuration names, and that their own files disable, each with the reason."""
    whole, outlines = loaded.configuration, loaded.known.outlines
    inline = {one.name for one in whole.inline}
    names = [one for one in (*(whole.enabled or ()), *whole.include) if one in loaded.known and one not in inline]
    return {name: f"enabled = false in {outlines[name].file}." for name in names if not outlines[name].enabled}


def absence(loaded: LoadedConfiguration, name: str) -> str:
    """The reason why an ensemble is not enabled, and how to enable it. Empty for an unknown one."""
    if name in loaded.known:
        if not loaded.known.outlines[name].enabled:
            return f"Disabled: enabled = false in {loaded.known.outlines[name].file}."
        return f"Available, not enabled. {how_to_include(name)}"
    reasons = [reason_of(loaded, one) for one in loaded.left_out if one.name == name]
    return f"Not loaded: {reasons[0]}." if reasons else ""


def reason_of(loaded: LoadedConfiguration, one: LeftOut) -> str:
    """The reason why a descriptor is left out. The command in it is the one for its project's folder."""
    folder = next((layer.root for layer in loaded.layers if layer.root is not None), None)
    return one.reason if folder is None else one.reason.replace("ripieno trust", trust_command(folder))


def is_available(loaded: LoadedConfiguration, name: str) -> bool:
    """Whether an ensemble is not enabled only because nothing selects it."""
    return name in loaded.known and loaded.known.outlines[name].enabled


def how_to_include(*names: str) -> str:
    """The setting that adds ensembles, with its file."""
    them, listed = "it" if len(names) == 1 else "them", json.dumps(names, ensure_ascii=False)
    return f"To add {them}: include = {listed} under [ensembles], in {Places.of_user().file}."
