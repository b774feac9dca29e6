"""Checks a sleeper against the contract, from outside: an MCP client and a receiver that share no code with it.

    python check.py --transport sse -- ../../target/release/examples/sleeper

It starts the server on a free port (or on `--port`), starts four tasks, polls, cancels, and compares every answer and
every event with what the contract says. Exit code 0: all of it held. It ends in under a minute whatever happens.
"""

import argparse
import asyncio
import json
import re
import sys

from client import call, call_json, connect
from receiver import Receiver
from server_process import ServerProcess

SECRET = "a secret, with ünusual bytes"

# What comes back must be these bytes: key order, integers as integers, floats as floats, text as it was.
TRIGGERS = [
    {"seconds": 1.5, "type": "eta_below", "note": "Küche ☕", "nothing": None, "0": [1, 1.0, -0.0, 0.1]},
    {"type": "progress_above", "percent": 60},
    {"type": "eta_below", "repeat": True, "seconds": 2.25},
    {"type": "not_known_here", "z": 18446744073709551615, "a": {"y": 9007199254740993, "b": 5e-324}},
]


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def same(what, found, expected):
    if found != expected:
        raise AssertionError(f"{what}:\n  found    {found}\n  expected {expected}")


def holds(what, condition):
    if not condition:
        raise AssertionError(what)


async def polled_until_end(session, task):
    """`get_task` until the task has ended: what a brain does after a gap."""
    while (info := await call_json(session, "get_task", task_id=task))["state"] == "running":
        await asyncio.sleep(0.1)
    return info


async def check_tools(session):
    """The tools are there and a model can tell status and cancel from starting work (contract sections 3.3 and 4.4)."""
    tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    # wait_task is an addition to the contract, which not every server has.
    same("the tools", sorted(tools.keys() - {"wait_task"}), ["cancel_task", "get_task", "list_tasks", "sleep_task"])
    for name in ("cancel_task", "get_task", "list_tasks"):
        holds(f"{name} says that it is for long-running tasks", "long-running" in tools[name].description)


async def check_sleep(session, receiver):
    """Three seconds of sleep with triggers: answer, polls and events, to the byte."""
    text, is_error = await call(session, "sleep_task", duration_s=3, triggers=TRIGGERS)
    holds(f"sleep_task starts: {text}", not is_error)
    holds(f"the triggers come back as they were sent: {text}", f'"triggers":{compact(TRIGGERS)}' in text)
    info = json.loads(text)
    task = info["task_id"]
    holds(f"task id {task}", re.fullmatch(r"slee-[0-9a-f]{6}", task))
    same("the started task", [info[k] for k in ("server", "tool", "state", "est_duration_s", "result", "failure")],
         ["sleeper", "sleep_task", "running", 3, None, None])
    same("get_task", (await call_json(session, "get_task", task_id=task))["state"], "running")
    running = (await call_json(session, "list_tasks", states=["running"]))["tasks"]
    holds("list_tasks lists it as running", task in [t["task_id"] for t in running])

    events = await asyncio.to_thread(receiver.wait_for_end, task)
    first, above, repeated, _ = TRIGGERS
    same("the events", [(e["type"], summary(e)) for e in events], [
        ("progress", (2, 33.3)),
        ("trigger_fired", (compact(repeated), 2)),
        ("progress", (1, 66.7)),
        ("trigger_fired", (compact(above), 1)),
        ("trigger_fired", (compact(first), 1)),
        ("trigger_fired", (compact(repeated), 1)),
        ("progress", (0, 100)),
        ("trigger_fired", (compact(repeated), 0)),
        ("task_done", {"result": {"slept_s": 3}}),
    ])
    for body, event in zip(receiver.bodies[task], events):
        if event["type"] == "trigger_fired":
            sent = compact(event["payload"]["trigger"])
            holds(f"{sent} is in the event as it was sent", f'"trigger":{sent}'.encode() in body)

    info = await polled_until_end(session, task)
    same("the ended task", [info[k] for k in ("state", "result", "failure")], ["succeeded", {"slept_s": 3}, None])
    same("its last progress", info["progress"], {"eta_s": 0, "percent": 100})


def summary(event):
    """What decides about an event, without what the contract leaves free."""
    payload = event["payload"]
    if event["type"] == "progress":
        return payload["eta_s"], round(payload["percent"], 1)
    if event["type"] == "trigger_fired":
        # progress_above is the kit's own: what it adds to the trigger is free, an eta is not asked of it.
        return compact(payload["trigger"]), payload.get("eta_s", 1)
    return payload


async def check_failure(session, receiver):
    task = (await call_json(session, "sleep_task", duration_s=1.25, fail=True))["task_id"]
    events = await asyncio.to_thread(receiver.wait_for_end, task)
    failure = {
        "error_code": "FAKE_FAILURE",
        "message": "The sleeper was asked to fail.",
        "recoverable": True,
        "suggestions": ["retry_without_fail"],
    }
    same("the failure's events", [e["type"] for e in events][-2:], ["progress", "task_failed"])
    same("the failure", events[-1]["payload"], failure)
    info = await polled_until_end(session, task)
    same("the failed task", [info[k] for k in ("state", "result", "failure")], ["failed", None, failure])


async def check_cancel(session, receiver):
    """A cancelled task ends `cancelled`, at once and for good, and sends no end event (contract section 4.2)."""
    task = (await call_json(session, "sleep_task", duration_s=600))["task_id"]
    await asyncio.to_thread(receiver.wait_for, task, len)
    for attempt in ("first", "second"):
        answer = await call_json(session, "cancel_task", task_id=task)
        same(f"the {attempt} cancel", [answer["task_id"], answer["state"]], [task, "cancelled"])
    before = len(receiver.events(task))
    ended = await call_json(session, "get_task", task_id=task)
    same("get_task", [ended[k] for k in ("state", "result", "failure")], ["cancelled", None, None])
    cancelled = (await call_json(session, "list_tasks", states=["cancelled"]))["tasks"]
    same("list_tasks", [t["task_id"] for t in cancelled], [task])
    await asyncio.sleep(2)
    events = receiver.events(task)
    same("the cancelled task's events", {e["type"] for e in events}, {"progress"})
    # Both are written in one form, so that they compare as text.
    same("its events after the cancel", [e for e in events if e["ts"] > ended["updated_at"]], [])
    # One that is being sent when the cancel is accepted cannot be recalled.
    holds(f"at most one of {len(events)} events arrives after the cancel", len(events) <= before + 1)
    done = (await call_json(session, "sleep_task", duration_s=0))["task_id"]
    await polled_until_end(session, done)
    same("cancel of a finished task", (await call_json(session, "cancel_task", task_id=done))["state"], "succeeded")


async def check_mistakes(session):
    """Wrong calls are answered in words; nothing starts and nothing breaks."""
    for tool in ("get_task", "cancel_task"):
        same(f"{tool} of an unknown id", await call_json(session, tool, task_id="slee-ffffff"), {"error": "not_found"})
    text, is_error = await call(session, "list_tasks", states=["sleeping"])
    holds(f"an unknown state is a tool error: {text}", is_error and "succeeded" in text)
    for wrong in (
        {"duration_s": -1},
        {"duration_s": 1, "triggers": [{"seconds": 1}]},
        {"duration_s": 1, "triggers": [{"type": "eta_below", "seconds": "soon"}]},
    ):
        text, is_error = await call(session, "sleep_task", **wrong)
        holds(f"{wrong} is a tool error: {text}", is_error)


async def check(server, transport, receiver):
    async with connect(server.port, transport) as session:
        await check_tools(session)
        await check_mistakes(session)
        await asyncio.gather(
            check_sleep(session, receiver), check_failure(session, receiver), check_cancel(session, receiver)
        )
        everything = (await call_json(session, "list_tasks"))["tasks"]
        same("list_tasks lists all", len(everything), 4)
        created = [t["created_at"] for t in everything]
        same("list_tasks is oldest first", created, sorted(created))


def check_stopped(server):
    """SIGTERM ends the server in order; stdout stays free for MCP, the log is JSON and holds no secret."""
    code, stdout = server.stop()
    same("the exit code after SIGTERM", code, 0)
    same("stdout", stdout, b"")
    for line in server.log:
        holds(f"a log line is a JSON object: {line}", isinstance(json.loads(line), dict))
        holds("the secret is not in the log", SECRET not in line)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--transport", choices=["sse", "streamable-http"], required=True)
    arguments.add_argument("--port", default="0")
    arguments.add_argument("command", nargs="+", help="the server and its arguments, after --")
    arguments = arguments.parse_args()

    receiver = Receiver(SECRET, refuse_second=True)
    server = ServerProcess(arguments.command, {
        "MCP_TRANSPORT": arguments.transport,
        "MCP_PORT": arguments.port,
        "RVC_CALLBACK_URL": receiver.url,
        "RVC_EVENT_SECRET": SECRET,
    })
    try:
        asyncio.run(asyncio.wait_for(check(server, arguments.transport, receiver), 25))
        check_stopped(server)
        same("the receiver's faults", receiver.faults, [])
        same("the tasks that sent a refused event again", len(receiver.refused), 2)
        print("ok:", sum(map(len, receiver.bodies.values())), "events verified, in order")
    except Exception as failure:
        while isinstance(failure, ExceptionGroup):  # the libraries' task groups wrap what was raised
            failure = failure.exceptions[0]
        sys.exit(f"failed: {failure}\nthe server's log:\n{''.join(server.log)}")
    finally:
        server.process.kill()
        receiver.close()


if __name__ == "__main__":
    main()
