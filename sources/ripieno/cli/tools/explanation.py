"""Messages for a person about a call without a good result. The pipeline's messages are for a model."""

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.approvals import Confirmer, RulesConfirmer
from ripieno.approvals.allowances import Allowances
from ripieno.approvals.rules import Verdict
from ripieno.assembly.configuration import LoadedConfiguration, prefix_of
from ripieno.canisters import ResultCanister
from ripieno.canisters.controls import Rules
from ripieno.canisters.faults import SUGGESTIONS
from ripieno.cli.check.functions import resolve_functions
from ripieno.cli.common.findings import PARTS, exposed_names
from ripieno.cli.common.user_code import place_of_error
from ripieno.descriptors.names import unprefixed
from ripieno.ensembles import Invoker
from ripieno.ensembles.owner import reason
from ripieno.exceptions import ConfigurationInvalidity, InputError, nearest
from ripieno.execution import Circumstances
from ripieno.execution.approval import Judge
from ripieno.jsonvalues import EMPTY, is_table
from ripieno.storage.places import Places
from ripieno.values import Value


class Called(Value, kw_only=True):
    """The outcome of a call. ``arguments`` are those that were judged; ``remarks`` are for people.

    ``bug`` is an exception of the tool that is no fault.
    """

    result: ResultCanister
    invoker: Invoker
    arguments: Mapping[str, Any] = EMPTY
    bug: BaseException | None = None
    remarks: tuple[str, ...] = ()


def explain(called: Called, loaded: LoadedConfiguration, confirmer: Confirmer, *, debug: bool) -> str:
    """The message for a call whose result is an error.

    Errors: ``ConfigurationInvalidity`` for a function that does not exist.
    """
    fault = called.result.error
    if fault is None:
        return ""
    if called.bug is not None:
        return _explain_bug(called.bug, called.invoker, loaded, debug=debug)
    if fault.category == "denied":
        return _explain_denial(called, loaded.configuration.confirmation, confirmer)
    if "parameters" in fault.details:
        # The pipeline's advice is for a model.
        fault = dataclasses.replace(fault, suggestion=f"See: ripieno explain {called.invoker.identity}")
    if "timeout_seconds" in fault.details:
        # The general advice is for a model; that of a tool may be a warning.
        advice = None if fault.suggestion == SUGGESTIONS["timeout"] else fault.suggestion
        lines = filter(None, (advice, _limit(called.invoker, loaded)))
        fault = dataclasses.replace(fault, suggestion="\n".join(lines))
    return fault.text()


def _limit(invoker: Invoker, loaded: LoadedConfiguration) -> str:
    """Where the time limit of a tool is set."""
    policy, descriptor = invoker.policy, loaded.known[invoker.ensemble.name]
    if policy.timeout_argument is not None and policy.timeout_argument not in policy.presets:
        return f"To allow more time, add: {policy.timeout_argument}=SECONDS"
    file, table = descriptor.file, f"[overrides.{invoker.name}]"
    for declared, path in descriptor.located():
        if declared.name == invoker.name:
            file, table = declared.file, "[[invokers]]" if path else "[invoker]"
    where = file or "the configuration"
    return f"The limit is timeout (seconds, now {policy.timeout:g}) of {invoker.name} under {table}, in {where}."


def unknown_arguments(arguments: Mapping[str, object], called: Called) -> tuple[str, ...]:
    """A line for each argument that the tool's schema does not name, unless the result reports it."""
    schema = called.invoker.arguments_schema
    properties = schema.get("properties")
    known: Sequence[str] = tuple(properties) if is_table(properties) else ()
    if not PARTS.isdisjoint(schema):
        return ()
    fault = called.result.error
    reported = "" if fault is None else fault.text()
    others = schema.get("additionalProperties")
    lines: list[str] = []
    for name in arguments:
        if name in known or f"`{name}`" in reported:
            continue
        near = nearest(name, known, 1)
        if not near and others is not None and others is not False:
            # The tool accepts other arguments, and this one resembles none of the named ones.
            continue
        advice = f"Did you mean {near[0]}?" if near else f"Known arguments: {', '.join(known) or 'none'}."
        kind = "Error" if fault is not None and fault.category == "validation" else "Warning"
        lines.append(f"{kind}: unknown argument {name}. {advice}")
    return tuple(lines)


def _explain_bug(bug: BaseException, invoker: Invoker, loaded: LoadedConfiguration, *, debug: bool) -> str:
    place = place_of_error(bug)
    if place is None:
        # No code of the tool was running: its descriptor may name a missing function.
        descriptor = loaded.known[invoker.ensemble.name]
        problems = resolve_functions([descriptor], only=invoker.name)
        if problems:
            raise ConfigurationInvalidity(problems)
    at = f", at {place}" if place is not None else ""
    lines = [f"Error: {invoker.identity} failed with {reason(bug)}{at}", "This is a bug in the tool."]
    return "\n".join(lines) if debug else f"{lines[0]}\n{lines[1]} For the traceback, run it again with --debug."


def _explain_denial(called: Called, rules: Rules, confirmer: Confirmer) -> str:
    identity = called.invoker.identity
    verdict = _judge(called, rules)
    if verdict.action == "deny":
        return (
            f"Error: {identity} was denied and did not run: {verdict.reason}.\n"
            "--yes does not override this. To allow the call, remove the rule."
        )
    if not isinstance(confirmer, RulesConfirmer):
        return f"Error: {identity} was denied at the terminal and did not run."
    lines = [
        f"Error: {identity} was denied and did not run: it needs approval ({verdict.reason}), and there is no "
        "terminal to ask at.",
        "To approve this one call, add --yes.",
    ]
    # A call that always asks is not covered by a rule.
    if _judge(called, dataclasses.replace(rules, approve=(identity,))).action == "run":
        file = Places.of_user().file
        lines.append(f'To approve all its calls: approve = ["{identity}"] under [confirmation], in {file}.')
    return "\n".join(lines)


def _judge(called: Called, rules: Rules) -> Verdict:
    return Judge(rules, Allowances()).judge(called.invoker, dict(called.arguments), Circumstances())


def suggest_tool(
    text: str, pairs: Sequence[str], loaded: LoadedConfiguration, *, command: str = "invoke"
) -> InputError:
    """The error for a tool that was named without its ensemble, with the probable command."""
    names: dict[str, str] = {}
    for descriptor in loaded.ensembles:
        tool = unprefixed(text, prefix_of(descriptor))
        if tool is not None:
            names[text] = f"{descriptor.name}.{tool}"
        for _, invoker, exposed in exposed_names(descriptor):
            names.setdefault(invoker.name, f"{descriptor.name}.{invoker.name}")
            names.setdefault(exposed, f"{descriptor.name}.{invoker.name}")
    if text in loaded.known:
        advice = f"{text!r} is an ensemble. To list its tools: ripieno tools --ensemble {text}"
    elif near := ([text] if text in names else nearest(text, names)):
        commands = dict.fromkeys(shlex.join(["ripieno", command, names[one], *pairs]) for one in near)
        advice = f"Did you mean: {' or '.join(commands)}"
    else:
        advice = "To list the full names: ripieno tools"
    return InputError(f"{text!r} is not a full name of a tool (ENSEMBLE.TOOL, such as io.read_file). {advice}")
