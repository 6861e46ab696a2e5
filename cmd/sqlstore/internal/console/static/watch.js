// Changes as they are committed. Pausing, or hiding the page, ends the stream; it goes on after the last complete
// revision, so nothing is lost while the history lasts.
import { follow } from "./live.js";

const changes = document.getElementById("changes");
const rows = changes.querySelector("tbody");
const filter = document.getElementById("filter");
const pause = document.getElementById("pause");
const count = document.getElementById("count");
const failed = document.getElementById("failed");
let paused = false;
let after = changes.dataset.after;
let newest = 0; // revision, of which seen has the keys
let seen = new Set();
let total = 0;

const cell = (row, text, className) => {
	const td = row.insertCell();
	if (className) td.className = className;
	if (text !== undefined) td.textContent = text;
	return td;
};
const anchor = (td, href, text) => {
	const a = document.createElement("a");
	a.href = href;
	const bdi = document.createElement("bdi");
	bdi.textContent = text;
	a.append(bdi);
	td.append(a);
	return a;
};
const matches = (row) => row.dataset.text.includes(filter.value.toLowerCase());
const add = (e) => {
	const row = document.createElement("tr");
	row.dataset.text = `${e.key}\n${e.kind ?? ""}`.toLowerCase();
	row.hidden = !matches(row);
	cell(row, e.revision.toLocaleString("en-US"), "number");
	const key = cell(row, undefined, "text");
	if (e.object) anchor(key, e.object, e.key);
	else key.textContent = e.key;
	cell(row, e.action);
	cell(row, e.kind ?? "");
	cell(row, e.action === "deleted" ? "" : e.bytes.toLocaleString("en-US"), "number");
	cell(row, new Date().toLocaleTimeString("en-GB"));
	const compare = cell(row);
	if (e.compare) {
		anchor(compare, e.compare, "Compare").setAttribute("aria-label", `Compare revision ${e.revision} with the one before`);
	}
	rows.prepend(row);
	if (rows.rows.length > changes.dataset.most) rows.deleteRow(-1);
};
const tell = () => {
	const text = `${total.toLocaleString("en-US")} ${total === 1 ? "change" : "changes"}${paused ? ", paused" : ""}`;
	if ((total > 0 || paused) && count.textContent !== text) count.textContent = text;
};
setInterval(tell, 1000); // not with each change: screen readers read it out

const stream = follow(() => `${changes.dataset.events}&after=${after}`, {
	change: (e, id) => {
		after = id;
		const key = e.object ?? e.key;
		if (e.revision < newest || (e.revision === newest && seen.has(key))) return; // sent again after a break
		if (e.revision > newest) {
			newest = e.revision;
			seen = new Set();
		}
		seen.add(key);
		total++;
		add(e);
	},
	progress: (_, id) => { after = id; },
	failed: (why) => {
		stream.stop();
		const again = document.createElement("a");
		again.href = location.href;
		again.textContent = "Continue with what changes from now on";
		failed.replaceChildren(`${why} `, again);
		failed.hidden = false;
	},
});
pause.addEventListener("click", () => {
	paused = !paused;
	pause.textContent = paused ? "Resume" : "Pause";
	if (paused) stream.stop();
	else if (failed.hidden) stream.start();
	tell();
});
document.getElementById("clear").addEventListener("click", () => {
	rows.replaceChildren();
	total = 0;
	count.textContent = "No changes";
});
filter.addEventListener("input", () => {
	for (const row of rows.rows) row.hidden = !matches(row);
});
