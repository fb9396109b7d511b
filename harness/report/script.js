"use strict";
// The page is complete without this script; it adds sorting, filtering and hiding of series.
(() => {
  const PREFIX = { n: 1e-9, "µ": 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15 };
  const UNIT = /^(-?[\d.,]+(?:e-?\d+)?)\s*(?:([nµm]?)s\b|([kMGTP]?)(?:B|FLOP))?/;

  const own = (cell) => (cell && cell.firstChild ? cell.firstChild.textContent.trim() : "");
  const number = (text) => {
    const found = UNIT.exec(text);
    return found ? parseFloat(found[1].replace(/,/g, "")) * (PREFIX[found[2] || found[3] || ""] || 1) : NaN;
  };
  // Numbers by size, then words. What is empty stays last whichever way: a missing value is never the best.
  const compare = (a, b, way = 1) => {
    const empty = (text) => text === "" || text === "—";
    if (empty(a) || empty(b)) return empty(a) - empty(b);
    const x = number(a), y = number(b);
    if (!Number.isNaN(x) && !Number.isNaN(y)) return way * (x - y);
    if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
    return way * a.localeCompare(b);
  };
  const element = (tag, properties, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };

  const sortable = (table) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = element("button", { type: "button", title: "Sort by this column" }, ...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const body = table.tBodies[0];
        const keyed = [...body.rows].map((row) => [own(row.cells[column]), row]);
        keyed.sort((a, b) => compare(a[0], b[0], down ? -1 : 1));
        body.append(...keyed.map(([, row]) => row));
      });
    });
  };

  const filterable = (table) => {
    const rows = [...table.tBodies[0].rows];
    const count = element("span", { role: "status" });
    const words = element("input", { type: "search" });
    const tools = element("div", { className: "tools" }, element("label", {}, "Filter ", words));
    const picks = [];
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      if (!table.classList.contains(`f${column}`)) return;
      const values = [...new Set(rows.map((row) => own(row.cells[column])))];
      if (values.length < 2 || values.length > 60) return;
      const all = element("option", { value: "", textContent: "all" });
      const select = element("select", {}, all, ...values.sort((a, b) => compare(a, b)).map((v) => element("option", { textContent: v })));
      picks.push([column, select]);
      tools.append(element("label", {}, head.textContent + " ", select));
    });
    const update = () => {
      const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      let left = 0;
      rows.forEach((row) => {
        const text = row.textContent.toLowerCase();
        const keep = wanted.every((word) => text.includes(word)) &&
          picks.every(([column, select]) => !select.value || own(row.cells[column]) === select.value);
        row.hidden = !keep;
        left += keep;
      });
      count.textContent = left === rows.length ? "" : `${left} of ${rows.length} rows`;
    };
    tools.append(count);
    tools.addEventListener("input", update);
    table.parentElement.before(tools);
  };

  const hideable = () => {
    const names = new Map();
    document.querySelectorAll("svg .label").forEach((label) => {
      const title = label.querySelector("title");
      names.set(label.dataset.series, title ? title.textContent : label.textContent);
    });
    if (names.size < 2) return;
    const tools = element("fieldset", { className: "tools" }, element("legend", {}, "Series in all figures"));
    [...names].sort((a, b) => a[0] - b[0]).forEach(([series, name]) => {
      const box = element("input", { type: "checkbox", checked: true });
      box.addEventListener("change", () => {
        document.querySelectorAll(`svg [data-series="${Number(series)}"]`).forEach((part) => {
          part.classList.toggle("off", !box.checked);
        });
      });
      tools.append(element("label", {}, box, name));
    });
    document.querySelector(".figures").before(tools);
  };

  // The rates of all FLOP conventions are in the table; choosing one hides the columns of the others.
  const conventions = (table) => {
    const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent.split(", ")[1] || "");
    const names = [...new Set(heads.filter(Boolean))];
    if (names.length < 2) return;
    const all = element("option", { value: "", textContent: "all" });
    const select = element("select", {}, all, ...names.map((name) => element("option", { textContent: name })));
    select.addEventListener("change", () => {
      [...table.rows].forEach((row) => [...row.cells].forEach((cell, column) => {
        cell.hidden = Boolean(select.value && heads[column] && heads[column] !== select.value);
      }));
    });
    table.parentElement.before(element("div", { className: "tools" }, element("label", {}, "FLOP convention ", select)));
  };

  // The links carry gzip, which every browser can save; those that can also unpack it save the plain file.
  const unpacking = (link) => {
    link.addEventListener("click", async (event) => {
      event.preventDefault();
      const packed = Uint8Array.from(atob(link.href.split(",")[1]), (c) => c.charCodeAt(0));
      const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
      const plain = new Blob([await new Response(stream).blob()], { type: link.dataset.kind });
      const url = URL.createObjectURL(plain);
      element("a", { href: url, download: link.download.replace(/\.gz$/, "") }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10000);
    });
  };

  if (typeof DecompressionStream === "function") document.querySelectorAll("a[data-kind]").forEach(unpacking);
  document.querySelectorAll("table").forEach((table) => {
    if (table.tBodies[0].rows.length > 2) sortable(table);
  });
  document.querySelectorAll("table[id]").forEach((table) => {
    if (table.tBodies[0].rows.length > 6) filterable(table);
  });
  document.querySelectorAll("#efficiency-table").forEach(conventions);
  hideable();
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
})();
