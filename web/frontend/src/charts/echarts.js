/**
 * The parts of ECharts that the charts use: axes, marks drawn by hand, tooltips, and pictures as SVG.
 *
 * Nothing of it needs inline styles in HTML: it sets styles through the CSSOM, and tooltips are made of nodes.
 */
import { CustomChart } from "echarts/charts";
import { GridComponent, TooltipComponent } from "echarts/components";
import { init, use } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";

use([CustomChart, GridComponent, TooltipComponent, SVGRenderer]);

export { init };
