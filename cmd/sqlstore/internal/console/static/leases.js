"use strict";
// Counts down the time that leases have left. A client may have renewed one since the page was made.
const units = [[" d", 86400], [" h", 3600], [" min", 60], [" s", 1]];
const duration = (seconds) => {
	const at = units.findIndex((unit) => seconds >= unit[1]);
	if (at < 0) return "0 s, unless renewed";
	const [name, size] = units[at];
	const next = units[at + 1];
	const rest = next ? Math.floor((seconds % size) / next[1]) : 0;
	return Math.floor(seconds / size) + name + (rest > 0 ? " " + rest + next[0] : "");
};
const made = Date.now();
const left = [...document.querySelectorAll("[data-left]")];
if (left.length > 0) {
	setInterval(() => {
		if (document.hidden) return;
		const passed = Math.floor((Date.now() - made) / 1000);
		for (const element of left) {
			const text = duration(element.dataset.left - passed);
			if (element.textContent !== text) element.textContent = text;
		}
	}, 1000);
}
