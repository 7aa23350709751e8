"""Headless Chromium for tests of pages. ChromeDriver and its browser are the machine's; .ci/browser
brings Debian's. KOKORO_BROWSER=no leaves the tests out, KOKORO_BROWSER=require fails where there is
no driver.
"""

import os
import shutil

import pytest

# The player keeps its place to itself: this notes each sound that starts, with the second of the
# audio clock and of the sentence where it does. The test sets that clock: on a busy machine the
# true one goes round the sentence between two keys.
SPY = """
window.starts = [], window.second = 0;
Object.defineProperty(BaseAudioContext.prototype, "currentTime", { get: () => second });
const start = AudioBufferSourceNode.prototype.start;
AudioBufferSourceNode.prototype.start = function (when, offset) {
  starts.push([when, offset]);
  start.call(this, when, offset);
};
"""


@pytest.fixture(scope="session")
def chromium():
    """A browser that the tests of this process share."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    wish, driver = os.environ.get("KOKORO_BROWSER"), shutil.which("chromedriver")
    if wish == "no" or not (driver or wish):
        pytest.skip("KOKORO_BROWSER=no, or no chromedriver: .ci/browser brings one")
    assert driver, "KOKORO_BROWSER=require, and no chromedriver"
    options = ChromeOptions()
    # root has no sandbox, and a container little shared memory
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with Chrome(options, Service(driver)) as browser:
        browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": SPY})
        yield browser
