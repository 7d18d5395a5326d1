// SPDX-License-Identifier: Apache-2.0 OR MIT
// Draws slowdown against ranks from the JSON in #data.
(() => {
  "use strict";
  const curves = JSON.parse(document.getElementById("data").textContent);
  const COLOURS = ["got", "asked", "kept", "missed", "plain", "undecided"];
  const rule = () => ({ lineStyle: { color: colour("rule") } });
  const pct = (v) => (v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v >= 1 ? v.toFixed(2) : v.toFixed(3)) + " %";
  const count = (n) => n.toLocaleString("en").replace(/,/g, "\u202f");

  // From the lower end of the intervals to the upper, one polygon.
  const band = (curve, shade) => {
    const known = curve.points.filter((p) => p.mean.interval_pct);
    const outline = known.map((p) => [p.ranks, p.mean.interval_pct[1]])
      .concat(known.map((p) => [p.ranks, p.mean.interval_pct[0]]).reverse());
    return {
      type: "custom",
      silent: true,
      clip: true,
      tooltip: { show: false },
      data: known.length > 1 ? [outline[0]] : [],
      renderItem: (params, api) => ({
        type: "polygon",
        shape: { points: outline.map((p) => api.coord(p)) },
        style: { fill: shade, opacity: 0.15 },
      }),
    };
  };

  const line = (curve, n) => {
    const shade = colour(COLOURS[n % COLOURS.length]);
    const drawn = {
      name: curve.name,
      type: "line",
      symbol: "circle",
      symbolSize: 6,
      itemStyle: { color: shade },
      lineStyle: { color: shade, width: 2, type: n < COLOURS.length ? "solid" : "dashed" },
      data: curve.points.map((p) => ({
        value: [p.ranks, p.mean.slowdown_pct],
        itemStyle: p.saturated
          ? { color: colour("page"), borderColor: shade, borderWidth: 1.5 }
          : { color: shade },
      })),
    };
    const tail = curve.points.filter((p) => p.tail !== null);
    const fitted = {
      name: curve.name + ", with a tail",
      type: "line",
      symbol: "none",
      silent: true,
      lineStyle: { color: shade, width: 1.5, type: "dotted" },
      data: tail.map((p) => [p.ranks, p.tail.slowdown_pct]),
    };
    return [band(curve, shade), drawn, ...(tail.length ? [fitted] : [])];
  };

  const option = () => ({
    animation: false,
    grid: { left: 62, right: 18, top: 14, bottom: 44 },
    tooltip: {
      trigger: "axis",
      backgroundColor: colour("page"),
      borderColor: colour("rule"),
      textStyle: { color: colour("ink"), fontSize: 12 },
      transitionDuration: 0,
      confine: true,
      formatter: (shown) => {
        const ranks = shown[0].axisValue;
        const rows = curves.map((curve) => {
          const p = curve.points.find((point) => point.ranks === ranks);
          if (!p) return null;
          const name = document.createElement("span");
          name.textContent = curve.name;
          const bounds = p.mean.interval_pct
            ? " (" + pct(p.mean.interval_pct[0]) + " to " + pct(p.mean.interval_pct[1]) + ")"
            : "";
          return name.innerHTML + " <b>" + (p.saturated ? "\u2265 " : "") + pct(p.mean.slowdown_pct) + "</b>" + bounds;
        });
        return [count(ranks) + " ranks", ...rows.filter((row) => row !== null)].join("<br>");
      },
    },
    xAxis: {
      type: "log",
      logBase: 10,
      name: "ranks",
      nameLocation: "middle",
      nameGap: 26,
      nameTextStyle: text(),
      min: Math.min(...curves.flatMap((c) => c.points.map((p) => p.ranks))),
      max: Math.max(2, ...curves.flatMap((c) => c.points.map((p) => p.ranks))),
      axisLine: rule(),
      axisTick: rule(),
      axisLabel: { ...text(), formatter: (n) => count(Math.round(n)) },
      splitLine: { show: false },
    },
    yAxis: {
      type: "value",
      name: "slowdown, %",
      min: 0,
      nameLocation: "middle",
      nameGap: 44,
      nameTextStyle: text(),
      axisLine: { show: false },
      axisTick: { show: false },
      axisLabel: text(),
      splitLine: rule(),
    },
    series: curves.flatMap(line),
  });

  const element = document.querySelector("[data-chart=scale]");
  const chart = echarts.init(element, null, { renderer: "svg" });
  const draw = () => {
    chart.resize();
    chart.setOption(option(), true);
  };
  draw();
  window.addEventListener("resize", () => chart.resize());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  window.addEventListener("beforeprint", () => {
    document.documentElement.dataset.paper = "";
    draw();
  });
  window.addEventListener("afterprint", () => {
    delete document.documentElement.dataset.paper;
    draw();
  });
})();
