"""The contract's section 7, word for word. `python section7.py target/release/examples/sleeper` runs

    MCP_TRANSPORT=sse MCP_PORT=9100 target/release/examples/sleeper

or the same with the next port that is free, where another program has 9100: the server says that it cannot listen. It is
run with RVC_CALLBACK_URL pointed first at what `nc -l` is (it reads, answers nothing and closes), then at an echo server.
The event that `nc` swallowed must come again, and all of them signed and in order.
"""

import asyncio
import json
import socket
import sys
from email.parser import BytesHeaderParser
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from time import time

from check import same
from client import call_json, connect
from receiver import signature_fault
from server_process import ServerProcess

SECRET = "section-7"


def nc(listener):
    """Takes one connection, reads one request from it, closes. Returns its request line, headers and body."""
    connection, _ = listener.accept()
    connection.settimeout(10)
    with connection, connection.makefile("rb") as stream:
        request_line = stream.readline()
        headers = BytesHeaderParser().parsebytes(b"".join(iter(stream.readline, b"\r\n")))
        return request_line, headers, stream.read(int(headers["Content-Length"]))


def echo_server(listener, received):
    """Answers each POST to the listener with its own body."""

    class Echo(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.headers, body))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = HTTPServer(listener.getsockname(), Echo, bind_and_activate=False)
    server.socket.close()
    # The one that `nc` had, so that no other program can get its port in between.
    server.socket = listener
    listener.settimeout(None)
    Thread(target=server.serve_forever, daemon=True).start()


async def run(server, listener, received):
    async with connect(server.port, "sse") as session:
        task = (await call_json(session, "sleep_task", duration_s=3, triggers=[{"type": "eta_below", "seconds": 2}]))["task_id"]
        request_line, headers, swallowed = await asyncio.to_thread(nc, listener)
        same("the request line", request_line, b"POST /events HTTP/1.1\r\n")
        same("the first event's signature fault", signature_fault(SECRET.encode(), headers, swallowed, time()), None)
        echo_server(listener, received)
        while (await call_json(session, "get_task", task_id=task))["state"] == "running":
            await asyncio.sleep(0.1)
        while not received or json.loads(received[-1][1])["type"] != "task_done":
            await asyncio.sleep(0.1)

    same("the faults", [f for h, b in received if (f := signature_fault(SECRET.encode(), h, b, time()))], [])
    same("the event that nc swallowed comes again", received[0][1], swallowed)
    events = [json.loads(body) for _, body in received]
    same("the events", [(e["seq"], e["type"]) for e in events],
         list(enumerate(["progress", "progress", "trigger_fired", "progress", "task_done"], start=1)))


def serve(command, variables):
    """Starts the server on the contract's port, or the next one that it can have."""
    for port in range(9100, 9200):
        try:
            server = ServerProcess(command, variables | {"MCP_TRANSPORT": "sse", "MCP_PORT": str(port)})
        except RuntimeError as failure:
            if "Address already in use" not in str(failure):
                raise
            print("another program has port", port)
        else:
            print("MCP_TRANSPORT=sse", f"MCP_PORT={port}")
            return server, port
    raise RuntimeError("no port from 9100 to 9199 is free")


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(20)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/events"
    server, port = serve(sys.argv[1:], {"RVC_CALLBACK_URL": url, "RVC_EVENT_SECRET": SECRET})
    received = []
    try:
        same("the port that it serves on", server.port, port)
        asyncio.run(asyncio.wait_for(run(server, listener, received), 25))
        same("the exit code after SIGTERM", server.stop()[0], 0)
        print("ok:", len(received), "events verified, in order")
    finally:
        server.process.kill()


if __name__ == "__main__":
    main()
