"use strict";
// The page works without this script. The script only sorts and filters tables, opens rows and shows values.
(() => {
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];

  // The colour theme is the system's until the reader uses the button.
  const theme = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (document.documentElement.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const name_theme = () => { theme.textContent = dark() ? "Light" : "Dark"; };
  theme.addEventListener("click", () => { document.documentElement.dataset.theme = dark() ? "light" : "dark"; name_theme(); });
  system.addEventListener("change", name_theme);
  name_theme();
  theme.hidden = false;

  // Sorting orders numbers by value and words alphabetically. Missing values come last in either direction.
  const key_of = (cell) => {
    if (cell.dataset.v === undefined) return cell.textContent.trim() === "-" ? null : cell.textContent.trim();
    return cell.dataset.v === "" ? null : Number(cell.dataset.v);
  };
  const words = new Intl.Collator("en", {numeric: true});
  const order = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : words.compare(a, b);
  const sort = (table, column, ascending) => {
    const body = table.tBodies[0];
    const keyed = [...body.rows].map((row, place) => ({row, place, key: key_of(row.cells[column])}));
    keyed.sort((a, b) => {
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.place - b.place;
      return (ascending ? order(a.key, b.key) : order(b.key, a.key)) || a.place - b.place;
    });
    body.append(...keyed.map((entry) => entry.row));
  };
  for (const table of all("table.sortable")) {
    const heads = all("thead th", table);
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const ascending = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      sort(table, column, ascending);
    }));
  }

  // Filtering shows a row if the row (or its case id) contains every word and its status is selected.
  const field = document.getElementById("filter");
  const boxes = all(".choices input");
  const shown = document.getElementById("shown");
  const rows = all("#cases-table tbody tr").map((row) => ({row, text: `${row.textContent} ${row.cells[0].title}`.toLowerCase()}));
  const filter = () => {
    const asked = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    let left = 0;
    for (const {row, text} of rows) {
      row.hidden = !(chosen.has(row.dataset.status) && asked.every((word) => text.includes(word)));
      left += !row.hidden;
    }
    shown.textContent = left === rows.length ? `${left} cases` : `${left} of ${rows.length} cases`;
  };
  if (field) field.addEventListener("input", filter);
  boxes.forEach((box) => box.addEventListener("change", filter));

  // A click on a failed cell of the conformance matrix opens the evidence row below it.
  for (const button of all("button[aria-controls]"))
    button.addEventListener("click", () => {
      const target = document.getElementById(button.getAttribute("aria-controls"));
      target.hidden = !target.hidden;
      button.setAttribute("aria-expanded", String(!target.hidden));
    });

  // Pointing at or touching a mark of a chart shows its value. The list below the chart has all values.
  const tip = document.getElementById("tip");
  const tell = (event) => {
    const mark = event.target.closest && event.target.closest(".tip");
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.dataset.tip;
    const box = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 12, innerWidth - box.width - 8);
    const above = event.clientY - box.height - 12;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${above < 8 ? event.clientY + 16 : above}px`;
  };
  document.addEventListener("pointermove", tell);
  document.addEventListener("pointerdown", tell);
  addEventListener("scroll", () => { tip.hidden = true; }, {passive: true});
})();
