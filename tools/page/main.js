/*
 * main.js - the page as a whole: unpacks, makes the parts, and lets them know of each other.
 */

class App {
	constructor(records) {
		this.records = records;
		this.links = new Links(records);
		this.ladder = new Ladder(records, this.links, { chosen: i => this.chosen(i) });
		this.details = new Details(this);
		this.summary = new Summary(this);
		this.memory = new Memory(this);
		this.times = new Times(this);
		this.controls();
		this.legend();
		matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw());
		window.addEventListener('beforeprint', () => this.print(true));
		window.addEventListener('afterprint', () => this.print(false));
		window.addEventListener('resize', () => this.draw());
		this.start();
	}

	/* There are more records. Who looks at the end goes on to look there. */
	update() {
		const l = this.ladder, r = this.records, h = l.height();
		const atEnd = !l.rows.length || l.top + h / l.scale >= l.extent()[1] - 2 / l.scale;
		const open = [...document.querySelectorAll('main details')].map(d => d.open);

		this.links = new Links(r);
		l.take(r, this.links);
		if (l.chosen >= r.n)
			l.choose(-1);
		if (atEnd && l.chosen < 0)
			l.top = l.extent()[1] - h / l.scale + 24 / l.scale;
		l.draw();
		this.summary.take();
		this.memory.take();
		this.times.take();
		this.fillPick();
		this.showControls();
		[...document.querySelectorAll('main details')].forEach((d, i) => {
			if (open[i])
				d.open = true;
		});
	}

	draw() {
		this.ladder.draw();
		this.memory.draw();
		this.times.draw();
	}

	/* Paper has its own colours, and no second look. */
	print() {
		this.ladder.paint();
		this.memory.regions.forEach(x => x.canvas && this.memory.paint(x));
		this.times.charts.forEach(c => this.times.paint(c));
	}

	/* Where to begin: the first request, or what failed first */
	start() {
		const bad = this.records.about.findings.find(f => f.level === 'failed'), at = bad ? this.find(bad) : -1;
		const first = this.links.requests.post[0];
		if (at >= 0)
			this.ladder.choose(at, 'near');
		else if (first !== undefined)
			this.ladder.top = this.ladder.rowOf(first) - 3;
		this.ladder.paint();
		if (first !== undefined)
			this.ladder.reveal(first);
		this.ladder.draw();
	}

	/* From the first post or packet to the last: what is before and after is set-up */
	activity() {
		const r = this.records, K = KIND;
		const busy = new Set([K.packet_out, K.packet_in, K.packet_again, K.nak_out, K.nak_in, K.post_send, K.completion,
			K.completion_error]);
		let a = 0, b = r.n - 1;
		while (a < r.n && !busy.has(r.kind[a]))
			a++;
		while (b > a && !busy.has(r.kind[b]))
			b--;
		if (a >= r.n)
			return [0, Math.max(r.n ? r.time[r.n - 1] : 1, 1)];
		return [r.time[a], Math.max(r.time[b], r.time[a] + 1000)];
	}

	/* The record that a finding is about, -1 */
	find(f) {
		const r = this.records;
		if (!f.kind)
			return -1;
		for (let i = r.after(f.t); i < r.n && r.time[i] === f.t; i++)
			if (r.trace[i] === f.trace && r.kind[i] === f.kind && (!f.qpn || r.word(i, 'qpn') === f.qpn))
				return i;
		return Math.min(r.after(f.t), r.n - 1);
	}

	/* Show a record in the ladder, whatever is filtered */
	go(i, scroll) {
		const l = this.ladder;
		if (l.rowWith(i) < 0) {
			const group = GROUPS.find(g => g[2].includes(this.records.kinds[this.records.kind[i]].name));
			l.errorsOnly = false;
			l.pick = '';
			if (group)
				l.show[group[0]] = true;
			this.showControls();
			l.filter();
		}
		l.choose(i, 'near');
		if (scroll) {
			byId('ladder').scrollIntoView({ block: 'start' });
			l.canvas.focus({ preventScroll: true });
		}
	}

	chosen(i) {
		this.details.show(i);
	}

	/* --- controls --- */

	controls() {
		const kinds = byId('kinds'), l = this.ladder;
		for (const [id, name] of GROUPS)
			kinds.append(element('label', {}, element('input', { type: 'checkbox', name: id }), name));
		kinds.append(element('label', {}, element('input', { type: 'checkbox', name: 'errors' }), 'trouble only'),
			element('label', { title: 'Middle packets of a message in one row' }, element('input', { type: 'checkbox', name: 'fold' }), 'fold messages'));
		this.fillPick();
		this.showControls();
		kinds.addEventListener('change', e => {
			if (e.target.name === 'errors')
				l.errorsOnly = e.target.checked;
			else if (e.target.name === 'fold')
				l.fold = e.target.checked;
			else
				l.show[e.target.name] = e.target.checked;
			this.refilter();
		});
		byId('pick').addEventListener('change', e => {
			l.pick = e.target.value;
			this.refilter();
		});
		byId('lanes').addEventListener('change', e => {
			l.lanesBy = e.target.value;
			this.refilter();
		});
		byId('scale').addEventListener('change', e => l.setMode(e.target.value));
		byId('filters').addEventListener('submit', e => {
			e.preventDefault();
			this.search(byId('find').value);
		});
		byId('zoom-in').addEventListener('click', () => l.zoom(1.5));
		byId('zoom-out').addEventListener('click', () => l.zoom(1 / 1.5));
		byId('trouble-next').addEventListener('click', () => this.say(l.nextTrouble(1) ? '' : 'No trouble after this.'));
		byId('trouble-before').addEventListener('click', () => this.say(l.nextTrouble(-1) ? '' : 'No trouble before this.'));
	}

	refilter() {
		const l = this.ladder, here = l.chosen >= 0 ? l.chosen : l.rows[Math.min(l.rowAt(l.top), l.rows.length - 1)];
		l.filter();
		if (l.mode === 'rows' && here !== undefined && l.rows.length)
			l.centre(l.rowOf(here));
		this.details.fromLadder();
		this.say(l.rows.length ? '' : 'No record is left by these filters.');
	}

	showControls() {
		const l = this.ladder;
		for (const box of byId('kinds').querySelectorAll('input'))
			box.checked = box.name === 'errors' ? l.errorsOnly : box.name === 'fold' ? l.fold : l.show[box.name];
		byId('pick').value = l.pick;
	}

	fillPick() {
		const pick = byId('pick'), L = this.links, t = this.records.about.traces;
		pick.replaceChildren(element('option', { value: '' }, 'all'));
		t.forEach((x, k) => {
			const group = element('optgroup', { label: processName(x) }, element('option', { value: 'process=' + k }, 'all of ' + processName(x)));
			L.columns.forEach((c, i) => {
				if (c.trace === k && !c.process)
					group.append(element('option', { value: 'qp=' + i }, 'QP ' + qpnText(c.qpn) + ' and its peer'));
			});
			pick.append(group);
		});
	}

	say(text) {
		byId('found').textContent = text;
	}

	/* The next row whose wr_id, PSN or QP is what is looked for */
	search(text) {
		const r = this.records, l = this.ladder, what = text.trim().toLowerCase();
		if (!/^(0x[0-9a-f]+|[0-9]+)$/.test(what)) {
			this.say(what ? 'Look for a number: a wr_id or a PSN, in decimal or as 0x…' : '');
			return;
		}
		const v = BigInt(what), small = v <= 0xffffffffn ? Number(v) : -2, hits = [];
		const wr = r.places('wr_id'), psn = r.places('psn');
		for (let i = 0; i < r.n; i++) {
			const kind = r.kind[i];
			if (l.foldedTo[i] >= 0 && (wr[kind] >= 0 && r.view.getBigUint64(i * PAYLOAD + wr[kind], true) === v ||
			    psn[kind] >= 0 && r.words[(i * PAYLOAD + psn[kind]) >> 2] === small))
				hits.push(i);
		}
		if (!hits.length) {
			this.say('Nothing that is shown has the wr_id or PSN ' + what + '.');
			return;
		}
		let next = hits.findIndex(i => i > l.chosen);
		if (next < 0)
			next = 0;
		this.say('Match ' + (next + 1) + ' of ' + hits.length);
		l.choose(hits[next], 'near');
	}

	legend() {
		const line = (colour, dash, text, cross) => {
			const svg = 'http://www.w3.org/2000/svg', s = document.createElementNS(svg, 'svg');
			const put = (name, a) => {
				const e = document.createElementNS(svg, name);
				Object.entries(a).forEach(([k, v]) => e.setAttribute(k, v));
				s.append(e);
			};
			s.setAttribute('width', 30);
			s.setAttribute('height', 12);
			s.setAttribute('aria-hidden', 'true');
			put('line', { x1: 0, y1: 6, x2: cross ? 22 : 28, y2: 6, stroke: 'var(--' + colour + ')', 'stroke-width': 2, 'stroke-dasharray': dash });
			put('path', { d: cross ? 'M18 2l8 8M26 2l-8 8' : 'M30 6l-8-4v8z', fill: cross ? 'none' : 'var(--' + colour + ')',
				stroke: cross ? 'var(--bad)' : 'none', 'stroke-width': 2 });
			return element('li', {}, s, text);
		};
		const bar = (colour, text) => element('li', {}, element('i', { style: 'width:3px;background:var(--' + colour + ')' }), text);
		byId('legend').replaceChildren(line('send', '', 'request'), line('answer', '', 'response, acknowledge'),
			line('again', '6 3', 'sent again'), line('bad', '', 'NAK'), line('bad', '', 'lost, or thrown away', true),
			bar('send', 'send request, post to completion'), bar('good', 'receive request, post to completion'),
			element('li', {}, element('i', { style: 'background:var(--memory)' }), 'page fault, prefetch, invalidation'));
	}
}

/* --- while programs run ----------------------------------------------------------- */

/* Asks for what is new, again and again, but not faster than it can be shown */
class Live {
	constructor() {
		this.next = 0;
		this.app = null;
		this.records = null;
		this.stopped = false;
	}

	async run() {
		byId('verdict').textContent = 'No program has a device open yet';
		const pause = element('button', { type: 'button', onclick: () => {
			this.stopped = !this.stopped;
			pause.textContent = this.stopped ? 'Go on' : 'Hold';
		} }, 'Hold');
		byId('live').before(pause);
		for (;;) {
			const began = performance.now();
			if (!this.stopped && !await this.step()) {
				byId('live').textContent = 'urxe view has ended; this is what there was';
				pause.remove();
				document.body.dataset.ended = 1;
				return;
			}
			byId('live').textContent = this.stopped ? 'held' : this.app ? 'live' : 'live, waits for a program';
			await new Promise(f => setTimeout(f, Math.max(500, 4 * (performance.now() - began))));
		}
	}

	/* false: nobody answers any more */
	async step() {
		const answer = await fetch('data?from=' + this.next, { cache: 'no-store' }).catch(() => null);
		if (!answer || !answer.ok)
			return false;
		const got = await answer.json();
		if (!this.records)
			this.records = new Records(got.about, 65536);
		const r = this.records, before = r.n, blocks = [];
		for (const block of got.blocks)
			blocks.push(await inflate(bytesOf(block)));
		/* from here on nothing is waited for: who looks meanwhile sees all of it, or nothing */
		r.about = got.about;
		blocks.forEach(b => r.add(b));
		this.next = got.next;
		if (r.n === before && this.app && r.about.traces.length === this.traces)
			return true;
		this.traces = r.about.traces.length;
		r.settle(before);
		if (this.app)
			this.app.update();
		else if (r.n)
			window.app = this.app = new App(r);
		if (this.app)
			document.body.dataset.ready = r.n;
		return true;
	}
}

async function main() {
	try {
		if (typeof DecompressionStream === 'undefined')
			throw new Error('this browser is too old: it needs DecompressionStream');
		if (!byId('about')) {
			await new Live().run();
			return;
		}
		const about = JSON.parse(byId('about').textContent), began = performance.now();
		if (!about.little)
			throw new Error('the trace is of a machine with another order of bytes; urxe report --text reads it there');
		const records = new Records(about, about.records);
		await unpack(records, document);
		window.app = new App(records);
		document.body.dataset.ready = Math.round(performance.now() - began);
	} catch (e) {
		byId('verdict').textContent = 'This report cannot be shown: ' + e.message;
		document.body.dataset.failed = e.message;
		throw e;
	}
}

main();
