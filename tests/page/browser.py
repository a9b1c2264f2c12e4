"""browser.py - a page in a headless Chromium, driven through a pipe (Chrome DevTools Protocol).

    with Browser() as b:
        page = b.open('file:///tmp/out.html')
        page.run('document.title')
        page.shot('/tmp/out.png')
"""
import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

SECONDS = 120


def chromium():
    """The program, or None"""
    return shutil.which('chromium') or shutil.which('chromium-browser') or shutil.which('google-chrome')


class Browser:
    def __init__(self, width=1400, height=1000):
        self.home = tempfile.mkdtemp(prefix='urxe-browser-')
        to_read, self.to = os.pipe()
        self.back, back_write = os.pipe()
        # The browser reads 3 and writes 4; these may be in use here, so the shell puts them there.
        copies = [os.dup(to_read), os.dup(back_write)]
        self.process = subprocess.Popen(
            ['bash', '-c', f'exec 3<&{copies[0]} 4>&{copies[1]} {copies[0]}<&- {copies[1]}>&-; exec "$@"', 'bash',
             chromium(), '--headless=new', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', '--no-first-run',
             '--disable-dev-shm-usage', '--disable-extensions', '--disable-background-networking', '--disable-sync',
             '--remote-debugging-pipe', f'--user-data-dir={self.home}', f'--window-size={width},{height}', 'about:blank'],
            pass_fds=copies, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, env=dict(os.environ, HOME=self.home, XDG_RUNTIME_DIR=self.home))
        for fd in (to_read, back_write, *copies):
            os.close(fd)
        self.size = (width, height)
        self.left, self.number, self.events = b'', 0, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.to)
        os.close(self.back)
        shutil.rmtree(self.home, ignore_errors=True)

    def receive(self, until):
        while b'\0' not in self.left:
            if not select.select([self.back], [], [], max(until - time.monotonic(), 0))[0]:
                raise TimeoutError('the browser does not answer')
            more = os.read(self.back, 1 << 20)
            if not more:
                raise ConnectionError('the browser has ended')
            self.left += more
        message, self.left = self.left.split(b'\0', 1)
        return json.loads(message)

    def call(self, method, params=None, session=None, seconds=SECONDS):
        self.number += 1
        message = {'id': self.number, 'method': method, 'params': params or {}}
        if session:
            message['sessionId'] = session
        data = json.dumps(message).encode() + b'\0'
        while data:
            data = data[os.write(self.to, data):]
        until = time.monotonic() + seconds
        while True:
            got = self.receive(until)
            if got.get('id') == self.number:
                if 'error' in got:
                    raise RuntimeError(f'{method}: {got["error"]}')
                return got['result']
            self.events.append(got)

    def open(self, url, dark=False, size=None, wait=True):
        target = self.call('Target.createTarget', {'url': 'about:blank'})['targetId']
        session = self.call('Target.attachToTarget', {'targetId': target, 'flatten': True})['sessionId']
        page = Page(self, session)
        page.look(dark, size or self.size)
        page.do('Runtime.enable')
        page.do('Page.enable')
        page.do('Network.enable')
        page.do('Page.navigate', {'url': url})
        page.until("location.href !== 'about:blank' && document.readyState === 'complete'")
        if wait:
            page.until('document.body && (document.body.dataset.ready || document.body.dataset.failed)')
        return page


class Page:
    def __init__(self, browser, session):
        self.browser, self.session = browser, session

    def do(self, method, params=None):
        return self.browser.call(method, params, self.session)

    def look(self, dark, size, media=''):
        self.do('Emulation.setDeviceMetricsOverride',
                {'width': size[0], 'height': size[1], 'deviceScaleFactor': 1, 'mobile': False})
        self.do('Emulation.setEmulatedMedia',
                {'media': media, 'features': [{'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}]})

    def run(self, expression):
        got = self.do('Runtime.evaluate', {'expression': expression, 'returnByValue': True, 'awaitPromise': True})
        if 'exceptionDetails' in got:
            raise RuntimeError(got['exceptionDetails'].get('exception', {}).get('description', str(got)))
        return got['result'].get('value')

    def until(self, expression, seconds=SECONDS):
        end = time.monotonic() + seconds
        while not self.run(expression):
            if time.monotonic() > end:
                raise TimeoutError(expression)
            time.sleep(0.05)

    def settle(self):
        """Until what was asked for is painted"""
        self.run('new Promise(f => requestAnimationFrame(() => requestAnimationFrame(() => f(1))))')

    def key(self, key, code=None, modifiers=0):
        text = key if len(key) == 1 else ''
        for kind in ('keyDown', 'keyUp'):
            self.do('Input.dispatchKeyEvent', {'type': kind, 'key': key, 'code': code or key, 'modifiers': modifiers,
                                               **({'text': text} if text and kind == 'keyDown' else {})})

    def click(self, x, y):
        for kind in ('mousePressed', 'mouseReleased'):
            self.do('Input.dispatchMouseEvent', {'type': kind, 'x': x, 'y': y, 'button': 'left', 'clickCount': 1})

    def shot(self, path, whole=False, clip=None):
        """A picture: of what can be seen, of the whole page, or of a part of it (x, y, width, height)"""
        self.settle()
        part = {'clip': dict(zip(('x', 'y', 'width', 'height'), clip), scale=1)} if clip else {}
        got = self.do('Page.captureScreenshot', {'format': 'png', 'captureBeyondViewport': whole, **part})
        with open(path, 'wb') as f:
            f.write(base64.b64decode(got['data']))

    def tree(self):
        return self.do('Accessibility.getFullAXTree')['nodes']

    def requests(self):
        """Addresses that the page asked the network for"""
        return [e['params']['request']['url'] for e in self.browser.events
                if e.get('method') == 'Network.requestWillBeSent' and e.get('sessionId') == self.session]

    def complaints(self):
        """What the script complained of"""
        return [json.dumps(e['params'])[:500] for e in self.browser.events if e.get('sessionId') == self.session and
                (e.get('method') == 'Runtime.exceptionThrown' or
                 e.get('method') == 'Runtime.consoleAPICalled' and e['params']['type'] == 'error')]
