//! `palisade profile explain`: says what a profile decides, which line decides it, and what would
//! have to change.

use super::{
    Directories, load,
    remedy::{self, WriteMethod},
};
use crate::{
    failure::Failure,
    paint::{self, Paint, Style, harmless},
    print,
};
use clap::Args;
use palisade_policy::{Act, Decision, Explanation, Scene, explain};
use std::{env, path::PathBuf};

/// Say whether a profile allows an access, which line decides, and what would allow it
#[derive(Debug, Args)]
#[command(after_help = "\
Nothing is run: the answer comes from the plan that would confine a session. The path is assumed to
exist and not to be a symbolic link; mode bits and owners are not checked. Only a suggestion to
allow writing looks at this host: to create a new file, the profile has to name its directory.

Exit status: 0 allowed; 1 denied.

Examples:
  palisade profile explain workspace write /etc/passwd
  palisade profile explain workspace read '$HOME/.ssh/id_ed25519'
  palisade profile explain mine.toml connect 1.1.1.1:443 --json")]
pub(crate) struct Explain {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: SessionLocation,
    #[command(flatten)]
    directories: Directories,
    /// The profile: a name, or a file
    profile: String,
    /// The access: read, write, exec or connect
    #[arg(value_parser = act)]
    act: Act,
    /// A path, also with $WORKSPACE, $HOME or $TMP; or an address with its port
    target: String,
}

/// The directories of the session that is explained.
#[derive(Debug, Args)]
pub(crate) struct SessionLocation {
    /// The workspace
    #[arg(long, value_name = "DIR", default_value = ".")]
    workspace: PathBuf,
    /// The home directory [default: $HOME]
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

impl SessionLocation {
    fn scene(&self) -> Result<Scene, Failure> {
        let workspace = self.workspace.canonicalize().map_err(|error| {
            let told =
                format!("can not use {} as the workspace: {error}", self.workspace.display());
            Failure::new(told, "name a directory that exists with --workspace")
        })?;
        let home = self.home.clone().or_else(|| env::var_os("HOME").map(PathBuf::from));
        Ok(Scene {
            workspace,
            home: home.filter(|home| home.is_absolute()),
            user: env::var("USER").unwrap_or_default(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        })
    }
}

fn act(text: &str) -> Result<Act, String> {
    text.parse()
}

impl Explain {
    pub(crate) fn perform(self) -> Result<u8, Failure> {
        let found = load::find(&self.directories, [self.profile.as_str()])?;
        let scene = self.place.scene()?;
        let Some(profile) = found.first() else { return Ok(0) };
        // Explains what the profile says, even if it is only observed and not enforced.
        let meant = profile.as_written();
        // Shell completion often adds a slash to a directory's name.
        let target = match self.target.trim_end_matches('/') {
            "" => self.target.as_str(),
            bare => bare,
        };
        let mut answer = explain(meant, &scene, self.act, target)
            .map_err(|error| Failure::absent(error.to_string(), hint(self.act)))?;
        let host = remedy::there;
        if let Some((change, note)) =
            remedy::instead(meant, &scene, &answer, WriteMethod::InPlace, host)
        {
            answer.change = change;
            add(&mut answer.note, &note);
        }
        if let Some(under) = profile.observed_under() {
            let note = format!("observed, not enforced: profile {under} is enforced");
            add(&mut answer.note, &note);
        }
        if self.json {
            print::json(&answer)?;
        } else {
            print::bytes(text(&answer, paint::stdout()).as_bytes())?;
        }
        Ok(match answer.decision {
            Decision::Allow => 0,
            Decision::Ask | Decision::Deny => 1,
        })
    }
}

/// Describes valid targets.
const fn hint(act: Act) -> &'static str {
    match act {
        Act::Read | Act::Write | Act::Execute => {
            "a target is a path such as /etc/hosts, '$WORKSPACE/src' or '$HOME/.ssh'"
        }
        Act::Connect => "a target is an address or a name with its port, not a URL",
    }
}

/// Appends a note.
fn add(note: &mut String, more: &str) {
    if !note.is_empty() && !more.is_empty() {
        note.push_str("; ");
    }
    note.push_str(more);
}

fn text(answer: &Explanation, paint: Paint) -> String {
    let style = match answer.decision {
        Decision::Allow => Style::Good,
        Decision::Ask => Style::Warning,
        Decision::Deny => Style::Error,
    };
    let decision = paint.apply(style, &answer.decision.to_string());
    let mut text = format!("{decision}: {} {}\n", answer.act, harmless(&answer.target));
    let mut field = |name: &str, value: &str| {
        if !value.is_empty() {
            text += &format!("  {name:10} {}\n", harmless(value));
        }
    };
    field("because", &answer.rule);
    field("layer", &answer.layer.to_string());
    let none = "none: the default applies".to_owned();
    field("line", &answer.at.as_ref().map_or(none, ToString::to_string));
    if let Some(change) = &answer.change {
        field("to allow", &change.how);
        field("opens", &change.opens);
    }
    field("note", &answer.note);
    text
}
