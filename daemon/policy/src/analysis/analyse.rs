//! Analyses a shell text: walks over its commands, and decides whether it only reads.

use super::{
    finding::{CommandAnalysis, Kind, Nature, RawFinding},
    form::Parse,
    reading,
    tables::Tables,
    walk::{Input, MOST_FINDINGS, MOST_STEPS, Walk},
};

/// The number of commands that are reported.
const MOST_COMMANDS: usize = 2048;

/// Analyses a shell text.
#[must_use]
pub fn analyse(text: &str, parser: &dyn Parse, tables: &Tables) -> CommandAnalysis {
    let body = match parser.parse(text) {
        Ok(body) => body,
        Err(error) => {
            let why = format!("what this would run is unknown: {error}");
            let found = vec![RawFinding::whole(Kind::Hidden, text, &why)];
            return CommandAnalysis { found, ..CommandAnalysis::default() };
        }
    };
    let mut walk = Walk::new(parser, tables);
    walk.body(&body, &Input::Inherited);
    walk.analyse_uncalled();
    let mut found = walk.found;
    if walk.steps > MOST_STEPS {
        let why = "it is too large to be analysed completely, so it may do anything";
        found.push(RawFinding::whole(Kind::Hidden, text, why));
    }
    found.sort_by_key(|f| (std::cmp::Reverse(f.kind), f.span.start));
    found.dedup();
    found.truncate(MOST_FINDINGS);
    found.sort_by_key(|f| f.span.start);
    let mut commands = walk.commands;
    commands.dedup();
    if commands.len() > MOST_COMMANDS {
        let why = "it has more commands than can be listed";
        found.push(RawFinding::whole(Kind::Hidden, text, why));
        commands.truncate(MOST_COMMANDS);
    }
    let proven = found.iter().all(|found| found.kind == Kind::NestedCode);
    let nature = if proven { reading::nature(text, &body, parser, tables) } else { Nature::Acts };
    CommandAnalysis { found, commands, nature }
}
