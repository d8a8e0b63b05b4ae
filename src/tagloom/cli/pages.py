"""Self-contained HTML pages: no scripts, and no fonts or pictures from elsewhere."""

from __future__ import annotations

from html import escape

# Readable in light and dark mode, on a phone and on paper.
STYLE = """
:root{color-scheme:light dark;--ink:#1e293b;--soft:#64748b;--line:#cbd5e1;--paper:#fff;
--mark:#fde68a}
@media (prefers-color-scheme:dark){:root{--ink:#e2e8f0;--soft:#94a3b8;--line:#334155;
--paper:#0f172a;--mark:#854d0e}}
body{font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,Arial,sans-serif;color:var(--ink);
background:var(--paper);max-width:68rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.2rem}
h1,h2{line-height:1.25}p.soft,.soft{color:var(--soft)}
table{border-collapse:collapse;margin:.6rem 0;font-variant-numeric:tabular-nums}
th,td{padding:.15rem .7rem .15rem 0;text-align:left;border-bottom:1px solid var(--line)}
th{color:var(--soft);font-weight:600}.number{text-align:right}
details{margin:.4rem 0}summary{cursor:pointer}
.wide{overflow-x:auto}mark{background:var(--mark);color:inherit}
svg text{font-family:inherit}
"""


def document(title: str, body: str) -> str:
    """Return a page.

    Parameters
    ----------
    title : str
        Plain text.
    body : str
        HTML, in which all text is already escaped.

    Returns
    -------
    str
        HTML.

    Examples
    --------
    >>> "<h1>A &amp; B</h1>" in document("A & B", "<p>text</p>")
    True
    """
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )
