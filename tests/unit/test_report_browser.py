"""The page in a real browser: what it looks like, how wide it is, and that no value of it runs."""

import html
import re
import shutil
import struct
import subprocess
import zlib

import pytest
from unit import report_shop as shop

from pipeline.report import assemble, page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SECONDS = 90
DARK, LIGHT = "--blink-settings=preferredColorScheme=0", "--blink-settings=preferredColorScheme=1"
FRAME = '<iframe style="border:0;width:{width}px;height:800px" srcdoc="{page}"></iframe>'
MEASURE = """<!DOCTYPE html><title>waiting</title><body>{frames}<script>addEventListener("load", () => {{
  const frames = Array.from(document.querySelectorAll("iframe"));
  document.title = frames.map((frame) => frame.contentDocument.documentElement.scrollWidth).join(" ");
}});</script>"""

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium: install it to see the report in a browser (Debian: apt-get install chromium)"
)


@pytest.fixture(scope="module")
def busy():
    return page(assemble(shop.busy(), "shop", shop.NOW))


@pytest.fixture
def browser(tmp_path):
    def run(text, *options):
        file = tmp_path / "page.html"
        file.write_text(text)
        settled = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run")
        places = (f"--user-data-dir={tmp_path / 'profile'}", f"--crash-dumps-dir={tmp_path}")
        command = [CHROMIUM, *settled, *places, *options, file.as_uri()]
        return subprocess.run(command, capture_output=True, check=True, timeout=SECONDS, cwd=tmp_path).stdout.decode()

    return run


@pytest.fixture
def screenshot(browser, tmp_path):
    def take(text, *options):
        file = tmp_path / "page.png"
        browser(text, f"--screenshot={file}", "--window-size=1280,1600", *options)
        return lines(file.read_bytes())

    return take


def lines(png):
    """The lines of a picture as PNG filters them: a line of one colour is all zeros after its first pixel."""
    width, height = struct.unpack(">II", png[16:24])
    at, data = 8, b""
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        data += png[at + 8 : at + 8 + length] if kind == b"IDAT" else b""
        at += length + 12
    raw = zlib.decompress(data)
    size = len(raw) // height
    assert (width, height) == (1280, 1600)
    return [raw[start : start + size] for start in range(0, len(raw), size)]


def title(dom):
    return html.unescape(re.search(r"<title>(.*?)</title>", dom, re.DOTALL)[1])


@pytest.mark.parametrize(("scheme", "paper"), [(LIGHT, (252, 252, 250)), (DARK, (21, 23, 26))])
def test_it_is_drawn_in_light_and_dark(busy, screenshot, scheme, paper):
    drawn = screenshot(busy, scheme)
    assert tuple(drawn[0][1:4]) == paper
    assert len(set(drawn)) > 300


def test_no_page_is_wider_than_its_window(browser):
    pages = [html.escape(page(assemble(scene(), "shop", shop.NOW))) for scene in (dict, shop.busy, shop.stopped)]
    widths = [width for width in (390, 768, 1280) for _ in pages]
    frames = [FRAME.format(width=width, page=text) for width, text in zip(widths, pages * 3, strict=True)]
    measured = title(browser(MEASURE.format(frames="".join(frames)), "--dump-dom"))
    assert measured.split(" ") == [str(width) for width in widths]


def test_a_hostile_script_does_not_run_even_where_scripts_may(busy, browser):
    bare = re.sub(r"<meta http-equiv=[^>]*>", "", busy)
    assert bare != busy
    dom = browser(bare, "--dump-dom")
    assert title(dom) == "‖ shop: shop.payments waits for a decision."
    assert "<script" not in dom
    assert html.escape(shop.SCRIPT, quote=False) in dom


def test_this_would_notice_a_script_that_runs(busy, browser):
    raw = re.sub(r"<meta http-equiv=[^>]*>", "", busy).replace("</body>", shop.SCRIPT + "</body>")
    assert title(browser(raw, "--dump-dom")) == "owned"
    guarded = busy.replace("</body>", shop.SCRIPT + "</body>")
    assert title(browser(guarded, "--dump-dom")) != "owned"


def test_it_prints(busy, browser, tmp_path):
    browser(busy, f"--print-to-pdf={tmp_path / 'page.pdf'}", DARK)
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF-")
