//! Names that a program outside the sandbox runs or obeys when it finds them in a project. The one
//! table has three uses: the cell looks for the names in a change set, policy asks for approval of
//! them, and the profile `guarded` protects them.

use std::{collections::HashMap, sync::LazyLock};

/// A name, or a path of several names, with the program that obeys it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlantName {
    /// Parts of a path. A part that begins with `*` matches every name with that ending. A
    /// directory stands for everything below it.
    pub parts: &'static [&'static str],
    /// The program that runs or obeys it.
    pub reader: &'static str,
    /// The documentation that says so.
    pub source: &'static str,
}

const fn plant(
    parts: &'static [&'static str],
    reader: &'static str,
    source: &'static str,
) -> PlantName {
    PlantName { parts, reader, source }
}

/// The table of all names.
pub const PLANTS: &[PlantName] = &[
    plant(&[".git", "hooks"], "git", "githooks(5)"),
    plant(&[".git", "commondir"], "git", "gitrepository-layout(5)"),
    plant(&[".vscode"], "Visual Studio Code", "code.visualstudio.com/docs/editor/tasks"),
    plant(
        &["*.code-workspace"],
        "Visual Studio Code",
        "code.visualstudio.com/docs/editor/workspaces",
    ),
    plant(&[".idea"], "JetBrains editors", "jetbrains.com/help/idea/configuring-project-settings"),
    plant(&[".zed"], "Zed", "zed.dev/docs/tasks"),
    plant(&[".devcontainer"], "editors with development containers", "containers.dev"),
    plant(&[".devcontainer.json"], "editors with development containers", "containers.dev"),
    plant(&[".helix"], "Helix", "docs.helix-editor.com/configuration"),
    plant(&["*.sublime-project"], "Sublime Text", "sublimetext.com/docs/projects, build systems"),
    plant(&[".exrc"], "vim", "vim :help exrc"),
    plant(&[".lvimrc"], "vim with vim-localvimrc", "github.com/embear/vim-localvimrc"),
    plant(&[".vimrc"], "vim", "vim :help exrc"),
    plant(&[".nvimrc"], "neovim", "nvim :help exrc"),
    plant(&[".nvim.lua"], "neovim", "nvim :help exrc"),
    plant(&[".dir-locals.el"], "emacs", "GNU Emacs manual, Directory Variables"),
    plant(&[".claude"], "Claude Code", "docs.claude.com, settings and hooks"),
    plant(&[".codex"], "Codex", "developers.openai.com/codex, configuration"),
    plant(&[".cursor"], "Cursor", "docs.cursor.com, rules and MCP"),
    plant(&[".gemini"], "Gemini CLI", "Gemini CLI, configuration"),
    plant(&[".windsurf"], "Windsurf", "docs.windsurf.com"),
    plant(&[".roo"], "Roo Code", "docs.roocode.com, MCP and rules"),
    plant(&[".kiro"], "Kiro", "kiro.dev/docs, hooks and MCP"),
    plant(&[".opencode"], "opencode", "opencode.ai/docs/config"),
    plant(&["opencode.json"], "opencode", "opencode.ai/docs/config"),
    plant(&["opencode.jsonc"], "opencode", "opencode.ai/docs/config"),
    plant(&[".continue"], "Continue", "docs.continue.dev"),
    plant(&[".aider.conf.yml"], "aider", "aider.chat/docs/config"),
    plant(&[".amazonq", "mcp.json"], "Amazon Q Developer", "docs.aws.amazon.com/amazonq, MCP"),
    plant(&[".mcp.json"], "agents that start MCP servers", "modelcontextprotocol.io"),
    plant(&["mcp.json"], "agents that start MCP servers", "modelcontextprotocol.io"),
    plant(&[".gitmodules"], "git", "gitmodules(5)"),
    plant(&[".githooks"], "git, where core.hooksPath names it", "git-config(1), core.hooksPath"),
    plant(&[".envrc"], "direnv", "direnv(1)"),
    plant(&[".direnv"], "direnv", "direnv-stdlib(1), layout"),
    plant(&["mise.toml"], "mise", "mise.jdx.dev/configuration"),
    plant(&[".mise.toml"], "mise", "mise.jdx.dev/configuration"),
    plant(&["mise.local.toml"], "mise", "mise.jdx.dev/configuration"),
    plant(&[".mise.local.toml"], "mise", "mise.jdx.dev/configuration"),
    plant(&[".config", "mise"], "mise", "mise.jdx.dev/configuration"),
    plant(&[".config", "mise.toml"], "mise", "mise.jdx.dev/configuration"),
    plant(&[".mise"], "mise", "mise.jdx.dev/configuration"),
    plant(&[".tool-versions"], "asdf and mise", "asdf-vm.com/manage/configuration"),
    plant(&[".husky"], "husky", "typicode.github.io/husky"),
    plant(&[".pre-commit-config.yaml"], "pre-commit", "pre-commit.com"),
    plant(&["lefthook.yml"], "lefthook", "lefthook.dev"),
    plant(&[".lefthook.yml"], "lefthook", "lefthook.dev"),
    plant(&["lefthook.yaml"], "lefthook", "lefthook.dev"),
    plant(&[".lefthook.yaml"], "lefthook", "lefthook.dev"),
    plant(&["lefthook-local.yml"], "lefthook", "lefthook.dev"),
    plant(&[".lefthook-local.yml"], "lefthook", "lefthook.dev"),
    plant(&["lefthook-local.yaml"], "lefthook", "lefthook.dev"),
    plant(&[".lefthook-local.yaml"], "lefthook", "lefthook.dev"),
    plant(&[".gdbinit"], "gdb", "GDB manual, Initialization Files"),
    plant(&[".hg", "hgrc"], "Mercurial", "hgrc(5)"),
    plant(&[".jj", "repo", "config.toml"], "Jujutsu", "jj-vcs.github.io/jj, configuration"),
    plant(&[".github", "workflows"], "GitHub Actions", "docs.github.com/actions"),
    plant(&[".github", "actions"], "GitHub Actions", "docs.github.com/actions"),
    plant(&[".forgejo", "workflows"], "Forgejo Actions", "forgejo.org/docs, Actions"),
    plant(&[".gitea", "workflows"], "Gitea Actions", "docs.gitea.com/usage/actions"),
    plant(&[".gitlab-ci.yml"], "GitLab CI", "docs.gitlab.com/ci"),
    plant(&[".circleci"], "CircleCI", "circleci.com/docs"),
    plant(&[".travis.yml"], "Travis CI", "docs.travis-ci.com"),
    plant(&["Jenkinsfile"], "Jenkins", "jenkins.io/doc/book/pipeline"),
    plant(&["azure-pipelines.yml"], "Azure Pipelines", "learn.microsoft.com/azure/devops"),
    plant(&["azure-pipelines.yaml"], "Azure Pipelines", "learn.microsoft.com/azure/devops"),
    plant(&[".cirrus.yml"], "Cirrus CI", "cirrus-ci.org/guide/writing-tasks"),
    plant(&["bitbucket-pipelines.yml"], "Bitbucket Pipelines", "support.atlassian.com"),
    plant(&[".drone.yml"], "Drone", "docs.drone.io"),
    plant(&[".woodpecker"], "Woodpecker", "woodpecker-ci.org/docs"),
    plant(&[".woodpecker.yml"], "Woodpecker", "woodpecker-ci.org/docs"),
    plant(&[".buildkite"], "Buildkite", "buildkite.com/docs"),
    plant(&[".teamcity"], "TeamCity", "jetbrains.com/help/teamcity"),
    plant(&["appveyor.yml"], "AppVeyor", "appveyor.com/docs"),
    plant(&[".cargo", "config.toml"], "cargo", "The Cargo Book, Configuration"),
    plant(&[".cargo", "config"], "cargo", "The Cargo Book, Configuration"),
    plant(&[".npmrc"], "npm", "docs.npmjs.com, npmrc"),
    plant(&[".yarnrc"], "yarn", "classic.yarnpkg.com/docs/yarnrc"),
    plant(&[".yarnrc.yml"], "yarn", "yarnpkg.com/configuration/yarnrc"),
    plant(&[".yarn", "releases"], "yarn", "yarnpkg.com/configuration/yarnrc, yarnPath"),
    plant(&[".yarn", "plugins"], "yarn", "yarnpkg.com/configuration/yarnrc, plugins"),
    plant(&[".pnp.cjs"], "yarn and node", "yarnpkg.com/features/pnp"),
    plant(&[".pnpmfile.cjs"], "pnpm", "pnpm.io/pnpmfile"),
    plant(&["bunfig.toml"], "bun", "bun.sh/docs/runtime/bunfig, preload"),
];

/// Directories of installed packages, which nobody opens as a project.
const PACKAGES: [&str; 2] = ["node_modules", "site-packages"];

impl PlantName {
    /// Returns `true` if the name is one of git's own, which also counts inside packages.
    fn is_git_name(&self) -> bool {
        self.parts.first() == Some(&".git")
    }

    /// Returns `true` if `names` match the first parts of the path.
    fn begins(&self, names: &[&[u8]]) -> bool {
        names.iter().zip(self.parts).all(|(name, part)| match part.strip_prefix('*') {
            Some(end) => name.ends_with(end.as_bytes()),
            None => *name == part.as_bytes(),
        })
    }

    fn pattern(&self) -> String {
        match self.parts {
            [name] => (*name).to_owned(),
            parts => format!("**/{}", parts.join("/")),
        }
    }
}

/// Returns the whole table as patterns for `fs.protect`. Exceptions come after the patterns that
/// they restrict.
#[must_use]
pub fn plant_patterns() -> Vec<String> {
    let patterns = |is_git: bool| {
        PLANTS.iter().filter(move |plant| plant.is_git_name() == is_git).map(PlantName::pattern)
    };
    let packages = PACKAGES.iter().map(|name| format!("!**/{name}/**"));
    patterns(false).chain(packages).chain(patterns(true)).collect()
}

/// The type of an entry, as far as plants distinguish it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantType {
    /// A symbolic link, which can also stand in for a directory that would contain the name.
    SymbolicLink,
    /// Anything else.
    Other,
}

/// The table by the first parts of its paths, without `*`: a path is looked at once, however long it
/// and the table are.
static BY_FIRST_PART: LazyLock<HashMap<&[u8], Vec<&PlantName>>> = LazyLock::new(|| {
    let mut plants = HashMap::<_, Vec<_>>::new();
    for plant in PLANTS {
        let first = plant.parts.first().map_or("", |first| first.trim_start_matches('*'));
        plants.entry(first.as_bytes()).or_default().push(plant);
    }
    plants
});

/// Returns the plants that may begin with a name, or with its ending.
fn candidates(name: &[u8]) -> impl Iterator<Item = &'static PlantName> {
    let ending = name.iter().rposition(|byte| *byte == b'.').and_then(|dot| name.get(dot..));
    let found = [Some(name), ending].into_iter().flatten().filter_map(|key| BY_FIRST_PART.get(key));
    found.flatten().copied()
}

/// Names that make a directory one of git's, or that git runs or obeys in such a directory. A bare
/// repository, for example, has them and is not called `.git`.
pub const GIT_DIRECTORY_PARTS: [&[u8]; 10] = [
    b"HEAD",
    b"objects",
    b"refs",
    b"commondir",
    b"hooks",
    b"config",
    b"config.worktree",
    GIT_OPERATIONS[0],
    GIT_OPERATIONS[1],
    GIT_OPERATIONS[2],
];

/// Directories, in one of git's, with an operation under way: a rebase, `git am`, a cherry-pick or a
/// revert. Their files may name commands that run when the operation is continued.
pub const GIT_OPERATIONS: [&[u8]; 3] = [b"rebase-merge", b"rebase-apply", b"sequencer"];

/// Returns `true` if a hook is one of the samples, which git creates itself and does not run.
#[must_use]
pub fn is_sample_hook(name: &[u8]) -> bool {
    name.ends_with(b".sample")
}

/// Finds the program that would run or obey a path, which is relative to the workspace.
#[must_use]
pub fn plant_reader(path: &[u8], plant_type: PlantType) -> Option<&'static str> {
    let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let is_package = |name: &&[u8]| PACKAGES.iter().any(|package| *name == package.as_bytes());
    let is_in_package = names.iter().any(is_package);
    let (last, above) = names.split_last()?;
    if *last == b".git" && plant_type == PlantType::SymbolicLink {
        return Some("git");
    }
    if is_sample_hook(last) && above.last() == Some(&b"hooks".as_slice()) {
        return None;
    }
    let reader = |(at, name): (usize, &&[u8])| {
        let rest = names.get(at..).unwrap_or_default();
        let is_obeyed = |plant: &&PlantName| {
            let is_whole = rest.len() >= plant.parts.len() || plant_type == PlantType::SymbolicLink;
            is_whole && plant.begins(rest) && (plant.is_git_name() || !is_in_package)
        };
        candidates(name).find(is_obeyed).map(|plant| plant.reader)
    };
    names.iter().enumerate().find_map(reader)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{Kind, Matcher, NameList};

    #[test]
    fn names_are_found_at_any_depth_and_below_themselves() {
        use PlantType::{Other, SymbolicLink};
        for (path, plant_type, reader) in [
            (".vscode/tasks.json", Other, Some("Visual Studio Code")),
            ("a/b/.vscode", Other, Some("Visual Studio Code")),
            (".github/workflows/x.yml", Other, Some("GitHub Actions")),
            (".github/CODEOWNERS", Other, None),
            (".github", Other, None),
            (".github", SymbolicLink, Some("GitHub Actions")),
            (".git/hooks/pre-commit", Other, Some("git")),
            ("sub/.git/hooks/pre-commit", Other, Some("git")),
            (".git/hooks/pre-commit.sample", Other, None),
            (".git", SymbolicLink, Some("git")),
            (".git/config", Other, None),
            (".cargo/config.toml", Other, Some("cargo")),
            (".cargo/registry", Other, None),
            ("node_modules/x/.npmrc", Other, None),
            ("node_modules/x/.git/hooks/pre-commit", Other, Some("git")),
            ("my.code-workspace", Other, Some("Visual Studio Code")),
            ("x.vscode/tasks.json", Other, None),
            ("src/main.rs", Other, None),
        ] {
            assert_eq!(plant_reader(path.as_bytes(), plant_type), reader, "{path}");
        }
    }

    #[test]
    fn the_patterns_mean_the_same_names_as_the_table() {
        let matcher = Matcher::new(&[NameList(plant_patterns())]).unwrap();
        for plant in PLANTS {
            let name = plant.parts.join("/").replace('*', "x");
            for (path, is_meant) in [
                (name.clone(), true),
                (format!("a/b/{name}"), true),
                (format!("{name}/below"), true),
                (format!("node_modules/a/{name}"), plant.is_git_name()),
            ] {
                let read = plant_reader(path.as_bytes(), PlantType::Other).is_some();
                let is_protected = matcher.covers(path.as_bytes(), Kind::Either).is_some();
                assert_eq!((read, is_protected), (is_meant, is_meant), "{path}");
            }
        }
    }
}
