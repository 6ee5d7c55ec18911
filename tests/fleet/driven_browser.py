"""Chromium, driven by the WebDriver protocol and signed in as a superuser."""

import base64
import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.live_server_helper import LiveServer

from tests.engines.peers import free_port
from tests.programs import needed
from tests.waiting import PATIENCE, eventually

NO_COMPLAINTS = ("/favicon.ico", "htmx:sendAbort", "htmx:afterRequest")
CUT_OFF = """[...document.querySelectorAll('table')].filter(table => {
  const box = table.closest('.simplebar-content-wrapper, .overflow-x-auto, div');
  return box && table.scrollWidth > box.clientWidth + 1
}).map(table => table.innerText.slice(0, 60))"""


OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--window-size=1400,1000",
)  # fmt: skip


class Browser:
    """One Chromium, driven by the WebDriver protocol, and logged in as a superuser."""

    def __init__(self, driver: httpx.Client, site: str, profile: Path) -> None:
        chrome = {"args": [*OPTIONS, f"--user-data-dir={profile}"]}
        asked = {"browserName": "chrome", "goog:chromeOptions": chrome, "goog:loggingPrefs": {"browser": "ALL"}}
        answer = driver.post("/session", json={"capabilities": {"alwaysMatch": asked}}).json()["value"]
        self.driver, self.site, self.session = driver, site, f"/session/{answer['sessionId']}"
        self.look("/admin/login/")
        client = Client()
        client.force_login(User.objects.create_superuser("browser"))
        value = client.cookies[settings.SESSION_COOKIE_NAME].value
        self.ask("cookie", cookie={"name": settings.SESSION_COOKIE_NAME, "value": value})

    def ask(self, what: str, **body: Any) -> Any:
        answer = self.driver.post(f"{self.session}/{what}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]

    def look(self, path: str) -> None:
        self.ask("url", url=f"{self.site}{path}")

    def run(self, script: str) -> Any:
        return self.ask("execute/sync", script=script, args=[])

    def type(self, field: str, text: str) -> None:
        """Type over the text of a field, as a user does."""
        self.run(
            f"const field = document.getElementById({field!r}); field.value = {text!r}; "
            "field.dispatchEvent(new Event('input', {bubbles: true}))"
        )

    def click(self, selector: str) -> None:
        self.run(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center'}})")
        [element] = self.ask("element", using="css selector", value=selector).values()
        self.ask(f"element/{element}/click")

    def value_of(self, field: str) -> str:
        return str(self.run(f"return document.getElementById({field!r}).value"))

    def text_of(self, selector: str) -> str:
        """Its text, once it is there: a click that opens another page returns before that page is read."""
        found = f"const found = document.querySelector({selector!r}); return found ? [found.innerText] : null"
        return str(eventually(lambda: self.run(found))[0])

    def wider_than_the_page(self) -> int:
        """Pixels by which something makes the page scroll sideways."""
        return int(self.run("const e = document.documentElement; return e.scrollWidth - e.clientWidth"))

    def cut_off_in_tables(self) -> list[str]:
        """Tables that are wider than the box they scroll in, by their first words."""
        return list(self.run(f"return {CUT_OFF}"))

    def complaints(self) -> list[str]:
        """The messages of the browser's console since the last call, except that a site has no icon, and that a preview
        was still under way when the next one was wanted (`hx-sync`; a failed request has a second message).
        """
        message = [f"{entry['level']}: {entry['message']}" for entry in self.ask("se/log", type="browser")]
        return [text for text in message if not any(each in text for each in NO_COMPLAINTS)]

    def picture(self, path: Path) -> None:
        answer = self.driver.get(f"{self.session}/screenshot")
        path.write_bytes(base64.b64decode(answer.json()["value"]))


@pytest.fixture
def browser(live_server: LiveServer, tmp_path: Path) -> Iterator[Browser]:
    logging.getLogger("httpx").setLevel(logging.WARNING)  # else it tells each request
    needed("chromium", "chromium")
    program, port = needed("chromedriver", "chromium-driver"), free_port("127.0.0.1")
    with (tmp_path / "driver.log").open("wb") as log:
        process = subprocess.Popen([program, f"--port={port}"], stdout=log, stderr=log)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as driver:

        def answers() -> bool:
            try:
                return bool(driver.get("/status").json()["value"]["ready"])
            except httpx.TransportError:
                return False

        try:
            eventually(answers)
            browser = Browser(driver, live_server.url, tmp_path / "profile")
            try:
                yield browser
            finally:
                driver.delete(browser.session)
        finally:
            process.terminate()
            process.wait(PATIENCE)
