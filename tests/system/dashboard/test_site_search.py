"""The documentation site searches when it is opened from files, where browsers start no workers."""

import shutil
from pathlib import Path

from playwright.async_api import Browser

from tests.kits.paths import ROOT

PAGE = '<html><body><script src="file_worker.js"></script></body></html>'
WORKER = "addEventListener('message', event => postMessage(event.data * 2));"
ASK = """() => new Promise(resolve => {
    const worker = new Worker("worker.js");
    worker.addEventListener("message", event => { worker.terminate(); resolve(event.data); });
    worker.postMessage(21);
})"""


async def test_a_page_of_a_file_has_workers(browser: Browser, tmp_path: Path) -> None:
    shutil.copy(ROOT / "release" / "file_worker.js", tmp_path)
    (tmp_path / "page.html").write_text(PAGE)
    (tmp_path / "worker.js").write_text(WORKER)
    page = await browser.new_page()
    try:
        await page.goto((tmp_path / "page.html").as_uri())
        assert await page.evaluate(ASK) == 42
        assert await page.locator("iframe").count() == 0
    finally:
        await page.close()
