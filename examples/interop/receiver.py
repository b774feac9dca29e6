"""A receiver of signed events, with the standard library only.

It is written from the contract's document alone, so that it agrees with our libraries only where both agree with the
contract. By hand: `python receiver.py 8000 the-secret` prints each event as it comes, with its verdict.
"""

import hashlib
import hmac
import json
import re
import sys
import threading
import time
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ENVELOPE = ["schema_version", "event_id", "task_id", "server", "tool", "type", "seq", "ts", "payload"]
TYPES = {"progress", "trigger_fired", "task_done", "task_failed", "watch_event"}
UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def signature_fault(secret, headers, body, now):
    """What is wrong with the request's three headers, or None (contract section 3.1)."""
    values = {}
    for name in ("X-RVC-Server", "X-RVC-Timestamp", "X-RVC-Signature"):
        found = headers.get_all(name, [])
        if len(found) != 1:
            return f"{len(found)} headers {name}"
        values[name] = found[0]
    timestamp = values["X-RVC-Timestamp"]
    if not re.fullmatch(r"0|[1-9][0-9]*", timestamp):
        return f"bad timestamp {timestamp!r}"
    if abs(now - int(timestamp)) > 300:
        return f"stale: signed at {timestamp}, now {int(now)}"
    tag = hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(f"sha256={tag}", values["X-RVC-Signature"]):
        return "the signature does not match"
    return None


def envelope_fault(event, server):
    """What is wrong with the event's envelope, or None (contract section 3.1, contract decisions 1 to 4)."""
    if list(event) != ENVELOPE:
        return f"fields {list(event)}"
    if event["schema_version"] != 1 or event["type"] not in TYPES or not isinstance(event["payload"], dict):
        return "schema_version, type or payload"
    if event["server"] != server:
        return f"the header says {server!r}, the signed body {event['server']!r}"
    if not UUID4.fullmatch(event["event_id"]):
        return f"event_id {event['event_id']!r}"
    if not TIMESTAMP.fullmatch(event["ts"]) or datetime.fromisoformat(event["ts"]).utcoffset() is None:
        return f"ts {event['ts']!r}"
    return None


class Receiver:
    """Listens on `port` (0: a free one), keeps every event and every fault.

    With `refuse_second`, the first delivery of each task's second event is answered 503: the sender must send the same
    event again, signed anew, and hold back what comes after it.
    """

    def __init__(self, secret, port=0, refuse_second=False, on_event=None):
        self.secret = secret.encode()
        self.refuse_second = refuse_second
        self.on_event = on_event
        self.bodies = {}  # task_id -> raw bodies, in order of arrival, each once
        self.faults = []
        self.refused = {}  # task_id -> the body that was answered 503
        self.duplicates = 0
        self.changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # connections are kept alive

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver.accept(self.headers, body)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}/api/agent/events"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def accept(self, headers, body):
        """Verifies and stores one delivery; returns the HTTP status of the answer."""
        with self.changed:
            status, fault = self.judge(headers, body)
            if fault:
                self.faults.append(f"{fault} in {body[:300]!r}")
            if self.on_event:
                self.on_event(fault or ("refused once" if status == 503 else "verified"), body)
            self.changed.notify_all()
            return status

    def judge(self, headers, body):
        if fault := signature_fault(self.secret, headers, body, time.time()):
            return 401, fault
        if headers.get("Content-Type") != "application/json":
            return 400, f"Content-Type {headers.get('Content-Type')!r}"
        event = json.loads(body)
        if fault := envelope_fault(event, headers["X-RVC-Server"]):
            return 400, fault
        task, seq = event["task_id"], event["seq"]
        known = self.bodies.setdefault(task, [])
        if body in known:  # at least once: the same event again is no fault
            self.duplicates += 1
            return 200, None
        if seq != len(known) + 1:
            return 200, f"seq {seq} of {task} came after {len(known)}"
        if self.refuse_second and seq == 2 and task not in self.refused:
            self.refused[task] = body
            return 503, None
        known.append(body)
        if seq == 2 and self.refuse_second and body != self.refused[task]:
            return 200, f"the second attempt for {task} is not the first one's bytes"
        return 200, None

    def events(self, task):
        """The events of one task, in order."""
        with self.changed:
            return [json.loads(body) for body in self.bodies.get(task, [])]

    def wait_for(self, task, enough, timeout=20.0):
        """Waits until `enough(events)` of the task holds, then returns them. Any fault ends the wait."""

        def over():
            return self.faults or enough(self.events(task))

        with self.changed:
            in_time = self.changed.wait_for(over, timeout)
            if self.faults:
                raise AssertionError("; ".join(self.faults))
            if not in_time:
                raise AssertionError(f"not enough events of {task} within {timeout} s: {self.bodies.get(task)}")
            return self.events(task)

    def wait_for_end(self, task):
        """Waits for the task's end, then returns its events."""
        return self.wait_for(task, lambda events: events and events[-1]["type"] in ("task_done", "task_failed"))

    def close(self):
        self.http.shutdown()
        self.http.server_close()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: receiver.py PORT SECRET")
    print_event = lambda verdict, body: print(verdict, body.decode(errors="replace"), flush=True)
    print(Receiver(sys.argv[2], int(sys.argv[1]), on_event=print_event).url, flush=True)
    threading.Event().wait()
