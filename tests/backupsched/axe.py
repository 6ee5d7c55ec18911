"""axe, which looks at pages."""

AXE = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], "resultTypes": ["violations"],
    "preload": False, "iframes": False,  # no page has a frame, and none of these rules reads style sheets or media
}  # fmt: skip
SERIOUS = """([where, options]) => axe.run(where.exclude ? where : document, options).then(found => found.violations
  .filter(fault => ['serious', 'critical'].includes(fault.impact))
  .flatMap(fault => fault.nodes.slice(0, 2).map(node => `${fault.id}: ${node.html.slice(0, 150)} ${node.target}`)))"""
"""The findings of axe, in lines: its whole report of a page would take as long to hand over as the looking."""
THEME = "theme => document.documentElement.classList.toggle('dark', theme === 'dark')"
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
