"""The same conversation through others, as far as they are installed: ``pip install '.[bench]'``."""

import contextlib
import importlib.util
import json
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from typing import Any

from benchmarks.tools import NAMES, TOOLS, read

Converse = Callable[[], Awaitable[object]]


async def installed(
    url: str, stack: contextlib.AsyncExitStack, *, stream: bool
) -> AsyncGenerator[tuple[str, Converse], None]:
    """Name and conversation of each peer that can be imported. ``stack`` closes its client."""
    for name, module, make in (
        ("official SDK", "openai", _sdk),
        ("pydantic-ai", "pydantic_ai", _pydantic_ai),
        ("openai-agents", "agents", _agents),
    ):
        if importlib.util.find_spec(module) is not None:
            try:
                converse = await stack.enter_async_context(make(url, stream))
            except ImportError:
                continue
            yield name, converse


@contextlib.asynccontextmanager
async def _sdk(url: str, stream: bool) -> AsyncGenerator[Converse, None]:
    import asyncio

    import openai

    client = openai.AsyncOpenAI(api_key="k", base_url=url, max_retries=0)

    async def converse() -> None:
        messages: list[Any] = [{"role": "user", "content": "Look at everything."}]
        settings: dict[str, Any] = {"model": "m", "tools": TOOLS}
        while True:
            if stream:
                async with client.chat.completions.stream(messages=messages, **settings) as answer:
                    completion: Any = await answer.get_final_completion()
            else:
                completion = await client.chat.completions.create(messages=messages, **settings)
            message = completion.choices[0].message
            messages.append(message)
            if not message.tool_calls:
                return
            results = await asyncio.gather(*(read(json.loads(one.function.arguments)) for one in message.tool_calls))
            for one, result in zip(message.tool_calls, results, strict=True):
                messages.append({"role": "tool", "tool_call_id": one.id, "content": result})

    async with client:
        yield converse


@contextlib.asynccontextmanager
async def _pydantic_ai(url: str, stream: bool) -> AsyncGenerator[Converse, None]:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.tools import Tool
    from pydantic_ai.usage import UsageLimits

    tools = [
        Tool.from_schema(_keywords, name, "Reads lines of a file.", TOOLS[0]["function"]["parameters"])
        for name in NAMES
    ]
    agent = Agent(OpenAIChatModel("m", provider=OpenAIProvider(base_url=url, api_key="k")), tools=tools)
    limits = UsageLimits(request_limit=None)

    async def hear(_: Any, events: AsyncIterable[Any]) -> None:
        async for _event in events:
            pass

    async def converse() -> None:
        # Its run_stream stops at the first text, with most calls not run (measured).
        await agent.run("Look at everything.", usage_limits=limits, event_stream_handler=hear if stream else None)

    async with agent:
        yield converse


async def _keywords(**arguments: Any) -> str:
    return await read(arguments)


@contextlib.asynccontextmanager
async def _agents(url: str, stream: bool) -> AsyncGenerator[Converse, None]:
    import openai
    from agents import Agent, FunctionTool, OpenAIChatCompletionsModel, Runner, set_tracing_disabled

    set_tracing_disabled(True)

    async def invoke(_: Any, text: str) -> str:
        return await read(json.loads(text))

    tools: list[Any] = [
        FunctionTool(
            name=name,
            description="Reads lines of a file.",
            params_json_schema=dict(TOOLS[0]["function"]["parameters"]),
            on_invoke_tool=invoke,
            strict_json_schema=False,
        )
        for name in NAMES
    ]
    client = openai.AsyncOpenAI(api_key="k", base_url=url, max_retries=0)
    agent = Agent(name="a", tools=tools, model=OpenAIChatCompletionsModel(model="m", openai_client=client))

    async def converse() -> None:
        if stream:
            answer = Runner.run_streamed(agent, "Look at everything.", max_turns=1000)
            async for _ in answer.stream_events():
                pass
        else:
            await Runner.run(agent, "Look at everything.", max_turns=1000)

    async with client:
        yield converse
