"""The official extension on FastMCP's own client."""

import contextlib

from fastmcp import Client
from fastmcp_tasks import ToolTask, call_tool_task
from fastmcp_tasks.client import _send_update
from fastmcp_tasks.client_models import ClientCreateTaskResult


class Tasks:
    def __init__(self):
        self.client, self.answers = None, {}

    async def elicit(self, message, _type, params, _context):
        # The handler is not told the key; with one question there is one answer.
        (answer,) = self.answers.values()
        return answer

    def task(self, handle, **options):
        known = {"status": "working", "createdAt": "", "lastUpdatedAt": "", "resultType": "task"}
        return ToolTask(self.client, "", ClientCreateTaskResult.model_validate(known | handle), **options)

    async def call(self, tool, arguments):
        result = await self.client.call_tool(tool, arguments)
        return {"structuredContent": result.structured_content, "isError": result.is_error}

    async def start(self, tool, arguments):
        task = await call_tool_task(self.client, tool, arguments)
        return task.create_result.model_dump(by_alias=True, mode="json")

    async def get(self, handle):
        return (await self.task(handle).status()).model_dump(by_alias=True, mode="json")

    async def update(self, handle, responses):
        await _send_update(self.client.session, handle["taskId"], responses)

    async def cancel(self, handle):
        await self.task(handle).cancel()

    async def finish(self, handle):
        result = await self.task(handle, raise_on_error=False).result()
        return {"structuredContent": result.structured_content, "isError": result.is_error}


@contextlib.asynccontextmanager
async def connect(port):
    tasks = Tasks()
    async with Client(f"http://127.0.0.1:{port}/mcp", elicitation_handler=tasks.elicit) as tasks.client:
        yield tasks
