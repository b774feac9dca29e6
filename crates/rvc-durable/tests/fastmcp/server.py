"""FastMCP 4.1.4 with its tasks in memory, on streamable HTTP.

The arguments are the port, and for how many seconds tasks are kept after their end, if not for
FastMCP's 15 minutes.
"""

import asyncio
import functools
import sys
from datetime import timedelta

from docket import Docket
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

if len(sys.argv) > 2:
    # FastMCP has no setting for it.
    kept = timedelta(seconds=float(sys.argv[2]))
    Docket.__init__ = functools.partialmethod(Docket.__init__, execution_ttl=kept)

mcp = FastMCP("peer")
mcp.add_extension(TasksExtension(url="memory://"))
task = TaskConfig(mode="optional")


@mcp.tool(task=task)
async def slow(seconds: float) -> dict:
    await asyncio.sleep(seconds)
    return {"slept_s": seconds}


@mcp.tool(task=task)
async def failing() -> str:
    await asyncio.sleep(0.1)
    raise ToolError("no door")


@mcp.tool(task=task)
async def asking(ctx: Context):
    if not ctx.input_responses:
        schema = {"type": "object", "properties": {"value": {"type": "boolean"}}}
        params = ElicitRequestFormParams(message="sure?", requested_schema=schema)
        return InputRequiredResult(input_requests={"confirm": ElicitRequest(params=params)})
    return ctx.input_responses["confirm"].action


@mcp.tool
def plain() -> str:
    return "now"


mcp.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
