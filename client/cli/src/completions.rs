//! `palisade completions`: prints shell completions.

mod complete;

pub(crate) use complete::Complete;

use crate::{failure::Failure, print};
use clap::{Args, Command};
use clap_complete::Shell;

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
In bash, zsh and fish, names of profiles and tools and ids of calls, sessions and approval requests
are completed too. They are asked of the daemon that is running; none is started.

Examples:
  palisade completions bash > ~/.local/share/bash-completion/completions/palisade
  palisade completions zsh > ~/.zfunc/_palisade
  palisade completions fish > ~/.config/fish/completions/palisade.fish")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Offers values if there are any, and otherwise what the generated function offers.
const BASH: &str = r#"
_palisade_values() {
    local values
    values=$(palisade complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [[ -n $values ]]; then
        mapfile -t COMPREPLY <<< "$values"
    else
        _palisade "$@"
    fi
}
complete -F _palisade_values -o nosort -o bashdefault -o default palisade
"#;

const ZSH: &str = r#"
_palisade_values() {
    local -a values
    values=(${(f)"$(palisade complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( ${#values} )); then
        compadd -a values
    else
        _palisade_options "$@"
    fi
}
"#;

const FISH: &str = r#"
complete -c palisade -f -a '(palisade complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
"#;

impl Completions {
    pub(crate) fn perform(self, mut definition: Command) -> Result<u8, Failure> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut definition, "palisade", &mut text);
        let text = String::from_utf8_lossy(&text);
        print::bytes(with_values(self.shell, &text).as_bytes())?;
        Ok(0)
    }
}

/// Adds what asks `palisade complete` to a generated script.
fn with_values(shell: Shell, text: &str) -> String {
    match shell {
        Shell::Bash => format!("{text}{BASH}"),
        Shell::Fish => format!("{text}{FISH}"),
        // The file is the function `_palisade`, so the generated function gets another name.
        Shell::Zsh => match text.split_once("\n_palisade() {") {
            Some((head, body)) => {
                let body = body.replace("_palisade \"$@\"", "_palisade_values \"$@\"");
                let body = body.replace("compdef _palisade ", "compdef _palisade_values ");
                format!("{head}\n{ZSH}\n_palisade_options() {{{body}")
            }
            None => text.to_owned(),
        },
        Shell::Elvish | Shell::PowerShell | _ => text.to_owned(),
    }
}
