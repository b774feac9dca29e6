"""The contract's section 5 sleeper in Python, on FastMCP, as small as the checks allow.

It shows that `check.py` asks nothing of our server that the contract does not ask of any, and `--fault NAME` makes it
break one rule, to show that `check.py` notices. It is no example to build on: it keeps everything for ever.
"""

import argparse
import asyncio
import hashlib
import hmac
import json
import logging
import math
import os
import signal
import sys
import time
import urllib.request
import uuid
from datetime import UTC, datetime

import uvicorn
from mcp.server.fastmcp import FastMCP

FAULTS = [
    "wrong_secret",  # signs with another secret
    "reserialised",  # signs the body before it is written the way that it is sent
    "stale",  # signs with a clock that is 301 s late
    "gap",  # leaves out a seq
    "reordered",  # sends the event behind a refused one first
    "dropped_on_503",  # takes a refusal for an acknowledgement
    "new_bytes",  # writes a new event_id on the second attempt
    "other_server",  # its header names another server than its signed body
    "sorted_keys",  # sorts a trigger's keys
    "float_numbers",  # turns a trigger's integers into floats
    "fires_twice",  # ignores at-most-once
    "never_fires",  # ignores triggers
    "failed_when_cancelled",  # sends task_failed for a cancel
    "event_after_cancel",  # goes on after the cancel
    "leaks_secret",  # logs its secret
]
arguments = argparse.ArgumentParser()
arguments.add_argument("--fault", choices=FAULTS)
FAULT = arguments.parse_args().fault

mcp = FastMCP("sleeper", host="127.0.0.1")
tasks, bodies = {}, {}
URL, SECRET = os.environ["RVC_CALLBACK_URL"], os.environ["RVC_EVENT_SECRET"].encode()


def log(**fields):
    print(json.dumps(fields, ensure_ascii=False), file=sys.stderr, flush=True)


def now():
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def attempt(event):
    """Signs and posts an event once; returns whether it was acknowledged."""
    body = json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()
    timestamp = str(int(time.time()) - (301 if FAULT == "stale" else 0))
    signed = json.dumps(event).encode() if FAULT == "reserialised" else body
    secret = b"another" if FAULT == "wrong_secret" else SECRET
    tag = hmac.new(secret, timestamp.encode() + b"." + signed, hashlib.sha256).hexdigest()
    headers = {
        "Content-Type": "application/json",
        "X-RVC-Server": "walker" if FAULT == "other_server" else event["server"],
        "X-RVC-Timestamp": timestamp,
        "X-RVC-Signature": f"sha256={tag}",
    }
    try:
        urllib.request.urlopen(urllib.request.Request(URL, body, headers), timeout=10).close()
        return True
    except OSError:  # refused, unreachable or cut off
        return FAULT == "dropped_on_503"


async def deliver(line):
    """Sends one task's events in order, each until it is acknowledged."""
    while True:
        event = await line.get()
        while not await asyncio.to_thread(attempt, event):
            if FAULT == "reordered":
                await asyncio.to_thread(attempt, await line.get())
            if FAULT == "new_bytes":
                event["event_id"] = str(uuid.uuid4())
            await asyncio.sleep(0.5)


class Context:
    def __init__(self, info):
        self.info, self.seq, self.fired, self.line = info, 0, set(), asyncio.Queue()
        self.delivery = asyncio.create_task(deliver(self.line))

    def send(self, kind, payload):
        self.seq += 2 if FAULT == "gap" and self.seq == 1 else 1
        event = {"schema_version": 1, "event_id": str(uuid.uuid4()), "task_id": self.info["task_id"]}
        event |= {"server": "sleeper", "tool": "sleep_task", "type": kind, "seq": self.seq, "ts": now()}
        self.line.put_nowait(event | {"payload": payload})

    def progress(self, payload):
        self.info |= {"progress": payload, "updated_at": now()}
        self.send("progress", payload)
        for trigger in self.info["triggers"]:
            if trigger["type"] == "progress_above" and payload["percent"] >= trigger["percent"]:
                self.fire(trigger, {"percent": payload["percent"]})

    def fire(self, trigger, extra):
        if id(trigger) in self.fired and not trigger.get("repeat") and FAULT != "fires_twice":
            return
        self.fired.add(id(trigger))
        if FAULT == "sorted_keys":
            trigger = dict(sorted(trigger.items()))
        if FAULT == "float_numbers":
            trigger = {k: float(v) if type(v) is int else v for k, v in trigger.items()}
        if FAULT != "never_fires":
            self.send("trigger_fired", {"trigger": trigger} | extra)

    def end(self, state, kind=None, payload=None, **fields):
        self.info |= {"state": state, "updated_at": now()} | fields
        if kind:
            self.send(kind, payload)


async def sleep(context, duration_s, fail):
    try:
        for elapsed in range(1, math.ceil(duration_s) + 1):
            await asyncio.sleep(min(1, duration_s - elapsed + 1))
            eta = max(0, duration_s - elapsed)
            context.progress({"eta_s": eta, "percent": 100 * (duration_s - eta) / duration_s})
            for trigger in context.info["triggers"]:
                if trigger["type"] == "eta_below" and eta < trigger["seconds"]:
                    context.fire(trigger, {"eta_s": eta})
    except asyncio.CancelledError:
        failed = FAULT == "failed_when_cancelled"
        context.end("cancelled", "task_failed" if failed else None, {"error_code": "CANCELLED"})
        if FAULT == "event_after_cancel":
            for percent in range(3):
                await asyncio.sleep(0.4)
                context.progress({"eta_s": 1, "percent": percent})
        raise
    if fail:
        failure = {"error_code": "FAKE_FAILURE", "message": "The sleeper was asked to fail."}
        failure |= {"recoverable": True, "suggestions": ["retry_without_fail"]}
        context.end("failed", "task_failed", failure, failure=failure)
    else:
        context.end("succeeded", "task_done", {"result": {"slept_s": duration_s}}, result={"slept_s": duration_s})


@mcp.tool(structured_output=False)
async def sleep_task(duration_s: float, fail: bool = False, triggers: list[dict] | None = None) -> str:
    """Starts a fake long-running task that sleeps for duration_s seconds."""
    if duration_s < 0 or any("type" not in t for t in triggers or []):
        raise ValueError("a negative duration, or a trigger without a type")
    if any(t["type"] == "eta_below" and not isinstance(t.get("seconds"), int | float) for t in triggers or []):
        raise ValueError("eta_below without a number of seconds")
    info = {"task_id": f"slee-{uuid.uuid4().hex[:6]}", "server": "sleeper", "tool": "sleep_task", "state": "running"}
    info |= {"created_at": now(), "updated_at": now(), "triggers": triggers or [], "est_duration_s": duration_s}
    info |= {"progress": None, "result": None, "failure": None}
    tasks[info["task_id"]] = info
    bodies[info["task_id"]] = asyncio.create_task(sleep(Context(info), duration_s, fail))
    return json.dumps(info, separators=(",", ":"), ensure_ascii=False)


@mcp.tool(structured_output=False)
async def get_task(task_id: str) -> str:
    """Status of a long-running task. It does not start work."""
    return json.dumps(tasks.get(task_id, {"error": "not_found"}))


@mcp.tool(structured_output=False)
async def list_tasks(states: list[str] | None = None) -> str:
    """Lists long-running tasks. It does not start work."""
    valid = ["running", "succeeded", "failed", "cancelled"]
    if unknown := set(states or []) - set(valid):
        raise ValueError(f"unknown states {unknown}; valid: {valid}")
    return json.dumps({"tasks": [t for t in tasks.values() if not states or t["state"] in states]})


@mcp.tool(structured_output=False)
async def cancel_task(task_id: str) -> str:
    """Cancels a long-running task. It does not start work."""
    if task_id not in tasks:
        return json.dumps({"error": "not_found"})
    if tasks[task_id]["state"] == "running":
        bodies[task_id].cancel()
        while tasks[task_id]["state"] == "running":
            await asyncio.sleep(0.01)
    return json.dumps({"task_id": task_id, "state": tasks[task_id]["state"], "stopped": True})


async def serve():
    app = mcp.sse_app() if os.environ["MCP_TRANSPORT"] == "sse" else mcp.streamable_http_app()
    server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", int(os.environ["MCP_PORT"]), log_config=None))
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, os._exit, 0)
    path = "sse" if os.environ["MCP_TRANSPORT"] == "sse" else "mcp"
    log(message="serving", url="http://127.0.0.1:%d/%s" % (server.servers[0].sockets[0].getsockname()[1], path))
    if FAULT == "leaks_secret":
        log(message="configured", secret=SECRET.decode())
    await running


if __name__ == "__main__":
    logging.disable()  # the log is JSON lines, and none of them FastMCP's
    asyncio.run(serve())
