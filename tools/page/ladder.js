/*
 * ladder.js - the ladder: columns are QPs and processes, time runs down, packets are arrows.
 *
 * The view has a top and a scale. By order, a row is a record and the unit is a row; by time, it
 * is a nanosecond. Only what is in the view is looked at, found by binary search; where more
 * is in it than can be told apart, every second, fourth, ... record is drawn, always the same ones,
 * and all trouble.
 */

const GROUPS = [
	['packets', 'packets', ['packet_out', 'packet_again', 'nak_out', 'packet_in', 'nak_in', 'drop', 'timer'], true],
	['requests', 'requests', ['post_send', 'begin_send', 'post_receive', 'post_srq_receive', 'take_receive', 'completion', 'completion_error'], true],
	['memory', 'memory', ['fault', 'fault_failed', 'fault_wait', 'invalidate', 'prefetch', 'evict', 'reg_mr', 'rereg_mr'], true],
	['states', 'states', ['qp_state', 'qp_failed', 'create_qp', 'qp_path', 'modify_qp', 'modify_refused', 'verb', 'verb_failed',
		'async_event', 'port', 'gid', 'note'], true],
	['connections', 'connections', ['cm_message', 'cm_event', 'cm_call', 'cm_state', 'cm_given', 'cm_address'], true],
	['polls', 'polls', ['poll', 'arm_cq', 'cq_event', 'called_from'], false],
];
const GUTTER = 92, ROW_PX = 20, FULL = 1200, SAMPLED = 4000;

class Ladder {
	constructor(records, links, on) {
		this.on = on; /* {chosen(i)} */
		this.canvas = byId('steps');
		this.draw = soon(() => this.paint());
		this.mode = 'rows';
		this.chosen = -1;
		this.chained = new Set();
		this.left = 0;
		this.show = {};
		GROUPS.forEach(g => { this.show[g[0]] = g[3]; });
		this.errorsOnly = false;
		this.fold = true;
		this.pick = '';
		this.take(records, links);
		this.listen();
	}

	take(records, links) {
		this.r = records;
		this.links = links;
		this.makeBars();
		this.filter();
	}

	/* --- what is shown --- */

	wanted() {
		const by = new Uint8Array(256);
		for (const [id, , kinds] of GROUPS)
			for (const k of kinds)
				if (KIND[k] !== undefined && this.show[id])
					by[KIND[k]] = 1;
		/* kinds that no group knows, of a later version */
		const known = new Set(GROUPS.flatMap(g => g[2]));
		this.r.kinds.forEach((k, i) => { if (k.name && !known.has(k.name)) by[i] = 1; });
		return by;
	}

	/* Columns that the choice of a QP or process leaves */
	picked() {
		const c = this.links.columns, ok = new Uint8Array(c.length);
		const [what, key] = this.pick.split('=');
		const own = what === 'qp' ? Number(key) : -1;
		const peers = own < 0 ? new Set() : this.peersOf(own);
		c.forEach((x, i) => {
			ok[i] = !what || (what === 'process' ? x.trace === Number(key) : i === own || peers.has(i));
		});
		return ok;
	}

	peersOf(own) {
		const L = this.links, found = new Set();
		for (let i = 0; i < this.r.n; i++)
			if (L.column[i] === own && L.mate[i] >= 0)
				found.add(L.column[L.mate[i]]);
		return found;
	}

	/* Rows: the records that are shown, by index */
	filter() {
		const r = this.r, L = this.links, by = this.wanted(), ok = this.picked();
		const rows = new Int32Array(r.n), bad = Uint8Array.from(r.kinds, k => k.severity >= SEVERE.notice ? 1 : 0);
		const used = new Uint8Array(L.columns.length);
		const isBad = i => bad[r.kind[i]] || L.flags[i] & (LOST | THROWN);
		let n = 0;

		for (let i = 0; i < r.n; i++) {
			if (!by[r.kind[i]] || !ok[L.column[i]])
				continue;
			if (this.errorsOnly && !isBad(i) && !(L.mate[i] >= 0 && isBad(L.mate[i])))
				continue;
			rows[n++] = i;
			used[L.column[i]] = 1;
		}
		this.rows = this.folded(rows.subarray(0, n));
		this.makeLanes(used);
		this.findTrouble(isBad);
		if (this.scale === undefined)
			this.reset();
		this.clamp();
		this.draw();
	}

	/* A lane for each column, or one for all of a process; many QPs are shown by process */
	makeLanes(used) {
		const L = this.links, columns = L.columns, count = used.reduce((a, b) => a + b, 0);
		const by = this.lanesBy || (count > 16 ? 'process' : 'qp'), ofTrace = new Map();
		this.laneOf = new Int16Array(columns.length).fill(-1);
		this.lanes = [];
		columns.forEach((c, i) => {
			if (!used[i])
				return;
			if (by === 'process' && ofTrace.has(c.trace)) {
				this.laneOf[i] = ofTrace.get(c.trace);
				return;
			}
			this.laneOf[i] = this.lanes.push(i) - 1;
			ofTrace.set(c.trace, this.laneOf[i]);
		});
		this.byProcess = by === 'process';
		this.byQpn = new Map();
		columns.forEach((c, i) => { if (used[i] && !c.process) this.byQpn.set(c.qpn, i); });
	}

	/*
	 * The middle packets of a message are one row, that of the first of them; so are packets that were
	 * sent again, or thrown away, for one reason. What was lost has a row of its own.
	 * foldedTo[i]: the record whose row record i is in, -1: no row; foldedLast: the last of a row
	 */
	folded(rows) {
		const r = this.r, open = new Map(), n = this.links.columns.length;
		const to = new Int32Array(r.n).fill(-1), last = new Map(), kept = new Int32Array(rows.length);
		let k = 0;

		for (const i of rows) {
			const key = this.fold ? this.foldKey(i) : -1, c = this.links.column[i];
			/* drops stand between the packets that they are about */
			const at = r.kind[i] === KIND.drop ? c + n : c, o = open.get(at);
			if (key >= 0 && o && o.key === key) {
				to[i] = o.i;
				last.set(o.i, i);
				continue;
			}
			to[i] = i;
			kept[k++] = i;
			if (key < 0) {
				open.delete(c);
				open.delete(c + n);
			} else {
				open.set(at, { key, i });
			}
		}
		this.foldedTo = to;
		this.foldedLast = last;
		return kept.slice(0, k);
	}

	/* What packets of one row have in common, -1: it has a row of its own */
	foldKey(i) {
		const r = this.r, f = this.links.flags[i], m = this.links.mate[i], op = r.bytes[i * PAYLOAD + 12];
		if (f & MESSAGE)
			return -1;
		if (r.kind[i] === KIND.drop)
			return 4096 + r.byte(i, 'why');
		const fate = (f | (m >= 0 ? this.links.flags[m] : 0)) & (AGAIN | THROWN);
		if (!(f & (ISIN | ISOUT)) || f & (LOST | ISNAK) || !fate && ![1, 7, 14].includes(op & 0x1f))
			return -1;
		return op * 8 + (f & ISOUT ? 4 : 0) + (fate & AGAIN ? 2 : 0) + (fate & THROWN ? 1 : 0);
	}

	/* The row that record i is in, -1 */
	rowWith(i) {
		return i >= 0 && this.foldedTo[i] >= 0 ? this.rowOf(this.foldedTo[i]) : -1;
	}

	/* Rows that are trouble, in their order */
	findTrouble(isBad) {
		const found = [];
		for (let k = 0; k < this.rows.length; k++)
			if (isBad(this.rows[k]))
				found.push(k);
		this.trouble = Int32Array.from(found);
	}

	/* Requests beside their columns: each in the first free place */
	makeBars() {
		const R = this.links.requests, n = R.post.length;
		const place = new Uint8Array(n), free = new Map(), far = new Float64Array((n >> 8) + 1);
		for (let q = 0; q < n; q++) {
			const end = R.end[q] < 0 ? R.asks[q] ? Infinity : R.post[q] : R.end[q];
			let taken = free.get(R.column[q]);
			if (!taken)
				free.set(R.column[q], taken = []);
			let p = taken.findIndex(until => until < R.post[q]);
			if (p < 0)
				p = taken.length < 6 ? taken.length : 5;
			taken[p] = end;
			place[q] = p;
			far[q >> 8] = Math.max(far[q >> 8], end);
		}
		this.barPlace = place;
		this.barRoom = 5 * (1 + place.reduce((a, b) => Math.max(a, b), 0));
		this.barFar = far;
	}

	/* --- the view --- */

	reset() {
		this.scale = this.mode === 'rows' ? ROW_PX : 1;
		this.top = 0;
		if (this.mode === 'time' && this.rows.length) {
			const span = this.r.time[this.rows[this.rows.length - 1]] - this.r.time[this.rows[0]];
			this.scale = this.height() / Math.max(span, 1000);
			this.top = this.r.time[this.rows[0]];
		}
	}

	height() {
		return Math.max(this.canvas.getBoundingClientRect().height, 50);
	}

	/* The place of row k, in units */
	unit(k) {
		return this.mode === 'rows' ? k : this.r.time[this.rows[k]];
	}

	extent() {
		const n = this.rows.length;
		return n ? [this.unit(0), this.unit(n - 1) + (this.mode === 'rows' ? 1 : 0)] : [0, 1];
	}

	clamp() {
		const [from, to] = this.extent(), h = this.height(), least = h / Math.max(to - from, 1e-9);
		const most = this.mode === 'rows' ? 36 : 0.2;
		this.scale = Math.min(Math.max(this.scale, Math.min(least, this.mode === 'rows' ? ROW_PX : most)), most);
		const room = h / this.scale;
		this.top = Math.max(Math.min(this.top, to - room + 24 / this.scale), from - 12 / this.scale);
		if (to - from < room)
			this.top = from - 12 / this.scale;
	}

	/* The first row at or below a place */
	rowAt(unit) {
		let low = 0, high = this.rows.length;
		if (this.mode === 'rows')
			return Math.min(Math.max(Math.ceil(unit), 0), high);
		while (low < high) {
			const middle = (low + high) >> 1;
			if (this.r.time[this.rows[middle]] < unit)
				low = middle + 1;
			else
				high = middle;
		}
		return low;
	}

	/* The row of record i, or the first after it */
	rowOf(i) {
		let low = 0, high = this.rows.length;
		while (low < high) {
			const middle = (low + high) >> 1;
			if (this.rows[middle] < i)
				low = middle + 1;
			else
				high = middle;
		}
		return low;
	}

	y(k) {
		const centre = this.mode === 'rows' ? 0.5 : 0;
		return (this.unit(Math.min(k, this.rows.length - 1)) + centre - this.top) * this.scale;
	}

	yOf(i) {
		if (this.mode === 'time')
			return (this.r.time[i] - this.top) * this.scale;
		return this.y(this.rowOf(this.foldedTo[i] >= 0 ? this.foldedTo[i] : i));
	}

	x(column) {
		const k = this.laneOf[column];
		if (k < 0)
			return -1;
		if (this.outside)
			return k ? this.width - this.outside : GUTTER + this.outside;
		return GUTTER + this.laneX[k] - this.left;
	}

	/* How much there is between a lane and the next */
	roomOf(column) {
		const k = this.laneOf[column];
		return (k + 1 < this.lanes.length ? this.laneX[k + 1] : this.lanesWide) - this.laneX[k];
	}

	/* A lane of a process beside those of its QPs is narrow: little happens there. */
	layout(w) {
		const room = w - GUTTER, n = Math.max(this.lanes.length, 1);
		const parts = this.lanes.map(c => this.links.columns[c].process && !this.byProcess ? 0.5 : 1);
		const sum = parts.reduce((a, b) => a + b, 0) || 1, least = n <= 2 ? 60 : this.byProcess ? 22 : 130;
		let at = 0;

		this.width = w;
		this.laneWidth = Math.max(room / sum, least);
		this.laneX = parts.map(p => (at += p * this.laneWidth) - p * this.laneWidth * 0.7);
		this.lanesWide = at;
		this.left = Math.max(Math.min(this.left, at - room), 0);
		/* of two, what happens at an end stands outside, and packets between them */
		this.outside = n === 2 ? Math.min(room * 0.26, 280) : 0;
	}

	/* Move sideways until a record's lane can be seen. */
	reveal(i) {
		const x = this.x(this.links.column[i]);
		if (this.outside || x < 0 && this.laneOf[this.links.column[i]] < 0)
			return;
		if (x < GUTTER + 10 || x > this.width - 60)
			this.left += x - (GUTTER + this.width) / 2;
	}

	/* --- drawing --- */

	paint() {
		const began = performance.now(), { g, w, h } = sized(this.canvas);
		this.c = colours();
		this.g = g;
		this.layout(w);
		this.clamp();
		g.font = '12px ' + FONT;
		g.textBaseline = 'middle';
		const first = Math.max(this.rowAt(this.top) - 1, 0), last = Math.min(this.rowAt(this.top + h / this.scale) + 1, this.rows.length);
		this.paintChosen(w);
		this.paintLanes(h);
		this.paintBars(first, last, h);
		this.paintRows(first, last, h);
		this.paintGutter(first, last, h);
		this.paintHeads();
		this.paintOverview();
		this.painted = performance.now() - began;
		this.canvas.dataset.rows = this.rows.length;
		this.canvas.dataset.first = first;
		this.canvas.dataset.last = last;
	}

	paintChosen(w) {
		if (this.rowWith(this.chosen) < 0)
			return;
		const y = this.yOf(this.chosen), half = this.mode === 'rows' ? Math.max(this.scale / 2, 2) : 3;
		this.g.fillStyle = this.c.chosen;
		this.g.fillRect(0, y - half, w, 2 * half);
	}

	paintLanes(h) {
		const g = this.g;
		g.strokeStyle = this.c.line;
		g.lineWidth = 1;
		g.beginPath();
		for (const c of this.lanes) {
			const x = Math.round(this.x(c)) + 0.5;
			if (x < GUTTER || x > this.width)
				continue;
			g.moveTo(x, 0);
			g.lineTo(x, h);
		}
		g.stroke();
	}

	paintBars(first, last, h) {
		const R = this.links.requests, g = this.g;
		if (first >= last || !this.show.requests)
			return;
		const from = this.rows[first], to = this.rows[Math.min(last, this.rows.length - 1)];
		let low = 0, high = R.post.length, drawn = 0;

		while (low < high) {
			const m = (low + high) >> 1;
			if (R.post[m] <= to)
				low = m + 1;
			else
				high = m;
		}
		for (let block = 0; block << 8 < low; block++) {
			if (this.barFar[block] < from)
				continue;
			for (let q = block << 8; q < Math.min((block + 1) << 8, low) && drawn < SAMPLED; q++) {
				if (R.end[q] >= 0 && R.end[q] < from || R.end[q] < 0 && !R.asks[q] || this.laneOf[R.column[q]] < 0)
					continue;
				this.bar(q, h);
				drawn++;
			}
		}
		g.globalAlpha = 1;
	}

	bar(q, h) {
		const R = this.links.requests, g = this.g, open = R.end[q] < 0;
		const x = this.x(R.column[q]) - 7 - 5 * this.barPlace[q];
		const a = Math.max(this.yOf(R.post[q]), -5), b = open ? h + 5 : Math.min(this.yOf(R.end[q]), h + 5);
		g.fillStyle = R.bad[q] ? this.c.bad : R.receive[q] ? this.c.good : this.c.send;
		g.globalAlpha = this.chained.has(R.post[q]) ? 1 : 0.55;
		if (open)
			for (let y = a; y < b; y += 8)
				g.fillRect(x - 1.5, y, 3, 4);
		else
			g.fillRect(x - 1.5, a, 3, Math.max(b - a, 2));
	}

	paintRows(first, last, h) {
		const n = last - first, margin = n <= FULL ? 400 : 0;
		let step = 1;
		this.said = new Map(); /* by lane and side: how far down labels go */
		this.labels = [];
		this.many = new Map();
		while (n / step > SAMPLED)
			step *= 2;
		this.g.globalAlpha = step > 1 ? 0.5 : 1;
		const begin = Math.max(first - margin, 0), end = Math.min(last + margin, this.rows.length);
		for (let k = Math.ceil(begin / step) * step; k < end; k += step)
			this.record(k, first, last, n <= FULL);
		this.paintMany();
		this.g.globalAlpha = 1;
		this.labels.forEach(l => this.paintLabel(...l));
		if (step === 1)
			return;
		let t = this.troubleAfter(first), each = 1;
		const until = this.troubleAfter(last);
		while ((until - t) / each > SAMPLED / 2)
			each *= 2;
		/* where it would hide all the rest, it is marks at its column */
		this.marks = (until - t) / each > h / 3;
		for (t = Math.ceil(t / each) * each; t < until; t += each)
			this.record(this.trouble[t], first, last, false);
		this.marks = false;
		this.paintMany();
	}

	troubleAfter(row) {
		let low = 0, high = this.trouble.length;
		while (low < high) {
			const m = (low + high) >> 1;
			if (this.trouble[m] < row)
				low = m + 1;
			else
				high = m;
		}
		return low;
	}

	record(k, first, last, labels) {
		const i = this.rows[k], f = this.links.flags[i], inside = k >= first && k < last;
		if (f & (ISIN | ISOUT))
			this.packet(i, k, f, inside, labels);
		else if (inside)
			this.happening(i, k, labels);
	}

	/* How a packet looks: colour, line */
	style(i, f) {
		const out = f & ISOUT ? f : this.links.mate[i] >= 0 ? this.links.flags[this.links.mate[i]] : f;
		const all = f | out;
		if (all & (ISNAK | LOST))
			return [this.c.bad, []];
		if (all & AGAIN)
			return [this.c.again, [6, 3]];
		if (all & ANSWER)
			return [this.c.answer, []];
		return [this.c.send, []];
	}

	packet(i, k, f, inside, labels) {
		const L = this.links, m = L.mate[i], g = this.g;
		const other = m >= 0 && this.laneOf[L.column[m]] >= 0 ? m : -1;
		if (f & ISIN && other >= 0 && L.mate[other] === i && this.foldedTo[other] === other && labels)
			return; /* drawn from its other end */
		const [colour, dash] = this.style(i, f), x0 = this.x(L.column[i]), y0 = this.y(k);
		let x1, y1;
		if (other >= 0) {
			x1 = this.x(L.column[other]);
			y1 = this.yOf(other);
		} else {
			[x1, y1] = this.towards(i, f, x0, y0);
		}
		if (!inside && (y0 < 0) === (y1 < 0) && (y0 > this.height()) === (y1 > this.height()))
			return;
		if (other >= 0 && this.laneOf[L.column[i]] === this.laneOf[L.column[other]])
			x1 = x0 + 36;
		if (!labels) {
			if (this.marks)
				this.line(colour, x0, y0, x0 + (x1 < x0 ? -12 : 12), y0);
			else
				this.line(colour, x0, y0, x1, y1);
			return;
		}
		g.strokeStyle = g.fillStyle = colour;
		g.lineWidth = this.chained.has(i) || other >= 0 && this.chained.has(other) ? 2.6 : 1.3;
		g.setLineDash(dash);
		g.beginPath();
		g.moveTo(x0, y0);
		g.lineTo(x1, y1);
		g.stroke();
		g.setLineDash([]);
		const out = f & ISOUT;
		if (f & LOST)
			this.cross(x1, y1);
		else if (out)
			this.head(x0, y0, x1, y1);
		else
			this.head(x1, y1, x0, y0);
		if (other >= 0 && L.flags[other] & THROWN || f & THROWN)
			this.cross(out ? x1 : x0, out ? y1 : y0);
		if (inside && (out || other < 0))
			this.label(this.packetText(i, f), x0, y0, x1 >= x0, colour, Math.max(Math.abs(x1 - x0), Math.min(this.laneWidth, 240)));
	}

	/* One of many: they are painted together, which is faster. */
	line(colour, x0, y0, x1, y1) {
		if (!this.many.has(colour))
			this.many.set(colour, []);
		this.many.get(colour).push(x0, y0, x1, y1);
	}

	paintMany() {
		const g = this.g;
		g.lineWidth = 1;
		for (const [colour, at] of this.many) {
			g.strokeStyle = colour;
			g.beginPath();
			for (let k = 0; k < at.length; k += 4) {
				g.moveTo(at[k], at[k + 1]);
				g.lineTo(at[k + 2], at[k + 3]);
			}
			g.stroke();
		}
		this.many.clear();
	}

	/* Where a packet without another end goes to, or comes from */
	towards(i, f, x0, y0) {
		const c = f & MESSAGE ? undefined : this.byQpn.get(this.r.word(i, 'peer'));
		const to = c !== undefined ? this.x(c) : x0 + (x0 > this.width * 0.7 ? -1 : 1) * Math.min(this.laneWidth * 0.8, 160);
		const part = f & LOST ? 0.62 : c !== undefined ? 1 : 0.5;
		return [x0 + (to - x0) * part, y0 + (f & LOST ? Math.min(this.scale * 0.6, 8) * (this.mode === 'rows' ? 1 : 0) : 0)];
	}

	head(x0, y0, x1, y1) {
		const g = this.g, a = Math.atan2(y1 - y0, x1 - x0);
		g.beginPath();
		g.moveTo(x1, y1);
		g.lineTo(x1 - 8 * Math.cos(a - 0.4), y1 - 8 * Math.sin(a - 0.4));
		g.lineTo(x1 - 8 * Math.cos(a + 0.4), y1 - 8 * Math.sin(a + 0.4));
		g.fill();
	}

	cross(x, y) {
		const g = this.g;
		g.strokeStyle = this.c.bad;
		g.lineWidth = 2;
		g.beginPath();
		g.moveTo(x - 5, y - 5);
		g.lineTo(x + 5, y + 5);
		g.moveTo(x + 5, y - 5);
		g.lineTo(x - 5, y + 5);
		g.stroke();
	}

	packetText(i, f) {
		if (f & MESSAGE)
			return this.messageText(i, f);
		const r = this.r, op = r.about.names[r.field(i, 'opcode')[1]][r.byte(i, 'opcode')];
		const size = r.word(i, 'length'), psn = r.word(i, 'psn');
		const what = f & ISNAK ? syndromeText(r.byte(i, 'syndrome')) : op || 'opcode ' + r.byte(i, 'opcode');
		const last = this.foldedLast.get(i), why = f & AGAIN ? '  ' + r.words_of(i, r.field(i, 'why')) : '';
		if (last !== undefined)
			return what + '  ' + psn + '…' + r.word(last, 'psn') + '  each ' + sizeText(size) + why;
		return what + '  ' + psn + (size ? '  ' + sizeText(size) : '') + why + (f & LOST ? '  lost' : '');
	}

	/* Of connection management: the port that a request asks for, why a connection is refused */
	messageText(i, f) {
		const r = this.r, port = r.number(i, 'port'), reason = r.number(i, 'reason');
		return r.words_of(i, r.field(i, 'message')) + (port ? '  port ' + port : '') +
			(reason ? '  ' + r.words_of(i, r.field(i, 'reason')) : '') +
			(f & AGAIN ? '  again' : '') + (f & LOST ? '  lost' : '');
	}

	happening(i, k, labels) {
		const r = this.r, x = this.x(this.links.column[i]), y = this.y(k), s = r.severity(i), g = this.g;
		const name = r.kinds[r.kind[i]].name;
		const memory = GROUPS[2][2].includes(name);
		const colour = s >= SEVERE.warning ? this.c.bad : memory ? this.c.memory : s === SEVERE.notice ? this.c.again : this.c.soft;
		g.fillStyle = colour;
		g.beginPath();
		if (memory)
			g.rect(x - 4, y - 4, 8, 8);
		else if (s >= SEVERE.notice) {
			g.moveTo(x, y - 5);
			g.lineTo(x + 5, y + 4);
			g.lineTo(x - 5, y + 4);
		} else
			g.arc(x, y, 3, 0, 7);
		g.fill();
		if (labels)
			this.label(this.shortText(i), x, y, this.sideOf(x), s >= SEVERE.notice || memory ? colour : this.c.ink,
				this.outside || (this.laneWidth < 70 ? 0 : this.roomOf(this.links.column[i])));
	}

	/* Do words about what happens at a lane stand right of it? */
	sideOf(x) {
		return !this.outside || x > this.width / 2;
	}

	shortText(i) {
		const text = this.byProcess ? this.r.text(i) : this.r.text(i).replace(/^QP 0x[0-9a-f]+ /, '');
		const last = this.foldedLast.get(i), to = last === undefined ? '' : '…' + this.r.word(last, 'psn');
		if (this.r.kind[i] === KIND.drop)
			return 'thrown away: ' + text.replace(/^dropped /, '').replace(/ for QP .*?: /, to + ', ');
		return text;
	}

	/* Text beside a lane, if the one above it leaves room; it is painted over all lines */
	label(text, x, y, right, colour, room) {
		const key = Math.round(x) * 2 + (right ? 1 : 0);
		if (y - (this.said.get(key) || -99) < 13 || y < -10 || room < 24)
			return;
		this.said.set(key, y);
		this.labels.push([text, x, y, right, colour, room]);
	}

	paintLabel(text, x, y, right, colour, room) {
		const g = this.g, beside = right ? 9 : 11 + this.barRoom;
		const shown = this.fit(text, Math.max(room - beside - 6, 20)), w = g.measureText(shown).width;
		const left = right ? x + beside : x - beside - w;
		g.fillStyle = this.c.ground;
		g.globalAlpha = 0.94;
		g.fillRect(left - 2, y - 7, w + 4, 13);
		g.globalAlpha = 1;
		g.fillStyle = colour;
		g.fillText(shown, left, y);
	}

	fit(text, room) {
		if (this.g.measureText(text).width <= room)
			return text;
		const each = this.g.measureText(text).width / text.length;
		return text.slice(0, Math.max(Math.floor(room / each) - 1, 1)) + '…';
	}

	paintGutter(first, last, h) {
		const g = this.g, n = last - first;
		let step = 1, before = -99, told = null;
		g.fillStyle = this.c.ground;
		g.globalAlpha = 0.92;
		g.fillRect(0, 0, GUTTER - 4, h);
		g.globalAlpha = 1;
		while (n / step > SAMPLED)
			step *= 2;
		for (let k = first; k < last; k += step) {
			const y = this.y(k), t = this.r.time[this.rows[k]];
			if (y < 0 || t === told)
				continue;
			const gap = k > 0 ? t - this.r.time[this.rows[k - 1]] : 0;
			if (this.mode === 'rows' && gap > 1e6 && this.scale > 8)
				this.gap(y - this.scale / 2);
			if (y - before < 15)
				continue;
			g.fillStyle = this.rows[k] === this.foldedTo[this.chosen] ? this.c.ink : this.c.soft;
			g.textAlign = 'right';
			g.fillText(stampText(t), GUTTER - 12, y);
			g.textAlign = 'left';
			before = y;
			told = t;
		}
	}

	/* Here nothing was recorded for long. */
	gap(y) {
		const g = this.g;
		g.strokeStyle = this.c.line;
		g.lineWidth = 1;
		g.setLineDash([2, 3]);
		g.beginPath();
		g.moveTo(0, Math.round(y) + 0.5);
		g.lineTo(this.width, Math.round(y) + 0.5);
		g.stroke();
		g.setLineDash([]);
	}

	paintHeads() {
		const { g, w } = sized(byId('heads')), t = this.r.about.traces;
		g.textBaseline = 'middle';
		g.textAlign = 'center';
		g.font = '12px ' + FONT;
		g.fillStyle = this.c.soft;
		g.textAlign = 'right';
		g.fillText('ms', GUTTER - 12, 31);
		g.textAlign = 'center';
		for (const c of this.lanes) {
			const x = this.x(c), col = this.links.columns[c];
			if (x < GUTTER || x > w + 40)
				continue;
			this.g = g;
			g.fillStyle = this.c.soft;
			g.font = '12px ' + FONT;
			if (this.laneWidth < 60) {
				this.upright(g, String(t[col.trace].pid), x);
				continue;
			}
			g.fillText(this.fit(processName(t[col.trace]), this.outside || this.laneWidth * (col.process && !this.byProcess ? 0.5 : 1) - 6), x, 13);
			g.fillStyle = this.c.ink;
			g.font = '600 13px ' + FONT;
			g.fillText(this.byProcess ? 'all QPs' : col.process ? 'process' : 'QP ' + qpnText(col.qpn), x, 31);
		}
	}

	/* Text from bottom to top, where columns are narrow */
	upright(g, text, x) {
		g.save();
		g.translate(x, 40);
		g.rotate(-Math.PI / 2);
		g.textAlign = 'left';
		g.fillText(text, 0, 0);
		g.restore();
	}

	/* --- the whole run --- */

	paintOverview() {
		const { g, w, h } = sized(byId('overview')), [from, to] = this.extent(), span = Math.max(to - from, 1e-9);
		const lines = Math.round(h), n = this.rows.length, errors = new Float64Array(lines + 1), others = new Float64Array(lines + 1);
		const many = this.mode === 'time' ? this.density(lines, from, span) : null;
		let most = 1;
		for (let t = 0; t < this.trouble.length; t++) {
			const k = this.trouble[t], i = this.rows[k], y = (this.unit(k) - from) / span * lines | 0;
			const to = this.links.flags[i] & LOST || this.r.severity(i) >= SEVERE.error ? errors : others;
			most = Math.max(most, ++to[y]);
		}
		const wide = count => count ? 5 + (w - 8) * Math.log(1 + count) / Math.log(1 + most) * 0.75 : 0;
		for (let y = 0; y < lines; y++) {
			if (many) {
				g.fillStyle = this.c.line;
				g.fillRect(0, y, many[y] * w, 1);
			}
			g.fillStyle = this.c.again;
			g.fillRect(w - 2 - wide(others[y]), y, wide(others[y]), 2);
			g.fillStyle = this.c.bad;
			g.fillRect(2, y, wide(errors[y]), 2);
		}
		if (!n)
			return;
		const top = (this.top - from) / span * h, tall = Math.max(this.height() / this.scale / span * h, 6);
		g.strokeStyle = this.c.focus;
		g.lineWidth = 2;
		g.strokeRect(1, Math.max(Math.min(top, h - 6), 1), w - 2, Math.min(tall, h - 2));
	}

	/* How many records are at each line, by the logarithm, from 0 to 1 */
	density(lines, from, span) {
		if (this.denseFor === this.rows && this.dense.length === lines)
			return this.dense;
		const many = new Float64Array(lines);
		let most = 1;
		for (let y = 0; y < lines; y++) {
			many[y] = Math.log2(1 + this.rowAt(from + (y + 1) * span / lines) - this.rowAt(from + y * span / lines));
			most = Math.max(most, many[y]);
		}
		this.dense = many.map(x => x / most);
		this.denseFor = this.rows;
		return this.dense;
	}

	/* --- moving --- */

	listen() {
		const c = this.canvas, over = byId('overview');
		let from = null, moved = 0;

		c.addEventListener('wheel', e => this.wheel(e), { passive: false });
		c.addEventListener('pointerdown', e => {
			from = [e.clientX, e.clientY];
			moved = 0;
			c.setPointerCapture(e.pointerId);
		});
		c.addEventListener('pointermove', e => {
			if (!from)
				return;
			moved += Math.abs(e.clientX - from[0]) + Math.abs(e.clientY - from[1]);
			this.top -= (e.clientY - from[1]) / this.scale;
			this.left -= e.clientX - from[0];
			from = [e.clientX, e.clientY];
			this.draw();
		});
		c.addEventListener('pointerup', e => {
			from = null;
			if (moved < 4)
				this.click(e);
		});
		c.addEventListener('keydown', e => this.key(e));
		const jump = e => {
			const box = over.getBoundingClientRect(), [a, b] = this.extent();
			this.centre(a + (e.clientY - box.top) / box.height * (b - a));
		};
		over.addEventListener('pointerdown', e => {
			over.setPointerCapture(e.pointerId);
			jump(e);
		});
		over.addEventListener('pointermove', e => { if (e.buttons) jump(e); });
		new ResizeObserver(() => this.draw()).observe(c);
	}

	wheel(e) {
		const old = this.top, box = this.canvas.getBoundingClientRect();
		if (e.ctrlKey || e.metaKey) {
			this.zoom(Math.exp(-e.deltaY / 200), e.clientY - box.top);
			e.preventDefault();
			return;
		}
		if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
			this.left += e.deltaX || e.deltaY;
			e.preventDefault();
			this.draw();
			return;
		}
		this.top += e.deltaY / this.scale * (e.deltaMode ? 20 : 1);
		this.clamp();
		if (this.top !== old)
			e.preventDefault(); /* at its end the page scrolls on */
		this.draw();
	}

	zoom(by, y) {
		const at = y === undefined ? this.height() / 2 : y, unit = this.top + at / this.scale;
		this.scale *= by;
		this.clamp();
		this.top = unit - at / this.scale;
		this.clamp();
		this.draw();
	}

	centre(unit) {
		this.top = unit - this.height() / 2 / this.scale;
		this.clamp();
		this.draw();
	}

	setMode(mode) {
		const middle = this.rows[Math.min(this.rowAt(this.top + this.height() / 2 / this.scale), this.rows.length - 1)];
		const from = this.rows[Math.min(this.rowAt(this.top), this.rows.length - 1)];
		const to = this.rows[Math.min(this.rowAt(this.top + this.height() / this.scale), this.rows.length - 1)];
		this.mode = mode;
		this.reset();
		if (middle === undefined)
			return;
		if (mode === 'time')
			this.scale = this.height() / Math.max(this.r.time[to] - this.r.time[from], 1000);
		this.clamp();
		this.centre(mode === 'time' ? (this.r.time[from] + this.r.time[to]) / 2 : this.rowOf(middle));
	}

	click(e) {
		const box = this.canvas.getBoundingClientRect(), x = e.clientX - box.left, y = e.clientY - box.top;
		const at = this.top + y / this.scale;
		let best = -1, least = 40;
		if (this.mode === 'rows') {
			best = Math.floor(at);
		} else {
			const near = this.rowAt(at);
			for (let k = Math.max(near - 200, 0); k < Math.min(near + 200, this.rows.length); k++) {
				const d = Math.abs(this.y(k) - y) + Math.abs(this.x(this.links.column[this.rows[k]]) - x) / 40;
				if (d < least) {
					least = d;
					best = k;
				}
			}
		}
		this.canvas.focus({ preventScroll: true });
		if (best >= 0 && best < this.rows.length)
			this.choose(this.rows[best], false);
	}

	choose(i, move) {
		this.chosen = i;
		this.chained = new Set(i < 0 ? [] : this.links.chain(i));
		if (i >= 0 && move && this.laneX)
			this.reveal(i);
		if (i >= 0 && move) {
			const y = this.yOf(i);
			if (y < 20 || y > this.height() - 20)
				this.centre(this.mode === 'rows' ? this.rowWith(i) : this.r.time[i]);
			if (this.mode === 'rows' && this.scale < 13 && move === 'near') {
				this.scale = ROW_PX;
				this.centre(this.rowWith(i));
			}
		}
		this.draw();
		this.on.chosen(i);
	}

	step(by) {
		if (!this.rows.length)
			return;
		let k = this.rowWith(this.chosen) < 0 ? this.rowAt(this.top) - by : this.rowWith(this.chosen);
		k = Math.min(Math.max(k + by, 0), this.rows.length - 1);
		this.choose(this.rows[k], true);
	}

	/* The next trouble below, or above (-1) what is chosen */
	nextTrouble(way) {
		const at = this.rowWith(this.chosen), here = at >= 0 ? at : way > 0 ? -1 : this.rows.length;
		const t = way > 0 ? this.troubleAfter(here + 1) : this.troubleAfter(here) - 1;
		if (t < 0 || t >= this.trouble.length)
			return false;
		this.choose(this.rows[this.trouble[t]], 'near');
		return true;
	}

	key(e) {
		const page = Math.max(Math.floor(this.height() / (this.mode === 'rows' ? this.scale : ROW_PX)) - 2, 1);
		const does = {
			ArrowDown: () => this.step(1), ArrowUp: () => this.step(-1),
			PageDown: () => this.step(page), PageUp: () => this.step(-page),
			Home: () => this.step(-this.rows.length), End: () => this.step(this.rows.length),
			ArrowLeft: () => this.follow(), ArrowRight: () => this.follow(),
			'+': () => this.zoom(1.5), '=': () => this.zoom(1.5), '-': () => this.zoom(1 / 1.5),
			n: () => this.nextTrouble(1), N: () => this.nextTrouble(-1),
			'/': () => byId('find').focus(),
		}[e.key];
		if (!does || e.ctrlKey || e.altKey || e.metaKey)
			return;
		e.preventDefault();
		does();
	}

	follow() {
		if (this.chosen >= 0 && this.links.mate[this.chosen] >= 0)
			this.choose(this.links.mate[this.chosen], true);
	}
}

/* ns as ms, with as many digits as there are to tell */
function stampText(ns) {
	return (ns / 1e6).toFixed(4);
}
