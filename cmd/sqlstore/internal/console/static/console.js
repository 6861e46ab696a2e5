"use strict";
// Ctrl-K, or a slash outside of a field, leads to the search field.
document.addEventListener("keydown", (event) => {
	const typing = event.target.matches("input, textarea");
	if ((event.key === "k" && (event.ctrlKey || event.metaKey)) || (event.key === "/" && !typing)) {
		event.preventDefault();
		document.getElementById("q").select();
	}
});
