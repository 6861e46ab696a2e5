// Streams of events. Browsers open few connections to a server, so a page that nobody sees has none.

// follow opens a stream and calls the handlers with the data and id of their events. It opens the stream again when it
// breaks, and when the page is visible again; address returns where. opened is called each time, and may be async: an
// error counts as a break. The page says meanwhile that it is out of date.
export const follow = (address, handlers, opened = () => {}) => {
	const stale = document.getElementById("stale");
	let source = null;
	let stopped = false;
	let retry = 0;
	const close = () => {
		clearTimeout(retry);
		source?.close();
		source = null;
	};
	const lost = () => {
		close();
		stale.hidden = false;
		retry = setTimeout(open, 3000); // a browser does not if the server answers that it is starting
	};
	const open = () => {
		clearTimeout(retry);
		if (source || stopped || document.hidden) return;
		const mine = source = new EventSource(address());
		const on = (name, handle) => mine.addEventListener(name, (event) => { if (mine === source) handle(event); });
		on("open", async () => {
			try {
				await opened();
				if (mine === source) stale.hidden = true;
			} catch {
				if (mine === source) lost();
			}
		});
		on("error", lost);
		for (const [name, handle] of Object.entries(handlers)) {
			on(name, (event) => handle(JSON.parse(event.data), event.lastEventId));
		}
	};
	document.addEventListener("visibilitychange", () => { document.hidden ? close() : open(); });
	open();
	return {
		stop: () => { stopped = true; close(); },
		start: () => { stopped = false; open(); },
	};
};

// load returns a page, or another answer.
export const load = async (path) => {
	const answer = await fetch(path, { signal: AbortSignal.timeout(10000) });
	if (!answer.ok) throw new Error(answer.status);
	return answer;
};

// nameOf returns what a row of a table is about.
const nameOf = (row) => row.cells[0]?.textContent;

// arrange brings the rows of a table into the order of another one, to which they move as a whole.
const arrange = (old, now) => {
	const rows = new Map([...old.rows].map((row) => [nameOf(row), row]));
	[...now.rows].forEach((row, i) => {
		const mine = rows.get(nameOf(row)) ?? row.cloneNode(true);
		rows.delete(nameOf(row));
		if (old.rows[i] !== mine) old.insertBefore(mine, old.rows[i] ?? null);
	});
};

// morph makes a node like another one, and keeps what is the same, for a click on it to count.
const morph = (old, now) => {
	if (old.nodeType !== now.nodeType || old.nodeName !== now.nodeName) {
		old.replaceWith(now);
		return;
	}
	if (old.nodeType !== Node.ELEMENT_NODE) {
		if (old.data !== now.data) old.data = now.data;
		return;
	}
	for (const { name } of [...old.attributes]) if (!now.hasAttribute(name)) old.removeAttribute(name);
	for (const { name, value } of now.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
	if (old.nodeName === "TBODY") arrange(old, now);
	const chosen = old.nodeName === "SELECT" ? old.value : null;
	const was = [...old.childNodes];
	const is = [...now.childNodes];
	is.forEach((child, i) => { was[i] ? morph(was[i], child) : old.append(child); });
	was.slice(is.length).forEach((child) => child.remove());
	if (chosen !== null) old.value = chosen;
};

// later replaces what was selected before.
const later = () => {
	if (!document.getSelection().isCollapsed) return;
	document.removeEventListener("selectionchange", later);
	replace().catch(() => {});
};

// replace shows the parts of a page that have data-live as they are now, but one that somebody copies from only later.
export const replace = async () => {
	const page = new DOMParser().parseFromString(await (await load(location.href)).text(), "text/html");
	for (const old of document.querySelectorAll("[data-live]")) {
		const selection = document.getSelection();
		const now = page.getElementById(old.id);
		const focused = document.activeElement;
		if (!now) continue;
		if (selection.isCollapsed || !old.contains(selection.anchorNode)) morph(old, now);
		else document.addEventListener("selectionchange", later);
		if (focused !== document.activeElement) focused?.focus({ preventScroll: true }); // its row has moved
	}
};
