// SPDX-License-Identifier: Apache-2.0 OR MIT
// Draws the charts of report.html from the JSON in #data; after common.js.

// The charts of one run in its elements; `peers` are the runs that share the
// page, so that the scales are common to all.
const chartsOf = (data, peers, elements) => {
  const count = data.buckets;
  const width = data.width_s;
  const end = data.length_s > (count - 1) * width ? data.length_s : count * width;
  const tick =
    [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400]
      .find((t) => end / t <= 8) || nice(end / 8);
  const clock = (s) => {
    if (end <= 120) return +s.toFixed(2) + " s";
    const two = (n) => String(n).padStart(2, "0");
    const [h, m, rest] = [Math.floor(s / 3600), Math.floor(s / 60) % 60, Math.floor(s % 60)];
    return end < 7200 ? Math.floor(s / 60) + ":" + two(rest) : h + ":" + two(m) + (rest ? ":" + two(rest) : "");
  };
  const span = (i) => clock(i * width) + " to " + clock(Math.min(end, (i + 1) * width));

  // The time axis that all charts share; without labels where another stands
  // below it.
  const timeAxis = (labels, more) => ({
    type: "value",
    min: 0,
    max: end,
    interval: tick,
    axisLine: { ...line("rule"), onZero: false },
    axisTick: { show: labels, ...line("rule") },
    axisLabel: {
      show: labels,
      ...text(),
      formatter: (v) => (end % tick && v === end ? "" : clock(v)),
    },
    splitLine: { show: false },
    axisPointer: { label: { show: false } },
    ...more,
  });
  // Values of buckets as a staircase: each holds until the next begins.
  const stairs = (values) => {
    const points = values.map((v, i) => [i * width, v]);
    points.push([Math.min(end, values.length * width), values[values.length - 1]]);
    return points;
  };
  const stair = (name, values, lineWidth) => ({
    name,
    type: "line",
    step: "end",
    symbol: "none",
    silent: true,
    data: stairs(values),
    itemStyle: { color: colour(name) },
    lineStyle: { color: colour(name), width: lineWidth },
  });

  // From the least to the greatest window, one polygon per stretch without a
  // gap. (Stacked areas would do for categories, but not over a value axis.)
  const band = (cpu) => {
    const stretches = [];
    cpu.got_min.forEach((low, i) => {
      if (low === null) return;
      const last = stretches[stretches.length - 1];
      if (last && last.until === i) last.until = i + 1;
      else stretches.push({ from: i, until: i + 1 });
    });
    const outline = ({ from, until }) => {
      const upper = [];
      const lower = [];
      for (let i = from; i < until; i++) {
        const next = Math.min(end, (i + 1) * width);
        upper.push([i * width, cpu.got_max[i]], [next, cpu.got_max[i]]);
        lower.push([i * width, cpu.got_min[i]], [next, cpu.got_min[i]]);
      }
      return upper.concat(lower.reverse());
    };
    return {
      type: "custom",
      silent: true,
      tooltip: { show: false },
      data: stretches.map((s) => [s.from * width, 0]),
      renderItem: (params, api) => ({
        type: "polygon",
        shape: { points: outline(stretches[params.dataIndex]).map((p) => api.coord(p)) },
        style: { fill: colour("got"), opacity: 0.3 },
      }),
    };
  };

  const holeAreas = (cpu) => {
    const ranges = [];
    for (const i of cpu.holes) {
      const last = ranges[ranges.length - 1];
      if (last && last[1].xAxis === i * width) last[1].xAxis = (i + 1) * width;
      else ranges.push([{ xAxis: i * width }, { xAxis: (i + 1) * width }]);
    }
    return { silent: true, itemStyle: { color: colour("hole"), opacity: 0.6 }, data: ranges };
  };

  const sizes = (values) => values.filter((v) => v !== null).map(Math.abs);
  // Common to all charts of a kind, so that they can be compared.
  const errorScale = (tracks) => nice(Math.max(0.1, ...tracks.flatMap((t) => sizes(t.error))));
  const loadChart = (track, scale) => {
    const value = (v, digits) => (v === null || v === undefined ? "\u2013" : v.toFixed(digits) + " %");
    return {
      animation: false,
      grid: [
        { left: LEFT, right: RIGHT, top: 10, height: 150 },
        { left: LEFT, right: RIGHT, top: 182, height: 64 },
      ],
      axisPointer: { link: [{ xAxisIndex: "all" }] },
      tooltip: tooltip({
        trigger: "axis",
        axisPointer: { type: "line", lineStyle: { color: colour("soft"), type: "solid" } },
        formatter: (shown) => {
          const i = Math.min(count - 1, Math.floor(shown[0].axisValue / width + 1e-9));
          const rows = [
            ["asked", value(track.asked[i], 2)],
            ["got", value(track.got[i], 2)],
          ];
          if (track.got_min.length) {
            rows.push(["got, windows", value(track.got_min[i], 2) + " to " + value(track.got_max[i], 2)]);
          }
          const error = track.error[i] ?? null;
          rows.push(["error", error === null ? "\u2013" : signed(error, 2) + " points"]);
          if (track.steal) rows.push(["steal", value(track.steal[i], 1)]);
          return span(i) + rows.map((r) => "<br>" + r[0] + " <b>" + r[1] + "</b>").join("");
        },
      }),
      xAxis: [timeAxis(false, { gridIndex: 0 }), timeAxis(true, { gridIndex: 1 })],
      yAxis: [
        valueAxis(data.quantity + ", %", { gridIndex: 0, min: 0, max: 100, interval: 25 }),
        valueAxis("error, points", {
          gridIndex: 1,
          min: -scale,
          max: scale,
          interval: scale,
          axisLabel: { ...text(), formatter: (v) => signed(v, scale < 1 ? 1 : 0) },
        }),
      ],
      series: [
        { ...stair("asked", track.asked, 5), markArea: holeAreas(track) },
        band(track),
        stair("got", track.got, 1.5),
        {
          ...stair("plain", track.error, 1),
          xAxisIndex: 1,
          yAxisIndex: 1,
          areaStyle: { color: colour("plain"), opacity: 0.3 },
        },
      ],
    };
  };

  const heatChart = (element, pick, unit, digits, scale) => {
    const cpus = data.rows;
    // Two maps fit on a sheet of paper.
    const room = "paper" in document.documentElement.dataset ? 380 : 560;
    const rowHeight = Math.max(1, Math.min(18, Math.floor(room / cpus.length)));
    const height = Math.max(80, rowHeight * cpus.length);
    element.style.height = height + 78 + "px";
    const cells = cpus.flatMap((c, y) =>
      pick(c).map((v, x) => [x, y, v]).filter((cell) => cell[2] !== null));
    const labelStep = [1, 2, 4, 8, 16, 32, 64].find((n) => n * rowHeight >= 13) || 128;
    // The first multiple of the tick from there; a bucket seldom begins at one.
    const next = (i) => Math.ceil((i * width) / tick - 1e-9) * tick;
    const onTick = (i) => next(+i) < (+i + 1) * width - 1e-9;
    return {
      animation: false,
      grid: {
        left: LEFT,
        right: RIGHT,
        top: 6,
        height,
        show: true,
        backgroundColor: colour("hole"),
        borderWidth: 0,
      },
      tooltip: tooltip({
        formatter: (p) =>
          "CPU " + cpus[p.value[1]].cpu + ", " + span(p.value[0]) +
          "<br><b>" + (unit === "%" ? p.value[2].toFixed(digits) : signed(p.value[2], digits)) + " " + unit + "</b>",
      }),
      xAxis: {
        type: "category",
        data: Array.from({ length: count }, (_, i) => i),
        axisLine: line("rule"),
        axisTick: { alignWithLabel: false, interval: onTick, ...line("rule") },
        axisLabel: { ...text(), align: "left", interval: onTick, formatter: (i) => clock(next(+i)) },
      },
      yAxis: {
        type: "category",
        name: "CPU",
        nameLocation: "middle",
        nameGap: 40,
        nameTextStyle: text(),
        inverse: true,
        data: cpus.map((c) => c.cpu),
        axisLine: { show: false },
        axisTick: { show: false },
        axisLabel: { ...text(), interval: (i) => i % labelStep === 0 },
      },
      visualMap: {
        type: "continuous",
        orient: "horizontal",
        right: RIGHT,
        bottom: 4,
        itemWidth: 10,
        itemHeight: 160,
        textStyle: text(),
        hoverLink: false,
        ...scale,
      },
      series: { type: "heatmap", data: cells, progressive: 0, emphasis: { disabled: true } },
    };
  };

  const gotHeat = (element) =>
    heatChart(element, (c) => c.got, "%", 1, {
      min: 0,
      max: 100,
      text: ["100 %", "0 %"],
      inRange: { color: ["heat-low", "heat-middle", "heat-high"].map(colour) },
    });

  // Saturates where 1 % of the cells lie beyond, so that one of them does not
  // wash out all others.
  const errorHeat = (element) => {
    const all = data.rows.flatMap((r) => sizes(r.error)).sort((a, b) => a - b);
    const limit = nice(Math.max(0.1, all[Math.floor(all.length * 0.99)] || 0));
    const beyond = all[all.length - 1] > limit ? "\u2265 " : "";
    return heatChart(element, (c) => c.error, "points", 2, {
      min: -limit,
      max: limit,
      text: [beyond + "+" + limit + " points", (beyond ? "\u2264 " : "") + "\u2212" + limit],
      inRange: { color: ["error-minus", "error-zero", "error-plus"].map(colour) },
    });
  };

  const distributionChart = () => {
    const h = data.histogram;
    const middle = (h.share_pct.length - 1) / 2;
    const digits = h.bar_points < 0.1 ? 2 : h.bar_points < 1 ? 1 : 0;
    return {
      animation: false,
      grid: { left: LEFT, right: RIGHT, top: 10, bottom: 40 },
      tooltip: tooltip({
        trigger: "axis",
        axisPointer: { type: "shadow" },
        formatter: (p) =>
          signed((p[0].dataIndex - middle) * h.bar_points, 3) + " \u00b1 " + h.bar_points / 2 +
          " points<br><b>" + p[0].value.toFixed(1) + " %</b> of the windows",
      }),
      xAxis: {
        type: "category",
        data: h.share_pct.map((_, i) => i),
        name: "error of a 1 s window (got minus asked), points",
        nameLocation: "middle",
        nameGap: 24,
        nameTextStyle: text(),
        axisLine: line("rule"),
        axisTick: { show: false },
        axisLabel: {
          ...text(),
          interval: (i) => (i - middle) % 5 === 0,
          formatter: (i) => signed((i - middle) * h.bar_points, digits),
        },
      },
      yAxis: valueAxis("windows, %", { min: 0, splitNumber: 4 }),
      series: {
        type: "bar",
        data: h.share_pct,
        barCategoryGap: "12%",
        itemStyle: { color: colour("plain") },
      },
    };
  };

  const stealChart = () => {
    const mean = data.mean.steal;
    const most = data.mean.steal_max;
    return {
      animation: false,
      grid: { left: LEFT, right: RIGHT, top: 10, bottom: 40 },
      tooltip: tooltip({
        trigger: "axis",
        formatter: (shown) => {
          const i = Math.min(count - 1, Math.floor(shown[0].axisValue / width + 1e-9));
          return span(i) + "<br>mean <b>" + (mean[i] || 0).toFixed(1) +
            " %</b><br>greatest <b>" + (most[i] || 0).toFixed(1) + " %</b>";
        },
      }),
      xAxis: timeAxis(true),
      yAxis: valueAxis("steal, %", { min: 0, max: nice(Math.max(1, ...most)), splitNumber: 4 }),
      series: [
        stair("plain", most, 1),
        { ...stair("plain", mean, 0), areaStyle: { color: colour("plain"), opacity: 0.5 } },
      ],
    };
  };

  const options = {
    load: (e) => loadChart(data.lines[e.dataset.line], errorScale(data.lines)),
    mean: () => loadChart(data.mean, errorScale(peers.map((p) => p.mean))),
    got: gotHeat,
    error: errorHeat,
    distribution: distributionChart,
    steal: stealChart,
  };

  return elements.map((element) => {
    const option = options[element.dataset.chart];
    return chartIn(element, () => option(element), element.classList.contains("heat"));
  });
};

start((runs, elements) => runs.flatMap((run, i) =>
  chartsOf(run, runs, elements.filter((e) => Number(e.dataset.of || 0) === i))));
