"""What the descriptors name: an asynchronous function, and a plain one."""

import asyncio
import hashlib
from typing import Any

from ripieno.plugin import Context, ResourceFault

_CONDITIONS = ("clear", "partly cloudy", "overcast", "rain", "snow")


async def get_weather(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """The weather of one place. JSON is a result; so is a string."""
    city = arguments["city"]
    if city.casefold() == "atlantis":
        # A fault is for the model to read: what is wrong, and what to try.
        raise ResourceFault(f"{city} is under water.", suggestion="Ask for a city that has weather.")
    context.progress(1, 2, f"looking at the sky over {city}")
    await asyncio.sleep(0)
    digest = hashlib.sha256(city.casefold().encode()).digest()
    celsius = digest[0] % 35 - 5
    unit = arguments["unit"]
    temperature = celsius if unit == "celsius" else round(celsius * 9 / 5 + 32)
    return {"city": city, "temperature": temperature, "unit": unit, "conditions": _CONDITIONS[digest[1] % 5]}


def compare_cities(context: Context, arguments: dict[str, Any]) -> str:
    """Which of several places is the warmest. A plain function runs in a thread of its own."""
    counted = context.namespace["comparisons"] = context.namespace.get("comparisons", 0) + 1
    warmest = max(arguments["cities"], key=lambda city: hashlib.sha256(city.casefold().encode()).digest()[0] % 35)
    return f"{warmest} is the warmest of {len(arguments['cities'])} (comparison {counted} of this conversation)."
