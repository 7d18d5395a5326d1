// SPDX-License-Identifier: Apache-2.0 OR MIT
// Draws the charts of jitter pages from the JSON in #data; after common.js.

start((data, elements) => {
  // 1500 ns is 1.5 us.
  const time = (ns) => {
    const [value, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"]]
      .filter(([size]) => Math.abs(ns) >= size * 0.9999999)
      .map(([size, name]) => [ns / size, name])[0] || [ns, "ns"];
    return +value.toPrecision(4) + " " + unit;
  };
  const periodOf = (hz) => time(1e9 / hz);
  const compared = !data.events;
  const many = !compared && data.cpus > 8;
  const lineColour = (i) =>
    compared ? colour(i ? "got" : "asked") : many ? colour("got") : colour("line-" + i);

  // Axes.
  const decade = (v) => Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-6;
  const decades = (shown) => ({ ...text(), formatter: (v) => (decade(v) ? shown(v) : "") });
  const belowZero = { axisLine: { ...line("rule"), onZero: false } };
  const logAxis = (name, gap, more) => ({
    ...valueAxis(name, { nameGap: gap }),
    type: "log",
    minorSplitLine: { show: false },
    ...more,
  });
  const lengthAxis = (points) => {
    const xs = points.flatMap((p) => p.map((q) => q[0]));
    // Engines limit the number of arguments, some to 65536; the lines of all CPUs may have more points.
    const shortest = xs.reduce((a, b) => Math.min(a, b), Infinity);
    const longest = xs.reduce((a, b) => Math.max(a, b), -Infinity);
    return logAxis("length of an event", 26, {
      min: 10 ** Math.floor(Math.log10(shortest)),
      max: 10 ** Math.ceil(Math.log10(longest)),
      axisLabel: decades(time),
      ...belowZero,
    });
  };

  // Lines and charts.
  const style = (of, width, more) => ({ itemStyle: { color: of }, lineStyle: { color: of, width, ...more } });
  const dashed = [5, 4];
  const curve = (name, points, more) => ({ name, type: "line", symbol: "none", silent: true, data: points, ...more });
  const own = (i, width, more) => style(lineColour(i), many ? 1 : width, { opacity: many ? 0.5 : 1, ...more });
  const chart = (tip, more) => ({
    animation: false,
    grid: { left: LEFT, right: RIGHT + 6, top: 10, bottom: 42 },
    tooltip: tooltip(tip),
    ...more,
  });
  const pointer = { type: "line", snap: true, lineStyle: { color: colour("soft"), type: "solid" } };
  const axisTip = (formatter) => ({ trigger: "axis", axisPointer: pointer, formatter });
  const rows = (title, shown, value) =>
    title + shown.filter((p) => p.value[1] !== undefined).slice(0, 17)
      .map((p) => "<br>" + p.seriesName + " <b>" + value(p.value[1]) + "</b>").join("");

  const densityChart = () => chart(
    axisTip((shown) => rows(time(shown[0].axisValue), shown, (v) => v.toPrecision(3) + " per decade")),
    {
      xAxis: lengthAxis(data.density.map((d) => d.points)),
      yAxis: logAxis("density, per decade", 44, {
        min: 1e-6,
        axisLabel: decades((v) => (v >= 0.01 ? v : v.toExponential(0))),
      }),
      series: data.density.map((d) => curve(d.name, d.points, own(d.at, 1.8))),
    });

  const cumulativeChart = () => chart(
    axisTip((shown) => rows("up to " + time(shown[0].axisValue), shown, (v) => v.toFixed(2) + " %")),
    {
      xAxis: lengthAxis(data.shares.map((s) => s.events)),
      yAxis: valueAxis("share, %", { min: 0, max: 100, interval: 25 }),
      series: data.shares.flatMap((s) => [
        curve(s.name + ", events", s.events, own(s.at, 1.8)),
        curve(s.name + ", noise", s.noise, own(s.at, 1.4, { type: dashed })),
      ]),
    });

  // The lengths of all charts, so that they can be compared.
  const cellRows = compared ? [] : data.events.flatMap((e) => e.cells.map((c) => c[1] / e.rows_per_decade));
  const least = Math.floor(cellRows.reduce((a, b) => Math.min(a, b), 9));
  const most = Math.max(least + 1, Math.ceil(cellRows.reduce((a, b) => Math.max(a, b), 0) + 0.02));

  // Cells in which events are counted, as rectangles.
  const eventsChart = (element) => {
    const of = data.events[element.dataset.line];
    const greatest = of.cells.reduce((a, c) => Math.max(a, c[2]), 1);
    const width = data.length_s / of.columns;
    const from = (column) => data.begin_s + column * width;
    const ends = (row) => [10 ** (row / of.rows_per_decade), 10 ** ((row + 1) / of.rows_per_decade)];
    const holes = { silent: true, itemStyle: { color: colour("hole"), opacity: 0.6 },
      data: of.holes.map(([from, until]) => [{ xAxis: from }, { xAxis: until }]) };
    const tip = (p) => {
      const [low, high] = ends(p.value[1]);
      return from(p.value[0]).toPrecision(6) + " s, " + time(low) + " to " + time(high) +
        "<br><b>" + p.value[2] + "</b> event" + (p.value[2] > 1 ? "s" : "");
    };
    const cell = (params, api) => {
      const [low, high] = ends(api.value(1));
      const [x, y] = api.coord([from(api.value(0)), high]);
      const [right, bottom] = api.coord([from(api.value(0) + 1), low]);
      const strength = Math.log(1 + api.value(2)) / Math.log(1 + greatest);
      return {
        type: "rect",
        shape: { x, y, width: Math.max(2, right - x), height: bottom - y },
        style: { fill: colour("got"), opacity: 0.55 + 0.45 * strength },
      };
    };
    const label = (v) => +v.toPrecision(6);
    return chart({ formatter: tip }, {
      xAxis: {
        ...valueAxis("time, s", { nameGap: 26, splitLine: { show: false } }),
        min: data.begin_s,
        max: data.begin_s + data.length_s,
        axisLabel: { ...text(), showMinLabel: data.begin_s === 0, showMaxLabel: false, formatter: label },
        ...belowZero,
      },
      yAxis: logAxis("length", 44, { min: 10 ** least, max: 10 ** most, axisLabel: decades(time) }),
      series: [
        { type: "line", data: [], markArea: holes },
        { type: "custom", progressive: 0, data: of.cells, encode: { x: -1, y: -1 }, renderItem: cell },
      ],
    });
  };

  const spectrumChart = (element) => {
    const s = data.spectra[element.dataset.line];
    const all = [...s.starts, ...s.noise, ...s.needed].map((p) => p[1]);
    const xs = s.starts.map((p) => p[0]);
    const last = xs[xs.length - 1];
    // Names that would overlap are left out, the lower ones.
    const kept = [];
    [...s.peaks].sort((a, b) => b[1] - a[1]).forEach((p) => {
      const apart = (q) => Math.abs(Math.log10(p[0] / q[0])) / Math.log10(last / xs[0]);
      if (kept.length < 8 && kept.every((q) => apart(q) > 0.12)) kept.push(p);
    });
    const names = (params, api) => {
      const [x, y] = api.coord([api.value(0), api.value(1)]);
      const font = "600 10.5px system-ui, sans-serif";
      const style = { x, y: y - 4, align: "center", verticalAlign: "bottom", fill: colour("ink"), font };
      return { type: "text", style: { text: periodOf(1e9 / api.value(2)), ...style } };
    };
    const tip = (shown) => rows(
      (+shown[0].axisValue.toPrecision(4)) + " Hz, period " + periodOf(shown[0].axisValue),
      shown.filter((p) => p.seriesType === "line"), (v) => v.toPrecision(3));
    return chart(axisTip(tip), {
      xAxis: logAxis("frequency, Hz", 26, {
        min: xs[0],
        max: last,
        axisLabel: decades((v) => +v.toPrecision(3)),
        ...belowZero,
      }),
      yAxis: logAxis("power, 1 by chance", 44, {
        min: 0.1,
        max: 10 ** Math.ceil(Math.log10(Math.max(...all)) + 0.3),
        axisLabel: decades((v) => (v < 1e5 ? v : v.toExponential(0))),
      }),
      series: [
        curve("noise", s.noise, style(colour("asked"), 1.2)),
        curve("starts", s.starts, style(colour("got"), 1.2)),
        curve("needed", s.needed, style(colour("plain"), 1.2, { type: dashed })),
        { type: "custom", silent: true, tooltip: { show: false }, z: 5, data: kept, renderItem: names },
      ],
    });
  };

  const matrixChart = (element) => {
    const m = data.matrix;
    const size = m.cpus.length * Math.max(9, Math.min(30, Math.floor(400 / m.cpus.length)));
    element.style.height = size + 92 + "px";
    const axis = (more) => ({
      type: "category",
      data: m.cpus,
      axisLine: { show: false },
      axisTick: { show: false },
      axisLabel: text(),
      name: "CPU",
      nameLocation: "middle",
      nameGap: 26,
      nameTextStyle: text(),
      ...more,
    });
    const scale = Math.max(0.1, ...m.cells.map((c) => Math.abs(c[2])));
    const tip = (p) => "CPUs " + m.cpus[p.value[0]] + " and " + m.cpus[p.value[1]] +
      "<br><b>" + signed(p.value[2], 3) + "</b>";
    return chart({ formatter: tip }, {
      grid: { left: LEFT, width: size, top: 6, height: size, show: true,
        backgroundColor: colour("faint"), borderWidth: 0 },
      xAxis: axis(),
      yAxis: axis({ inverse: true }),
      visualMap: {
        type: "continuous",
        orient: "horizontal",
        left: LEFT,
        bottom: 4,
        itemWidth: 10,
        itemHeight: 140,
        textStyle: text(),
        hoverLink: false,
        min: -scale,
        max: scale,
        text: ["+" + scale.toFixed(2), "\u2212" + scale.toFixed(2)],
        inRange: { color: ["error-minus", "error-zero", "error-plus"].map(colour) },
      },
      series: { type: "heatmap", data: m.cells, progressive: 0, emphasis: { disabled: true } },
    });
  };

  const lagChart = (element) => {
    const { points } = data.lags[element.dataset.line];
    const tip = ([p]) => signed(p.axisValue, 0) + " us<br><b>" + p.value[1].toPrecision(3) + "</b> times the mean";
    return chart(axisTip(tip), {
      xAxis: valueAxis("later by, us", {
        nameGap: 26,
        min: points[0][0],
        max: points[points.length - 1][0],
        splitLine: { show: false },
        ...belowZero,
      }),
      yAxis: valueAxis("times the mean", { min: 0, splitNumber: 4 }),
      series: {
        ...curve(undefined, points, style(colour("got"), 1.2)),
        step: "middle",
        areaStyle: { color: colour("got"), opacity: 0.2 },
      },
    });
  };

  const options = {
    density: densityChart,
    cumulative: cumulativeChart,
    events: eventsChart,
    spectrum: spectrumChart,
    matrix: matrixChart,
    lag: lagChart,
  };
  return elements.map((element) =>
    chartIn(element, () => options[element.dataset.chart](element), element.classList.contains("heat")));
});
