// The bytes of a level's entries. They are counted by reading all values: at once if these are few, otherwise when the
// user asks for it.
import { follow } from "./live.js";

const sizes = document.getElementById("sizes");
const button = document.getElementById("count");
const says = sizes.querySelector("[role=status]");
const rows = [...document.querySelectorAll("#entries tbody tr")];

const count = () => {
	button.hidden = true;
	says.textContent = "Counting bytes.";
	const heading = document.createElement("th");
	heading.scope = "col";
	heading.className = "number";
	heading.textContent = "Bytes";
	document.querySelector("#entries thead tr").append(heading);
	const cells = rows.map((row) => {
		const cell = row.insertCell();
		cell.className = "number";
		return cell;
	});
	const stream = follow(() => sizes.dataset.stream, {
		size: (s) => { cells[s.entry].textContent = s.bytes; },
		done: () => {
			stream.stop();
			sizes.hidden = true;
		},
		failed: (why) => {
			stream.stop();
			says.textContent = why;
		},
	});
};

sizes.hidden = false;
if (button.hidden) count();
else button.addEventListener("click", count);
