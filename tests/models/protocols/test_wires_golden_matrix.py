"""The matrix of golden scenarios: scenario, protocol, half and mode, with no hole. ``pytest -s`` shows the table."""

from collections.abc import Iterator

from tests.models.protocols.test_wires_golden import MORE, NAMES
from tests.support.golden_wires import PROTOCOLS, Scenario, load

#: Client whole, client streamed, server whole, server streamed.
_COLUMNS = ("cw", "cs", "sw", "ss")


def cells(scenario: Scenario) -> Iterator[str]:
    """For each half and mode: tested, or impossible on this wire. A request has no modes: it is written, and read."""
    if "request" in scenario.expected:
        yield from ("yes", "yes", "yes", "yes")
        return
    for half in ("client", "server"):
        for mode, kind in (("whole", "json"), ("stream", "sse")):
            expected = scenario.expectation(mode) if half == "client" else scenario.expectation("served")
            if half == "server" and mode == "whole":
                expected = expected.get("whole", expected)
            if "impossible" in expected:
                assert expected["impossible"], f"{scenario.name}: why?"
                yield "-"
            else:
                assert half == "server" or scenario.has(kind), f"{scenario.protocol.name}/{scenario.name}.{kind}"
                yield "yes"


def test_no_cell_is_empty() -> None:
    found = {(one.protocol.name, one.name): list(cells(one)) for name in PROTOCOLS for one in load(name)}
    print(f"\n{'':34}" + "".join(f"{name:<18}" for name in PROTOCOLS))
    print(f"{'scenario':34}" + "".join(f"{' '.join(f'{one:3}' for one in _COLUMNS):<18}" for _ in PROTOCOLS))
    for scenario in sorted(NAMES):
        row = [found[protocol, scenario] for protocol in PROTOCOLS]
        print(f"{scenario:34}" + "".join(f"{' '.join(f'{cell:3}' for cell in of):<18}" for of in row))
        assert all(len(of) == len(_COLUMNS) for of in row)
        # A scenario that no wire can have is none.
        assert sum("yes" in of for of in row) > 1, scenario
    for protocol, own in MORE.items():
        for scenario in sorted(own):
            print(f"{scenario:34}{protocol}: {' '.join(found[protocol, scenario])}")
            assert "yes" in found[protocol, scenario]
