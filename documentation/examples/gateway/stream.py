"""Streams answers of a gateway with the official client, and runs the tool that the model calls.

::

    OPENAI_BASE_URL=http://127.0.0.1:8080/v1 OPENAI_API_KEY=none python stream.py "Is it raining in Wien?"
"""

import json
import os
import sys
from typing import Any

import openai

MODEL = os.environ.get("MODEL", "small-1")
TOOLS: list[Any] = [
    {
        "type": "function",
        "name": "get_weather",
        "description": "The weather of a city, now.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
        "strict": True,
    }
]


def get_weather(city: str) -> str:
    """A tool of this program. What it says could come from anywhere."""
    return json.dumps({"city": city, "sky": "rain", "celsius": 9}, ensure_ascii=False)


def main(question: str) -> None:
    """Asks, and answers calls with results, until the model calls nothing more."""
    client = openai.OpenAI()
    # Nothing is stored behind the gateway: the whole conversation comes along each time.
    said: list[Any] = [{"role": "user", "content": question}]
    while True:
        with client.responses.stream(model=MODEL, input=said, tools=TOOLS, store=False) as stream:
            for event in stream:
                if event.type == "response.output_text.delta":
                    print(event.delta, end="", flush=True)
                elif event.type == "response.output_text.done":
                    print()
            # The helper has put it together from the events.
            response = stream.get_final_response()
        # The gateway may have tools of its own: calls whose results are there have run.
        done = {item.call_id for item in response.output if item.type == "function_call_output"}
        calls = [item for item in response.output if item.type == "function_call" and item.call_id not in done]
        if not calls:
            return
        # What the model said stays as it was said, its identifiers too; then one result for each call.
        said += response.output
        for call in calls:
            print(f"> {call.name} {call.arguments}")
            result = get_weather(**json.loads(call.arguments))
            said.append({"type": "function_call_output", "call_id": call.call_id, "output": result})


if __name__ == "__main__":
    main(sys.argv[1])
