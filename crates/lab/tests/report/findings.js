// Looks at the report in the frame, with the functions of browser/look.js, and writes what it finds into the document, for the test to read.
const frame = document.getElementById("page");

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

function find() {
  const folded = look();
  page.querySelectorAll("details").forEach((details) => details.setAttribute("open", ""));
  const unfolded = look();
  return {
    folded,
    unfolded,
    charts: charts(),
    scripts: page.scripts.length,
    colours: colours(page.documentElement),
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
