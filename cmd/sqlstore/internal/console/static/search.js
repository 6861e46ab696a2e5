"use strict";
// The search field suggests pages, kinds, prefixes and keys: a combobox as the ARIA Authoring Practices describe it.
// Enter without a choice goes where the form does.
const field = document.getElementById("q");
const point = document.getElementById("at");
const list = document.createElement("ul");
list.id = "suggestions";
list.setAttribute("role", "listbox");
list.setAttribute("aria-label", "Suggestions");
list.hidden = true;
field.after(list);
for (const [name, value] of Object.entries({
	role: "combobox", "aria-autocomplete": "list", "aria-controls": list.id, "aria-expanded": "false",
})) field.setAttribute(name, value);
let chosen = -1;
let asked = 0; // counts, so that late answers are dropped

const choose = (index) => {
	chosen = index;
	[...list.children].forEach((item, i) => item.setAttribute("aria-selected", i === index));
	if (index < 0) field.removeAttribute("aria-activedescendant");
	else field.setAttribute("aria-activedescendant", list.children[index].id);
};
const show = (found) => {
	const before = list.children[chosen]?.dataset.href;
	list.replaceChildren(...found.map((s, i) => {
		const item = document.createElement("li");
		item.id = `suggestion-${i}`;
		item.setAttribute("role", "option");
		item.dataset.href = s.href;
		const text = document.createElement("bdi");
		text.textContent = s.text;
		const what = document.createElement("span");
		what.className = "fine";
		what.textContent = s.keys ? `${s.what}, ${s.keys.toLocaleString("en-US")} ${s.keys === 1 ? "key" : "keys"}` : s.what;
		item.append(text, what);
		return item;
	}));
	list.hidden = found.length === 0;
	field.setAttribute("aria-expanded", String(!list.hidden));
	choose(found.findIndex((s) => s.href === before));
};
const hide = () => {
	asked++;
	show([]);
};
const suggest = async () => {
	const mine = ++asked;
	delete list.dataset.for;
	await new Promise((done) => { setTimeout(done, 100); }); // until typing pauses
	if (mine !== asked) return;
	const text = field.value;
	try {
		const answer = await fetch(`/suggest?${new URLSearchParams({ q: text, at: point.value })}`, { signal: AbortSignal.timeout(5000) });
		const found = answer.ok ? await answer.json() : [];
		if (mine !== asked) return;
		show(found);
		list.dataset.for = text;
	} catch {
		if (mine === asked) hide();
	}
};
field.addEventListener("input", () => {
	choose(-1);
	suggest();
});
field.addEventListener("keydown", (event) => {
	const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
	if (step && list.hidden) {
		event.preventDefault();
		suggest();
	} else if (step) {
		event.preventDefault();
		const n = list.children.length + 1; // one more for none
		choose((chosen + 1 + step + n) % n - 1);
	} else if (event.key === "Escape" && !list.hidden) {
		event.preventDefault(); // which would empty the field
		hide();
	}
});
field.form.addEventListener("submit", (event) => {
	if (chosen < 0) return;
	event.preventDefault();
	location.assign(list.children[chosen].dataset.href);
});
field.addEventListener("blur", hide);
list.addEventListener("mousedown", (event) => {
	event.preventDefault(); // the field stays in focus
	const item = event.target.closest("li");
	if (item) location.assign(item.dataset.href);
});
