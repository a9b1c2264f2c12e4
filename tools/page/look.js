/*
 * look.js - colours, canvases and elements: what all drawings share.
 */

/* The colours of page.css as they are now */
function colours() {
	const style = getComputedStyle(document.documentElement), c = {};
	for (const name of ['ground', 'raised', 'ink', 'soft', 'line', 'send', 'answer', 'again', 'bad', 'memory', 'good',
		'page-read', 'page-write', 'page-ahead', 'page-lost', 'page-none', 'chosen', 'focus'])
		c[name.replace(/-(.)/, (all, x) => x.toUpperCase())] = style.getPropertyValue('--' + name).trim();
	return c;
}

const FONT = 'system-ui, "DejaVu Sans", sans-serif';

/* The context of a canvas whose pixels are those of the screen, and its size in CSS pixels */
function sized(canvas) {
	const scale = window.devicePixelRatio || 1, box = canvas.getBoundingClientRect();
	const w = Math.max(Math.round(box.width), 1), h = Math.max(Math.round(box.height), 1);
	if (canvas.width !== Math.round(w * scale) || canvas.height !== Math.round(h * scale)) {
		canvas.width = Math.round(w * scale);
		canvas.height = Math.round(h * scale);
	}
	const g = canvas.getContext('2d');
	g.setTransform(scale, 0, 0, scale, 0, 0);
	g.clearRect(0, 0, w, h);
	return { g, w, h };
}

/* element('p', {class: 'soft'}, 'text', child...): text is text, whatever is in it */
function element(name, attributes, ...children) {
	const e = document.createElement(name);
	for (const [k, v] of Object.entries(attributes || {}))
		if (k.startsWith('on'))
			e.addEventListener(k.slice(2), v);
		else if (v !== undefined && v !== false)
			e.setAttribute(k, v === true ? '' : v);
	e.append(...children.filter(c => c !== null && c !== undefined));
	return e;
}

function byId(id) {
	return document.getElementById(id);
}

/* Calls f once before the next picture, however often it is asked for */
function soon(f) {
	let waits = false;
	return () => {
		if (waits)
			return;
		waits = true;
		requestAnimationFrame(() => {
			waits = false;
			f();
		});
	};
}

/* A table of texts; columns: [title, isNumber] */
function fillTable(table, columns, rows) {
	const head = element('thead', {}, element('tr', {}, ...columns.map(c =>
		element('th', { scope: 'col', class: c[1] ? 'n' : undefined }, c[0]))));
	const body = element('tbody', {}, ...rows.map(r => element('tr', {}, ...r.map((v, i) =>
		element('td', { class: columns[i][1] ? 'n' : undefined }, v)))));
	table.replaceChildren(head, body);
}

function processName(trace) {
	return trace.program + ' (' + trace.pid + ')';
}
