/*
 * memory.js - memory regions: a map of pages over time, made from faults, prefetches,
 * invalidations and evictions.
 *
 * A map has bands of pages from top to bottom and time from left to right. Regions without bounds
 * show only what was touched.
 */

const ABSENT = 0, READ = 1, WRITE = 2, AHEAD = 3, EVICTED = 4;
const PAGE_WORDS = ['absent', 'readable', 'writable', 'prefetched', 'evicted'];
const BANDS = 128;

class Memory {
	constructor(app) {
		this.app = app;
		this.draw = soon(() => this.regions.forEach(x => this.paint(x)));
		this.take();
	}

	take() {
		this.regions = this.collect();
		this.build();
		this.draw();
	}

	/* --- what happened to each region --- */

	collect() {
		const r = this.app.records, found = new Map(), regions = [];
		const kinds = ['fault', 'fault_failed', 'prefetch', 'invalidate', 'evict'].map(k => KIND[k]);

		r.about.traces.forEach((t, k) => t.objects.forEach(o => {
			if (o.object === 'MR' && o.on_demand)
				found.set(k + ':' + o.id + ':' + o.created, this.region(k, o, t));
		}));
		for (const x of found.values())
			regions.push(x);
		for (let i = 0; i < r.n; i++) {
			if (!kinds.includes(r.kind[i]))
				continue;
			const mr = r.word(i, 'mr'), t = r.time[i], k = r.trace[i];
			let x = regions.find(y => y.trace === k && y.id === mr && y.from <= t && t <= y.to);
			if (!x) /* its object is not known: what is said of it is */
				regions.push(x = this.region(k, { id: mr, addr: '0x0', length: 0, page_size: 4096, created: 0, ended: 0, name: '' },
					r.about.traces[k]));
			x.events.push(i);
		}
		return regions.map(x => this.tell(x)).sort((a, b) => b.faults - a.faults);
	}

	region(trace, o, t) {
		return { trace, id: o.id, object: o, addr: Number(BigInt(o.addr)), length: o.length, size: o.page_size || 4096,
			from: o.created ? o.created - t.zero : -Infinity, to: o.gone && o.ended ? o.ended - t.zero : Infinity, events: [] };
	}

	/* Pages of record i: the first and how many */
	span(x, i) {
		const r = this.app.records, name = r.kinds[r.kind[i]].name;
		const first = Math.floor(r.long(i, 'addr') / x.size);
		if (name === 'prefetch' || name === 'invalidate')
			return [first, Math.max(Math.ceil(r.long(i, 'length') / x.size), 1)];
		return [first, name === 'evict' ? 1 : Math.max(r.word(i, 'pages'), 1)];
	}

	/* The bands that pages are shown in: all pages, or stretches that were touched */
	bands(x) {
		const first = Math.floor(x.addr / x.size), n = Math.ceil((x.addr + x.length) / x.size) - first;
		if (n > 0 && n <= 1 << 22) {
			x.first = first;
			x.n = n;
			return;
		}
		let low = Infinity, high = 0;
		for (const i of x.events) {
			const [a, m] = this.span(x, i);
			if (m < 1 << 22) {
				low = Math.min(low, a);
				high = Math.max(high, a + m);
			}
		}
		x.first = low === Infinity ? first : low;
		x.n = low === Infinity ? 1 : Math.min(high - low, 1 << 22);
	}

	/* Counts, and changes of bands: [time, band, to, state] */
	tell(x) {
		const r = this.app.records;
		this.bands(x);
		const per = x.n / Math.min(x.n, BANDS), nBands = Math.min(x.n, BANDS);
		const faultsOf = new Map(), ever = new Set(), now = new Map();
		Object.assign(x, { per, nBands, changes: [], marks: [], faults: 0, ns: 0, saved: 0, savedNs: 0, again: 0, prefetched: 0,
			lost: 0, evicted: 0, failed: 0 });
		for (const i of x.events) {
			const name = r.kinds[r.kind[i]].name, [a, m] = this.span(x, i);
			const from = Math.max(Math.floor((a - x.first) / per), 0), to = Math.min(Math.ceil((a + m - x.first) / per), nBands);
			let state = ABSENT;
			if (name === 'fault') {
				const wrote = r.byte(i, 'write'), fresh = !ever.has(a) || now.get(a) === READ;
				const took = r.long(i, 'duration');
				state = wrote ? WRITE : READ;
				x.faults++;
				x.ns += took;
				if (fresh) {
					x.saved++;
					x.savedNs += took;
				} else {
					x.again++;
				}
				faultsOf.set(a, (faultsOf.get(a) || 0) + 1);
				for (let p = a; p < a + Math.min(m, 65536); p++) {
					ever.add(p);
					now.set(p, state);
				}
			} else if (name === 'fault_failed') {
				x.failed++;
			} else if (name === 'prefetch') {
				state = AHEAD;
				x.prefetched += r.word(i, 'pages');
				for (let p = a; p < a + Math.min(m, 65536); p++) {
					ever.add(p);
					now.set(p, WRITE);
				}
			} else if (name === 'evict') {
				state = EVICTED;
				x.evicted++;
			} else {
				x.lost += r.long(i, 'pages');
			}
			if (name !== 'fault_failed')
				x.changes.push([r.time[i], from, to, state]);
			x.marks.push([i, name, (from + to) / 2]);
		}
		x.hot = [...faultsOf].sort((p, q) => q[1] - p[1] || p[0] - q[0]).slice(0, 8);
		return x;
	}

	/* --- the page --- */

	build() {
		const box = byId('regions'), r = this.app.records;
		if (!this.regions.length) {
			box.replaceChildren(element('p', { class: 'soft' }, 'No memory region was on demand: registered memory is pinned, and does not fault.'));
			return;
		}
		box.replaceChildren(this.legend(), ...this.regions.slice(0, 64).map(x => this.part(x, r)),
			this.regions.length > 64 ? element('p', { class: 'soft' }, (this.regions.length - 64) + ' more regions with fewer faults are not shown.') : '');
	}

	legend() {
		const names = ['none', 'read', 'write', 'ahead', 'lost'];
		return element('ul', { class: 'legend', 'aria-label': 'Legend of page maps' }, ...names.map((n, k) =>
			element('li', {}, element('i', { style: 'background: var(--page-' + n + ')' }), PAGE_WORDS[k])),
			element('li', {}, '▼ fault'), element('li', {}, '▲ invalidation'));
	}

	part(x, r) {
		const t = r.about.traces[x.trace], o = x.object;
		const canvas = element('canvas', { style: 'height:170px', tabindex: 0, role: 'img', 'aria-label':
			'Pages of the region over time: ' + this.sentence(x) });
		x.canvas = canvas;
		canvas.addEventListener('click', e => this.click(x, e));
		const hot = element('table', {});
		fillTable(hot, [['page'], ['faults', true]], x.hot.map(([p, n]) => [hexText(BigInt(p) * BigInt(x.size)), String(n)]));
		return element('div', { class: 'region' },
			element('h3', {}, 'MR ' + hexText(x.id) + (o.name ? ' “' + o.name + '”' : '') + ' of ' + processName(t)),
			element('p', {}, (o.implicit ? 'All memory' : sizeText(x.length) + ' at ' + o.addr) + '. ' + this.sentence(x)),
			canvas,
			x.hot.length ? element('details', {}, element('summary', {}, 'Hottest pages'), hot) : null);
	}

	sentence(x) {
		const say = [];
		const n = (k, what) => countText(k) + ' ' + what + (k === 1 ? '' : 's');
		say.push(x.faults ? n(x.faults, 'fault') + ' took ' + timeText(x.ns) + '.' : 'No faults.');
		if (x.saved)
			say.push('A prefetch before the first access would have saved ' + countText(x.saved) + ' of them (' + timeText(x.savedNs) + ').');
		if (x.again)
			say.push(n(x.again, 'fault') + ' brought pages back that had been lost.');
		if (x.prefetched)
			say.push(n(x.prefetched, 'page') + ' prefetched.');
		if (x.lost)
			say.push(n(x.lost, 'page') + ' lost to invalidations.');
		if (x.evicted)
			say.push(n(x.evicted, 'page') + ' evicted: the bound on present pages is too small for this use.');
		if (x.failed)
			say.push(n(x.failed, 'fault') + ' failed.');
		return say.join(' ');
	}

	/* The time that the map spans: from the first to the last thing that happened to it */
	timeSpan(x) {
		const r = this.app.records, [a, b] = this.app.activity();
		const first = x.changes.length ? x.changes[0][0] : a;
		const from = Math.min(a, first), to = Math.max(b, x.changes.length ? x.changes[x.changes.length - 1][0] : b);
		return [from - (to - from) * 0.01, Math.max(to, from + 1000) + (to - from) * 0.01 + (r.n ? 0 : 1)];
	}

	paint(x) {
		const { g, w, h } = sized(x.canvas), c = colours(), top = 12, low = h - 30;
		const [from, to] = this.timeSpan(x), state = new Uint8Array(x.nBands), since = new Float64Array(x.nBands).fill(from);
		const fill = [c.pageNone, c.pageRead, c.pageWrite, c.pageAhead, c.pageLost];
		const px = t => (t - from) / (to - from) * w, tall = (low - top) / x.nBands;
		const put = (band, until) => {
			const a = px(since[band]), b = px(until);
			const y = Math.round(top + band * tall);
			g.fillStyle = fill[state[band]];
			g.fillRect(a, y, Math.max(b - a, 0.5), Math.round(top + (band + 1) * tall) - y);
		};

		g.fillStyle = c.pageNone;
		g.fillRect(0, top, w, low - top);
		for (const [t, a, b, s] of x.changes)
			for (let band = a; band < b; band++) {
				if (state[band] === s || state[band] === WRITE && s === READ)
					continue;
				if (state[band])
					put(band, t);
				state[band] = s;
				since[band] = t;
			}
		const end = Math.min(x.to, to);
		for (let band = 0; band < x.nBands; band++)
			if (state[band])
				put(band, end);
		if (x.to < to) {
			g.fillStyle = c.ground;
			g.fillRect(px(x.to), top, w, low - top);
		}
		this.marks(x, g, c, px, h);
		g.font = '12px ' + FONT;
		g.fillStyle = c.soft;
		const places = Math.max(Math.floor(w / 160), 2);
		for (let k = 0; k <= places; k++) {
			g.textAlign = k === 0 ? 'left' : k === places ? 'right' : 'center';
			g.fillText(stampText(from + k / places * (to - from)) + ' ms', k === 0 ? 4 : k === places ? w - 4 : k / places * w, h - 5);
		}
		g.textAlign = 'left';
	}

	marks(x, g, c, px, h) {
		let last = -9, lastLow = -9;
		for (const [i, name] of x.marks) {
			const at = px(this.app.records.time[i]);
			if (name.startsWith('fault') && at - last >= 1) {
				g.fillStyle = name === 'fault' ? c.memory : c.bad;
				triangle(g, at, 10, -8);
				last = at;
			} else if (name === 'invalidate' && at - lastLow >= 1) {
				g.fillStyle = c.bad;
				triangle(g, at, h - 28, 8);
				lastLow = at;
			}
		}
	}

	/* The nearest thing that happened, in the ladder */
	click(x, e) {
		const box = x.canvas.getBoundingClientRect(), [from, to] = this.timeSpan(x);
		const t = from + (e.clientX - box.left) / box.width * (to - from);
		let best = -1, least = Infinity;
		for (const [i] of x.marks) {
			const d = Math.abs(this.app.records.time[i] - t);
			if (d < least) {
				least = d;
				best = i;
			}
		}
		if (best >= 0)
			this.app.go(best, true);
	}
}

function triangle(g, x, y, tall) {
	g.beginPath();
	g.moveTo(x, y);
	g.lineTo(x - 4, y + tall);
	g.lineTo(x + 4, y + tall);
	g.fill();
}
