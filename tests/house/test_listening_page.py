"""The page that plays, in Chromium: its keys, what a screen reader says of it, its width on a phone
and what it asks for. The browser: tests/chromium.py.

python -m pytest tests/house/test_listening_page.py -q
"""

import re
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.commands import ROOT

FILE = (ROOT / "docs" / "site" / "index.html").as_uri()


def wait(browser, script):
    return WebDriverWait(browser, 60).until(lambda _: browser.execute_script(f"return {script}"))


def visit(browser, address=FILE):
    """Open the page; its first sentence is decoded and drawn."""
    browser.get(address)
    wait(browser, "document.documentElement.dataset.ready")


def press(browser, *keys):
    ActionChains(browser).send_keys(*keys).perform()


def sides(browser):
    """What a screen reader says of A and B."""
    buttons = browser.find_elements(By.CLASS_NAME, "ab")
    return {one.accessible_name: one.get_attribute("aria-pressed") for one in buttons}


def test_from_a_folder_and_from_a_host_it_asks_for_itself_alone(chromium):
    handler = partial(SimpleHTTPRequestHandler, directory=ROOT / "docs")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        for address in (FILE, f"http://127.0.0.1:{server.server_port}/site/"):
            visit(chromium, address)
            press(chromium, " ")
            wait(chromium, "starts[1]")
        server.shutdown()
    requests = str(chromium.get_log("performance"))
    assert {*re.findall(r"https?://([\w.-]+)", requests)} == {"127.0.0.1"}
    assert chromium.get_log("browser") == []


def test_every_control_has_a_name_and_a_visible_focus_in_the_order_of_the_page(chromium):
    visit(chromium)
    named, controls, stops = [], set(), []
    for node in chromium.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]:
        role = node["role"]["value"]
        is_control = "focusable" in [one["name"] for one in node.get("properties", ())]
        if is_control or role in ("image", "table"):
            named.append((role, node["name"]["value"]))
        if is_control and role not in ("RootWebArea", "option"):
            controls.add(named[-1])
    assert [role for role, name in named if not name] == []
    for _ in controls:
        press(chromium, Keys.TAB)
        focus = chromium.switch_to.active_element
        stops.append((focus.aria_role, focus.accessible_name))
        assert focus.value_of_css_property("outline-style") == "solid", stops
    assert {*stops} == controls
    names = ["Sentence", "Version", "Play", "A: original", "B: mixed18", "place in the sentence"]
    assert [name for _, name in stops] == names


def test_switching_is_told_and_keeps_the_place(chromium):
    visit(chromium)
    press(chromium, " ")
    button, said = (chromium.find_element(By.ID, name) for name in ("play", "said"))
    assert button.accessible_name == "Stop"
    press(chromium, "b")  # both run all the time, and one is heard
    assert sides(chromium) == {"A: original": "false", "B: mixed18": "true"}
    assert wait(chromium, "starts") == [[0.03, 0]] * 2
    chromium.execute_script("second = 1.53")
    press(chromium, Keys.TAB, Keys.TAB, Keys.ARROW_DOWN)  # another version
    assert wait(chromium, "starts[2]") == pytest.approx([1.56, 1.5])
    assert sides(chromium) == {"A: original": "false", "B: p6": "true"}
    chromium.execute_script("second = 2.06")
    press(chromium, Keys.TAB, " ")
    assert button.accessible_name == "Play"
    press(chromium, " ")
    assert wait(chromium, "starts[4]") == pytest.approx([2.09, 2])
    press(chromium, Keys.TAB, " ")
    assert sides(chromium) == {"A: original": "true", "B: p6": "false"}
    press(chromium, Keys.TAB * 2, Keys.HOME, Keys.ARROW_RIGHT)  # half a second on
    assert wait(chromium, "starts[8]")[1] == 0.5
    assert said.aria_role == "status"
    chromium.find_element(By.ID, "clip").send_keys(Keys.ARROW_DOWN)  # another sentence
    assert wait(chromium, "starts[10]")[1] == 0
    assert said.text.startswith("bm_george:")


@pytest.mark.parametrize("width", [390, 1200])
def test_no_width_scrolls_sideways(width, chromium):
    screen = {"width": width, "height": 844, "deviceScaleFactor": 2, "mobile": width == 390}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    visit(chromium)
    assert wait(chromium, "document.documentElement.scrollWidth") <= width
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
