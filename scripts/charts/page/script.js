"use strict";
// The page works without this script, which sorts and filters tables, opens rows, shows values, switches series off,
// zooms and changes the colour theme.
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
  const sort = (body, column, ascending) => {
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
      all("tbody:not(.heading)", table).forEach((body) => sort(body, column, ascending));
    }));
  }

  // Filtering shows a row if the row (or its case id) contains every word and its status is selected.
  const field = document.getElementById("filter");
  const boxes = all(".choices input");
  const shown = document.getElementById("shown");
  const headings = all("#cases-table tbody.heading");
  const rows = all("#cases-table tbody:not(.heading) tr").map((row) => ({row, text: `${row.textContent} ${row.cells[0].title}`.toLowerCase()}));
  const filter = () => {
    const asked = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    let left = 0;
    for (const {row, text} of rows) {
      row.hidden = !(chosen.has(row.dataset.status) && asked.every((word) => text.includes(word)));
      left += !row.hidden;
    }
    // A heading is hidden if all rows of the body below it are hidden.
    for (const heading of headings) heading.hidden = !all("tr:not([hidden])", heading.nextElementSibling).length;
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

  // An entry of a legend switches its series off or on. Its sample and its text are two nodes; the text is the button.
  for (const figure of all("figure")) {
    const keys = all("[data-key]", figure);
    const press = (number) => {
      const mine = keys.filter((key) => key.dataset.key === number);
      const off = !mine[0].classList.contains("faint");
      mine.forEach((key) => key.classList.toggle("faint", off));
      mine.filter((key) => key.tabIndex === 0).forEach((key) => key.setAttribute("aria-pressed", String(!off)));
      all(`[data-series="${number}"]`, figure).forEach((part) => part.classList.toggle("off", off));
    };
    for (const key of keys) {
      key.addEventListener("click", () => press(key.dataset.key));
      if (!key.querySelector("text")) continue;
      for (const [name, value] of [["role", "button"], ["tabindex", "0"], ["aria-pressed", "true"]]) key.setAttribute(name, value);
      key.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        press(key.dataset.key);
      });
    }
    // The parts of an image are hidden from screen readers, those of a group are not.
    if (keys.length) figure.querySelector("svg").setAttribute("role", "group");
  }

  // Zooming enlarges a chart inside its box, which scrolls. Marks, lines and text keep their size, so that they come
  // apart.
  for (const figure of all("figure")) {
    const plot = figure.querySelector(".plot");
    const controls = document.createElement("div");
    for (const use of all("use", plot)) use.style.transformOrigin = `${use.getAttribute("x")}px ${use.getAttribute("y")}px`;
    let zoom = 1;
    const set = (wanted) => {
      const middle = (start, size) => (start + size / 2) / zoom * wanted - size / 2;
      const left = middle(plot.scrollLeft, plot.clientWidth), top = middle(plot.scrollTop, plot.clientHeight);
      plot.style.height = wanted === 1 ? "" : `${plot.clientHeight}px`;
      plot.style.setProperty("--zoom", wanted);
      plot.classList.toggle("zoomed", wanted > 1);
      plot.tabIndex = wanted > 1 ? 0 : -1;
      zoom = wanted;
      plot.scrollTo(left, top);
      out.hidden = reset.hidden = zoom === 1;
      enlarge.disabled = zoom === 8;
    };
    const button = (text, name, action) => {
      const made = document.createElement("button");
      Object.assign(made, {type: "button", textContent: text});
      made.setAttribute("aria-label", `${name}: ${figure.querySelector("h3").textContent}`);
      made.addEventListener("click", action);
      controls.append(made);
      return made;
    };
    const reset = button("Reset", "Reset zoom", () => { set(1); enlarge.focus(); });
    const out = button("−", "Zoom out", () => { set(zoom / 2); if (zoom === 1) enlarge.focus(); });
    const enlarge = button("+", "Zoom in", () => set(zoom * 2));
    controls.className = "zoom";
    out.hidden = reset.hidden = true;
    figure.prepend(controls);
  }

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
