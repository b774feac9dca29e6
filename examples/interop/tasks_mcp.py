"""The official extension on `mcp` 2.3, which leaves the tasks to its users: the smallest client that can be."""

import asyncio
import contextlib
from typing import Any, Literal

import mcp_types as types
from mcp import Client
from mcp.client.extension import ClientExtension, ResultClaim
from pydantic import ConfigDict, Field, TypeAdapter

ANSWER = TypeAdapter(dict[str, Any])


class Created(types.Result):
    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"] = Field(alias="resultType")


class GetTask(types.Request[dict[str, Any], Literal["tasks/get"]]):
    name_param = "taskId"
    method: Literal["tasks/get"] = "tasks/get"


class UpdateTask(types.Request[dict[str, Any], Literal["tasks/update"]]):
    name_param = "taskId"
    method: Literal["tasks/update"] = "tasks/update"


class CancelTask(types.Request[dict[str, Any], Literal["tasks/cancel"]]):
    name_param = "taskId"
    method: Literal["tasks/cancel"] = "tasks/cancel"


class Extension(ClientExtension):
    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self):
        self.tasks = None

    def claims(self):
        return (ResultClaim(result_type="task", model=Created, resolve=self.resolve),)

    async def resolve(self, created, _context):
        result = await self.tasks.finish(created.model_dump(by_alias=True))
        return types.CallToolResult.model_validate(result)


class Tasks:
    def __init__(self, client):
        self.session, self.client, self.answers = client.session, client, {}

    async def call(self, tool, arguments):
        result = await self.client.call_tool(tool, arguments)
        return result.model_dump(by_alias=True, mode="json")

    async def start(self, tool, arguments):
        created = await self.session.call_tool(tool, arguments, allow_claimed=True)
        if not isinstance(created, Created):
            raise AssertionError(f"{tool} did not start a task: {created}")
        return created.model_dump(by_alias=True, mode="json")

    async def get(self, handle):
        return await self.session.send_request(GetTask(params={"taskId": handle["taskId"]}), ANSWER)

    async def update(self, handle, responses):
        params = {"taskId": handle["taskId"], "inputResponses": responses}
        await self.session.send_request(UpdateTask(params=params), ANSWER)

    async def cancel(self, handle):
        await self.session.send_request(CancelTask(params={"taskId": handle["taskId"]}), ANSWER)

    async def finish(self, handle):
        """Polls to the end, and answers on the way; the tool's result."""
        while (task := await self.get(handle))["status"] != "completed":
            if task["status"] == "input_required":
                responses = {k: {"action": "accept", "content": self.answers[k]} for k in task["inputRequests"]}
                await self.update(handle, responses)
            elif task["status"] != "working":
                raise AssertionError(f"it has no result: {task}")
            else:
                await asyncio.sleep(task["pollIntervalMs"] / 1000)
        return task["result"]


async def never(_context, _params):
    raise AssertionError("tasks ask by tasks/get, not by a request")


@contextlib.asynccontextmanager
async def connect(port):
    extension = Extension()
    # That there is a callback says that this client takes forms.
    client = Client(f"http://127.0.0.1:{port}/mcp", extensions=[extension], elicitation_callback=never)
    async with client:
        extension.tasks = Tasks(client)
        yield extension.tasks
