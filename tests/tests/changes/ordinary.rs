//! Commands of an ordinary day: nobody is asked, and what they leave and how they end is what
//! they leave and how they end without a sandbox.

use palisade_tests::{Desk, Mode, fill, listed, profile_with, unconfined};
use std::{fs, path::Path};

/// The project, which both have.
const FILES: [(&str, &str); 12] = [
    (
        "Makefile",
        "CFLAGS=-O0\nall: app\napp: main.o util.o\n\tcc -o app main.o util.o\ncheck: app\n\t./app | grep -q 42\n",
    ),
    (
        "main.c",
        "#include <stdio.h>\nint answer(void);\nint main(void) { printf(\"%d\\n\", answer()); return 0; }\n",
    ),
    ("util.c", "int answer(void) { return 42; }\n"),
    ("pkg/__init__.py", ""),
    ("pkg/core.py", "def twice(x):\n    return 2 * x\n"),
    (
        "test_core.py",
        "import unittest\nfrom pkg.core import twice\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(twice(21), 42)\n",
    ),
    ("data.csv", "name,count\nb,2\na,1\n"),
    ("notes.md", "# Notes\n"),
    (
        "tidy.py",
        "import sys\ntext = open(sys.argv[1]).read()\nopen(sys.argv[1], 'w').write(text.title())\n",
    ),
    (
        "pack.py",
        "import zipfile\nwith zipfile.ZipFile('tiny-1.0-py3-none-any.whl', 'w') as z:\n    \
         def add(n, t): z.writestr(zipfile.ZipInfo(n), t)\n    \
         i = 'tiny-1.0.dist-info/'\n    \
         add('tiny.py', 'def f(): return 7\\n')\n    \
         add(i + 'METADATA', 'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n')\n    \
         add(i + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n    \
         add(i + 'RECORD', 'tiny.py,,\\n')\n",
    ),
    (
        "index.js",
        "const f = require('fs');\nf.mkdirSync('dist', {recursive: true});\n\
         f.writeFileSync('dist/out.js', 'module.exports = 7;\\n');\n\
         console.log(require('./dist/out.js'));\n",
    ),
    (".gitignore", "app\n*.o\n__pycache__/\n"),
];

/// One after another, each on what the ones before left.
const COMMANDS: [&str; 52] = [
    "git init -q -b main",
    "git config user.name me && git config user.email me@example.org && true",
    "git add -A ':!probe'",
    "git commit -qm first",
    "git status --short",
    "git log --oneline | wc -l",
    "git diff",
    "git branch topic",
    "git tag v1",
    "git show --stat HEAD | tail -1 | wc -w",
    "make -s",
    "make -s check",
    "make -s",
    "./app",
    "cc -Wall -c util.c -o util2.o && ls util2.o",
    "cc -E main.c | wc -l | grep -c .",
    "ar rcs libutil.a util.o",
    "nm libutil.a | grep answer | wc -l",
    "python3 -m unittest -q",
    "python3 -c 'from pkg.core import twice; print(twice(4))'",
    "python3 -m compileall -q pkg",
    "python3 -m json.tool <<< '{\"a\": 1}'",
    "python3 - <<'END'\nimport csv\nrows = sorted(csv.DictReader(open('data.csv')), key=lambda r: r['name'])\nprint(rows[0]['count'])\nwith open('sorted.csv', 'w') as out:\n    out.write('\\n'.join(r['name'] for r in rows) + '\\n')\nEND",
    "python3 -c 'import sqlite3; c = sqlite3.connect(\"db.sqlite\"); c.execute(\"create table t(x)\"); c.execute(\"insert into t values (1)\"); c.commit()'",
    "python3 -c 'import sqlite3; c = sqlite3.connect(\"db.sqlite\"); c.execute(\"pragma journal_mode=wal\"); c.execute(\"insert into t values (2)\"); c.commit(); print(c.execute(\"select sum(x) from t\").fetchone()[0])'",
    "perl -ne 'print if /a/' data.csv",
    "perl -e 'open F, \">\", \"p.txt\"; print F \"x\\n\"; close F'",
    "awk -F, '{ s += $2 } END { print s }' data.csv",
    "sed -n 2p data.csv",
    "grep -rn twice pkg | wc -l",
    "find . -name '*.py' -not -path './.git/*' | sort",
    "mkdir -p build/deep && touch build/deep/x && ls -R build",
    "echo '- item' >> notes.md",
    "cp data.csv copy.csv && mv copy.csv moved.csv",
    "tar czf src.tgz main.c util.c && tar tzf src.tgz",
    "mkdir unpacked && tar xzf src.tgz -C unpacked && ls unpacked",
    "ln -s main.c link.c && readlink link.c",
    "chmod +x Makefile && test -x Makefile && echo executable",
    "git add -A ':!probe' && git commit -qm second && git log --oneline | wc -l",
    "git checkout -q -b work && git branch --show-current",
    "diff main.c unpacked/main.c && cmp util.c unpacked/util.c && echo same",
    "for i in 1 2 3; do echo $i; done > numbers && wc -l < numbers",
    "flock build/lock true && python3 -c 'import tempfile; t = tempfile.TemporaryFile(dir=\"build\"); t.write(b\"x\"); print(1)'",
    // Formatters over what the session wrote.
    "python3 tidy.py numbers && python3 tidy.py p.txt && cat p.txt",
    // Packages from local files.
    "python3 pack.py",
    "PYTHONPATH=$(ls /usr/share/python-wheels/pip-*.whl) python3 -m pip install -q --no-index --no-cache-dir \
     --disable-pip-version-check --root-user-action ignore --no-compile --target vendor ./*.whl",
    "PYTHONPATH=vendor python3 -c 'import tiny; print(tiny.f())'",
    "mkdir -p node_modules/seven && echo 'module.exports = 7' > node_modules/seven/index.js && node -p 'require(\"seven\")'",
    "node index.js",
    "node index.js",
    "git add -A ':!probe' && git commit -qm third && git merge -q main && git log --oneline | wc -l",
    "false",
];

/// Lists a directory; of files with times, places or names of processes in them, only the names.
fn shown(directory: &Path) -> Vec<String> {
    let ends = [".pyc", ".tgz", ".a", ".sqlite"];
    listed(directory, |name| {
        name.contains(".dist-info/") || ends.iter().any(|end| name.ends_with(end))
    })
}

#[test]
fn nobody_is_asked_and_everything_is_as_it_would_be() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &profile_with(&[]));
        let (workspace, control) = (desk.world.workspace(), desk.world.outside());
        fs::remove_file(desk.world.canary()).unwrap();
        fill(&desk.world, &workspace, &FILES);
        fill(&desk.world, &control, &FILES);
        fs::copy(workspace.join("probe"), control.join("probe")).unwrap();
        for line in COMMANDS {
            let expected = unconfined(&desk.world, &control, &control, line);
            let result = desk.sandbox.bash(line);
            let told = (result.exit_code, result.checkpoint.clone());
            let error = result.error.as_ref().map(|error| &error.message);
            assert_eq!(told, (expected.status.code(), None), "{mode:?}: {line}: {error:?}");
            let stdout = String::from_utf8_lossy(&expected.stdout);
            assert_eq!(result.stdout, stdout, "{mode:?}: {line}");
            assert_eq!(shown(&workspace), shown(&control), "{mode:?}: {line}");
        }
    }
}
