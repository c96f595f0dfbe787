// Looks at a page as a reader does. Whoever runs it sets `page` and `view` first: the document and its window.
"use strict";

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

const brightness = (colour) => colour.match(/[\d.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 765;

// How bright the paper and the ink of an element are.
function colours(element) {
  const style = view.getComputedStyle(element);
  return { paper: brightness(style.backgroundColor), ink: brightness(style.color) };
}

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
