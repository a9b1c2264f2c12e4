/*
 * times.js - what took how long, and how much of it there was: charts over one axis of time.
 */

const BUCKETS = 160;
const AXIS = 78; /* room for the numbers of an axis */

class Times {
	constructor(app) {
		this.app = app;
		this.draw = soon(() => this.charts.forEach(c => this.paint(c)));
		byId('span').addEventListener('change', () => this.take());
		this.charts = [];
		this.take();
	}

	span() {
		const r = this.app.records, how = byId('span').value, l = this.app.ladder;
		if (how === 'all' || !r.n)
			return [0, Math.max(r.n ? r.time[r.n - 1] : 1, 1)];
		if (how === 'ladder' && l.rows.length) {
			const a = l.rowAt(l.top), b = l.rowAt(l.top + l.height() / l.scale);
			const at = k => r.time[l.rows[Math.min(Math.max(k, 0), l.rows.length - 1)]];
			return [at(a), Math.max(at(b), at(a) + 1000)];
		}
		return this.app.activity();
	}

	take() {
		[this.from, this.to] = this.span();
		this.width = Math.max((this.to - this.from) / BUCKETS, 1);
		this.charts = this.measure();
		byId('charts').replaceChildren(...this.charts.map(c => this.part(c)));
		this.draw();
	}

	bucket(t) {
		const b = Math.floor((t - this.from) / this.width);
		return b >= 0 && b < BUCKETS ? b : b === BUCKETS && t <= this.to ? BUCKETS - 1 : -1;
	}

	zeros() {
		return new Float64Array(BUCKETS);
	}

	/* --- measuring --- */

	measure() {
		return [this.latencyOverTime(), this.latencyDistribution(), ...this.ofRecords()];
	}

	/* Requests of a send queue that are complete: [posted, took] */
	latencies() {
		const r = this.app.records, R = this.app.links.requests, found = [];
		for (let q = 0; q < R.post.length; q++)
			if (!R.receive[q] && R.end[q] >= 0) {
				const t = r.time[R.post[q]];
				if (t >= this.from && t <= this.to)
					found.push([t, Math.max(r.time[R.end[q]] - t, 1), R.bad[q], R.post[q]]);
			}
		return found;
	}

	latencyOverTime() {
		const points = this.latencies();
		return { title: 'Latency of send requests, post to completion', type: 'dots', points, unit: timeText,
			empty: 'No send request completed.',
			table: [['percentile', 'latency'], this.percentiles(points)] };
	}

	percentiles(points) {
		const sorted = points.map(p => p[1]).sort((a, b) => a - b);
		if (!sorted.length)
			return [];
		return [0, 50, 90, 99, 99.9, 100].map(p => [p === 0 ? 'least' : p === 100 ? 'most' : p + ' %',
			timeText(sorted[Math.min(Math.floor(sorted.length * p / 100), sorted.length - 1)])]);
	}

	latencyDistribution() {
		const all = this.latencies().map(p => p[1]), bins = new Map();
		let low = Infinity, high = -Infinity;
		for (const v of all) {
			const b = Math.floor(Math.log2(v) * 4);
			bins.set(b, (bins.get(b) || 0) + 1);
			low = Math.min(low, b);
			high = Math.max(high, b);
		}
		const labels = [], values = [];
		for (let b = low; b <= high; b++) {
			labels.push(timeText(2 ** (b / 4)));
			values.push(bins.get(b) || 0);
		}
		return { title: 'Distribution of latency', type: 'bars', labels, series: [{ name: 'requests', colour: 'send', values }],
			unit: countText, empty: 'No send request completed.',
			table: [['from', 'requests'], labels.map((l, i) => [l, countText(values[i])])] };
	}

	ofRecords() {
		const r = this.app.records, L = this.app.links, K = KIND;
		const sent = this.zeros(), rnr = this.zeros(), again = this.zeros(), timers = this.zeros(), thrown = this.zeros();
		const faults = this.zeros(), unpolled = this.zeros(), left = this.zeros().fill(NaN);

		for (let i = r.after(this.from); i < r.n && r.time[i] <= this.to; i++) {
			const b = this.bucket(r.time[i]), k = r.kind[i];
			if (b < 0)
				continue;
			if (k === K.packet_out || k === K.packet_again)
				sent[b] += r.word(i, 'length');
			if (k === K.packet_again)
				again[b]++;
			else if (k === K.nak_in && (r.byte(i, 'syndrome') & 0xe0) === 0x20)
				rnr[b]++;
			else if (k === K.timer)
				timers[b]++;
			else if (k === K.drop || L.flags[i] & LOST)
				thrown[b]++;
			else if (k === K.fault || k === K.fault_failed)
				faults[b] += r.long(i, 'duration');
			else if (k === K.completion)
				unpolled[b] = Math.max(unpolled[b], r.word(i, 'unpolled'));
			else if (k === K.take_receive)
				left[b] = Number.isNaN(left[b]) ? r.word(i, 'left') : Math.min(left[b], r.word(i, 'left'));
		}
		const rate = v => sizeText(Number(Number(v).toPrecision(3))) + '/s', perSecond = sent.map(v => v / this.width * 1e9);
		return [
			this.over('Throughput, payload sent', rate, [['payload', 'send', perSecond]]),
			this.over('Outstanding send requests, most at a time', countText, [['requests', 'send', this.outstanding()]]),
			this.over('Packets sent again, and why', countText, [['sent again', 'again', again], ['receiver not ready', 'bad', rnr],
				['timers', 'soft', timers], ['lost or thrown away', 'memory', thrown]]),
			this.over('Time in page faults', timeText, [['in faults', 'memory', faults]]),
			this.over('Completions that wait to be polled', countText, [['most of one CQ', 'send', unpolled]]),
			this.over('Receive requests left, least', countText, [['requests', 'good', left.map(v => Number.isNaN(v) ? 0 : v)]],
				left.every(v => Number.isNaN(v)) ? 'No message took a receive request.' : undefined),
		];
	}

	over(title, unit, series, empty) {
		const s = series.map(([name, colour, values]) => ({ name, colour, values }));
		const none = s.every(x => x.values.every(v => !v));
		return { title, type: 'over', unit, series: s, empty: empty || (none ? 'None.' : undefined), none: none || empty,
			table: [['from ms', ...s.map(x => x.name)], Array.from({ length: BUCKETS }, (_, b) =>
				[stampText(this.from + b * this.width), ...s.map(x => unit(x.values[b]))])
				.filter((row, b) => s.some(x => x.values[b]))] };
	}

	/* The most requests that were posted and not complete, in each bucket */
	outstanding() {
		const r = this.app.records, R = this.app.links.requests, most = this.zeros(), moves = [];
		for (let q = 0; q < R.post.length; q++)
			if (!R.receive[q]) {
				moves.push([r.time[R.post[q]], 1]);
				if (R.end[q] >= 0)
					moves.push([r.time[R.end[q]], -1]);
			}
		moves.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
		let now = 0, k = 0;
		for (let b = 0; b < BUCKETS; b++) {
			const until = this.from + (b + 1) * this.width;
			while (k < moves.length && moves[k][0] < this.from)
				now += moves[k++][1];
			most[b] = now;
			while (k < moves.length && moves[k][0] < until) {
				now += moves[k++][1];
				most[b] = Math.max(most[b], now);
			}
		}
		return most;
	}

	/* --- the page --- */

	part(c) {
		if (c.none || c.empty && (c.points ? !c.points.length : !c.series || c.series.every(s => !s.values.length)))
			return element('div', { class: 'chart' }, element('h3', {}, c.title), element('p', { class: 'soft' }, c.empty));
		const canvas = element('canvas', { style: 'height:170px', role: 'img', tabindex: 0, 'aria-label': c.title + '. ' + this.inWords(c) });
		const now = element('p', { class: 'now', 'aria-hidden': 'true' }), table = element('table', {});
		const details = element('details', {}, element('summary', {}, 'Numbers'), element('div', { class: 'wide' }, table));
		c.canvas = canvas;
		details.addEventListener('toggle', () => fillTable(table, c.table[0].map((x, i) => [x, i > 0]), c.table[1]));
		canvas.addEventListener('pointermove', e => { now.textContent = this.at(c, e) || ''; });
		canvas.addEventListener('pointerleave', () => { now.textContent = ''; });
		canvas.addEventListener('click', e => this.click(c, e));
		const names = c.series && c.series.length > 1 ? element('ul', { class: 'legend' }, ...c.series.map(s =>
			element('li', {}, element('i', { style: 'background: var(--' + s.colour + ')' }), s.name))) : null;
		return element('div', { class: 'chart' }, element('h3', {}, c.title), names, canvas, now, details);
	}

	inWords(c) {
		if (c.points)
			return c.table[1].map(r => r[0] + ' ' + r[1]).join(', ');
		return c.series.map(s => s.name + ': at most ' + c.unit(s.values.reduce((a, b) => Math.max(a, b), 0))).join(', ');
	}

	/* What is under the pointer */
	at(c, e) {
		const box = c.canvas.getBoundingClientRect(), part = (e.clientX - box.left - AXIS) / (box.width - AXIS - 8);
		if (part < 0 || part > 1)
			return '';
		if (c.type === 'bars') {
			const b = Math.min(Math.floor(part * c.labels.length), c.labels.length - 1);
			return 'from ' + c.labels[b] + ': ' + countText(c.series[0].values[b]);
		}
		const t = this.from + part * (this.to - this.from), b = this.bucket(t);
		if (c.type === 'dots' || b < 0)
			return stampText(t) + ' ms';
		return stampText(t) + ' ms: ' + c.series.map(s => s.name + ' ' + c.unit(s.values[b])).join(', ');
	}

	click(c, e) {
		const box = c.canvas.getBoundingClientRect(), part = (e.clientX - box.left - AXIS) / (box.width - AXIS - 8);
		if (c.type === 'bars' || part < 0 || part > 1)
			return;
		const t = this.from + part * (this.to - this.from), r = this.app.records;
		if (c.type === 'dots' && c.points.length) {
			const near = c.points.reduce((a, p) => Math.abs(p[0] - t) < Math.abs(a[0] - t) ? p : a);
			this.app.go(near[3], true);
			return;
		}
		this.app.go(Math.min(r.after(t), r.n - 1), true);
	}

	paint(c) {
		if (!c.canvas || !c.canvas.isConnected)
			return;
		const { g, w, h } = sized(c.canvas), col = colours(), box = { x: AXIS, y: 8, w: w - AXIS - 8, h: h - 30 };
		g.font = '12px ' + FONT;
		g.textBaseline = 'middle';
		if (c.type === 'dots')
			this.dots(g, c, col, box);
		else
			this.bars(g, c, col, box);
		this.axis(g, c, col, box);
	}

	/* Logarithmic: what is slow is far from what is usual */
	dots(g, c, col, box) {
		let low = Infinity, high = 0;
		for (const p of c.points) {
			low = Math.min(low, p[1]);
			high = Math.max(high, p[1]);
		}
		const a = Math.floor(Math.log10(low)), b = Math.max(Math.ceil(Math.log10(high)), a + 1);
		const y = v => box.y + box.h * (1 - (Math.log10(v) - a) / (b - a));
		for (let p = a; p <= b; p++)
			this.rule(g, col, box, y(10 ** p), timeText(10 ** p).replace('.00', '').replace('.0', ''));
		let step = 1;
		while (c.points.length / step > 20000)
			step *= 2;
		g.globalAlpha = c.points.length > 2000 ? 0.35 : 0.7;
		for (let k = 0; k < c.points.length; k++) {
			const [t, v, bad] = c.points[k];
			if (k % step && v < high / 2 && !bad)
				continue;
			g.fillStyle = bad ? col.bad : col.send;
			g.fillRect(box.x + (t - this.from) / (this.to - this.from) * box.w - 1.5, y(v) - 1.5, 3, 3);
		}
		g.globalAlpha = 1;
	}

	bars(g, c, col, box) {
		const n = c.series[0].values.length, most = nice(c.series.reduce((m, s) => s.values.reduce((a, b) => Math.max(a, b), m), 0), c.unit === sizeText);
		const each = box.w / n, group = c.series.length;
		for (const part of [0, 0.5, 1])
			this.rule(g, col, box, box.y + box.h * (1 - part), c.unit(most * part));
		c.series.forEach((s, k) => {
			g.fillStyle = col[s.colour];
			for (let b = 0; b < n; b++)
				if (s.values[b]) {
					const tall = Math.max(s.values[b] / most * box.h, 1);
					g.fillRect(box.x + b * each + k * each / group, box.y + box.h - tall, Math.max(each / group - (each > 4 ? 1 : 0), 0.8), tall);
				}
		});
	}

	rule(g, col, box, y, text) {
		g.strokeStyle = col.line;
		g.lineWidth = 1;
		g.beginPath();
		g.moveTo(box.x, Math.round(y) + 0.5);
		g.lineTo(box.x + box.w, Math.round(y) + 0.5);
		g.stroke();
		g.fillStyle = col.soft;
		g.textAlign = 'right';
		g.fillText(text, box.x - 6, y);
		g.textAlign = 'left';
	}

	axis(g, c, col, box) {
		const y = box.y + box.h + 12, n = c.type === 'bars' ? c.labels.length : 0, places = Math.max(Math.floor(box.w / 130), 2);
		g.fillStyle = col.soft;
		for (let k = 0; k <= places; k++) {
			const part = k / places;
			g.textAlign = k === 0 ? 'left' : k === places ? 'right' : 'center';
			const text = n ? c.labels[Math.min(Math.floor(part * n), n - 1)] : stampText(this.from + part * (this.to - this.from)) + ' ms';
			g.fillText(text, box.x + part * box.w, y);
		}
		g.textAlign = 'left';
	}
}

/* A round number above v: the end of an axis */
function nice(v) {
	const p = 10 ** Math.floor(Math.log10(Math.max(v, 1e-9)));
	for (const k of [1, 2, 4, 5, 10])
		if (k * p >= v)
			return k * p;
	return 10 * p;
}
