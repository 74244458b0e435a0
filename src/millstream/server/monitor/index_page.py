"""The page at the root, with links to all documents."""

import html
from collections.abc import Iterable
from typing import Final

_STYLE: Final = """
  body { font: 16px/1.5 system-ui, sans-serif; margin: 3rem auto; max-width: 40rem; padding: 0 1rem;
         color: #1f2933; background: #fff; }
  h1 { font-size: 1.5rem; margin-bottom: 0; }
  p { color: #52606d; margin-top: 0; }
  ul { list-style: none; padding: 0; }
  a { display: flex; justify-content: space-between; padding: .4rem .6rem; border-radius: .4rem;
      color: inherit; text-decoration: none; }
  a:hover, a:focus { background: #e6f0fa; }
  code { color: #52606d; }
  @media (prefers-color-scheme: dark) {
    body { color: #e4e7eb; background: #1f2933; }
    p, code { color: #9aa5b1; }
    a:hover, a:focus { background: #323f4b; }
  }
"""


def index_page(server_name: str, version: str, base_path: str, links: Iterable[tuple[str, str]]) -> bytes:
    """Return the page; `links` are titles and paths in order."""
    items = "\n".join(
        f'    <li><a href="{html.escape(base_path.rstrip("/") + path)}">{html.escape(title)}'
        f"<code>{html.escape(path)}</code></a></li>"
        for title, path in links
    )
    return f"""<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>{html.escape(server_name)} - Millstream</title>
  <style>{_STYLE}</style>
</head>
<body>
  <h1>Millstream {html.escape(version)}</h1>
  <p>{html.escape(server_name)}</p>
  <ul>
{items}
  </ul>
</body>
</html>
""".encode()
