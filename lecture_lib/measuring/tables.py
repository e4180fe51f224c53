"""Rows of text as a table that a screen reader can walk, and as aligned lines for a terminal."""

from __future__ import annotations

import html
from collections.abc import Sequence

_LEFT = ' style="text-align:left"'


def html_table(caption: str, head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """An HTML table with a caption, column headings, and each line's first cell as its heading."""

    def row(line: Sequence[str]) -> str:
        first, *rest = map(html.escape, line)
        cells = "".join(f"<td{_LEFT}>{text}</td>" for text in rest)
        return f'<tr><th scope="row"{_LEFT}>{first}</th>{cells}</tr>'

    # An empty corner is no heading.
    heads = "".join(
        f'<th scope="col"{_LEFT}>{html.escape(text)}</th>' if text else "<td></td>" for text in head
    )
    head_row = f"<caption>{html.escape(caption)}</caption><thead><tr>{heads}</tr></thead>"
    return f"<table>{head_row}<tbody>{''.join(map(row, lines))}</tbody></table>"


def text_table(lines: Sequence[Sequence[str]]) -> str:
    """Left-aligned columns, two spaces apart."""
    wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(f"{text:<{w}}" for text, w in zip(line, wide, strict=True)).rstrip() for line in lines
    )
