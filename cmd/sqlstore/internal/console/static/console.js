"use strict";
// Ctrl-K, or a slash outside of a field, leads to the search field.
document.addEventListener("keydown", (event) => {
	const typing = event.target.matches("input, textarea");
	if ((event.key === "k" && (event.ctrlKey || event.metaKey)) || (event.key === "/" && !typing)) {
		event.preventDefault();
		document.getElementById("q").select();
	}
});
// The overview stays up to date while somebody looks at it.
const live = document.getElementById("live");
if (live) {
	setInterval(async () => {
		if (document.hidden || document.activeElement.matches("main a")) return;
		try {
			const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
			if (!answer.ok) throw new Error(answer.status);
			const page = new DOMParser().parseFromString(await answer.text(), "text/html");
			document.querySelector("main").replaceChildren(...page.querySelector("main").childNodes);
		} catch {
			document.getElementById("live").textContent = "The server does not answer. This page is out of date.";
		}
	}, live.dataset.every * 1000);
}
