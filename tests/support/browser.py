"""A headless Chromium for tests, controlled through pipes (descriptors 3 and 4). Needs no port and no package."""
import base64
import contextlib
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

SECONDS = 60


class Browser:
    def __init__(self):
        program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if not program:
            raise FileNotFoundError("no Chromium: apt-get install chromium")
        self.profile = tempfile.TemporaryDirectory(prefix="dpbench-browser-", ignore_cleanup_errors=True)
        to_browser, self.outgoing = os.pipe()
        self.incoming, from_browser = os.pipe()
        command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                   "--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}", "about:blank"]
        # The shell moves the ends of both pipes to descriptors 3 and 4, which Chromium expects.
        shell = f"exec 3<&{to_browser} 4>&{from_browser}; exec \"$@\""
        self.process = subprocess.Popen(["bash", "-c", shell, "bash", *command], pass_fds=(to_browser, from_browser),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.number, self.events = b"", 0, []

    def close(self):
        with contextlib.suppress(OSError):
            os.close(self.outgoing)  # Chromium exits when its pipe closes
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.incoming)
        self.profile.cleanup()

    def read(self):
        until = time.monotonic() + SECONDS
        while b"\0" not in self.buffer:
            if not select.select([self.incoming], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError("Chromium is silent")
            piece = os.read(self.incoming, 1 << 20)
            if not piece:
                raise EOFError("Chromium has ended")
            self.buffer += piece
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.outgoing, data):]
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    @contextlib.contextmanager
    def page(self, path, width, height, dark, media="screen"):
        """Opens the file in a window of the given size, or as printed. Context manager that yields the loaded Page."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        page = Page(self, self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        page.call("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        page.open(pathlib.Path(path).absolute().as_uri())
        try:
            yield page
        finally:
            self.call("Target.closeTarget", targetId=target)


class Page:
    def __init__(self, browser, session):
        self.browser, self.session = browser, session
        self.seconds = None  # time that the page took to load

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def open(self, url):
        self.browser.events.clear()
        began = time.monotonic()
        self.call("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.browser.events):
            self.browser.events.append(self.browser.read())
        # Waits until Chromium has painted the page.
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.seconds = time.monotonic() - began

    def run(self, script):
        """Runs JavaScript in the page. Returns the value of its last expression; awaits a promise."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise AssertionError(result["exceptionDetails"].get("exception", result["exceptionDetails"]).get("description"))
        return result["result"].get("value")

    def errors(self):
        """Returns the console output, exceptions and requests for other pages that the page caused. A correct page
        causes none."""
        self.run("0")
        found = []
        for event in self.browser.events:
            method, params = event.get("method"), event.get("params", {})
            if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown") or method == "Log.entryAdded":
                found.append(json.dumps(params)[:400])
            if method == "Network.requestWillBeSent" and params["documentURL"] != params["request"]["url"].partition("#")[0]:
                found.append("fetched " + params["request"]["url"][:200])
        return found

    def click(self, selector):
        """Clicks the middle of the first element that the CSS selector matches, with real mouse events."""
        x, y = self.run(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
                        "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="none" if kind == "mouseMoved" else "left", clickCount=1)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def picture(self, path, whole=True):
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))
