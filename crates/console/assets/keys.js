// Keys in lists: J and K move between rows, X chooses the row. Enter is the browser's own. Every page works without this file.
'use strict';
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('textarea, select, input:not([type=checkbox])')) return;
  const rows = Array.from(document.querySelectorAll('[data-row]'));
  if (rows.length === 0) return;
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const key = event.key.toLowerCase();
  if (key === 'j' || key === 'k') {
    const to = at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + (key === 'j' ? 1 : -1)));
    rows[to].querySelector('a').focus();
    event.preventDefault();
  } else if (key === 'x' && at >= 0) {
    const box = rows[at].querySelector('input[type=checkbox]');
    if (box) box.checked = !box.checked;
    event.preventDefault();
  }
});
document.documentElement.classList.add('with-keys');
