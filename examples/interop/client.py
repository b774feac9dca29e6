"""Connects to a capability server as a deployed brain does, with whichever `mcp` is installed here."""

import contextlib
import importlib.metadata
import json

MAJOR = int(importlib.metadata.version("mcp").split(".")[0])


@contextlib.asynccontextmanager
async def connect(port, transport):
    """A session with `list_tools` and `call_tool`, over `sse` or `streamable-http`."""
    from mcp.client.sse import sse_client

    base = f"http://127.0.0.1:{port}"
    if MAJOR == 1:
        from mcp import ClientSession
        from mcp.client.streamable_http import streamablehttp_client

        opened = sse_client(f"{base}/sse") if transport == "sse" else streamablehttp_client(f"{base}/mcp")
        async with opened as (read, write, *_), ClientSession(read, write) as session:
            await session.initialize()
            yield session
    else:
        from mcp import Client

        async with Client(sse_client(f"{base}/sse") if transport == "sse" else f"{base}/mcp") as client:
            yield client


async def call(session, tool, **arguments):
    """Calls a tool; returns the text of its only block and whether it is an error."""
    result = await session.call_tool(tool, arguments)
    if len(result.content) != 1 or result.content[0].type != "text":
        raise AssertionError(f"{tool} answered {result.content}")
    return result.content[0].text, bool(result.isError if MAJOR == 1 else result.is_error)


async def call_json(session, tool, **arguments):
    """Calls a tool that must succeed; returns its JSON."""
    text, is_error = await call(session, tool, **arguments)
    if is_error:
        raise AssertionError(f"{tool} {arguments} failed: {text}")
    return json.loads(text)
