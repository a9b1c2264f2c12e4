"""embed.py PAGE STYLE SCRIPT... OUT - the page's files as two strings of C.

What the page says `<!-- style -->` and `<!-- script -->` for is put in; its data belong where `<!-- data -->` stands,
which is where it is cut. Nothing is changed in the files, so that an error in the browser names their own lines.
"""
import sys


def literal(name, text):
    """A definition of a string; its bytes as numbers, since compilers limit the length of literals"""
    data = text.encode() + b'\0'
    rows = [','.join(str(b) for b in data[i:i + 32]) for i in range(0, len(data), 32)]
    return f'const char {name}[] = {{\n' + ',\n'.join(rows) + '};\n'


def main(out, page, style, scripts):
    def read(path):
        with open(path, encoding='utf-8') as f:
            return f.read()

    script = "'use strict';\n" + '\n'.join(read(s) for s in scripts)
    for text in (script, read(style)):
        if '</script' in text or '</style' in text:
            sys.exit(f'{out}: an end of an element within it would end it')
    text = read(page).replace('<!-- style -->', f'<style>\n{read(style)}</style>')
    text = text.replace('<!-- script -->', f'<script>\n{script}</script>')
    head, tail = text.split('<!-- data -->')
    with open(out, 'w', encoding='utf-8') as f:
        f.write('/* made by tools/page/embed.py */\n#include "tools/page_data.h"\n')
        f.write(literal('page_head', head) + literal('page_tail', tail))


main(sys.argv[-1], sys.argv[1], sys.argv[2], sys.argv[3:-1])
