# Makes a small project in the current directory, with its history, as a team would have it:
# plain git, a fixed identity, fixed dates. Run outside of every sandbox.
set -eu
export GIT_AUTHOR_DATE='2024-05-01T12:00:00 +0000' GIT_COMMITTER_DATE='2024-05-01T12:00:00 +0000'
# Many tests copy it, so it has no samples of hooks and few loose objects.
export GIT_TEMPLATE_DIR=
umask 022

git init -q -b main
mkdir .git/hooks
git config user.name 'Ada Example'
git config user.email ada@example.org

mkdir -p docs/images src/app/plugins tests web data scripts ci/workflows src/target

cat > .gitignore <<'END'
dist/
build/
node_modules/
__pycache__/
*.log
/mirrors/
END
printf '# Project\n\nWelcome to the project.\n\n- colour\n- shape\n' > README.md
printf 'Permission is granted to everybody.\n' > LICENSE
printf '# Changes\n\n- 1.0: first release\n' > CHANGELOG.md
printf '{\n  "name": "project",\n  "scripts": { "build": "sh scripts/build.sh" }\n}\n' > package.json
printf '[project]\nname = "app"\nversion = "1.0"\n' > pyproject.toml
printf 'root = true\n[*]\nindent_size = 4\n' > .editorconfig
for page in index guide install api faq tutorial glossary style roadmap release; do
    printf '# %s\n\nThe colour of %s is described here.\n\nSee also the index.\n' "$page" "$page" > "docs/$page.md"
done
printf '<svg><circle r="4"/></svg>\n' > docs/images/logo.svg
printf '<svg><rect width="4"/></svg>\n' > docs/images/badge.svg

printf '' > src/app/__init__.py
for module in main core util config cli inout errors models views; do
    printf '"""Module %s."""\n\nDEBUG = True\n\n\ndef %s( x ):\n    return x + 1\n' "$module" "$module" \
        > "src/app/$module.py"
done
printf 'from app.util import util\n\n\ndef core( x ):\n    return util(x) + 1\n' > src/app/core.py
printf '' > src/app/plugins/__init__.py
for plugin in base csv json text table tree lines; do
    printf 'NAME = "%s"\n\n\ndef load( path ):\n    return open( path ).read()\n' "$plugin" \
        > "src/app/plugins/$plugin.py"
done
# A directory of sources that is called like one of a compiler.
printf 'pub fn target() {}\n' > src/target/mod.rs
printf '' > tests/__init__.py
for module in core util models views; do
    cat > "tests/test_$module.py" <<END
import sys
import unittest

sys.path.insert(0, "src")
from app.$module import $module


class Test(unittest.TestCase):
    def test_it_adds(self):
        self.assertGreater($module(1), 1)
END
done
for part in main menu api forms; do
    printf 'export function %s() {\n  return "%s";\n}\n' "$part" "$part" > "web/$part.js"
done
printf '<!doctype html>\n<title>Project</title>\n' > web/index.html
printf 'body { color: black }\nmenu { width: 10em }\n' > web/style.css
for table in names places things numbers old; do
    printf 'name,count\n%s-c,3\n%s-a,1\n%s-b,2\n' "$table" "$table" "$table" > "data/$table.csv"
done
printf 'name: check\non: push\n' > ci/workflows/check.yml
cat > scripts/build.sh <<'END'
# What `npm run build` does: its old output goes, the new one comes.
set -eu
rm -rf dist
mkdir -p dist
cat web/*.js > dist/bundle.js
cp web/index.html web/style.css dist/
wc -c < dist/bundle.js > dist/size.txt
END
cat > scripts/format.py <<'END'
"""Formats Python files: no blanks inside of parentheses."""
import os
import re
import sys

atomic = "--atomic" in sys.argv
for path in (name for name in sys.argv[1:] if not name.startswith("--")):
    with open(path) as source:
        text = source.read()
    text = re.sub(r"\(\s+", "(", re.sub(r"\s+\)", ")", text))
    with open(path + ".new" if atomic else path, "w") as formatted:
        formatted.write(text)
    if atomic:
        os.replace(path + ".new", path)
END
printf 'set -eu\nrm -rf dist build\n' > scripts/clean.sh
printf 'set -eu\npython3 -m compileall -q src\n' > scripts/check.sh
printf 'set -eu\ngit tag "$1"\n' > scripts/release.sh
git add -A
git commit -qm 'Begin the project'

printf '\n## Install\n\nRun the build.\n' >> docs/install.md
git commit -qam 'Describe the installation'
git tag v1.0

# A branch that has gone its own way.
git checkout -q -b feature
printf 'export function feature() {\n  return "feature";\n}\n' > web/feature.js
printf 'feature { width: 20em }\n' >> web/style.css
git add -A
git commit -qm 'Add the feature'
git rm -q data/things.csv
printf 'def feature( x ):\n    return x\n' >> src/app/cli.py
git commit -qam 'Use the feature'
git checkout -q main

printf '\nMore about the glossary.\n' >> docs/glossary.md
git commit -qam 'Extend the glossary'
git branch merged
printf -- '- 1.1: a glossary\n' >> CHANGELOG.md
git commit -qam 'Prepare 1.1'
# One commit ahead of main, and one that somebody else has pushed.
git checkout -q -b fix
printf 'def fixed( x ):\n    return x\n' >> src/app/errors.py
git commit -qam 'Fix the errors'
git checkout -q main
git clone -q --bare --no-hardlinks . mirrors/project.git
git clone -q mirrors/project.git mirrors/elsewhere
printf '\nWritten elsewhere.\n' >> mirrors/elsewhere/docs/tutorial.md
git -C mirrors/elsewhere -c user.name=Bob -c user.email=bob@example.org commit -qam 'Extend the tutorial'
git -C mirrors/elsewhere push -q origin HEAD:refs/heads/theirs
git -C mirrors/project.git repack -q -a -d
rm -rf mirrors/elsewhere
git remote add mirror ./mirrors/project.git
git repack -q -a -d
# Work that was put aside.
printf 'export const aside = true;\n' >> web/menu.js
git stash push -q -m 'an idea'

# What is there and not tracked: output of an earlier build, packages, a log.
sh scripts/build.sh
mkdir -p build/objects node_modules/left-pad src/app/__pycache__
printf 'old object\n' > build/objects/main.obj
printf 'module.exports = String;\n' > node_modules/left-pad/index.js
printf 'not really bytecode\n' > src/app/__pycache__/gone.cpython-311.pyc
printf 'started\n' > debug.log
