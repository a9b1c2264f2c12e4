/*
 * details.js - the chosen record in full, with what belongs to it; and the ladder as a table.
 */

const TABLE_ROWS = 100;

class Details {
	constructor(app) {
		this.app = app;
		this.first = 0;
		byId('rows-before').addEventListener('click', () => this.page(-TABLE_ROWS));
		byId('rows-next').addEventListener('click', () => this.page(TABLE_ROWS));
		byId('table-part').addEventListener('toggle', () => this.fromLadder());
	}

	show(i) {
		const box = byId('details'), r = this.app.records, L = this.app.links;
		if (i < 0)
			return;
		const k = r.kinds[r.kind[i]], fields = k.fields.filter(f => f[0] !== 'unused');
		const chain = L.chain(i), from = r.time[chain[0]];
		const facts = element('dl', {});
		const fact = (name, value) => facts.append(element('dt', {}, name), element('dd', {}, value));

		fact('time', stampText(r.time[i]) + ' ms');
		fact('process', processName(r.about.traces[r.trace[i]]) + ', thread ' + r.thread[i]);
		for (const f of fields)
			if (Number(r.value(i, f)) || !['num', 'hex', 'addr', 'bytes', 'syndrome'].includes(f[1]))
				fact(f[0].replace(/_/g, ' '), r.words_of(i, f));
		this.fate(i, fact);
		byId('said').textContent = stampText(r.time[i]) + ' ms: ' + r.text(i);
		const stack = L.stackOf(i);
		box.replaceChildren(...[element('h3', {}, k.name.replace(/_/g, ' ')), facts,
			stack.length ? element('h3', {}, 'Called from') : null,
			stack.length ? element('ul', { class: 'stack' }, ...stack.map(s => element('li', {}, s))) : null,
			chain.length > 1 ? element('h3', {}, 'What belongs to it') : null,
			chain.length > 1 ? this.list(chain, i, from) : null].filter(x => x));
	}

	/* What became of it */
	fate(i, fact) {
		const r = this.app.records, L = this.app.links, q = L.request[i], R = L.requests;
		if (L.flags[i] & LOST)
			fact('fate', 'lost: its receiver has no record of it');
		if (L.flags[i] & THROWN)
			fact('fate', 'thrown away by its receiver');
		if (L.flags[i] & (ISIN | ISOUT) && L.mate[i] >= 0)
			fact('under way', timeText(Math.abs(r.time[L.mate[i]] - r.time[i])));
		if (q < 0)
			return;
		fact('request', (R.receive[q] ? 'receive' : 'send') + ' wr_id ' + r.words_of(R.post[q], r.field(R.post[q], 'wr_id')) +
			(R.receive[q] && R.begin[q] >= 0 ? ', waited ' + timeText(r.time[R.begin[q]] - r.time[R.post[q]]) + ' for a message' : '') +
			(R.end[q] < 0 ? R.asks[q] ? ', not complete' : ', asked for no completion' : ', took ' + timeText(r.time[R.end[q]] - r.time[R.post[q]])));
	}

	/* Middle packets that went well, beyond the first, are one line. */
	list(chain, here, from) {
		const r = this.app.records, L = this.app.links, list = element('ol', {});
		const middle = j => L.flags[j] & (ISIN | ISOUT) && [1, 7, 14].includes(r.byte(j, 'opcode') & 0x1f) &&
			!(L.flags[j] & (LOST | THROWN | AGAIN)) && j !== here;
		let more = 0, before = -1;
		const flush = () => {
			if (more)
				list.append(element('li', { class: 'soft' }, '', element('span', {}, more + ' more')));
			more = 0;
		};

		for (const j of chain) {
			if (middle(j) && before >= 0 && r.kind[before] === r.kind[j]) {
				more++;
				continue;
			}
			before = middle(j) ? j : -1;
			flush();
			list.append(element('li', { class: j === here ? 'here' : undefined },
				element('span', { class: 'soft' }, '+' + timeText(r.time[j] - from)),
				element('button', { type: 'button', class: 'link', onclick: () => this.app.go(j) }, r.text(j))));
		}
		flush();
		return list;
	}

	/* --- the table --- */

	fromLadder() {
		const l = this.app.ladder;
		if (!byId('table-part').open)
			return;
		this.first = Math.max(l.rowAt(l.top), 0);
		this.fill();
	}

	page(by) {
		this.first = Math.min(Math.max(this.first + by, 0), Math.max(this.app.ladder.rows.length - 1, 0));
		this.fill();
	}

	fill() {
		const rows = this.app.ladder.rows, r = this.app.records, L = this.app.links;
		const part = rows.subarray(this.first, this.first + TABLE_ROWS);
		const table = byId('rows');
		fillTable(table, [['ms', true], ['process'], ['QP'], ['what'], ['say']], Array.from(part, i => [
			stampText(r.time[i]), processName(r.about.traces[r.trace[i]]),
			L.columns[L.column[i]].process ? '' : qpnText(L.columns[L.column[i]].qpn),
			r.kinds[r.kind[i]].name.replace(/_/g, ' '),
			element('button', { type: 'button', class: 'link', onclick: () => this.app.go(i) },
				r.text(i) + (L.flags[i] & LOST ? ', lost' : ''))]));
		table.setAttribute('aria-rowcount', rows.length);
		byId('rows-where').textContent = rows.length ? 'Rows ' + countText(this.first + 1) + ' to ' +
			countText(this.first + part.length) + ' of ' + countText(rows.length) : 'No rows';
	}
}
