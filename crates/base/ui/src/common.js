// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the charts of all pages have in common.
"use strict";

const LEFT = 58;
const RIGHT = 14;

const colour = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const signed = (v, digits) => (v > 0 ? "+" : v < 0 ? "\u2212" : "") + Math.abs(v).toFixed(digits);

// The least round number that is not below v.
const nice = (v) => {
  const power = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 3, 5, 10].map((n) => +(n * power).toPrecision(1)).find((n) => n >= v * 0.999999);
};

const text = () => ({ color: colour("soft"), fontSize: 11 });
const line = (name) => ({ lineStyle: { color: colour(name) } });
const tooltip = (more) => ({
  backgroundColor: colour("page"),
  borderColor: colour("rule"),
  textStyle: { color: colour("ink"), fontSize: 12 },
  transitionDuration: 0,
  confine: true,
  ...more,
});
const valueAxis = (name, more) => ({
  type: "value",
  name,
  nameLocation: "middle",
  nameGap: 40,
  nameTextStyle: text(),
  axisLine: { show: false },
  axisTick: { show: false },
  axisLabel: text(),
  splitLine: line("rule"),
  ...more,
});

// A chart that draws itself. Lines as vectors, which print sharp; maps of
// thousands of cells as pixels, at twice the density for the same reason.
const chartIn = (element, option, pixels) => {
  option();
  const chart = echarts.init(element, null, pixels
    ? { renderer: "canvas", devicePixelRatio: Math.max(2, window.devicePixelRatio) }
    : { renderer: "svg" });
  // Drawing paints at once, resizing only with the next frame, which does
  // not come before a page is printed: so the size comes first.
  const draw = () => {
    const drawn = option();
    chart.resize();
    chart.setOption(drawn, true);
  };
  return { chart, draw };
};

// Makes all charts from the page's data, and draws them again when the window,
// the colours or the medium change.
const start = (make) => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const charts = make(data, Array.from(document.querySelectorAll("[data-chart]")));
  const drawAll = () => charts.forEach((c) => c.draw());

  drawAll();
  window.addEventListener("resize", () => charts.forEach((c) => c.chart.resize()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  window.addEventListener("beforeprint", () => {
    document.documentElement.dataset.paper = "";
    drawAll();
  });
  window.addEventListener("afterprint", () => {
    delete document.documentElement.dataset.paper;
    drawAll();
  });
};
