"use strict";
// Ctrl-K, or a slash outside of a field, leads to the search field.
document.addEventListener("keydown", (event) => {
	const typing = event.target.matches("input, textarea");
	if ((event.key === "k" && (event.ctrlKey || event.metaKey)) || (event.key === "/" && !typing)) {
		event.preventDefault();
		document.getElementById("q").select();
	}
});
// The overview stays up to date while somebody looks at it, but not while they copy from it.
const live = document.getElementById("live");
if (live) {
	const main = document.querySelector("main");
	const stale = document.getElementById("stale");
	const update = async () => {
		const selection = document.getSelection();
		const selected = !selection.isCollapsed && main.contains(selection.anchorNode);
		if (!document.hidden && !selected) {
			try {
				const answer = await fetch(location.href, { signal: AbortSignal.timeout(10000) });
				if (!answer.ok) throw new Error(answer.status);
				const page = new DOMParser().parseFromString(await answer.text(), "text/html");
				const scrolled = [...main.querySelectorAll(".wide")].map((x) => x.scrollLeft);
				main.replaceChildren(...page.querySelector("main").childNodes);
				main.querySelectorAll(".wide").forEach((x, i) => { x.scrollLeft = scrolled[i]; });
				stale.hidden = true;
			} catch {
				stale.hidden = false;
			}
		}
		setTimeout(update, live.dataset.every * 1000);
	};
	setTimeout(update, live.dataset.every * 1000);
}
