#!/usr/bin/env python3
"""The page of `urxe report -o` in a headless Chromium: what it shows, by script, keyboard and screen reader.

usage: test_page.py URXE SYNTHETIC
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import browser

URXE, SYNTHETIC = sys.argv[1:3]
EVENTS = 20000
SKEW = 3000000  # ns that the clock of host b is ahead


class Pages(unittest.TestCase):
    """One browser, and the page of one synthetic conversation"""

    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory(prefix='urxe-test-')
        cls.dir = cls.work.name
        cls.traces = [os.path.join(cls.dir, x + '.trace') for x in 'ab']
        subprocess.run([SYNTHETIC, str(EVENTS), *cls.traces, str(SKEW)], check=True)
        cls.html = cls.report('out.html', *cls.traces)
        cls.browser = browser.Browser()
        cls.page = cls.browser.open('file://' + cls.html)

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        cls.work.cleanup()

    @classmethod
    def report(cls, name, *traces):
        out = os.path.join(cls.dir, name)
        subprocess.run([URXE, 'report', '-o', out, *traces], check=True)
        return out

    def run_js(self, text):
        return self.page.run(text)

    def choose_first(self, kind):
        """The first record of a kind, chosen"""
        return self.run_js(f"(() => {{ let i = 0; while (app.records.kind[i] !== KIND.{kind}) i++; app.go(i); return i; }})()")


class TheWhole(Pages):
    def test_it_is_shown_without_a_complaint_and_asks_nothing_of_the_network(self):
        self.assertIsNone(self.run_js('document.body.dataset.failed || null'))
        self.assertEqual(self.page.complaints(), [])
        self.assertEqual([u for u in self.page.requests() if not u.startswith('file://')], [])

    def test_all_records_are_there_and_in_the_order_of_time(self):
        self.assertGreaterEqual(self.run_js('app.records.n'), EVENTS)
        self.assertTrue(self.run_js('app.records.time.subarray(0, app.records.n).every((t, i, a) => !i || t >= a[i - 1])'))

    def test_it_has_the_same_records_as_the_export(self):
        out = subprocess.run([URXE, 'trace', 'export', '--json', self.traces[0]], check=True, stdout=subprocess.PIPE).stdout
        records = json.loads(out)['records']
        posts = [r for r in records if r['kind'] == 'post_send']
        shown = self.run_js("(() => { const r = app.records, f = []; for (let i = 0; i < r.n; i++) if (r.kind[i] === KIND.post_send) "
                            "f.push(r.words_of(i, r.field(i, 'wr_id'))); return f; })()")
        self.assertEqual(shown, [p['wr_id'] for p in posts])

    def test_times_are_those_of_the_trace_also_if_they_begin_with_0(self):
        traces = [os.path.join(self.dir, 'sim-' + x + '.trace') for x in 'ab']
        subprocess.run([SYNTHETIC, '2000', *traces, 'simulator'], check=True)
        for files, page in (([self.traces[0]], self.browser.open('file://' + self.report('one.html', self.traces[0]))),
                            (traces, self.browser.open('file://' + self.report('sim.html', *traces)))):
            times = []
            for f in files:
                out = subprocess.run([URXE, 'trace', 'export', '--json', f], check=True, stdout=subprocess.PIPE).stdout
                times += [r['t'] for r in json.loads(out)['records']]
            first = min(times)
            self.assertEqual(page.run('Array.from(app.records.time.subarray(0, app.records.n))'), [t - first for t in sorted(times)])
        text = subprocess.run([URXE, 'report', *traces], check=True, stdout=subprocess.PIPE).stdout.decode().split('\nFindings')[0]
        shown = [float(x) for x in re.findall(r'(?m)^ *([0-9.]+) ms', text)]
        self.assertEqual([round(x * 1e6) for x in shown], sorted(times))

    def test_the_clocks_of_two_hosts_are_aligned(self):
        early = self.run_js('(() => { const r = app.records, l = app.links; let n = 0; for (let i = 0; i < r.n; i++) '
                            'if (l.flags[i] & ISIN && l.mate[i] >= 0 && r.time[l.mate[i]] > r.time[i]) n++; return n; })()')
        self.assertEqual(early, 0)
        moved = self.run_js('app.records.about.traces[1].moved')
        self.assertLess(abs(moved + SKEW), 1000)
        self.assertRegex(self.run_js("byId('findings').textContent"),
                         r'The clock of b was moved by -3 ms to that of a, by packets both ways; it may be wrong by [\d.]+ [nu]s\.')

    def test_clocks_that_nothing_tells_of_are_said_to_be_so(self):
        with open(self.traces[0], 'rb') as f:
            data = bytearray(f.read())
        data[data.index(b'synthetic-a') + 64] = ord('c')  # the host, behind the program
        other = os.path.join(self.dir, 'other.trace')
        with open(other, 'wb') as f:
            f.write(data)
        text = subprocess.run([URXE, 'report', self.traces[0], other], check=True, stdout=subprocess.PIPE).stdout.decode()
        self.assertIn('No packet that c and a exchanged is in the traces of both: their wall clocks are believed, and may be wrong.', text)
        text = subprocess.run([URXE, 'report', *self.traces], check=True, stdout=subprocess.PIPE).stdout.decode()
        self.assertNotIn('wall clocks', text)

    def test_each_part_is_there_with_its_heading(self):
        self.assertEqual(self.run_js("[...document.querySelectorAll('section > h1, section > h2')].map(h => h.textContent).slice(1)"),
                         ['Ladder', 'Memory', 'Times'])
        self.assertEqual(self.run_js("[...document.querySelectorAll('h1')].length"), 1)

    def test_names_in_a_trace_are_text(self):
        evil = os.path.join(self.dir, 'evil.trace')
        with open(self.traces[0], 'rb') as f:
            data = bytearray(f.read())
        name = data.index(b'synthetic-a')
        text = b"</script><img src=x onerror=document.title='x'>"
        data[name:name + len(text) + 1] = text + b'\0'
        with open(evil, 'wb') as f:
            f.write(data)
        page = self.browser.open('file://' + self.report('evil.html', evil))
        self.assertIsNone(page.run('document.body.dataset.failed || null'))
        self.assertEqual(page.run("document.querySelectorAll('img').length"), 0)
        self.assertIn('</script><img', page.run("document.getElementById('processes').textContent"))


class TheSummary(Pages):
    def test_the_worst_is_the_heading_and_each_sentence_leads_to_its_place(self):
        self.assertRegex(self.run_js("byId('verdict').textContent"), r'^Nothing failed\. QP 0x000011 sent \d+ packets again')
        levels = self.run_js("[...document.querySelectorAll('#findings li')].map(x => x.className)")
        self.assertIn('slow', levels)
        self.assertEqual(levels, sorted(levels, key=['failed', 'slow', 'note'].index))
        for k in range(levels.count('slow')):
            self.run_js(f"document.querySelectorAll('#findings li.slow button')[{k}].click()")
            self.assertGreaterEqual(self.run_js('app.ladder.rowWith(app.ladder.chosen)'), 0)

    def test_it_counts_what_was_put_in(self):
        text = self.run_js("byId('findings').textContent")
        again = self.run_js("(() => { let n = 0; for (let i = 0; i < app.records.n; i++) n += app.records.kind[i] === KIND.packet_again; return n; })()")
        self.assertIn(f'sent {again} packets again', text)
        self.assertIn('for receive buffers of the peer', text)
        self.assertIn('A prefetch for writing before the first access would have saved', text)


class TheLadder(Pages):
    def test_a_lost_packet_is_told(self):
        self.assertTrue(self.run_js('app.ladder.chosen = -1, app.ladder.nextTrouble(1)'))
        lost = self.run_js('(() => { let i = 0; while (!(app.links.flags[i] & LOST)) i++; app.go(i); return i; })()')
        self.assertGreater(lost, 0)
        self.assertIn('lost: its receiver has no record of it', self.run_js("byId('details').textContent"))

    def test_what_is_not_known_of_a_record_is_not_there(self):
        for kind in ('packet_out', 'reg_mr', 'invalidate', 'poll'):
            self.choose_first(kind)
            text = self.run_js("byId('details').textContent")
            self.assertNotRegex(text, 'null|undefined|NaN')

    def test_a_request_is_followed_through_packets_to_both_completions(self):
        self.choose_first('post_send')
        text = self.run_js("byId('details').textContent")
        for what in ('post SEND wr_id 0x0', 'begins SEND', 'sends SEND_FIRST', 'gets SEND_FIRST', 'takes receive request',
                     'completion RECV', 'sends ACK', 'gets ACK', 'completion SEND'):
            self.assertIn(what, text)

    def test_filters_leave_what_they_say(self):
        self.run_js("byId('kinds').querySelector('[name=errors]').click()")
        kinds = set(self.run_js('Array.from(app.ladder.rows, i => app.records.kinds[app.records.kind[i]].name)'))
        self.run_js("byId('kinds').querySelector('[name=errors]').click()")
        self.assertIn('packet_again', kinds)
        self.assertNotIn('completion', kinds)
        self.run_js("byId('kinds').querySelector('[name=packets]').click()")
        kinds = set(self.run_js('Array.from(app.ladder.rows, i => app.records.kinds[app.records.kind[i]].name)'))
        self.run_js("byId('kinds').querySelector('[name=packets]').click()")
        self.assertFalse(kinds & {'packet_out', 'packet_in', 'nak_in'})
        self.assertIn('completion', kinds)

    def test_a_wr_id_and_a_psn_are_found(self):
        self.run_js("app.ladder.choose(-1), app.search('0x64')")
        self.assertRegex(self.run_js("byId('found').textContent"), r'^Match 1 of \d+')
        self.assertEqual(self.run_js("app.records.words_of(app.ladder.chosen, app.records.field(app.ladder.chosen, 'psn') || "
                                     "app.records.field(app.ladder.chosen, 'wr_id'))"), '100')
        self.run_js("app.search('<b>')")
        self.assertIn('Look for a number', self.run_js("byId('found').textContent"))

    def test_the_keyboard_does_all(self):
        self.run_js("app.ladder.choose(-1), byId('steps').focus()")
        self.page.key('Home')
        first = self.run_js('app.ladder.chosen')
        self.page.key('ArrowDown')
        self.assertGreater(self.run_js('app.ladder.chosen'), first)
        self.page.key('n')
        chosen = self.run_js('app.ladder.chosen')
        self.assertGreaterEqual(self.run_js(f'app.records.severity({chosen}) + (app.links.flags[{chosen}] & LOST)'), 1)
        self.choose_first('packet_out')
        self.run_js("byId('steps').focus()")
        out = self.run_js('app.ladder.chosen')
        self.page.key('ArrowRight')
        self.assertEqual(self.run_js(f'app.ladder.chosen === app.links.mate[{out}]'), True)
        self.assertIn('gets SEND_FIRST', self.run_js("byId('said').textContent"))
        self.page.key('/')
        self.assertEqual(self.run_js('document.activeElement.id'), 'find')

    def test_it_is_painted(self):
        self.page.settle()
        colours = self.run_js("(() => { const c = byId('steps'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, s = new Set();"
                              "for (let i = 0; i < d.length; i += 4) s.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return s.size; })()")
        self.assertGreater(colours, 20)

    def test_the_table_says_the_same(self):
        self.run_js("byId('table-part').open = true")
        self.page.until("document.querySelectorAll('#rows tbody tr').length === 100")
        self.assertEqual(self.run_js("byId('rows').getAttribute('aria-rowcount')"), str(self.run_js('app.ladder.rows.length')))
        before = self.run_js("byId('rows').rows[1].textContent")
        self.run_js("byId('rows-next').click()")
        self.assertNotEqual(self.run_js("byId('rows').rows[1].textContent"), before)


class Memory(Pages):
    def test_each_region_has_a_map_and_its_figures(self):
        self.assertEqual(self.run_js("document.querySelectorAll('#regions canvas').length"), 2)
        self.assertRegex(self.run_js("byId('regions').textContent"), r'[\d ]+ faults took .*A prefetch before the first access would have saved')
        self.assertGreater(self.run_js("document.querySelectorAll('#regions tbody tr').length"), 0)


class Times(Pages):
    def test_charts_have_their_numbers_as_tables(self):
        self.assertGreaterEqual(self.run_js("document.querySelectorAll('#charts canvas').length"), 6)
        self.run_js("document.querySelectorAll('#charts details').forEach(d => { d.open = true; })")
        self.page.until("[...document.querySelectorAll('#charts details table')].every(t => t.rows.length > 1)")

    def test_latency_is_from_post_to_completion(self):
        r = 'app.records'
        most = self.run_js(f"(() => {{ const R = app.links.requests; let m = 0; R.post.forEach((p, q) => {{ if (!R.receive[q] && R.end[q] >= 0) "
                           f"m = Math.max(m, {r}.time[R.end[q]] - {r}.time[p]); }}); return timeText(m); }})()")
        self.assertIn('most ' + most, self.run_js("document.querySelector('#charts canvas').getAttribute('aria-label')"))


class Everybody(Pages):
    def test_a_screen_reader_has_a_name_for_each_control(self):
        nameless = [n['role']['value'] for n in self.page.tree()
                    if n.get('role', {}).get('value') in ('button', 'checkbox', 'combobox', 'searchbox', 'link', 'application', 'img')
                    and not n.get('ignored') and not n.get('name', {}).get('value')]
        self.assertEqual(nameless, [])

    def test_narrow_screens_need_no_scrolling_sideways(self):
        self.page.look(False, (360, 700))
        self.page.settle()
        wide = self.run_js('document.documentElement.scrollWidth')
        self.page.look(False, (1400, 1000))
        self.assertLessEqual(wide, 360)

    def test_dark_is_dark_and_paper_is_white(self):
        def ground():
            return [int(x) for x in re.findall(r'\d+', self.run_js('getComputedStyle(document.body).backgroundColor'))]
        self.page.look(True, (1400, 1000))
        dark = ground()
        self.page.look(True, (1400, 1000), 'print')
        paper = ground()
        self.page.look(False, (1400, 1000))
        self.assertLess(max(dark), 64)
        self.assertEqual(paper, [255, 255, 255])

    def test_text_can_be_read_on_its_ground(self):
        """Contrast of at least 4.5 (WCAG 1.4.3), of lines 3 (1.4.11)"""
        for dark in (False, True):
            self.page.look(dark, (1400, 1000))
            c = self.run_js('colours()')
            for name, least in [('ink', 7), ('soft', 4.5), ('bad', 4.5), ('send', 4.5), ('memory', 4.5), ('again', 3), ('answer', 3)]:
                self.assertGreaterEqual(contrast(c[name], c['ground']), least, f'{name}, dark {dark}')
        self.page.look(False, (1400, 1000))


def contrast(a, b):
    def light(colour):
        v = [int(colour[k:k + 2], 16) / 255 for k in (1, 3, 5)]
        v = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in v]
        return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]
    high, low = sorted((light(a), light(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


if __name__ == '__main__':
    if not browser.chromium():
        print('skip: chromium is not installed')
        sys.exit(77)
    del Pages  # it is what the others have in common
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
