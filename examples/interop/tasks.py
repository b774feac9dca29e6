"""Drives tasks by the official extension, and watches each of them through the contract at the same time.

    python tasks.py --client fastmcp ../../target/release/examples/sleeper ../../target/release/examples/navigator

`--client` is `mcp` or `fastmcp`: whose client it is that declares the extension. The other view is a plain client of the
same server. Exit code 0: both views agreed at every step. It ends in under a minute whatever happens.
"""

import argparse
import asyncio
import importlib
import json
import sys

from client import call_json, connect
from mcp import MCPError
from server_process import ServerProcess

STATUSES = {"running": "working", "succeeded": "completed", "failed": "completed", "cancelled": "cancelled"}
FAILURE = {
    "error_code": "FAKE_FAILURE",
    "message": "The sleeper was asked to fail.",
    "recoverable": True,
    "suggestions": ["retry_without_fail"],
}
DOOR_CLOSED = {
    "error_code": "DOOR_CLOSED",
    "message": "The door to the lab is closed.",
    "recoverable": True,
    "suggestions": ["ask_reception"],
}


def same(what, found, expected):
    if found != expected:
        raise AssertionError(f"{what}:\n  found    {found}\n  expected {expected}")


def holds(what, condition):
    if not condition:
        raise AssertionError(what)


class Views:
    """One task in both views."""

    def __init__(self, tasks, plain, handle, contract_id):
        self.tasks, self.plain, self.handle, self.contract_id = tasks, plain, handle, contract_id

    @classmethod
    async def start(cls, tasks, plain, tool, **arguments):
        before = {info["task_id"] for info in (await call_json(plain, "list_tasks"))["tasks"]}
        handle = await tasks.start(tool, arguments)
        after = (await call_json(plain, "list_tasks"))["tasks"]
        (contract_id,) = [info["task_id"] for info in after if info["task_id"] not in before]
        holds(f"{handle['taskId']} cannot be guessed", contract_id not in handle["taskId"] and len(handle["taskId"]) >= 32)
        same("the handle says how long and how often", [type(handle[k]) for k in ("ttlMs", "pollIntervalMs")], [int, int])
        return cls(tasks, plain, handle, contract_id)

    async def look(self):
        """The status, after making sure that both views say the same."""
        while True:
            task = await self.tasks.get(self.handle)
            info = await call_json(self.plain, "get_task", task_id=self.contract_id)
            if (await self.tasks.get(self.handle))["status"] == task["status"]:
                break  # nothing happened between the two looks
        waiting = task["status"] == "input_required" and info["state"] == "running"
        holds(f"{task} is {info}", waiting or task["status"] == STATUSES[info["state"]])
        same("when it was created", task["createdAt"], info["created_at"])
        if task["status"] == "completed":
            said = info["failure"] or info["result"]
            same("the content", task["result"]["structuredContent"], said)
            same("the text", [json.loads(block["text"]) for block in task["result"]["content"]], [said])
            same("isError", task["result"]["isError"], info["failure"] is not None)
        return task

    async def reach(self, *statuses):
        """Looks until the task has one of these statuses, as often as it asks to be polled."""
        while (task := await self.look())["status"] not in statuses:
            holds(f"{task['status']} is on the way to {statuses}", task["status"] in ("working", "input_required"))
            await asyncio.sleep(task["pollIntervalMs"] / 1000)
        return task


async def check_success(tasks, plain, new_client):
    views = await Views.start(tasks, plain, "sleep_task", duration_s=2.5)
    same("at first", (await views.look())["status"], "working")
    await asyncio.sleep(1.2)
    message = (await views.look())["statusMessage"]
    holds(f"the message tells of the progress: {message}", any(digit in message for digit in "12"))
    async with new_client() as resumed:
        same("it is found by its id alone", (await resumed.get(views.handle))["status"], "working")
        result = await resumed.finish(views.handle)
    same("what another client got", [result["structuredContent"], result["isError"]], [{"slept_s": 2.5}, False])
    await views.reach("completed")


async def check_failure(tasks, plain):
    views = await Views.start(tasks, plain, "sleep_task", duration_s=0.2, fail=True)
    result = await tasks.finish(views.handle)
    same("the failure", [result["structuredContent"], result["isError"]], [FAILURE, True])
    await views.reach("completed")


async def check_cancel(tasks, plain):
    views = await Views.start(tasks, plain, "sleep_task", duration_s=600)
    await tasks.cancel(views.handle)
    await views.reach("cancelled")
    await tasks.cancel(views.handle)  # a second time changes nothing
    same("after the second cancel", (await views.look())["status"], "cancelled")
    views = await Views.start(tasks, plain, "sleep_task", duration_s=600)
    cancelled = await call_json(plain, "cancel_task", task_id=views.contract_id)
    same("the contract's cancel", cancelled["state"], "cancelled")
    same("is the extension's too", (await views.look())["status"], "cancelled")


async def check_unknown(tasks):
    for handle in ({"taskId": "00000000-0000-4000-8000-000000000000"}, {"taskId": "slee-7f3a2b"}):
        for request in (tasks.get, tasks.cancel):
            try:
                answer = await request(handle)
            except MCPError as error:
                same("the code for an unknown id", error.error.code, -32602)
            else:
                raise AssertionError(f"{handle} is found: {answer}")


async def check_ordinary_call(tasks):
    """A program that knows nothing of tasks calls a tool, and its library does the rest."""
    result = await tasks.call("sleep_task", {"duration_s": 0.3})
    same("an ordinary call", [result["structuredContent"], result["isError"]], [{"slept_s": 0.3}, False])


async def check_question(tasks, plain):
    tasks.answers = {"door": {"way": "give_up"}}
    views = await Views.start(tasks, plain, "navigate_to", place="lab")
    (question,) = (await views.reach("input_required"))["inputRequests"].items()
    same("the key", question[0], "door")
    holds(f"the question is a form: {question[1]}", "closed" in question[1]["params"]["message"])
    result = await tasks.finish(views.handle)
    same("giving up", [result["structuredContent"], result["isError"]], [DOOR_CLOSED, True])
    await views.reach("completed")

    views = await Views.start(tasks, plain, "navigate_to", place="lab")
    await views.reach("input_required")
    try:
        await tasks.update(views.handle, {"door": {"action": "accept", "content": {"way": "climb"}}})
    except MCPError as error:
        same("the code for an answer that was no choice", error.error.code, -32602)
    same("it still asks", (await views.look())["status"], "input_required")
    await tasks.update(views.handle, {"door": {"action": "accept", "content": {"way": "wait"}}})
    await asyncio.sleep(1.5)
    driving = await views.reach("working")
    holds(f"it drives: {driving}", driving["statusMessage"])
    await tasks.cancel(views.handle)
    await views.reach("cancelled")


async def check_sleeper(connect_tasks, server):
    async with connect(server.port, "streamable-http") as plain, connect_tasks(server.port) as tasks:
        await asyncio.gather(check_success(tasks, plain, lambda: connect_tasks(server.port)), check_unknown(tasks))
        await check_failure(tasks, plain)
        await check_cancel(tasks, plain)
        await check_ordinary_call(tasks)


async def check_navigator(connect_tasks, server):
    async with connect(server.port, "streamable-http") as plain, connect_tasks(server.port) as tasks:
        await check_question(tasks, plain)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--client", choices=["fastmcp", "mcp"], required=True)
    arguments.add_argument("sleeper")
    arguments.add_argument("navigator")
    arguments = arguments.parse_args()

    connect_tasks = importlib.import_module(f"tasks_{arguments.client}").connect
    for program, check in ((arguments.sleeper, check_sleeper), (arguments.navigator, check_navigator)):
        server = ServerProcess([program], {"MCP_TRANSPORT": "streamable-http", "MCP_PORT": "0"})
        try:
            asyncio.run(asyncio.wait_for(check(connect_tasks, server), 25))
            same("the exit code after SIGTERM", server.stop()[0], 0)
        except Exception as failure:
            while isinstance(failure, ExceptionGroup):  # the libraries' task groups wrap what was raised
                failure = failure.exceptions[0]
            sys.exit(f"failed: {failure!r}\nthe server's log:\n{''.join(server.log)}")
        finally:
            server.process.kill()
    print("ok")


if __name__ == "__main__":
    main()
