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
const shown = new WeakMap(); // when each element was, because a live page replaces them
const count = () => {
	for (const element of document.querySelectorAll("[data-left]")) {
		if (!shown.has(element)) shown.set(element, Date.now());
		const text = duration(element.dataset.left - Math.floor((Date.now() - shown.get(element)) / 1000));
		if (element.textContent !== text) element.textContent = text;
	}
};
count();
setInterval(() => { if (!document.hidden) count(); }, 1000);
