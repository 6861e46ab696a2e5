// The overview stays up to date while somebody looks at it. The server sends each new sample of its metrics; with it,
// the page asks for the rest of itself again, but not while somebody copies from it.
import { follow, load, replace } from "./live.js";

const stale = document.getElementById("stale");
const charts = [...document.querySelectorAll(".chart")];
let hour = null; // the samples of the last hour by series, and their times
let early = null; // samples that arrive before those of /recent.json, which make it null
let described = 0; // when the charts were last described

// The formats are those of charts.go.
const digits = (v) => v.toFixed(v < 10 ? 2 : v < 100 ? 1 : 0);
const formats = {
	"per-second": (v) => v !== 0 && v < 10 ? v.toFixed(1) : Math.round(v).toLocaleString("en"),
	"seconds": (v) => v < 1 ? digits(v * 1000) + " ms" : digits(v) + " s",
	"number": (v) => Math.round(v).toLocaleString("en"),
	"bytes": (v) => {
		const power = Math.max(0, Math.min(5, Math.floor(Math.log2(Math.max(v, 1)) / 10)));
		const n = v / 1024 ** power;
		return (power > 0 && n < 9.95 ? n.toFixed(1) : Math.round(n)) + " " + ["B", "KiB", "MiB", "GiB", "TiB", "PiB"][power];
	},
};
const clock = (seconds, end) => new Date(seconds * 1000).toISOString().slice(11, end);

// color returns what a custom property is in the current scheme.
const probe = document.createElement("span");
document.querySelector(".charts").after(probe);
const colors = {};
const findColors = () => {
	for (const name of ["curve-1", "curve-2", "curve-3", "quiet", "line"]) {
		probe.style.color = `var(--${name})`;
		colors[name] = getComputedStyle(probe).color;
	}
};

const curvesOf = (chart) => [...chart.querySelectorAll("[data-series]")];
const dashes = [[], [6, 3], [2, 3]];
const increments = {
	"bytes": Array.from({ length: 51 }, (_, i) => 2 ** i),
	"number": [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6],
};

// lone returns the samples between two gaps, which no line leads to.
const lone = (u, series) => u.data[series].flatMap((v, i, all) =>
	v != null && all[i - 1] == null && all[i + 1] == null ? [i] : []);

const plot = (chart) => {
	const unit = chart.dataset.unit;
	const text = { stroke: () => colors.quiet, font: "12px system-ui, sans-serif", ticks: { show: false } };
	const grid = { stroke: () => colors.line, width: 1 };
	return new uPlot({
		width: chart.clientWidth, height: 120, padding: [8, 20, 0, 0],
		tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
		legend: { show: false },
		cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 }, sync: { key: "hour" } },
		scales: {
			x: { range: (_, from, to) => [Math.max(Math.min(from, to - 300), to - 3600), to] },
			y: { range: (_, from, to) => [0, to > 0 ? to * 1.1 : 1] },
		},
		axes: [
			{ ...text, grid: { show: false }, size: 24, space: 64, values: (_, at) => at.map((s) => clock(s, 16)) },
			{ ...text, grid, size: 64, space: 32, incrs: increments[unit],
				values: (_, at) => at.map((v) => v === 0 ? "0" : formats[unit](v).replace(/\.0+(?=\D|$)/, "")) },
		],
		series: [{}, ...curvesOf(chart).map((_, i) => ({
			stroke: () => colors[`curve-${i + 1}`], width: 1.5, dash: dashes[i], points: { show: true, size: 3, filter: lone },
		}))],
		hooks: { setCursor: [(u) => show(u.cursor.idx)] },
	}, dataOf(chart), chart.querySelector(".plot"));
};
const dataOf = (chart) => [hour.time, ...curvesOf(chart).map((c) => hour[c.dataset.series])];

// show writes the values of one sample into the captions: those under the cursor, otherwise the newest.
const show = (index) => {
	const at = index ?? hour.time.length - 1;
	document.getElementById("cursor").textContent = index == null ? "" : `at ${clock(hour.time[at], 19)} UTC`;
	for (const chart of charts) {
		for (const curve of curvesOf(chart)) {
			const v = hour[curve.dataset.series][at];
			curve.querySelector(".value").textContent = v == null ? "–" : formats[chart.dataset.unit](v);
		}
	}
};

// describe tells screen readers the newest values, seldom enough to let them finish.
const describe = () => {
	if (Date.now() - described < 30000) return;
	described = Date.now();
	for (const chart of charts) {
		const element = chart.querySelector(".plot");
		element.setAttribute("role", "img");
		element.setAttribute("aria-label", `Chart of the last hour. ${chart.querySelector("figcaption").textContent.trim().replace(/\s+/g, " ")}.`);
	}
};

const draw = () => {
	if (hour.time.length === 0) return;
	const cursor = charts[0].plot?.cursor.idx;
	if (cursor == null) {
		show(null);
		describe();
	}
	if (hour.time.length < 2) return;
	for (const chart of charts) {
		if (chart.plot) {
			chart.plot.setData(dataOf(chart));
		} else {
			chart.plot = plot(chart);
		}
	}
};

const add = (sample) => {
	if (sample.time === hour.time.at(-1)) return;
	if (sample.time < hour.time.at(-1)) { // the clock was set back
		for (const name of Object.keys(hour)) hour[name] = [];
	}
	for (const name of Object.keys(hour)) hour[name].push(sample[name]);
	while (hour.time[0] < sample.time - 3600) {
		for (const name of Object.keys(hour)) hour[name].shift();
	}
};

// refresh replaces what the page shows besides the charts.
let refreshing = false;
const refresh = async () => {
	if (refreshing) return;
	refreshing = true;
	try {
		await replace();
		stale.hidden = true;
	} catch {
		stale.hidden = false;
	}
	refreshing = false;
};

const width = new ResizeObserver(() => {
	for (const chart of charts) chart.plot?.setSize({ width: chart.clientWidth, height: 120 });
});
width.observe(document.querySelector(".charts"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
	findColors();
	for (const chart of charts) chart.plot?.redraw(false);
});
findColors();
follow(() => {
	early = [];
	return "/live";
}, {
	sample: (sample) => {
		if (early) {
			early.push(sample);
			return;
		}
		add(sample);
		draw();
		refresh();
	},
}, async () => {
	hour = await (await load("/recent.json")).json();
	early.filter((sample) => sample.time > (hour.time.at(-1) ?? 0)).forEach(add);
	early = null;
	draw();
	await replace();
});
