// The progress of a count, its result at the end, and what changes from then on.
import { follow, replace } from "./live.js";

const failed = document.getElementById("failed");
const show = () => replace().catch(() => {});
const stream = follow(() => document.getElementById("top").dataset.events, {
	progress: show,
	changed: show,
	done: () => {
		stream.stop();
		replace().catch(() => location.reload());
	},
	failed: (why) => {
		stream.stop();
		failed.textContent = why;
		failed.hidden = false;
		show();
	},
});
