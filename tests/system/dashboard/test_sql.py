"""The SQL view: rows and bars of a query, what was read, mistakes, and cancelling."""

from playwright.async_api import expect

from tests.kits.dashboard import Screen, Site

ENDLESS = "with recursive t(n) as (select 1 union all select n + 1 from t) select max(n) from t"


async def test_a_query_shows_rows_bars_and_what_it_has_read(screen: Screen, site: Site) -> None:
    await site.add_stream()
    await site.publish("1", "2", token="eu")
    await site.publish("<b>3</b>", token="us")
    await screen.open("sql")
    page = screen.page
    await page.get_by_label("Query").fill(
        f"select subject, count(*) as n, max(data) as last from {site.stream} group by 1 order by 1"
    )
    await page.get_by_role("button", name="Run").click()
    rows = page.get_by_role("region", name="Table: Result").locator("tbody tr")
    await expect(rows).to_have_count(2)
    await expect(rows.nth(0)).to_have_text(f"{site.subject}.eu22")
    await expect(rows.nth(1)).to_have_text(f"{site.subject}.us1<b>3</b>")
    await expect(page.get_by_role("img", name="n by subject")).to_be_visible()
    await expect(page.get_by_text(f"{site.stream}: 3 messages")).to_be_visible()
    await page.reload()
    await expect(page.get_by_label("Query")).to_have_value(
        f"select subject, count(*) as n, max(data) as last from {site.stream} group by 1 order by 1"
    )


async def test_long_values_scroll_and_values_below_zero_have_bars(screen: Screen, site: Site) -> None:
    await screen.open("sql")
    page = screen.page
    await page.get_by_label("Query").fill("select n::varchar as name, n from range(-2, 3) as numbers(n)")
    await page.get_by_role("button", name="Run").click()
    bars = page.get_by_role("img", name="n by name").locator("rect")
    await expect(bars).to_have_count(5)
    starts = [float(await bars.nth(at).get_attribute("x") or 0) for at in range(5)]
    assert starts[0] < starts[1] < starts[2] == starts[3] == starts[4]

    await page.get_by_label("Query").fill("select repeat('x', 9000) as long, 'same' as name from range(2)")
    await page.get_by_role("button", name="Run").click()
    rows = page.get_by_role("region", name="Table: Result").locator("tbody tr")
    await expect(rows).to_have_count(2)
    box = await rows.nth(0).bounding_box()
    assert box is not None
    assert box["height"] < 250
    await expect(page.get_by_role("img")).to_have_count(0)


async def test_mistakes_are_shown_and_a_long_query_can_be_cancelled(screen: Screen, site: Site) -> None:
    screen.expect_errors("404")
    await screen.open("sql")
    page = screen.page
    await page.get_by_label("Query").fill("select * from NOWHERE")
    await page.get_by_label("Query").press("Control+Enter")
    await expect(page.get_by_role("alert")).to_contain_text("there is no stream NOWHERE")
    await page.get_by_label("Query").fill(ENDLESS)
    await page.get_by_role("button", name="Run").click()
    await page.get_by_role("button", name="Cancel").click()
    await expect(page.get_by_text("The query was cancelled.")).to_be_visible()
    await page.get_by_label("Query").fill("select 42 as answer")
    await page.get_by_role("button", name="Run").click()
    await expect(page.get_by_role("region", name="Table: Result").locator("tbody tr")).to_have_text("42")
