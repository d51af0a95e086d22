"""Chromium without a window, spoken to through pipes in the DevTools protocol."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from select import select

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
OPTIONS = (
    "--headless",
    "--no-sandbox",  # containers run tests as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
    "--force-device-scale-factor=1",
)
# The browser reads commands from descriptor 3 and writes answers to 4.
START = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


STARTS = 5


class EndedError(AssertionError):
    """The browser is no more."""


class Page:
    """A page that Chromium has open.

    Attributes:
        events: All that the browser told of it.
    """

    def __init__(self, commands, answers):
        self._commands, self._answers = commands, answers
        self._read, self._number, self._session = b"", 0, None
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **options):
        """Send a command and return its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": options}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (found := self._next()).get("id") != message["id"]:
            self.events.append(found)
        assert "error" not in found, (method, found["error"])
        return found["result"]

    def open(self, place, width=1280, scheme="light", media=""):
        """Load a file or an address at a width, in a color scheme, as a medium."""
        self._load("about:blank")  # what the page before has yet to tell is not of this
        mobile = width < 600
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=mobile,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        served = str(place).startswith("http://127.0.0.1")
        self._load(str(place) if served else Path(place).resolve().as_uri())

    def told(self, method):
        """Return what the browser said by one method since the page was opened."""
        return [e["params"] for e in self.events if e.get("method") == method]

    def value(self, expression):
        """Return the value of an expression in the page."""
        found = self.call(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key, code):
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
            )

    def screenshot(self):
        """Return the whole page as a PNG file."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def _load(self, url):
        self.events.clear()
        self.call("Page.navigate", url=url)
        while not self.told("Page.loadEventFired"):
            self.events.append(self._next())

    def _next(self):
        while b"\0" not in self._read:
            ready, _, _ = select([self._answers], [], [], 240)
            assert ready, "the browser said nothing for four minutes"
            piece = os.read(self._answers, 1 << 20)
            if not piece:
                raise EndedError("the browser ended")
            self._read += piece
        message, self._read = self._read.split(b"\0", 1)
        return json.loads(message)


@contextmanager
def browser():
    """Yield an empty page of Chromium, which may end while it starts under load."""
    for left in reversed(range(STARTS)):
        with _process() as pipes:
            try:
                page = Page(*pipes)
            except (EndedError, BrokenPipeError):
                if left:
                    continue
                raise
            yield page
            return


@contextmanager
def _process():
    """Start Chromium; yield where it takes commands, and where it answers."""
    inward, commands = map(_high, os.pipe())
    answers, outward = map(_high, os.pipe())
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        start = [sys.executable, "-c", START, str(inward), str(outward)]
        process = subprocess.Popen(
            [*start, CHROMIUM, *OPTIONS, f"--user-data-dir={profile}"],
            pass_fds=(inward, outward),
            stderr=subprocess.DEVNULL,
        )
        os.close(inward)
        os.close(outward)
        try:
            yield commands, answers
        finally:
            process.terminate()
            process.wait(120)
            os.close(commands)
            os.close(answers)


def _high(descriptor):
    """Move a descriptor out of the way of 3 and 4."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD, 100)
    os.close(descriptor)
    return moved
