#!/usr/bin/env python3
"""Description: what is in a list of the source is where its reader looks for it: fault models and
counters in the public header, the manual pages and docs/odp.md; options in the manual page.

test_lists.py ROOT
"""
import os
import re
import sys
import unittest

ROOT = sys.argv.pop(1)


def text(path):
    with open(os.path.join(ROOT, path), encoding='utf-8') as f:
        return f.read()


def entries(path, macro):
    """The arguments of each X(...) in the list that the macro is"""
    body = re.search(rf'#define {macro}\(X\)(.*?[^\\])\n', text(path), re.S).group(1)
    return [[string or word for string, word in re.findall(r'"([^"]*)"|(\w+)', args)]
            for args in re.findall(r'X\(((?:[^()"]|"[^"]*")*)\)', body)]


MODELS = entries('trace/models.h', 'TRACE_MODELS')
COUNTERS = entries('trace/counters.h', 'TRACE_ODP_COUNTERS')
WIRE = entries('trace/counters.h', 'TRACE_NET_COUNTERS')
UNITS = {'PAGES', 'FAULTS', 'EVENTS', 'REQUESTS', 'ACCESSES', 'MESSAGES', 'NS', 'PACKETS', 'BYTES'}


class FaultModels(unittest.TestCase):
    def test_the_list_is_read(self):
        self.assertGreaterEqual(len(MODELS), 5)
        self.assertIn(['RNR', 'rnr'], [m[:2] for m in MODELS])

    def test_the_public_header_names_and_explains_each(self):
        header = text('verbs/preload/include/urxe.h')
        for ident, _, _, _, what in MODELS:
            self.assertIn(f' * @URXE_FAULT_{ident}: {what}\n', header)
            self.assertIn(f'\tURXE_FAULT_{ident},\n', header)

    def test_a_script_may_name_each_but_the_one_that_makes_no_difference(self):
        choice = 'fault=evict|error|' + '|'.join(name for _, name, *_ in MODELS[1:])
        for path in 'verbs/preload/include/urxe.h', 'odp/odp.h', 'docs/odp.md':
            self.assertIn(choice, text(path))

    def test_each_is_described(self):
        for _, name, *_ in MODELS:
            self.assertRegex(text('docs/odp.md'), rf'(?m)^\| `{name}`')
            self.assertIn(f'\n.B {name}\n', text('docs/man/urxe.1'))

    def test_the_help_and_the_readme_name_each(self):
        help_text = re.search(r'"odp-model".*?parse_model', text('verbs/host/options.c'), re.S).group(0)
        for _, name, *_ in MODELS:
            self.assertRegex(help_text, rf'\b{name}\b')
        self.assertIn('\\|'.join(name for _, name, *_ in MODELS), text('README.md'))


def flat(words):
    """Text without what lines, comments and manual pages put between and before its words"""
    return ' '.join(words.replace('\\-', '-').replace(' *\t', ' ').replace(' * ', ' ').split())


class Counters(unittest.TestCase):
    def test_the_lists_are_read(self):
        self.assertGreaterEqual(len(COUNTERS), 15)
        self.assertEqual(COUNTERS[13][:3], ['retries', 'fault_retries', 'FAULTS'])
        self.assertGreaterEqual(len(WIRE), 11)
        for entry in COUNTERS + WIRE:
            self.assertEqual(len(entry), 4, entry)
            self.assertIn(entry[2], UNITS)

    def test_the_public_structure_has_each_and_explains_it(self):
        header = text('verbs/preload/include/urxe.h')
        struct = re.search(r'/\*\n \* struct urxe_counters.*?\n};', header, re.S).group(0)
        comment, members = struct.split('*/')
        public = re.findall(r'uint64_t (\w+);', members)
        self.assertEqual(sorted(public), sorted([name for _, name, _, _ in COUNTERS] + ['pages_cached']))
        for _, name, _, what in COUNTERS:
            self.assertIn(f' @{name}: {what} @', flat(comment))

    def test_the_manual_page_explains_each(self):
        page = flat(text('docs/man/urxe_mr_counters.3'))
        for _, name, _, what in COUNTERS:
            self.assertIn(f' .I {name} {what} .', page)

    def test_the_guide_of_on_demand_paging_has_each_in_its_table(self):
        rows = '\n'.join(l for l in text('docs/odp.md').split('\n') if l.startswith('|'))
        for member, *_ in COUNTERS:
            self.assertIn(f'`{member}`', rows)

    def test_the_guide_of_traces_has_each_of_the_wire(self):
        guide = text('docs/trace.md')
        for _, name, unit, what in WIRE:
            self.assertIn(f'\n| `{name}` | {unit.lower()} | {what} |\n', guide)


class Suites(unittest.TestCase):
    def test_the_guide_for_contributors_has_each(self):
        suites = set()
        for where, dirs, files in os.walk(os.path.join(ROOT, 'tests')):
            dirs[:] = [d for d in dirs if d != 'tiny']  # a tree of its own
            if 'meson.build' in files:
                suites.update(re.findall(r"suite: '(\w+)'", text(os.path.join(where, 'meson.build'))))
        rows = '\n'.join(re.findall(r'(?m)^\| `.*', text('docs/contributing.md')))
        self.assertGreaterEqual(len(suites), 10)
        for suite in suites:
            self.assertIn(f'`{suite}`', rows)


class Findings(unittest.TestCase):
    """check/ids.h: X(name, identifier, class, severity, what, why)"""
    CLASSES = [name for _, name in entries('check/ids.h', 'CHECK_CLASSES')]

    def sections(self):
        """{identifier: text} of docs/check.md"""
        return dict(re.findall(r'(?ms)^### ([a-z-]+)\n(.*?)(?=^##|\Z)', text('docs/check.md')))

    def rows(self):
        body = re.search(r'#define CHECK_IDS\(X\)(.*?[^\\])\n\n', text('check/ids.h'), re.S).group(1).replace('\\\n', '')
        rows = re.findall(r'X\((\w+),\s*"([a-z-]+)",\s*(\w+),\s*(\w+),((?:[^()"]|"[^"]*")*)\)', body)
        for name, ident, group, severity, sentences in rows:
            what, why = re.split(r'(?<="),', sentences.strip())
            yield name, ident, group.lower(), severity, *(''.join(re.findall('"([^"]*)"', s)) for s in (what, why))

    def test_the_list_is_read(self):
        self.assertGreaterEqual(len(list(self.rows())), 35)

    def test_each_is_explained_with_a_wrong_and_a_right_example(self):
        sections = self.sections()
        words = {'PORTABLE': 'portability'}
        for _, ident, _, severity, what, why in self.rows():
            section = sections[ident]
            self.assertIn(f'Severity {words.get(severity, severity.lower())}: {what}.\n', section)
            self.assertIn(f'On hardware: {why}.\n', section)
            self.assertRegex(section, r'(?s)Found: .*Wrong:\n\n```c\n.*Right:\n\n```c\n')
        self.assertEqual(sorted(sections), sorted(r[1] for r in self.rows()))

    def test_names_are_the_identifiers(self):
        for name, ident, *_ in self.rows():
            self.assertEqual(name.lower().replace('_', '-'), ident)

    def test_each_class_is_an_option_and_described(self):
        for name in self.CLASSES:
            self.assertIn(f'`{name}`', text('docs/check.md'))
            self.assertRegex(text('docs/man/urxe.1'), rf'\b{name}\b')
            self.assertRegex(text('verbs/host/options.c'), rf'\b{name}\b')


class Options(unittest.TestCase):
    def test_the_manual_page_has_each_option_and_its_variable(self):
        options = re.findall(r'\{\{"([\w-]+)", "(URXE_\w+)"', text('verbs/host/options.c'))
        page = text('docs/man/urxe.1')
        self.assertGreaterEqual(len(options), 12)
        for name, variable in options:
            self.assertIn('\\-\\-' + name.replace('-', '\\-'), page)
            self.assertIn(variable, page)


class Expectations(unittest.TestCase):
    def test_the_manual_page_has_each_number(self):
        names = re.findall(r'\{"(\w+)", [A-Z_]+, 0\}', text('tools/expect.c'))
        self.assertGreaterEqual(len(names), 8)
        for name in names:
            self.assertIn(f'\n.B {name}\n', text('docs/man/urxe.1'))

    def test_the_manual_page_has_each_check(self):
        for name in re.findall(r'\n    \{"(\w+)", "[A-Z]', text('tools/checks.c')):
            self.assertIn(f'\n.BR \\-\\-{name} ', text('docs/man/urxe.1'))


class Injections(unittest.TestCase):
    def test_the_manual_page_has_each_call_with_its_errors(self):
        calls = re.findall(r'\{"(\w+)", \{([^}]*)\}', text('inject/calls.c'))
        lines = [line.split(None, 1) for line in text('docs/man/urxe-inject.7').split('\n')]
        self.assertGreaterEqual(len(calls), 50)
        for name, errors in calls:
            self.assertIn([name, '(cannot fail)' if errors == '0' else errors], lines)

    def test_the_manual_page_has_each_kind_and_action(self):
        page = text('docs/man/urxe-inject.7')
        kinds = re.findall(r'X\(\w+, "([a-z]+)", "', text('inject/rule.h'))
        actions = re.findall(r'X\(\w+, "([a-z-]+)", I', text('inject/rule.h'))
        self.assertGreaterEqual(len(kinds) + len(actions), 25)
        for word in set(kinds + actions) - {'word'}:  # of the comments
            self.assertRegex(page.replace('\\-', '-'), rf'(?m)^(\.[BI]+R? "?|\\fB)(.*\W)?{word}\b')


unittest.main(argv=sys.argv[:1], verbosity=0)
