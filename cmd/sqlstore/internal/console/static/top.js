// The progress of a count, and its result at the end.
import { follow, replace } from "./live.js";

const stream = follow(() => "/top/progress", {
	progress: () => { replace().catch(() => {}); },
	done: () => {
		stream.stop();
		replace().catch(() => location.reload());
	},
	failed: () => { stream.stop(); },
});
