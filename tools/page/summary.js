/*
 * summary.js - the first thing that one reads: what failed, what was slow, where.
 */

const SHOWN = 8; /* sentences */
const LEVEL_WORDS = { failed: 'Failed', slow: 'Slow', note: 'Note' };

/* Sentences come from the command line, which keeps to ASCII. */
function spelt(text) {
	return text.replace(/(\d) us\b/g, '$1 µs');
}

class Summary {
	constructor(app) {
		this.app = app;
		this.take();
	}

	take() {
		const about = this.app.records.about;
		byId('verdict').textContent = this.verdict(about.findings);
		byId('scope').textContent = this.scope(about);
		this.fill(about.findings);
		document.title = 'urxe: ' + this.verdict(about.findings);
		this.processes(about);
	}

	/* The worst ones, and the others when they are asked for */
	fill(findings) {
		const key = JSON.stringify(findings);
		if (key === this.filled)
			return; /* what has the focus keeps it */
		this.filled = key;
		const list = byId('findings'), shown = findings.length > SHOWN + 2 ? findings.slice(0, SHOWN) : findings;
		list.replaceChildren(...shown.map(f => this.finding(f)));
		if (shown.length < findings.length)
			list.append(element('li', {}, element('span', {}), element('span', {}, element('button', { type: 'button', class: 'link',
				onclick: () => list.replaceChildren(...findings.map(f => this.finding(f))) },
				'Show ' + (findings.length - SHOWN) + ' more'))));
	}

	/* The worst in one line */
	verdict(findings) {
		const failed = findings.filter(f => f.level === 'failed'), slow = findings.filter(f => f.level === 'slow');
		const first = text => spelt(text).replace(/ of \S+ \(pid \d+\)/, '').split(/(?<=[.;]) /)[0].replace(/[.;:]$/, '');
		if (failed.length)
			return first(failed[0].text) + (failed.length > 1 ? ', and ' + (failed.length - 1) + ' more failed' : '');
		if (slow.length)
			return 'Nothing failed. ' + first(slow[0].text);
		return 'Nothing failed, nothing was slow';
	}

	scope(about) {
		const r = this.app.records, n = about.traces.length, hosts = new Set(about.traces.map(t => t.host));
		const when = about.traces[0] && about.traces[0].clock.realtime ?
			', ' + new Date(about.traces[0].clock.realtime / 1e6).toISOString().replace('T', ' ').replace(/\..*/, ' UTC') : '';
		return countText(r.n) + ' records of ' + n + (n === 1 ? ' process' : ' processes') + ' on ' +
			(hosts.size === 1 ? [...hosts][0] : hosts.size + ' hosts') + ', ' + timeText(r.n ? r.time[r.n - 1] - r.time[0] : 0) + when;
	}

	finding(f) {
		const where = this.app.find(f);
		return element('li', { class: f.level }, element('span', { class: 'level' }, LEVEL_WORDS[f.level]),
			element('span', {}, spelt(f.text), where < 0 ? null :
				element('button', { type: 'button', class: 'link', onclick: () => this.app.go(where, true),
					'aria-label': 'Show in the ladder: ' + f.text.slice(0, 60) }, 'show')));
	}

	processes(about) {
		const r = this.app.records, counts = about.traces.map(() => ({ sent: 0, received: 0, again: 0, done: 0, bad: 0, faults: 0 }));
		for (let i = 0; i < r.n; i++) {
			const c = counts[r.trace[i]];
			switch (r.kind[i]) {
			case KIND.packet_again: c.again++; /* falls through: it was sent */
			case KIND.packet_out:
			case KIND.nak_out: c.sent++; break;
			case KIND.packet_in:
			case KIND.nak_in: c.received++; break;
			case KIND.completion: c.done++; break;
			case KIND.completion_error: c.bad++; break;
			case KIND.fault: c.faults++; break;
			}
		}
		const ends = { none: 'running, killed or crashed', reported: 'ended in order', replaced: 'replaced itself' };
		fillTable(byId('processes'), [['process'], ['host'], ['end'], ['packets sent', true], ['again', true], ['received', true],
			['completions', true], ['in error', true], ['page faults', true], ['records overwritten', true], ['clock moved', true]],
			about.traces.map((t, k) => [processName(t), t.host, ends[t.end] || t.end, ...[counts[k].sent, counts[k].again,
				counts[k].received, counts[k].done, counts[k].bad, counts[k].faults, t.overwritten].map(countText),
				clockText(t)]));
	}
}

/* How the clock of a trace was moved, and how much it runs too fast, in millionths */
function clockText(t) {
	const drift = t.drift ? (t.drift * 1e6).toFixed(1).replace('-', '−') + ' ppm' : '';
	return [t.moved ? timeText(t.moved) : '', drift].filter(x => x).join(', ');
}
