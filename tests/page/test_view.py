#!/usr/bin/env python3
"""`urxe view`: the page while programs run, whom it serves and whom not, and its end; `urxe top`.

usage: test_view.py URXE EXAMPLES
"""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse

import browser

URXE, EXAMPLES = sys.argv[1:3]
SECONDS = 60


def start(*command, **how):
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)


def end(process, sig=signal.SIGINT):
    """Exit code and what it said; it must end by itself"""
    process.send_signal(sig)
    out, err = process.communicate(timeout=SECONDS)
    return process.returncode, out.decode(), err.decode()


class Views(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory(prefix='urxe-test-')
        self.addCleanup(work.cleanup)
        self.dir = work.name

    def program(self, *options, prefix=()):
        """A program that has a device open for long, and does something again and again"""
        loop = f'while :; do {EXAMPLES}/late_receive; done'
        p = start(*prefix, URXE, 'run', '--device', 'rxe0=lo', *options, '--', 'bash', '-c', loop, start_new_session=True)
        self.addCleanup(self.kill, p)
        return p

    @staticmethod
    def kill(p):
        if p.poll() is None:
            os.killpg(p.pid, signal.SIGKILL)
        p.communicate()

    def view(self, *arguments):
        v = start(URXE, 'view', *arguments)
        self.addCleanup(self.kill_one, v)
        return v, v.stdout.readline().decode().strip()

    @staticmethod
    def kill_one(p):
        if p.poll() is None:
            p.kill()
        p.communicate()

    @staticmethod
    def get(url, path=None, host=None, method='GET'):
        u = urllib.parse.urlsplit(url)
        c = http.client.HTTPConnection(u.hostname, u.port, timeout=SECONDS)
        c.putrequest(method, u.path if path is None else path, skip_host=True)
        c.putheader('Host', u.netloc if host is None else host)
        c.endheaders()
        answer = c.getresponse()
        body = answer.read()
        c.close()
        return answer, body


class Whom(Views):
    def test_only_who_has_the_token_and_names_this_host_is_served(self):
        v, url = self.view()
        self.assertRegex(url, r'^http://127\.0\.0\.1:\d+/[0-9a-f]{32}/$')
        answer, body = self.get(url)
        self.assertEqual(answer.status, 200)
        self.assertIn(b'id="ladder"', body)
        self.assertEqual(answer.getheader('Cache-Control'), 'no-store')
        self.assertEqual(self.get(url, url[url.index('/', 8):] + 'data?from=0')[0].status, 200)
        port = urllib.parse.urlsplit(url).port
        for path in ('/', '/data', '/' + '0' * 32 + '/', '/' + '0' * 32 + '/data', url[url.index('/', 8):][:-2] + '/',
                     url[url.index('/', 8):] + 'x', url[url.index('/', 8):] + '../data', '//'):
            self.assertEqual(self.get(url, path)[0].status, 404, path)
        for host in ('evil.example', f'evil.example:{port}', '127.0.0.1', ''):
            self.assertEqual(self.get(url, host=host)[0].status, 404, host)
        self.assertNotEqual(self.get(url, method='POST')[0].status, 200)
        self.assertEqual(end(v)[0], 0)

    def test_it_listens_at_loopback_only(self):
        v, url = self.view()
        port = urllib.parse.urlsplit(url).port
        with open('/proc/net/tcp', encoding='ascii') as f:
            at = [line.split()[1] for line in f if f':{port:04X} ' in line and line.split()[3] == '0A']
        self.assertEqual(at, [f'0100007F:{port:04X}'])
        self.assertEqual(end(v)[0], 0)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which('setpriv'), 'needs another user')
    def test_programs_of_others_are_not_shown(self):
        copy = os.path.join(self.dir, 'copy')
        os.chmod(self.dir, 0o755)
        os.makedirs(copy + '/tools')
        os.makedirs(copy + '/verbs')
        shutil.copy(URXE, copy + '/tools/urxe')
        shutil.copy(os.path.dirname(URXE) + '/../verbs/liburxe.so', copy + '/verbs/')
        shutil.copy(EXAMPLES + '/late_receive', copy)
        loop = f'while :; do {copy}/late_receive; done'
        p = start('setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', '--', copy + '/tools/urxe', 'run', '--device',
                  'rxe0=lo', '--', 'bash', '-c', loop, start_new_session=True, env={k: v for k, v in os.environ.items() if k != 'XDG_RUNTIME_DIR'})
        self.addCleanup(self.kill, p)
        for _ in range(100):
            seen = subprocess.run([URXE, 'stat', '--json'], stdout=subprocess.PIPE, check=False).stdout
            if b'late_receive' in seen:
                break
            time.sleep(0.1)
        self.assertIn(b'late_receive', seen)
        v, url = self.view()
        time.sleep(1)
        data = json.loads(self.get(url, url[url.index('/', 8):] + 'data?from=0')[1])
        self.assertEqual({t['uid'] for t in data['about']['traces']} - {os.geteuid()}, set())
        self.assertEqual(end(v)[0], 0)


class When(Views):
    def test_a_port_that_is_taken_is_one_line(self):
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            s.listen()
            done = subprocess.run([URXE, 'view', '--port', str(s.getsockname()[1])], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  check=False, timeout=SECONDS)
        self.assertEqual(done.returncode, 125)
        self.assertEqual(done.stderr.count(b'\n'), 1)
        self.assertIn(b'in use', done.stderr)
        self.assertEqual(done.stdout, b'')

    def test_a_process_that_has_no_device_is_one_line(self):
        done = subprocess.run([URXE, 'view', str(os.getpid())], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=SECONDS)
        self.assertEqual((done.returncode, done.stderr.count(b'\n')), (1, 1))
        for wrong in (['x'], ['--port', '70000'], ['--port'], ['--nonsense']):
            done = subprocess.run([URXE, 'view', *wrong], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=SECONDS)
            self.assertEqual((done.returncode, done.stderr.count(b'\n')), (2, 1), wrong)

    @unittest.skipUnless(shutil.which('ibv_rc_pingpong'), 'ibv_rc_pingpong is not installed')
    def test_programs_record_everything_while_they_are_watched_also_if_view_is_killed(self):
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            port = s.getsockname()[1]
        pair = f'ibv_rc_pingpong -d rxe0 -g 0 -s 1048576 -n 100000000 -p {port}'
        p = start(URXE, 'run', '--device', 'rxe0=lo', '--', 'bash', '-c', f'{pair} & sleep 0.5; for i in 1 2 3 4 5 6 7 8 9; do {pair} 127.0.0.1; sleep 1; done',
                  start_new_session=True)
        self.addCleanup(self.kill, p)
        v, url = self.view()
        said = v.stdout.readline().decode()
        self.assertRegex(said, r'^ibv_rc_pingpong \(pid \d+\) records everything while it is watched$')
        pid = int(re.search(r'pid (\d+)', said).group(1))

        def about(url):
            traces = json.loads(self.get(url, url[url.index('/', 8):] + 'data?from=0')[1])['about']['traces']
            return [t for t in traces if t['pid'] == pid][0]

        def wait_for(url, what):
            for _ in range(200):
                if what(about(url)):
                    return
                time.sleep(0.1)
            self.fail(f'{about(url)}')

        wait_for(url, lambda t: t['full'] and t['full_from'] and not t['full_until'])
        v.kill()
        # who only looks on changes nothing: it ends by itself
        other, url = self.view('--as-is', str(pid))
        wait_for(url, lambda t: t['full_until'] > t['full_from'])
        ended = about(url)['full_until']
        self.assertEqual(end(other)[0], 0)
        # a trace that the user begins meanwhile goes on when nobody watches any more
        v, url = self.view(str(pid))
        wait_for(url, lambda t: t['full_from'] > ended and not t['full_until'])
        mine = os.path.join(self.dir, 'mine')
        subprocess.run([URXE, 'trace', 'start', str(pid), mine], check=True, stdout=subprocess.DEVNULL)
        self.assertEqual(end(v)[0], 0)
        time.sleep(3.5)
        other, url = self.view('--as-is', str(pid))
        self.assertEqual(about(url)['full_until'], 0)
        self.assertEqual(end(other)[0], 0)
        subprocess.run([URXE, 'trace', 'stop', str(pid)], check=True, stdout=subprocess.DEVNULL)
        self.assertGreater(os.path.getsize(mine), 1 << 20)

    def test_ctrl_c_ends_it_and_the_programs_go_on(self):
        p = self.program()
        v, _ = self.view()
        time.sleep(1)
        code, _, err = end(v)
        self.assertEqual((code, err), (0, ''))
        self.assertIsNone(p.poll())


@unittest.skipUnless(browser.chromium(), 'chromium is not installed')
class Live(Views):
    def test_the_page_grows_with_the_programs_and_stays_when_it_ends(self):
        v, url = self.view()
        with browser.Browser() as b:
            page = b.open(url, wait=False)
            page.until("byId('live').textContent.startsWith('live')")
            p = self.program('--trace-size', '1M', '--trace', self.dir)
            page.until('Number(document.body.dataset.ready) > 0')
            processes = page.run('app.records.about.traces.length')
            page.until(f'app.records.about.traces.length > {processes} + 1')  # those that began later
            self.assertTrue(page.run('app.records.time.subarray(0, app.records.n).every((t, i, a) => !i || t >= a[i - 1])'))
            self.assertEqual(page.run('app.links.column.length === app.records.n && app.ladder.rows.length <= app.records.n'), True)
            self.assertIn('waited', page.run("byId('findings').textContent"))
            self.kill(p)
            self.assertEqual(end(v)[0], 0)
            page.until('document.body.dataset.ended')
            self.assertGreater(page.run('app.records.n'), 0)
            self.assertEqual(page.complaints(), [])

    def test_what_is_chosen_and_open_stays_while_records_come(self):
        self.program('--trace-size', '1M', '--trace', self.dir)
        v, url = self.view()
        with browser.Browser() as b:
            page = b.open(url, wait=False)
            page.until('Number(document.body.dataset.ready) > 0')
            page.run("byId('processes-part').open = true; app.go(5); app.ladder.top = 3; app.ladder.paint()")
            n = page.run('app.records.n')
            page.until(f'app.records.n > {n}')
            self.assertEqual(page.run('app.ladder.chosen'), 5)
            self.assertEqual(page.run("byId('processes-part').open"), True)
            self.assertLess(page.run('app.ladder.top'), 50)
        self.assertEqual(end(v)[0], 0)


class Top(Views):
    def test_it_shows_queue_pairs_and_ends_by_itself(self):
        self.program()
        for _ in range(20):
            done = subprocess.run([URXE, 'top', '--interval', '0.2', '--count', '2'], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  check=False, timeout=SECONDS)
            self.assertEqual((done.returncode, done.stderr), (0, b''))
            text = done.stdout.decode()
            self.assertEqual(len(re.findall(r'WAITS FOR', text)), 2)
            self.assertNotIn('\033', text)
            if re.search(r'(?m)^ *\d+ late_receive +[0-9a-f]{8} RC +\w+ .* peer not ready$', text):
                return
        self.fail(text)

    def test_a_wrong_option_is_one_line(self):
        for wrong in (['--interval', '0'], ['--count', '-1'], ['--count'], ['x'], ['--nonsense']):
            done = subprocess.run([URXE, 'top', *wrong], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=SECONDS)
            self.assertEqual((done.returncode, done.stderr.count(b'\n')), (2, 1), wrong)

    def test_ctrl_c_and_a_full_disk_end_it(self):
        t = start(URXE, 'top', '--interval', '0.1')
        t.stdout.readline()
        self.assertEqual(end(t)[0], 0)
        with open('/dev/full', 'w', encoding='ascii') as full:
            done = subprocess.run([URXE, 'top', '--interval', '0.1'], stdout=full, stderr=subprocess.PIPE, check=False, timeout=SECONDS)
        self.assertEqual((done.returncode, done.stderr.count(b'\n')), (125, 1))


if __name__ == '__main__':
    del Views
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
