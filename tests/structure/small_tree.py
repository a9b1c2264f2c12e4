"""small_tree.py - a tree of a few files with a fault planted in it, for tests of what looks at trees."""
import json
import os
import subprocess
import tempfile
import unittest


class SmallTree(unittest.TestCase):
    """Below self.root, which is removed at the end"""

    compiler = ()

    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.root = tmp.name
        self.commands = []

    def write(self, path, text=''):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, 'w', encoding='utf-8') as f:
            f.write(text)
        return full

    def compile(self, path, text, *flags):
        """The object file; compile_commands.json lists what was compiled"""
        source = self.write(path, text)
        obj = source + '.o'
        subprocess.run([*self.compiler, '-w', *flags, '-c', '-o', obj, source], check=True)
        self.commands.append({'directory': self.root, 'file': source, 'output': obj})
        self.write('compile_commands.json', json.dumps(self.commands))
        return obj
