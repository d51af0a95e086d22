"""What to ask a page in a browser: can its texts be read, and are they whole?"""

# Every visible piece of text: its words, its color as it is seen, and what lies behind
# it, as rows of red, green and blue. What lets something through is laid upon it.
COLORS = """(() => {
  const canvas = document.createElement('canvas').getContext('2d',
    {willReadFrequently: true});
  const blended = layers => { canvas.clearRect(0, 0, 1, 1);
    for (const color of ['white', ...layers]) {
      canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3); };
  const behind = each => { const layers = [];
    for (let at = each; at; at = at.parentElement)
      layers.unshift(getComputedStyle(at).backgroundColor);
    return layers; };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walk.nextNode()) {
    const each = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim()) continue;
    if (!each.checkVisibility({opacityProperty: true})) continue;
    const style = getComputedStyle(each);
    const color = each instanceof SVGElement ? style.fill : style.color;
    const layers = behind(each);
    found.push([walk.currentNode.data.trim(), blended([...layers, color]),
      blended(layers)]);
  }
  return found;
})()"""
# Text that is cut, that leaves the page, or a number that leaves its cell. What is
# inside something that scrolls can be reached.
CLIPPED = """(() => {
  const bad = [], width = document.documentElement.clientWidth;
  const scrolls = each => { for (let at = each; at != document.body;
    at = at.parentElement) {
      if (['auto', 'scroll'].includes(getComputedStyle(at).overflowX)) return true;
      if (getComputedStyle(at).position == 'fixed') return true; }
    return false; };
  for (const each of document.querySelectorAll('body *')) {
    const style = getComputedStyle(each);
    const hides = ['hidden', 'clip'].includes(style.overflowX);
    if (hides && each.scrollWidth > each.clientWidth + 1 && each.textContent.trim()
        && style.fontSize != '0px' && !(each instanceof SVGElement)
        && each.getBoundingClientRect().right > 0
        && each.checkVisibility({opacityProperty: true}))
      bad.push(['cut', each.className + ' ' + each.textContent.trim()]);
  }
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const each = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim()) continue;
    if (!each.checkVisibility({opacityProperty: true})) continue;
    if (each.closest('.skip')) continue;
    const range = document.createRange();
    range.selectNodeContents(walk.currentNode);
    const box = range.getBoundingClientRect();
    if ((box.left < -1 || box.right > width + 1) && !scrolls(each))
      bad.push(['outside', walk.currentNode.data]);
    const cell = each.closest('td');
    if (cell && box.width > cell.getBoundingClientRect().width + 1)
      bad.push(['cell', walk.currentNode.data]);
  }
  return bad;
})()"""


def contrast(one, other):
    """Return the ratio of luminance by which WCAG judges legibility."""

    def luminance(color):
        parts = [value / 255 for value in color]
        linear = [
            v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)
