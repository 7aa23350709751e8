"""The report's style sheet: one column, tables and pictures scroll sideways on a phone.

from eval.report_style import STYLE
"""

STYLE = """
:root { --ink: #1b2430; --pale: #5f6b7a; --line: #dfe4ea; --good: #15803d; --bad: #b91c1c; --open: #a16207; }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; color: var(--ink); background: #fff; }
main { max-width: 1080px; margin: 0 auto; padding: 24px 20px 64px; }
header { border-left: 8px solid var(--open); padding: 12px 20px; background: #f6f8fa; border-radius: 4px; }
header.ship { border-color: var(--good); } header.reject { border-color: var(--bad); }
header .verdict { margin: 0; font-weight: 700; letter-spacing: .06em; color: var(--pale); }
h1 { margin: 0 0 4px; font-size: 34px; line-height: 1.2; }
h2 { margin: 40px 0 12px; font-size: 22px; } h3 { margin: 20px 0 4px; font-size: 17px; }
p, ul { margin: 4px 0 8px; } ul { padding-left: 20px; } li { overflow-wrap: anywhere; }
.never { font-weight: 700; color: var(--bad); }
.wide { overflow-x: auto; -webkit-overflow-scrolling: touch; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 7px 10px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { font-size: 13px; color: var(--pale); font-weight: 600; } th:first-child, td:first-child, td.left { text-align: left; }
td[colspan] { white-space: normal; } tr.chosen { background: #eaf6ee; } tr.spread td { color: var(--pale); }
tr.spread td:first-child { white-space: normal; min-width: 110px; line-height: 1.25; }
.levels th:nth-child(2) { text-align: left; }
.badge { padding: 2px 8px; border-radius: 10px; font-size: 12px; font-weight: 700; color: #fff; background: var(--open); }
.badge.ship { background: var(--good); } .badge.reject { background: var(--bad); }
img { width: 100%; min-width: 520px; height: auto; display: block; }
.sounds { display: grid; grid-template-columns: repeat(auto-fill, minmax(300px, 1fr)); gap: 8px 16px; }
figure { margin: 0; } figcaption { font-size: 14px; font-weight: 600; } audio { width: 100%; height: 40px; display: block; }
details { border-bottom: 1px solid var(--line); padding: 6px 0; } summary { cursor: pointer; font-weight: 600; }
pre { background: #f6f8fa; padding: 12px; white-space: pre-wrap; overflow-wrap: anywhere;
  font-size: 12.5px; line-height: 1.45; border-radius: 4px; }
@media (max-width: 600px) { main { padding: 12px 12px 40px; } h1 { font-size: 27px; } header { padding: 10px 14px; } }
"""
