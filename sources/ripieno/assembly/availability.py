"""Why an ensemble is not enabled, and the setting that enables it."""

import json

from ripieno.assembly.configuration import LoadedConfiguration, Places


def absence(loaded: LoadedConfiguration, name: str) -> str:
    """The reason why an ensemble is not enabled, and how to enable it. Empty for an unknown one."""
    if name in loaded.known:
        if not loaded.known.outlines[name].enabled:
            return f"Disabled: enabled = false in {loaded.known.outlines[name].file}."
        return f"Available, not enabled. {how_to_include(name)}"
    reasons = [one.reason for one in loaded.left_out if one.name == name]
    return f"Not loaded: {reasons[0]}." if reasons else ""


def is_available(loaded: LoadedConfiguration, name: str) -> bool:
    """Whether an ensemble is not enabled only because nothing selects it."""
    return name in loaded.known and loaded.known.outlines[name].enabled


def how_to_include(*names: str) -> str:
    """The setting that adds ensembles, with its file."""
    them, listed = "it" if len(names) == 1 else "them", json.dumps(names, ensure_ascii=False)
    return f"To add {them}: include = {listed} under [ensembles], in {Places.of_user().file}."
