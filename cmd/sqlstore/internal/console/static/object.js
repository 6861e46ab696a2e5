// The page of a key's newest version shows each new one when it is committed.
import { follow, replace } from "./live.js";

const object = document.getElementById("object");
let after = object.dataset.after;
let waiting = false;
const refresh = () => {
	if (waiting) return;
	waiting = true; // a hot key changes more often than people read
	setTimeout(async () => {
		waiting = false;
		try {
			await replace();
		} catch {
			document.getElementById("stale").hidden = false;
		}
	}, 500);
};
const stream = follow(() => `${object.dataset.events}&after=${after}`, {
	change: (e) => {
		after = e.revision;
		refresh();
	},
	progress: (_, id) => { after = id; },
	failed: (why) => {
		stream.stop();
		const again = document.createElement("a");
		again.href = location.href;
		again.textContent = "Load it again";
		const stale = document.getElementById("stale");
		stale.replaceChildren(`This page is no longer live: ${why} `, again);
		stale.hidden = false;
	},
});
