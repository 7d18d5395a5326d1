// SPDX-License-Identifier: Apache-2.0 OR MIT
// Draws slowdown against ranks from the JSON in #data.
start((curves, elements) => {
  const COLOURS = ["got", "asked", "kept", "missed", "plain", "undecided"];
  const pct = (v) => (v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v >= 1 ? v.toFixed(2) : v.toFixed(3)) + " %";
  const count = (n) => n.toLocaleString("en").replace(/,/g, "\u202f");
  const ranks = curves.flatMap((c) => c.points.map((p) => p.ranks));

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

  const series = (curve, n) => {
    const shade = colour(COLOURS[n % COLOURS.length]);
    const hollow = { color: colour("page"), borderColor: shade, borderWidth: 1.5 };
    const drawn = {
      name: curve.name,
      type: "line",
      symbol: "circle",
      symbolSize: 6,
      itemStyle: { color: shade },
      lineStyle: { color: shade, width: 2, type: n < COLOURS.length ? "solid" : "dashed" },
      data: curve.points.map((p) => ({
        value: [p.ranks, p.mean.slowdown_pct],
        itemStyle: p.saturated ? hollow : { color: shade },
      })),
    };
    const fitted = {
      name: curve.name + ", with a tail",
      type: "line",
      symbol: "none",
      silent: true,
      lineStyle: { color: shade, width: 1.5, type: "dotted" },
      data: curve.points.filter((p) => p.tail !== null).map((p) => [p.ranks, p.tail.slowdown_pct]),
    };
    return [band(curve, shade), drawn, ...(fitted.data.length ? [fitted] : [])];
  };

  const described = (shown) => {
    const rows = curves.map((curve) => {
      const p = curve.points.find((point) => point.ranks === shown[0].axisValue);
      if (!p) return null;
      const name = document.createElement("span");
      name.textContent = curve.name;
      const interval = p.mean.interval_pct;
      const bounds = interval ? " (" + pct(interval[0]) + " to " + pct(interval[1]) + ")" : "";
      return name.innerHTML + " <b>" + (p.saturated ? "\u2265 " : "") + pct(p.mean.slowdown_pct) + "</b>" + bounds;
    });
    return [count(shown[0].axisValue) + " ranks", ...rows.filter((row) => row !== null)].join("<br>");
  };

  const option = () => ({
    animation: false,
    grid: { left: 62, right: 18, top: 14, bottom: 44 },
    tooltip: tooltip({ trigger: "axis", formatter: described }),
    xAxis: valueAxis("ranks", {
      type: "log",
      logBase: 10,
      nameGap: 26,
      min: Math.min(...ranks),
      max: Math.max(2, ...ranks),
      axisLine: line("rule"),
      axisTick: line("rule"),
      axisLabel: { ...text(), formatter: (n) => count(Math.round(n)) },
      splitLine: { show: false },
    }),
    yAxis: valueAxis("slowdown, %", { min: 0, nameGap: 44 }),
    series: curves.flatMap(series),
  });
  return elements.map((element) => chartIn(element, option));
});
