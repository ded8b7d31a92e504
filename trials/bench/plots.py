"""Bars as SVG, without a library: one plot has one measure, with a bar for each target in each case."""
from xml.sax.saxutils import escape

BAR, GAP, LEFT, WIDTH = 16, 14, 300, 860
COLOURS = {"direct": "#9aa0a6", "rmcp": "#c9ada7", "relay": "#c9ada7"}
OURS, THEIRS = "#2a6f97", "#e09f3e"


def bars(title, unit, rows):
    """`rows` are (case, [(target, value)]); bars are scaled to the longest."""
    longest = max((value for _, values in rows for _, value in values), default=0) or 1
    lines, y = [], 46
    for case, values in rows:
        lines.append(f'<text x="8" y="{y + 12}" class="case">{escape(case)}</text>')
        y += BAR + 4
        for target, value in values:
            length = max(1, value / longest * (WIDTH - LEFT - 110))
            colour = COLOURS.get(target) or (OURS if target.startswith("servanda") else THEIRS)
            lines.append(f'<text x="{LEFT - 8}" y="{y + 12}" class="target">{escape(target)}</text>')
            lines.append(f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>')
            lines.append(f'<text x="{LEFT + length + 6:.1f}" y="{y + 12}" class="value">{shown(value)} {escape(unit)}</text>')
            y += BAR + 3
        y += GAP
    style = "text{font:12px sans-serif;fill:#222}.title{font-size:15px;font-weight:600}.case{font-weight:600}.target{text-anchor:end}.value{fill:#555}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}"><style>{style}</style>'
    back = f'<rect width="{WIDTH}" height="{y}" fill="#fff"/><text x="8" y="24" class="title">{escape(title)}</text>'
    return head + back + "".join(lines) + "</svg>\n"


def shown(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
