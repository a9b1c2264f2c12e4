/*
 * data.js - the records: how they are unpacked (tools/page.c has the same layout), and what
 * stands in them.
 *
 * All of it is in arrays with one element for each record, in the order of time; a record is
 * known by its index. Nothing here is a thing of the page.
 */

/* Kinds by name, filled from the trace's own table */
const KIND = {};
const SEVERE = { detail: 0, info: 1, notice: 2, warning: 3, error: 4 };
const PAYLOAD = 40;

/*
 * Records: n of them; time (ns from the page's zero), kind, trace (index), thread; bytes and
 * words: their fields
 */
class Records {
	constructor(about, room) {
		this.about = about;
		this.n = 0;
		this.grow(Math.max(room, 1024));
		this.kinds = about.kinds;
		this.kinds.forEach((k, i) => { if (k.name) KIND[k.name] = i; });
		this.at = {}; /* at[field][kind]: where it is, or -1 */
	}

	grow(room) {
		const old = this.n ? this : null;
		const take = (type, name, each) => {
			const a = new type(room * each);
			if (old)
				a.set(old[name].subarray(0, this.n * each));
			this[name] = a;
		};
		take(Float64Array, 'time', 1);
		take(Uint8Array, 'kind', 1);
		take(Uint8Array, 'trace', 1);
		take(Uint32Array, 'thread', 1);
		take(Uint8Array, 'bytes', PAYLOAD);
		this.words = new Uint32Array(this.bytes.buffer);
		this.view = new DataView(this.bytes.buffer);
		this.room = room;
	}

	/* A block that is unpacked: byte by byte, see fill_row() */
	add(raw) {
		const row = this.about.row, n = raw.length / row | 0, first = this.n;
		let before = 0;

		if (first + n > this.room)
			this.grow(2 * (first + n));
		for (let i = 0; i < n; i++) {
			let low = 0, high = 0;
			for (let k = 3; k >= 0; k--) {
				low = low * 256 + raw[k * n + i];
				high = high * 256 + raw[(k + 4) * n + i];
			}
			before += low + (high | 0) * 4294967296;
			this.time[first + i] = before;
			this.kind[first + i] = raw[8 * n + i];
			this.trace[first + i] = raw[9 * n + i];
			this.thread[first + i] = raw[10 * n + i] | raw[11 * n + i] << 8 |
				raw[12 * n + i] << 16 | raw[13 * n + i] << 24;
		}
		for (let k = 0; k < PAYLOAD; k++)
			for (let i = 0, from = (14 + k) * n, to = first * PAYLOAD + k; i < n; i++, to += PAYLOAD)
				this.bytes[to] = raw[from + i];
		this.n += n;
	}

	/* What came late goes to its place: records from 'first' on are new, and may be earlier. */
	settle(first) {
		let from = first;
		for (let i = first; i < this.n; i++)
			while (from > 0 && this.time[from - 1] > this.time[i])
				from--;
		if (from === first && this.isSorted(first))
			return from;
		const order = Array.from({ length: this.n - from }, (_, i) => from + i);
		order.sort((a, b) => this.time[a] - this.time[b] || a - b);
		for (const [name, each] of [['time', 1], ['kind', 1], ['trace', 1], ['thread', 1], ['bytes', PAYLOAD]]) {
			const old = this[name].slice(from * each, this.n * each);
			order.forEach((o, i) => {
				for (let k = 0; k < each; k++)
					this[name][(from + i) * each + k] = old[(o - from) * each + k];
			});
		}
		return from;
	}

	isSorted(from) {
		for (let i = Math.max(from, 1); i < this.n; i++)
			if (this.time[i] < this.time[i - 1])
				return false;
		return true;
	}

	/* Places of a field in each kind, -1 where a kind has none */
	places(field) {
		if (!this.at[field])
			this.at[field] = Int16Array.from(this.kinds, k => {
				const f = k.fields.find(x => x[0] === field);
				return f ? f[2] : -1;
			});
		return this.at[field];
	}

	/* A field of 4 bytes, or of 1; -1: the kind has none */
	word(i, field) {
		const at = this.places(field)[this.kind[i]];
		return at < 0 ? -1 : this.words[(i * PAYLOAD + at) >> 2];
	}

	byte(i, field) {
		const at = this.places(field)[this.kind[i]];
		return at < 0 ? -1 : this.bytes[i * PAYLOAD + at];
	}

	/* A field of 8 bytes as a number, which is exact up to 2^53 */
	long(i, field) {
		const at = this.places(field)[this.kind[i]];
		if (at < 0)
			return 0;
		const w = (i * PAYLOAD + at) >> 2;
		return this.words[w] + this.words[w + 1] * 4294967296;
	}

	/* Any field exactly: a BigInt if it has 8 bytes */
	value(i, f) {
		const at = i * PAYLOAD + f[2];
		if (f[3] === 8)
			return this.view.getBigUint64(at, true);
		if (f[3] === 4)
			return f[4] ? this.view.getInt32(at, true) : this.view.getUint32(at, true);
		return f[3] === 2 ? this.view.getUint16(at, true) : this.bytes[at];
	}

	/* Any field that is a number below 2^53 */
	number(i, name) {
		return Number(this.value(i, this.field(i, name)));
	}

	field(i, name) {
		return this.kinds[this.kind[i]].fields.find(f => f[0] === name);
	}

	severity(i) {
		return this.kinds[this.kind[i]].severity;
	}

	/* A field in words */
	words_of(i, f) {
		if (f[1] === 'ip')
			return ipText(this.bytes.subarray(i * PAYLOAD + f[2], i * PAYLOAD + f[2] + 16));
		return valueText(this.about, this.unitOf(i, f), this.value(i, f));
	}

	/* What an id is, which a field beside it says: QPNs and keys are hexadecimal elsewhere, too. */
	unitOf(i, f) {
		const object = f[0] === 'id' ? this.field(i, 'object') : null;
		const what = object ? this.about.names[object[1]][this.value(i, object)] : '';
		return what === 'QP' ? 'qpn' : what === 'MR' || what === 'MW' ? 'hex' : object ? 'num' : f[1];
	}

	/* A record as a line, by the text of its kind */
	text(i) {
		const k = this.kinds[this.kind[i]];
		return k.text.replace(/\{([^}:]*)(?::([^}]*))?\}/g, (all, name, when) => {
			const f = k.fields.find(x => x[0] === name);
			if (!f)
				return all;
			return when === undefined ? this.words_of(i, f) : Number(this.value(i, f)) ? when : '';
		});
	}

	/* The first record at or after a time */
	after(time) {
		let low = 0, high = this.n;
		while (low < high) {
			const middle = (low + high) >> 1;
			if (this.time[middle] < time)
				low = middle + 1;
			else
				high = middle;
		}
		return low;
	}
}

/* --- values in words -------------------------------------------------------------- */

function timeText(ns) {
	const v = Math.abs(ns), sign = ns < 0 ? '−' : '';
	const digits = x => x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2);
	if (v < 1e3)
		return sign + Math.round(v) + ' ns';
	if (v < 1e6)
		return sign + digits(v / 1e3) + ' µs';
	if (v < 1e9)
		return sign + digits(v / 1e6) + ' ms';
	return sign + digits(v / 1e9) + ' s';
}

function sizeText(bytes) {
	const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
	let v = Number(bytes), u = 0;
	for (; v >= 1024 && u + 1 < units.length; u++)
		v /= 1024;
	return Number(v.toPrecision(4)) + ' ' + units[u];
}

function countText(n) {
	return Math.round(n).toString().replace(/\B(?=(\d{3})+$)/g, ' ');
}

function hexText(v, digits) {
	return '0x' + v.toString(16).padStart(digits || 1, '0');
}

function qpnText(qpn) {
	return hexText(qpn, 6);
}

function ipText(b) {
	if (b.subarray(0, 10).every(x => !x) && b[10] === 255 && b[11] === 255)
		return b.subarray(12).join('.');
	const groups = [];
	for (let i = 0; i < 16; i += 2)
		groups.push((b[i] << 8 | b[i + 1]).toString(16));
	return groups.join(':').replace(/(^|:)0(:0)+(:|$)/, '::');
}

function syndromeText(s) {
	const naks = ['NAK (PSN sequence error)', 'NAK (invalid request)', 'NAK (remote access error)',
		'NAK (remote operational error)'];
	if ((s & 0xe0) === 0)
		return 'ACK';
	if ((s & 0xe0) === 0x20)
		return 'RNR NAK (timer ' + (s & 0x1f) + ')';
	return (s & 0xe0) === 0x60 && naks[s & 0x1f] || 'syndrome ' + hexText(s, 2);
}

/* unit: a word, or the number of a table of names */
function valueText(about, unit, v) {
	const names = about.names[unit];
	switch (unit) {
	case 'qpn': return qpnText(v);
	case 'hex':
	case 'addr': return hexText(v);
	case 'bytes': return sizeText(v);
	case 'ns': return timeText(Number(v));
	case 'pages': return v + (Number(v) === 1 ? ' page' : ' pages');
	case 'bool': return Number(v) ? 'yes' : 'no';
	case 'errno': return !v ? 'ok' : about.errnos[-v] || String(v);
	case 'syndrome': return syndromeText(v);
	case 'attr': {
		const bits = about.names[about.attr];
		return Object.keys(bits).filter(b => v >>> b & 1).map(b => bits[b]).join(',');
	}
	default: return names && names[v] !== undefined ? names[v] : String(v);
	}
}

/* --- unpacking -------------------------------------------------------------------- */

function bytesOf(base64) {
	const text = atob(base64), bytes = new Uint8Array(text.length);
	for (let i = 0; i < text.length; i++)
		bytes[i] = text.charCodeAt(i);
	return bytes;
}

async function inflate(bytes) {
	const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
	return new Uint8Array(await new Response(stream).arrayBuffer());
}

/* The elements of records in 'where', which are removed: their text is large. */
async function unpack(records, where) {
	for (const element of where.querySelectorAll('script.records')) {
		records.add(await inflate(bytesOf(element.textContent)));
		element.remove();
	}
}
