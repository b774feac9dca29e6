"""Starts a capability server as systemd would, finds its port in its log, and stops it with SIGTERM."""

import os
import re
import signal
import subprocess
import threading

SERVED_AT = re.compile(r"http://127\.0\.0\.1:(\d+)/(?:sse|mcp)")


class ServerProcess:
    """A running server. Its environment holds what `variables` says and no RVC_ or MCP_ variable else."""

    def __init__(self, command, variables):
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("RVC_", "MCP_"))}
        self.process = subprocess.Popen(
            command, env=inherited | variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.port = None
        self.log = []
        self.ready = threading.Event()
        self.reader = threading.Thread(target=self.read_log, daemon=True)
        self.reader.start()
        self.ready.wait(25)
        if self.port is None:
            self.process.kill()
            self.reader.join(1)
            raise RuntimeError("the server did not say where it listens:\n" + "".join(self.log))

    def read_log(self):
        for line in self.process.stderr:
            line = line.decode(errors="replace")
            self.log.append(line)
            if self.port is None and (found := SERVED_AT.search(line)):
                self.port = int(found[1])
                self.ready.set()
        self.ready.set()  # it ended: do not wait any longer

    def stop(self):
        """SIGTERM, as systemd sends it. Returns the exit code and what was written to stdout."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(7)
        finally:
            self.process.kill()
        self.reader.join(5)
        return self.process.returncode, self.process.stdout.read()
