"""Look at a page as a reader would: a real browser's pictures at a screen's and a phone's width, light and dark; errors and overflow told.

    python -m bench.screenshots build/release/report.html [--out build/screenshots] [--widths 1280,400]

Talks to Chromium (Debian: apt-get install chromium) through a pipe, loads nothing from outside. Exit 0: written. Exit 1: the page is wider
than its window, or its script failed. Exit 2: bad input, or no browser. The last line of stdout is one JSON object.
"""

if __package__ in (None, ""):  # run as a file: put the repository root, not bench/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, run_cli
from core.output import check_output
from core.staging import staged

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--remote-debugging-pipe", "--hide-scrollbars",
)  # fmt: skip
FREE_FROM = 10  # file numbers that the wiring of 3 and 4 does not touch
WIRE = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
WAIT_S = 60.0
READY = "document.readyState === 'complete' && (!document.getElementById('sounds') || document.documentElement.dataset.ready === 'true')"
SIZE = "JSON.stringify([document.documentElement.scrollWidth, document.documentElement.scrollHeight])"
UNFOLD = "document.querySelectorAll('details').forEach((part) => { part.open = true; })"


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(prog="bench.screenshots", description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path, help="an HTML file")
    parser.add_argument("--out", type=Path, default=Path("build/screenshots"), help="folder for the pictures (default: %(default)s)")
    parser.add_argument("--widths", default="1280,400", help="of the window, in CSS pixels (default: %(default)s)")
    parser.add_argument("--unfold", action="store_true", help="open every folded part first")
    return parser.parse_args(argv)


def browser() -> str:
    """The first browser that is installed. Raises InputError that says how to get one."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        raise InputError("no Chromium on the path: apt-get install chromium (Debian), brew install --cask chromium (macOS)")
    return found


class Tab:
    """One page of a browser, through its debugging protocol. Responsibilities: 1. send a command and wait; 2. collect the page's errors."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read, self._rest, self._count = write, read, b"", 0
        self.errors: list[str] = []
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The command's result. Raises InputError for a browser that refuses, ends or is silent."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters} | ({"sessionId": self._session} if self._session else {})
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._count:
            self._note(answer)
        if "error" in answer:
            raise InputError(f"the browser refused {method}: {answer['error'].get('message')}")
        return answer["result"]

    def evaluate(self, expression: str) -> Any:
        """A value of the page's own script."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._read, 1 << 20)
            if not more:
                raise InputError("the browser ended before the page was drawn")
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        told = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            self.errors.append(str(details.get("exception", {}).get("description") or details["text"]).splitlines()[0])
        if event.get("method") == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.errors.append(told["entry"]["text"])


@contextmanager
def opened() -> Iterator[Tab]:
    """A browser with an empty tab and a profile of its own; ended and removed afterwards."""
    pipes = [os.pipe(), os.pipe()]  # to the browser and from it
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD, FREE_FROM) for end in (pipes[0][0], pipes[1][1])]
    wire = [sys.executable, "-c", WIRE, str(ends[0]), str(ends[1])]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [*wire, browser(), *QUIET, f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=ends)
        for end in (*ends, pipes[0][0], pipes[1][1]):
            os.close(end)
        try:
            yield Tab(pipes[0][1], pipes[1][0])
        finally:
            process.terminate()
            process.wait(WAIT_S)


def shot(tab: Tab, page: Path, width: int, dark: bool, unfold: bool) -> tuple[bytes, int]:
    """The whole page as PNG, and how many pixels it is wider than its window."""
    tab.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
    tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
    tab.call("Page.navigate", url=page.resolve().as_uri())
    until = time.monotonic() + WAIT_S
    while tab.evaluate(READY) is not True:
        if time.monotonic() > until:
            raise InputError(f"{page} was not ready after {WAIT_S:.0f} s; its errors: {'; '.join(tab.errors) or 'none'}")
        time.sleep(0.1)
    if unfold:
        tab.evaluate(UNFOLD)
    across, down = json.loads(tab.evaluate(SIZE))
    clip = {"x": 0, "y": 0, "width": width, "height": down, "scale": 1}
    data = tab.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
    return base64.b64decode(data), max(0, across - width)


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    try:
        widths = [int(text) for text in arguments.widths.split(",")]
    except ValueError:
        raise InputError(f"--widths {arguments.widths}: give whole numbers with commas, as in 1280,400") from None
    if not arguments.page.is_file():
        raise InputError(f"{arguments.page} does not exist: `python -m eval.report` writes a page")
    check_output(arguments.out / "x.png", suffixes=(".png",))
    written: list[str] = []
    wider: dict[str, int] = {}
    with opened() as tab:
        for width in widths:
            for dark in (False, True):
                picture, over = shot(tab, arguments.page, width, dark, arguments.unfold)
                path = arguments.out / f"{arguments.page.stem}-{width}-{'dark' if dark else 'light'}.png"
                with staged(path) as aside:
                    aside.write_bytes(picture)
                written.append(str(path))
                wider |= {path.name: over} if over else {}
                print(f"{path}  {len(picture) / 1e6:.2f} MB" + (f", {over} px wider than its window" if over else ""))
        errors = tab.errors
    for error in errors:
        print(f"the page's script: {error}")
    print(json.dumps({"pictures": written, "wider_px": wider, "errors": errors}))
    return EXIT_REJECTED if wider or errors else EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from bench.screenshots import main  # one module identity, however it was started

    raise SystemExit(main())
