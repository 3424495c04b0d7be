//! Determines what is lost when a command writes to a path or deletes it.

use super::{
    field::{Field, Part},
    finding::{FindingTarget, Kind, Loss},
    schema::{Effect, PathRole, ProgramRule},
    walk::{Call, Walk},
};
use palisade_protocol::Severity;

impl Walk<'_> {
    /// Reports what writing to these paths, or deleting them, would lose.
    pub(crate) fn write(&mut self, call: &Call, fields: &[Field], effect: Effect, why: &str) {
        let targets = fields.iter().filter_map(|f| self.target(f, effect, Vec::new())).collect();
        self.lose(call, targets, effect, Kind::Destructive, None, why);
    }

    /// Reports what the targets of a table rule would lose.
    pub(crate) fn lose_by(&mut self, call: &Call, targets: Vec<FindingTarget>, rule: &ProgramRule) {
        self.lose(call, targets, rule.effect, rule.kind, rule.severity, &rule.why);
    }

    fn lose(
        &mut self,
        call: &Call,
        targets: Vec<FindingTarget>,
        effect: Effect,
        kind: Kind,
        severity: Option<Severity>,
        why: &str,
    ) {
        for target in &targets {
            let path = target.path.as_deref().unwrap_or(&target.shown);
            let executed = self.tables.path(PathRole::Executed, path);
            if let Some(executed) = executed.filter(|_| effect != Effect::Delete) {
                let why = format!("{} is written to: {executed}", target.shown);
                self.report(Kind::Hidden, Some(Severity::Danger), call, &why, Vec::new());
            }
        }
        if targets.is_empty() || effect == Effect::Append {
            return;
        }
        let is_system = |target: &FindingTarget| {
            let path = target.path.as_deref().unwrap_or(&target.shown);
            self.tables.path(PathRole::System, path.trim_end_matches('/')).is_some() || path == "/"
        };
        let severity =
            if targets.iter().any(is_system) { Some(Severity::Danger) } else { severity };
        self.report(kind, severity, call, why, targets);
    }

    /// Returns the target that a field names; `None` if nothing can be lost there.
    pub(crate) fn target(
        &self,
        field: &Field,
        effect: Effect,
        into: Vec<String>,
    ) -> Option<FindingTarget> {
        if field.process().is_some() {
            return None;
        }
        let path = self.path(field);
        if let Some(path) = &path {
            let harmless = match effect {
                Effect::Overwrite | Effect::Append => {
                    self.tables.path(PathRole::Sink, path).is_some()
                        || self.tables.path(PathRole::Scratch, path).is_some()
                            && !path.split('/').any(|part| part == "..")
                }
                Effect::Delete | Effect::Leave => self.tables.path(PathRole::Sink, path).is_some(),
            };
            if harmless {
                return None;
            }
        }
        let system = path.as_deref().is_some_and(|path| {
            self.tables.path(PathRole::System, path.trim_end_matches('/')).is_some()
        });
        let loss = match effect {
            Effect::Leave => Loss::IfOutside,
            Effect::Overwrite | Effect::Delete | Effect::Append if system => Loss::Always,
            Effect::Overwrite | Effect::Delete | Effect::Append => Loss::IfExists,
        };
        Some(FindingTarget { path, shown: field.shown(), into, loss })
    }

    /// Returns the path that a field names, if it is known.
    pub(crate) fn path(&self, field: &Field) -> Option<String> {
        let mut whole = String::new();
        for part in &field.parts {
            match part {
                Part::Known(text) => whole.push_str(text),
                Part::Home(text) if text.starts_with('$') => whole.push('~'),
                Part::Home(text) => whole.push_str(text),
                Part::Glob(_) | Part::Unknown(_) | Part::Process(_) => return None,
            }
        }
        self.scope.resolve(&whole)
    }
}
