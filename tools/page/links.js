/*
 * links.js - what belongs together: the two ends of a packet, a request and its packets and
 * completion, records and their QPs. Made once, by one walk over the records.
 *
 * mate[i]	the other end of packet i, -1: none
 * column[i]	the column of record i: that of its QP, or of its process
 * request[i]	the request of record i, -1: none
 * flags[i]	see LOST...
 */

const LOST = 1;	    /* a packet that nobody received, though its receiver was traced in full */
const THROWN = 2;   /* it was received and thrown away */
const ISOUT = 4, ISIN = 8, AGAIN = 16, ANSWER = 32, ISNAK = 64;
const MESSAGE = 128; /* of connection management: fields are not those of a packet */

/* A hash table of the last packets that lack their other end, by what both ends know of them */
class Ends {
	constructor(n) {
		this.size = 1024;
		while (this.size < 2 * n)
			this.size *= 2;
		this.slot = new Int32Array(this.size).fill(-1);
		this.probes = 16;
	}

	/* Where 'same' holds, or a place for a new one */
	find(hash, same) {
		let free = -1;
		for (let k = 0; k < this.probes; k++) {
			const at = (hash + k) & (this.size - 1), i = this.slot[at];
			if (i < 0)
				return free < 0 ? at : free;
			if (same(i))
				return at;
		}
		return hash & (this.size - 1);
	}
}

class Links {
	constructor(records) {
		const n = records.n;
		this.records = records;
		this.mate = new Int32Array(n).fill(-1);
		this.column = new Int32Array(n).fill(-1);
		this.request = new Int32Array(n).fill(-1);
		this.flags = new Uint8Array(n);
		this.columns = [];
		this.byKey = new Map();
		this.requests = { post: [], begin: [], end: [], column: [], receive: [], bad: [], asks: [] };
		this.sigAll = new Set(); /* columns whose requests all ask for a completion */
		this.messages = new Map(); /* those that lack their other end, by what both ends know of them */
		this.talks = new Map(); /* the messages of a connection, by either ID */
		this.waiting = new Map(); /* receive requests that no message has taken, by SRQ or QP */
		this.sent = new Map(); /* by column: requests that are not complete */
		this.makeColumns();
		this.walk();
		this.findLost();
	}

	/* --- columns --- */

	/*
	 * Processes in their order, each with a column for each of its QPs, and one for itself unless
	 * it has one QP only
	 */
	makeColumns() {
		const r = this.records, place = r.places('qpn');
		const seen = r.about.traces.map(() => new Set());

		for (let i = 0; i < r.n; i++) {
			const at = place[r.kind[i]], q = at < 0 ? 0 : r.words[(i * PAYLOAD + at) >> 2];
			const of = seen[r.trace[i]];
			if (!of)
				continue;
			/* QP 1 is that of connection management, and of a drop the QP may not be there */
			if (q > 1 && r.kind[i] !== KIND.drop)
				of.add(q);
		}
		r.about.traces.forEach((t, k) => {
			if (seen[k].size === 1)
				this.byKey.set(k + ':0', this.columns.length);
			else
				this.byKey.set(k + ':0', this.columns.push({ trace: k, qpn: 0, process: true }) - 1);
			for (const q of seen[k])
				this.byKey.set(k + ':' + q, this.columns.push({ trace: k, qpn: q, process: false }) - 1);
		});
	}

	columnOf(trace, qpn) {
		const c = this.byKey.get(trace + ':' + qpn);
		return c === undefined ? this.byKey.get(trace + ':0') : c;
	}

	/* --- one walk --- */

	walk() {
		const r = this.records, place = r.places('qpn'), K = KIND;
		let lastTrace = -1, lastQpn = -1, last = -1;

		this.ends = new Ends(Math.min(r.n, 1 << 20));
		for (let i = 0; i < r.n; i++) {
			const kind = r.kind[i], at = place[kind];
			const qpn = at < 0 ? 0 : r.words[(i * PAYLOAD + at) >> 2];
			if (r.trace[i] !== lastTrace || qpn !== lastQpn) {
				lastTrace = r.trace[i];
				lastQpn = qpn;
				last = this.columnOf(lastTrace, qpn);
			}
			this.column[i] = last === undefined ? 0 : last;
			if (kind >= K.packet_out && kind <= K.nak_in)
				this.packet(i, kind);
			else if (kind === K.cm_message)
				this.message(i);
			else if (kind === K.create_qp && r.byte(i, 'sig_all'))
				this.sigAll.add(this.column[i]);
			else if (kind === K.drop)
				this.thrown(i);
			else if (kind === K.post_send)
				this.post(i);
			else if (kind === K.begin_send)
				this.begin(i);
			else if (kind === K.post_receive || kind === K.post_srq_receive)
				this.postReceive(i, kind === K.post_srq_receive);
			else if (kind === K.take_receive)
				this.take(i);
			else if (kind === K.completion || kind === K.completion_error)
				this.complete(i, kind === K.completion_error);
		}
		this.ends = null;
	}

	packet(i, kind) {
		const r = this.records, w = (i * PAYLOAD) >> 2, b = i * PAYLOAD;
		const out = kind !== KIND.packet_in && kind !== KIND.nak_in;
		const op = r.bytes[b + 12] & 0x1f;
		let flags = out ? ISOUT : ISIN;

		if (kind === KIND.packet_again)
			flags |= AGAIN;
		if (kind === KIND.nak_out || kind === KIND.nak_in)
			flags |= ISNAK;
		if (op >= 13 && op <= 18)
			flags |= ANSWER;
		this.flags[i] = flags;
		if (out)
			this.match(i, r.words[w], r.words[w + 1], r.words[w + 2], r.bytes[b + 12], true);
		else
			this.match(i, r.words[w + 1], r.words[w], r.words[w + 2], r.bytes[b + 12], false);
		this.ofRequest(i, out, r.words[w + 2], op);
	}

	/*
	 * The other end of packet i. Times of both ends are taken once in a turn, so an arrival can
	 * stand before its departure; either waits for the other.
	 */
	match(i, from, to, psn, op, out) {
		const r = this.records, flags = this.flags;
		const hash = (Math.imul(from, 0x9e3779b1) ^ Math.imul(psn, 0x85ebca6b) ^ Math.imul(op, 0x27d4eb2f)) >>> 0;
		const same = j => {
			const w = (j * PAYLOAD) >> 2, o = flags[j] & ISOUT, dest = r.words[w + (o ? 1 : 0)];
			return r.words[w + (o ? 0 : 1)] === from && r.words[w + 2] === psn &&
				r.bytes[j * PAYLOAD + 12] === op &&
				(dest === to || dest === 0xffffff || to === 0xffffff);
		};
		const at = this.ends.find((hash ^ hash >>> 15) >>> 0, same), j = this.ends.slot[at];

		if (j >= 0 && same(j) && !!(flags[j] & ISOUT) !== out) {
			this.mate[i] = j;
			if (this.mate[j] < 0 || out)
				this.mate[j] = i;
			/* a datagram to a group arrives at many: it stays */
			if (r.words[((out ? i : j) * PAYLOAD >> 2) + 1] === 0xffffff)
				return;
			this.ends.slot[at] = out ? i : j;
			if (!out)
				return;
		}
		/* a packet that is thrown away is received first: only departures are waited for long */
		this.ends.slot[at] = i;
	}

	/*
	 * A message of connection management. It may be sent several times: what arrives is the last of
	 * those, and those before it were lost.
	 */
	message(i) {
		const r = this.records, out = !!r.number(i, 'sent'), local = r.number(i, 'local_id'), remote = r.number(i, 'remote_id');
		const key = [r.number(i, 'message'), local, remote].join(':');
		const waiting = this.messages.get(key) || { out: [], in: [] };
		const mates = out ? waiting.in : waiting.out;

		this.flags[i] = MESSAGE | (out ? ISOUT : ISIN) | (r.number(i, 'again') ? AGAIN : 0);
		this.messages.set(key, waiting);
		if (mates.length) {
			const j = mates.pop();
			this.mate[i] = j;
			this.mate[j] = i;
			if (!out) {
				mates.forEach(k => { this.flags[k] |= LOST; });
				mates.length = 0;
			}
		} else {
			(out ? waiting.out : waiting.in).push(i);
		}
		const talk = this.talks.get(local) || this.talks.get(remote) || [];
		talk.push(i);
		for (const id of [local, remote])
			if (id)
				this.talks.set(id, talk);
	}

	/* All messages of the connection that message i is about */
	talkOf(i) {
		return this.talks.get(this.records.number(i, 'local_id')) || [];
	}

	thrown(i) {
		const r = this.records, q = r.word(i, 'qpn'), psn = r.word(i, 'psn');
		for (let j = i - 1; j >= 0 && j > i - 64; j--)
			if (this.flags[j] & ISIN && !(this.flags[j] & MESSAGE) && r.words[(j * PAYLOAD) >> 2] === q &&
			    r.words[((j * PAYLOAD) >> 2) + 2] === psn && r.trace[j] === r.trace[i]) {
				this.flags[j] |= THROWN;
				this.mate[i] = j;
				return;
			}
	}

	/* --- requests --- */

	open(c) {
		let o = this.sent.get(c);
		if (!o)
			this.sent.set(c, o = { sends: [], begun: [], receives: [], head: 0, at: 0, lastIn: -1, taking: -1 });
		return o;
	}

	make(i, receive) {
		const q = this.requests, id = q.post.length;
		q.post.push(i);
		q.begin.push(-1);
		q.end.push(-1);
		q.column.push(this.column[i]);
		q.receive.push(receive);
		q.asks.push(receive || this.sigAll.has(this.column[i]) || (this.records.byte(i, 'flags') & 2) !== 0);
		q.bad.push(false);
		this.request[i] = id;
		return id;
	}

	post(i) {
		this.open(this.column[i]).sends.push(this.make(i, false));
	}

	begin(i) {
		const o = this.open(this.column[i]), r = this.records, id = r.long(i, 'wr_id');
		for (let k = o.at; k < o.sends.length; k++) {
			const q = o.sends[k];
			if (this.requests.begin[q] < 0 && r.long(this.requests.post[q], 'wr_id') === id) {
				this.requests.begin[q] = i;
				this.request[i] = q;
				o.begun.push({ q, psn: r.word(i, 'psn'), packets: Math.max(r.word(i, 'packets'), 1) });
				if (o.begun.length > 4096)
					o.begun.splice(0, 2048);
				o.at = k;
				return;
			}
		}
	}

	ofRequest(i, out, psn, op) {
		const o = this.sent.get(this.column[i]);
		if (!out && (op < 6 || op === 9 || op === 11 || op === 22 || op === 23)) {
			this.arrived(i);
			return;
		}
		if (!o || out && op >= 13 && op <= 18 || !out && !(op >= 13 && op <= 18))
			return;
		for (let k = o.begun.length - 1, tries = 64; k >= 0 && tries; k--, tries--)
			if (((psn - o.begun[k].psn) & 0xffffff) < o.begun[k].packets) {
				this.request[i] = o.begun[k].q;
				return;
			}
	}

	/* A packet of a message that takes a receive request, which it may have taken before */
	arrived(i) {
		const o = this.open(this.column[i]);
		o.lastIn = i;
		if (o.taking >= 0)
			this.request[i] = o.taking;
	}

	/* Receive requests that wait for messages, of record i's QP or of the SRQ that it names */
	waitingFor(i, srq) {
		const key = this.records.trace[i] + (srq ? ':s' + srq : ':q' + this.records.word(i, 'qpn'));
		if (!this.waiting.has(key))
			this.waiting.set(key, { list: [], head: 0 });
		return this.waiting.get(key);
	}

	postReceive(i, shared) {
		this.waitingFor(i, shared ? this.records.word(i, 'srq') : 0).list.push(this.make(i, true));
	}

	/* The one with that wr_id that waits longest, out of those that wait; -1: none */
	takeWaiting(waiting, id) {
		const r = this.records, post = this.requests.post, list = waiting.list;
		for (let k = waiting.head; k < list.length; k++) {
			if (r.long(post[list[k]], 'wr_id') !== id)
				continue;
			const q = list[k];
			/* nearly always the first */
			if (k === waiting.head)
				waiting.head++;
			else
				list.splice(k, 1);
			if (waiting.head > 1024) {
				list.splice(0, waiting.head);
				waiting.head = 0;
			}
			return q;
		}
		return -1;
	}

	/* A message takes a receive request; where its post was not recorded, it begins here. */
	take(i) {
		const o = this.open(this.column[i]), r = this.records;
		let q = this.takeWaiting(this.waitingFor(i, r.word(i, 'srq')), r.long(i, 'wr_id'));
		if (q < 0) {
			q = this.make(i, true);
		} else {
			this.requests.begin[q] = i;
			this.requests.column[q] = this.column[i]; /* one of an SRQ had none */
			this.request[i] = q;
		}
		o.receives.push(o.taking = q);
		if (o.lastIn >= 0)
			this.request[o.lastIn] = o.taking;
	}

	/* A send request that asks for no completion is complete with the next that does. */
	complete(i, bad) {
		const r = this.records, o = this.open(this.column[i]), q = this.requests;
		const id = r.long(i, 'wr_id'), receive = r.byte(i, 'receive');
		const list = receive ? o.receives : o.sends;
		const same = k => r.long(q.post[list[k]], 'wr_id') === id;
		const find = ok => {
			let k = receive ? 0 : o.head;
			while (k < list.length && !(same(k) && ok(k)))
				k++;
			return k;
		};
		let k = find(n => bad || q.asks[list[n]]);

		if (k === list.length) /* what its QP was made with is not in the trace any more */
			k = find(() => true);
		if (k === list.length) {
			this.flushed(i, id, receive);
			return;
		}
		const done = list[k];
		q.end[done] = i;
		q.bad[done] = bad;
		this.request[i] = done;
		if (receive) {
			list.splice(k, 1);
			o.taking = -1;
			return;
		}
		for (let j = o.head; j < k; j++) /* those that ask for no completion */
			if (q.end[list[j]] < 0)
				q.end[list[j]] = i;
		o.head = k + 1;
		if (o.head > 1024) {
			list.splice(0, o.head);
			o.at = Math.max(o.at - o.head, 0);
			o.head = 0;
		}
	}

	/* A receive request that no message took */
	flushed(i, id, receive) {
		const q = receive ? this.takeWaiting(this.waitingFor(i, 0), id) : -1;
		if (q < 0)
			return;
		this.requests.end[q] = i;
		this.requests.bad[q] = true;
		this.request[i] = q;
	}

	/*
	 * The call stack from which record i came, in lines: that which its thread recorded last before it,
	 * if it is a post or a registration, or belongs to one
	 */
	stackOf(i) {
		const r = this.records, q = this.request[i];
		const at = q >= 0 ? this.requests.post[q] : i;
		if (![KIND.post_send, KIND.post_receive, KIND.post_srq_receive, KIND.reg_mr].includes(r.kind[at]))
			return [];
		for (let j = at - 1; j >= 0 && j > at - 4096; j--)
			if (r.kind[j] === KIND.called_from && r.trace[j] === r.trace[at] && r.thread[j] === r.thread[at])
				return r.about.traces[r.trace[j]].stacks[r.word(j, 'stack')] || [];
		return [];
	}

	/* --- losses --- */

	/* Which QPs are traced in full, and when, so that what they have not received was lost */
	findLost() {
		const r = this.records, traced = new Map(), end = r.n ? r.time[r.n - 1] : 0;

		for (const c of this.columns) {
			const t = r.about.traces[c.trace];
			if (!c.process && t.full && !t.overwritten)
				traced.set(c.qpn, [t.full_from ? t.full_from - t.zero : -Infinity,
					t.full_until ? t.full_until - t.zero : t.end === 'none' ? end - 1e6 : Infinity]);
		}
		for (let i = 0; i < r.n; i++) {
			if (!(this.flags[i] & ISOUT) || this.flags[i] & MESSAGE || this.mate[i] >= 0)
				continue;
			const when = traced.get(r.words[((i * PAYLOAD) >> 2) + 1]);
			if (when && r.time[i] > when[0] && r.time[i] < when[1])
				this.flags[i] |= LOST;
		}
	}

	/* All records that belong to what record i is about, in the order of time */
	chain(i) {
		const found = new Set([i]), requests = new Set();
		const add = j => { if (j >= 0) found.add(j); };
		const follow = j => {
			const q = this.request[j];
			if (q < 0 || requests.has(q) || requests.size > 4)
				return;
			requests.add(q);
			this.chainOfRequest(q, add);
		};

		add(this.mate[i]);
		if (this.flags[i] & MESSAGE)
			this.talkOf(i).forEach(add);
		/* its own request, then those at the other end of its packets */
		for (let turn = 0; turn < 3; turn++)
			for (const j of [...found])
				follow(j);
		return [...found].sort((a, b) => a - b).slice(0, 2000);
	}

	/* Its records and their other ends; what its own end waited for */
	chainOfRequest(q, add) {
		const r = this.records, R = this.requests, first = R.post[q], column = R.column[q];
		const end = R.end[q] >= 0 ? R.end[q] : Math.min(r.n - 1, first + 20000);
		const last = Math.min(end, first + 200000), waits = new Set([KIND.fault, KIND.fault_wait, KIND.fault_failed]);

		add(first);
		add(R.begin[q]);
		add(R.end[q]);
		/* the packet that takes a receive request stands before that */
		for (let j = Math.max(first - (R.receive[q] ? 64 : 0), 0); j <= last; j++) {
			if (this.request[j] === q) {
				add(j);
				add(this.mate[j]);
			} else if (j > first && r.trace[j] === r.trace[first] &&
				   (waits.has(r.kind[j]) || r.kind[j] === KIND.timer && this.column[j] === column))
				add(j);
		}
	}
}
