// SPDX-License-Identifier: Apache-2.0 OR MIT
// The parts of Apache ECharts that report.html draws with, and no others.
import { init, use } from "echarts/core";
import { BarChart, CustomChart, HeatmapChart, LineChart } from "echarts/charts";
import {
  AxisPointerComponent,
  GridComponent,
  MarkAreaComponent,
  TooltipComponent,
  VisualMapContinuousComponent,
} from "echarts/components";
import { CanvasRenderer, SVGRenderer } from "echarts/renderers";

use([
  AxisPointerComponent,
  BarChart,
  CanvasRenderer,
  CustomChart,
  GridComponent,
  HeatmapChart,
  LineChart,
  MarkAreaComponent,
  SVGRenderer,
  TooltipComponent,
  VisualMapContinuousComponent,
]);

export { init };
