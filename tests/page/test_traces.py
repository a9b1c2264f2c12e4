#!/usr/bin/env python3
"""Real programs, traced, and what their page and their text say of them.

usage: test_traces.py URXE EXAMPLES MESH

With SHOTS=DIR, a picture of each page is kept in DIR.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import browser

URXE, EXAMPLES, MESH = sys.argv[1:4]
SHOTS = os.environ.get('SHOTS')
SECONDS = 90
PINGPONG = 'ibv_rc_pingpong -d rxe0 -g 0'


def needs(program):
    return unittest.skipUnless(shutil.which(program), f'{program} is not installed')


class Traces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory(prefix='urxe-test-')
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        cls.work.cleanup()

    def setUp(self):
        self.name = self.id().split('.test_')[1]
        self.dir = os.path.join(self.work.name, self.name)
        os.mkdir(self.dir)

    def run_traced(self, command, *options, ok=True):
        """A shell command under urxe; what it wrote"""
        done = subprocess.run(
            [URXE, 'run', '--device', 'rxe0=lo', '--trace-size', '16M', '--trace', self.dir, *options, '--', 'bash', '-c', command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS, check=False)
        out = done.stdout.decode(errors='replace')
        if ok:
            self.assertEqual(done.returncode, 0, out)
        return out

    @staticmethod
    def listening(pid_of, port):
        """A line of shell that waits until somebody listens at a TCP port, or the server is gone"""
        return (f'for i in $(seq 300); do grep -qi ":{port:04x} 00000000:0000 0A" /proc/net/tcp /proc/net/tcp6 && break; '
                f'kill -0 {pid_of} || break; sleep 0.1; done')

    def pair(self, program, *options, port=18515):
        self.run_traced(f'{program} -p {port} >/dev/null & s=$!; {self.listening("$s", port)}; '
                        f'{program} -p {port} 127.0.0.1 && wait $s', *options)

    def text(self):
        return subprocess.run([URXE, 'report', '--text', self.dir], check=True, stdout=subprocess.PIPE).stdout.decode()

    def findings(self):
        return self.text().split('\nFindings\n')[1].split('\nSummary')[0]

    def page(self):
        out = os.path.join(self.dir, 'out.html')
        subprocess.run([URXE, 'report', '-o', out, self.dir], check=True)
        page = self.browser.open('file://' + out)
        self.assertIsNone(page.run('document.body.dataset.failed || null'))
        self.assertEqual(page.complaints(), [])
        if SHOTS:
            page.shot(os.path.join(SHOTS, self.name + '.png'))
        return page

    def kinds(self, page):
        """Rows of the ladder by kind"""
        return page.run('(() => { const n = {}; for (const i of app.ladder.rows) { const k = app.records.kinds[app.records.kind[i]].name; '
                        'n[k] = (n[k] || 0) + 1; } return n; })()')

    def arrows(self, page):
        """Packets sent, and of them those whose other end is known"""
        return page.run('(() => { let n = 0, m = 0; for (let i = 0; i < app.records.n; i++) if (app.links.flags[i] & ISOUT) '
                        '{ n++; m += app.links.mate[i] >= 0; } return [n, m]; })()')


class What(Traces):
    @needs('ibv_rc_pingpong')
    def test_ping_pong_has_an_arrow_for_each_packet_and_a_bar_for_each_request(self):
        self.pair(PINGPONG + ' -n 20')
        page = self.page()
        sent, arrived = self.arrows(page)
        self.assertGreater(sent, 40)
        # the last acknowledge may find the other end gone
        self.assertGreaterEqual(arrived, sent - 1)
        self.assertEqual(page.run('app.links.requests.end.filter((e, q) => e >= 0 && !app.links.requests.receive[q]).length'), 40)
        self.assertEqual(page.run('app.ladder.lanes.length'), 2)
        self.assertNotIn(' * ', self.findings())
        # receive requests are bars from their post on, also those that no message took
        self.assertEqual(page.run('''(() => { const r = app.records, R = app.links.requests, n = [0, 0, 0];
            R.post.forEach((p, q) => { if (!R.receive[q]) return;
                if (r.kind[p] !== KIND.post_receive) n[2]++;
                else if (R.end[q] >= 0) n[R.begin[q] > p && R.end[q] > R.begin[q] ? 0 : 2]++;
                else n[1]++; }); return n; })()'''), [40, 2 * 500 - 40, 0])

    def test_a_late_receiver_is_the_cause_of_what_was_slow(self):
        self.run_traced(os.path.join(EXAMPLES, 'late_receive'))
        self.assertRegex(self.findings(), r'14 requests waited [\d.]+ m?s for receive buffers of the peer, which answered .receiver not ready. '
                         r'\d+ times\. The peer posted its first one at [\d.]+ m?s of the trace\.')
        page = self.page()
        self.assertRegex(page.run("byId('verdict').textContent"), r'14 requests waited [\d.]+ m?s for receive buffers of the peer')
        self.assertEqual(page.run('app.records.kind.filter(k => k === KIND.post_receive).length'), 14)
        self.assertGreater(self.kinds(page)['nak_in'], 1)

    def test_receive_requests_of_a_shared_queue_belong_to_the_queue_pair_that_takes_them(self):
        self.run_traced(os.path.join(EXAMPLES, 'srq'))
        page = self.page()
        self.assertEqual(page.run('''(() => { const r = app.records, L = app.links, R = L.requests, n = [0, 0];
            R.post.forEach((p, q) => { if (!R.receive[q] || R.end[q] < 0) return;
                n[r.kind[p] === KIND.post_srq_receive && R.column[q] === L.column[R.end[q]] && !L.columns[R.column[q]].process ? 0 : 1]++; });
            return [n[0] > 4, n[1]]; })()'''), [True, 0])

    @needs('ibv_rc_pingpong')
    def test_a_peer_whose_pages_are_missing_is_no_late_receiver_and_no_failure(self):
        self.pair(PINGPONG + ' -o -s 65536 -n 5', '--odp-model', 'rnr')
        self.assertRegex(self.findings(), r'waited \S+ \S+ for pages of the peer, which answered .receiver not ready. \d+ time')
        self.assertNotIn('for receive buffers', self.findings())
        self.assertNotIn(' * ', self.findings())

    def test_lost_packets_have_a_cross_and_are_sent_again(self):
        self.run_traced(os.path.join(EXAMPLES, 'bulk'), '--impair', 'loss=1%,seed=3')
        self.assertRegex(self.findings(), r'sent \d+ packets? again, since packets or their answers were lost')
        page = self.page()
        self.assertGreater(page.run('app.links.flags.filter(f => f & LOST).length'), 0)
        self.assertGreater(self.kinds(page)['packet_again'], 0)

    @needs('ibv_rc_pingpong')
    def test_page_faults_are_in_the_map_and_a_prefetch_would_have_saved_them(self):
        self.pair(PINGPONG + ' -o -s 262144 -n 5')
        self.assertRegex(self.findings(), r'page faults? took .* A prefetch for writing before the first access would have saved')
        page = self.page()
        self.assertEqual(page.run("document.querySelectorAll('#regions canvas').length"), 2)
        self.assertGreater(page.run('app.memory.regions.reduce((n, x) => n + x.faults, 0)'), 1)
        states = page.run('app.memory.regions.map(x => x.changes.map(c => c[3])).flat()')
        self.assertIn(2, states)  # written

    @needs('ibv_rc_pingpong')
    def test_with_prefetch_there_are_no_faults_to_save(self):
        self.pair(PINGPONG + ' -o -P -s 262144 -n 5')
        page = self.page()
        self.assertEqual(page.run('app.memory.regions.reduce((n, x) => n + x.saved, 0)'), 0)
        self.assertIn(3, page.run('app.memory.regions.map(x => x.changes.map(c => c[3])).flat()'))  # prefetched
        self.assertNotIn('would have saved', self.findings())

    @needs('rping')
    def test_a_connection_has_its_messages_and_events(self):
        self.run_traced('rping -s -a 127.0.0.1 -p 7471 -C 3 >/dev/null & s=$!; for i in $(seq 50); do sleep 0.2; '
                        'rping -c -a 127.0.0.1 -p 7471 -C 3 && break; done; wait $s')
        page = self.page()
        kinds = self.kinds(page)
        self.assertGreaterEqual(kinds['cm_message'], 10)
        self.assertGreater(kinds['cm_event'], 4)
        self.assertGreater(kinds['cm_state'], 8)
        for word in 'REQ port 7471', 'REP', 'RTU', 'DREQ', 'DREP':
            for arrow in '-->', '<--':
                self.assertRegex(self.text(), rf'CM 0x[0-9a-f]{{8}} {arrow} {word} {arrow} 0x[0-9a-f]{{8}} at 127.0.0.1')
        self.assertRegex(self.text(), r'CM ID 0 REQ sent -> REP received: message of the peer')
        # each message is an arrow with two ends, and all of a connection belong together
        self.assertEqual(page.run('''(() => { const r = app.records, L = app.links, all = [];
            for (let i = 0; i < r.n; i++) if (r.kind[i] === KIND.cm_message) all.push(i);
            const talk = L.talkOf(all[all.length - 1]);
            return [all.filter(i => L.mate[i] < 0).length, talk.length >= 10, talk.every(i => L.chain(talk[0]).includes(i))]; })()'''),
                         [0, True, True])
        # the receive requests that the end flushed
        self.assertTrue(page.run('app.links.requests.bad.some((b, q) => b && app.links.requests.receive[q])'))
        self.assertRegex(page.run('app.ladder.messageText(app.records.kind.lastIndexOf(KIND.cm_message), 0)'), '^DREP$')

    @needs('rping')
    def test_a_refused_connection_says_why(self):
        self.run_traced('rping -c -a 127.0.0.1 -p 7999 -C 1', ok=False)
        self.assertRegex(self.text(), r'<-- REJ <-- .*  8: invalid service ID: nobody listens')
        self.assertRegex(self.findings(), r'\* .*REJECTED, status 8\. Nobody listens there\.')
        self.assertRegex(self.page().run("byId('verdict').textContent"), 'REJECTED')

    @needs('ibv_xsrq_pingpong')
    def test_xrc_has_its_packets(self):
        self.pair('ibv_xsrq_pingpong -d rxe0 -g 0 -n 10', port=18517)
        sent, arrived = self.arrows(self.page())
        self.assertGreater(sent, 20)
        # who ends first takes no acknowledge any more
        self.assertGreater(arrived, sent * 0.9)
        self.assertNotIn('without a completion', self.findings())

    @needs('mckey')
    def test_a_datagram_to_a_group_arrives_at_each_member(self):
        group = 'mckey -m 239.0.0.7 -C 5'
        self.run_traced(f'members=; for i in 1 2; do stdbuf -oL {group} -b 127.0.0.1 >{self.dir}/member$i & members="$members $!"; done; '
                        f'for i in 1 2; do for k in $(seq 100); do grep -q joining {self.dir}/member$i && break; sleep 0.1; done; done; sleep 0.3; '
                        f'{group} -b 127.0.0.1 -s; for k in 1 2 3 4 5; do sleep 0.3; kill -0 $members 2>/dev/null || break; '
                        f'{group} -b 127.0.0.1 -s; done; kill $members; true', ok=False)
        page = self.page()
        received = page.run('(() => { let n = 0; for (let i = 0; i < app.records.n; i++) if (app.links.flags[i] & ISIN) n += app.links.mate[i] >= 0; return n; })()')
        self.assertGreaterEqual(received, 10)
        self.assertRegex(self.text(), r'QP 0x[0-9a-f]{6} attach: ok')
        self.assertGreaterEqual(self.arrows(page)[1], 5)

    def test_32_processes_are_columns_and_what_is_alike_is_folded(self):
        self.run_traced(f'{MESH} -n 32 -r 1 -t 80 -f {self.dir}/mesh', '--trace-size', '2M')
        self.assertEqual(len(glob.glob(self.dir + '/*.trace')), 32)
        page = self.page()
        self.assertEqual(page.run('app.records.about.traces.length'), 32)
        self.assertEqual(page.run('app.ladder.lanes.length'), 32)
        self.assertLess(len(self.findings().splitlines()), 60)

    def test_a_killed_process_is_told_and_what_it_did_to_its_peer(self):
        self.run_traced(f'{MESH} -n 3 -r 20 -k 1 -t 60 -f {self.dir}/mesh')
        findings = self.findings()
        self.assertIn('is gone and had not ended in order', findings)
        self.assertRegex(findings, r'failed: RETRY_EXC_ERR, .*(answer|acknowledge)')
        self.assertRegex(self.page().run("document.querySelector('#findings li').className"), 'failed')


    def test_what_was_posted_leads_to_the_line_of_the_program(self):
        self.run_traced(os.path.join(EXAMPLES, 'rc_write_read'), '--trace-stacks')
        page = self.page()
        page.run("app.go(app.records.kind.indexOf(KIND.packet_out))")
        self.assertRegex(page.run("byId('details').textContent"), r'Called from.*\(rc_write_read')
        page.run("app.go(app.records.kind.indexOf(KIND.qp_state))")
        self.assertNotIn('Called from', page.run("byId('details').textContent"))


class Bad(Traces):
    def refused(self, args, code=1):
        done = subprocess.run([URXE, 'report', *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=SECONDS)
        text = done.stderr.decode()
        self.assertEqual(done.returncode, code, text)
        self.assertEqual(text.count('\n'), 1, text)
        return text

    def trace(self):
        path = os.path.join(self.dir, 'good.trace')
        subprocess.run([URXE, 'run', '--device', 'rxe0=lo', '--trace', path, '--trace-size', '64K', os.path.join(EXAMPLES, 'rc_write_read')],
                       check=True, stdout=subprocess.DEVNULL)
        return path

    def changed(self, name, change):
        with open(self.trace(), 'rb') as f:
            data = bytearray(f.read())
        path = os.path.join(self.dir, name)
        with open(path, 'wb') as f:
            f.write(change(data))
        return path

    def out(self):
        return os.path.join(self.dir, 'out.html')

    def test_a_trace_of_the_future_is_refused_by_its_version(self):
        path = self.changed('future', lambda d: d[:8] + (99).to_bytes(4, sys.byteorder) + d[12:])
        self.assertIn('is of version 99', self.refused(['-o', self.out(), path]))
        self.assertFalse(os.path.exists(self.out()))

    def test_random_bytes_and_short_files_are_refused(self):
        for name, change in [('random', lambda d: os.urandom(len(d))), ('short', lambda d: d[:1000]), ('empty', lambda d: b'')]:
            self.assertIn('is no trace of urxe', self.refused(['-o', self.out(), self.changed(name, change)]))

    def test_a_truncated_trace_is_shown_as_far_as_it_goes(self):
        path = self.changed('cut', lambda d: d[:4096 + 64 * 40])
        subprocess.run([URXE, 'report', '-o', self.out(), path], check=True)
        page = self.browser.open('file://' + self.out())
        self.assertEqual(page.run('app.records.n'), 40)
        self.assertIn('could not be written or read', page.run("byId('findings').textContent"))

    def test_a_trace_with_random_records_is_a_page(self):
        def scribble(d):
            for at in range(4096, 4096 + 64 * 512, 64):  # all but the sequences
                d[at + 8:at + 64] = os.urandom(56)
                d[at + 16:at + 18] = (1 + os.urandom(1)[0] % 37).to_bytes(2, sys.byteorder)
            return d
        path = self.changed('scribbled', scribble)
        subprocess.run([URXE, 'report', '-o', self.out(), path], check=True)
        page = self.browser.open('file://' + self.out())
        self.assertIsNone(page.run('document.body.dataset.failed || null'))
        page.run("app.ladder.setMode('time')")
        page.settle()
        self.assertEqual(page.complaints(), [])

    def test_what_is_there_and_is_no_report_stays(self):
        mine = os.path.join(self.dir, 'mine.html')
        with open(mine, 'w', encoding='utf-8') as f:
            f.write('mine')
        self.assertIn('is left as it is', self.refused(['-o', mine, self.trace()], 2))
        with open(mine, encoding='utf-8') as f:
            self.assertEqual(f.read(), 'mine')

    def test_a_report_takes_the_place_of_an_older_one(self):
        path = self.trace()
        for _ in range(2):
            subprocess.run([URXE, 'report', '-o', self.out(), path], check=True)
        self.assertEqual([x for x in os.listdir(self.dir) if 'out.html' in x], ['out.html'])

    def test_a_directory_that_is_not_there_or_has_no_trace_is_one_line(self):
        self.assertIn('No such file', self.refused(['-o', self.dir + '/none/out.html', self.trace()], 125))
        os.mkdir(self.dir + '/empty')
        self.assertIn('no file NAME.trace', self.refused([self.dir + '/empty']))
        self.assertIn('no trace file given', self.refused(['-o', self.out()], 2))
        self.assertIn('needs a file name', self.refused(['-o'], 2))

    @unittest.skipUnless(os.path.exists('/dev/full'), 'no /dev/full')
    def test_a_full_disk_is_one_line_and_leaves_nothing(self):
        path = self.trace()
        with open('/dev/full', 'w', encoding='utf-8') as full:
            done = subprocess.run([URXE, 'report', path], stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 125)
        self.assertIn('No space left', done.stderr.decode())
        # a file as large as the limit: what a full disk does to a file
        done = subprocess.run(['bash', '-c', 'trap "" XFSZ; ulimit -f 20; exec "$@"', 'bash', URXE, 'report', '-o', self.out(), path],
                              stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 125)
        self.assertEqual(done.stderr.count(b'\n'), 1)
        self.assertEqual([x for x in os.listdir(self.dir) if 'out.html' in x], [])

    @unittest.skipIf(os.geteuid() == 0, 'root may write everywhere')
    def test_a_directory_that_is_not_writable_is_one_line(self):
        path = self.trace()
        os.chmod(self.dir, 0o555)
        self.addCleanup(os.chmod, self.dir, 0o755)
        self.assertIn('Permission denied', self.refused(['-o', self.out(), path], 125))


class Large(Traces):
    @unittest.skipUnless(os.environ.get('SYNTHETIC'), 'needs the maker of traces')
    def test_a_million_records_stay_fluid(self):
        traces = [os.path.join(self.dir, x + '.trace') for x in 'ab']
        subprocess.run([os.environ['SYNTHETIC'], '1000000', *traces, '5000000'], check=True)
        page = self.page()
        self.assertGreaterEqual(page.run('app.records.n'), 1000000)
        took = page.run('''(async () => {
            const l = app.ladder, t = [], frame = () => new Promise(f => requestAnimationFrame(f));
            const one = async move => { move(); const a = performance.now(); l.paint(); t.push(performance.now() - a); await frame(); };
            for (const mode of ['rows', 'time']) {
                l.setMode(mode);
                const out = mode === 'rows' ? 1 / 1.6 : 1.6;
                for (let k = 0; k < 30; k++) await one(() => l.zoom(out));
                for (let k = 0; k < 20; k++) await one(() => { const [a, b] = l.extent(); l.centre(a + (b - a) * k / 20); });
                for (let k = 0; k < 30; k++) await one(() => l.zoom(1 / out));
            }
            t.sort((a, b) => a - b);
            return [t[t.length >> 1], t[t.length * 0.9 | 0]]; })()''')
        print('a frame of a million records: median %.1f ms, nine of ten below %.1f ms' % tuple(took))
        # alone it is 3 ms; beside others more
        self.assertLess(took[0], 50)


if __name__ == '__main__':
    if not browser.chromium():
        print('skip: chromium is not installed')
        sys.exit(77)
    del Traces
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
