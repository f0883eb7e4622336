"""What a client says was said, read: calls get identifiers where they have none, and results find their calls."""

from collections.abc import Mapping, Sequence
from typing import Any

from ripieno.canisters import AssistantCanister, Canister, Content, UserCanister
from ripieno.exceptions import InputError
from ripieno.protocols.asking import table_in
from ripieno.protocols.gemini.invocations import invocation_of, is_identifier, result_of
from ripieno.protocols.gemini.parts import contents_of


class Reading:
    """The canisters so far, and the calls that have no result yet."""

    def __init__(self) -> None:
        self.canisters: list[Canister] = []
        #: Identifiers of all calls; and those without a result, with their names, in the model's order.
        self._taken: set[str] = set()
        self._waiting: dict[str, str] = {}

    def hear_user(self, parts: Sequence[Mapping[str, Any]]) -> None:
        """The user's parts, results among them. Errors: ``InputError``."""
        contents: list[Content] = []
        results: list[Canister] = []
        for part in parts:
            if part.get("functionResponse") is None:
                contents.extend(contents_of(part))
                continue
            response = table_in(part, "functionResponse")
            if contents:
                results.append(UserCanister(content=tuple(contents)))
                contents.clear()
            results.append(result_of(response, self._answered(response)))
        if contents or not results:
            results.append(UserCanister(content=tuple(contents)))
        self.canisters += results

    def hear_model(self, parts: Sequence[Mapping[str, Any]]) -> None:
        """The model's parts, calls among them. Errors: ``InputError``."""
        contents: list[Content] = []
        spoken: list[Canister] = []
        calls = 0
        for part in parts:
            if part.get("functionCall") is None:
                contents.extend(contents_of(part))
                continue
            call = table_in(part, "functionCall")
            identifier = self._settled(call.get("id"), calls)
            calls += 1
            if contents or not spoken:
                # Calls stand after an assistant's canister, as in answers: an empty one when it only invokes.
                spoken.append(AssistantCanister(content=tuple(contents)))
                contents.clear()
            invocation = invocation_of(part, identifier)
            self._waiting[identifier] = invocation.name
            spoken.append(invocation)
        if contents or not spoken:
            spoken.append(AssistantCanister(content=tuple(contents)))
        self.canisters += spoken

    def _settled(self, given: object, number: int) -> str:
        """The identifier of a call: its own, or one that depends on its place alone."""
        settled = str(given) if is_identifier(given) else f"call_{len(self.canisters)}_{number}"
        while settled in self._taken and not is_identifier(given):
            settled += "_"
        self._taken.add(settled)
        return settled

    def _answered(self, response: Mapping[str, Any]) -> str:
        """The identifier of the call that a result belongs to: its own, or the next call of its name."""
        given = response.get("id")
        if is_identifier(given):
            self._waiting.pop(str(given), None)
            return str(given)
        name = response.get("name")
        found = next((one for one, called in self._waiting.items() if called == name), None)
        if found is None:
            raise InputError(f"A functionResponse of {name!r} has no id, and no call of that name waits for it.")
        del self._waiting[found]
        return found
