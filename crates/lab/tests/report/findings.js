// Looks at the page in the frame as a reader does, and writes what it finds into the document, for the test to read.
"use strict";

const frame = document.getElementById("page");
// Both are others before the page is there.
let page;
let view;

// A box that scrolls shows all of what is in it.
const inScroller = (element) => element.closest(".scroll, pre") !== null;
const named = (element) => `${element.tagName} ${element.getAttribute("class") || ""}: ${element.textContent.slice(0, 60)}`;

function cutOff() {
  const isCut = (element) => element.clientWidth > 0 && element.scrollWidth > element.clientWidth + 1;
  const all = [...page.body.querySelectorAll("*")];
  return all.filter((e) => e.namespaceURI.endsWith("xhtml") && !inScroller(e) && isCut(e)).map(named);
}

// Each line of each text that is seen.
function textBoxes() {
  const walker = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
  const boxes = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!parent.namespaceURI.endsWith("xhtml") || !node.data.trim() || !parent.checkVisibility()) continue;
    const range = page.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) {
      if (box.width > 0) boxes.push({ node, parent, box, fontSize: parseFloat(view.getComputedStyle(parent).fontSize) });
    }
  }
  return boxes;
}

function overlaps(boxes) {
  // The letters of two lines may come as near as their font lets them.
  const NEAR_PX = 5;
  const sorted = boxes.filter((one) => !inScroller(one.parent)).sort((a, b) => a.box.top - b.box.top);
  const found = [];
  sorted.forEach((one, at) => {
    for (const other of sorted.slice(at + 1)) {
      if (other.box.top > one.box.bottom - NEAR_PX) break;
      const width = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
      if (one.node !== other.node && width > 1) found.push(`${named(one.parent)} | ${named(other.parent)}`);
    }
  });
  return found;
}

// Shapes must not lie under labels either.
function shapesUnderLabels() {
  const found = [];
  for (const plot of page.querySelectorAll(".plot")) {
    const drawing = plot.querySelector(".plot-drawing").getBoundingClientRect();
    for (const label of plot.querySelectorAll(".tick, .line-label, .x-title")) {
      const box = label.getBoundingClientRect();
      const isOver = box.right > drawing.left + 1 && box.left < drawing.right - 1 && box.bottom > drawing.top + 1 && box.top < drawing.bottom - 1;
      if (isOver) found.push(named(label));
    }
    if (drawing.width < 100) found.push(`a plot of ${drawing.width} px`);
  }
  return found;
}

const dataOf = (element) => ({ ...element.dataset });

function charts() {
  const bar = (row) => {
    const fill = row.querySelector(".fill");
    return { ...dataOf(row), widthPx: fill ? fill.getBoundingClientRect().width : 0, d: "" };
  };
  const line = (group) => ({ ...dataOf(group), widthPx: 0, d: group.querySelector(".stroke").getAttribute("d") });
  const experimentOf = (figure) => figure.closest("[data-experiment]").dataset.experiment;
  return [...page.querySelectorAll("figure[data-chart]")].map((figure) => ({
    experiment: experimentOf(figure),
    kind: figure.dataset.chart,
    target: figure.dataset.target || "",
    clients: figure.dataset.clients || "",
    marks: [...[...figure.querySelectorAll(".bar-row")].map(bar), ...[...figure.querySelectorAll("g.line")].map(line)],
    images: [...figure.querySelectorAll("svg[role=img]")].map((svg) => [...svg.children].slice(0, 2).map((e) => e.textContent)),
    tables: figure.querySelectorAll("details table").length,
  }));
}

const brightness = (colour) => colour.match(/[\d.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 765;

function look() {
  const boxes = textBoxes();
  const outside = ({ box, parent }) => !inScroller(parent) && (box.left < -1 || box.right > view.innerWidth + 1);
  return {
    innerWidth: view.innerWidth,
    scrollWidth: page.scrollingElement.scrollWidth,
    texts: boxes.length,
    cutOff: cutOff(),
    overlaps: overlaps(boxes),
    outside: boxes.filter(outside).map((one) => named(one.parent)),
    small: boxes.filter((one) => one.fontSize < 12).map((one) => named(one.parent)),
    shapesUnderLabels: shapesUnderLabels(),
  };
}

function find() {
  const folded = look();
  page.querySelectorAll("details").forEach((details) => details.setAttribute("open", ""));
  const unfolded = look();
  return {
    folded,
    unfolded,
    charts: charts(),
    scripts: page.scripts.length,
    paper: brightness(view.getComputedStyle(page.documentElement).backgroundColor),
    ink: brightness(view.getComputedStyle(page.documentElement).color),
  };
}

window.addEventListener("load", () => {
  let found;
  try {
    [page, view] = [frame.contentDocument, frame.contentWindow];
    found = find();
  } catch (error) {
    found = { error: `${error}` };
  }
  document.getElementById("findings").textContent = JSON.stringify(found);
});
