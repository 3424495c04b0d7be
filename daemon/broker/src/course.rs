//! Where each call is between its request and its reply: for operators, metrics and traces. Broker.

use crate::stages::asked::Asked;
use palisade_protocol::{CallId, CallOverview, CallStage, SessionId, ToolName};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};
use tokio_util::sync::CancellationToken;

/// How many steps of a call are remembered; one that is judged again and again has more.
const STEPS: usize = 64;

/// All calls under way.
#[derive(Debug, Default)]
pub(crate) struct Courses {
    all: Mutex<HashMap<CallId, Arc<Course>>>,
}

/// The way of one call so far.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) call_id: CallId,
    pub(crate) session: SessionId,
    pub(crate) tool: ToolName,
    pub(crate) begun: Instant,
    cancel: CancellationToken,
    steps: Mutex<Vec<(CallStage, Instant)>>,
}

/// A call that is among those under way for as long as this is kept.
#[derive(Debug)]
pub(crate) struct UnderWay<'a> {
    courses: &'a Courses,
    course: Arc<Course>,
}

impl Courses {
    /// A call begins.
    pub(crate) fn begin(&self, asked: &Asked) -> UnderWay<'_> {
        let course = Arc::new(Course {
            call_id: asked.context.call_id.clone(),
            session: asked.context.session.id.clone(),
            tool: asked.call.tool.clone(),
            begun: asked.started,
            cancel: asked.context.cancel.clone(),
            steps: Mutex::new(vec![(CallStage::Judge, asked.started)]),
        });
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(course.call_id.clone(), Arc::clone(&course));
        UnderWay { courses: self, course }
    }

    /// Ends a call early; whether there is one.
    pub(crate) fn cancel(&self, call: &CallId) -> bool {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(call).inspect(|course| course.cancel.cancel()).is_some()
    }

    /// All of them, oldest first.
    pub(crate) fn overview(&self) -> Vec<CallOverview> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let mut calls: Vec<_> = all.values().map(|course| course.overview()).collect();
        calls.sort_by_key(|call| std::cmp::Reverse(call.time_ms));
        calls
    }

    /// How many there are in each stage.
    pub(crate) fn by_stage(&self) -> [(CallStage, u64); CallStage::ALL.len()] {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        CallStage::ALL.map(|stage| {
            (stage, all.values().filter(|course| course.stage() == stage).count() as u64)
        })
    }
}

impl Course {
    fn stage(&self) -> CallStage {
        let steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        steps.last().map_or(CallStage::Judge, |(stage, _)| *stage)
    }

    fn overview(&self) -> CallOverview {
        CallOverview {
            call_id: self.call_id.clone(),
            session: self.session.clone(),
            tool: self.tool.clone(),
            stage: self.stage(),
            time_ms: u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Each step with when it began and ended, on the clock of the wall, which may have jumped since.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let (now, wall) = (Instant::now(), SystemTime::now());
        let at = |instant: Instant| {
            let since = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            since.saturating_sub(now.saturating_duration_since(instant))
        };
        let steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = steps.iter().skip(1).map(|(_, begun)| *begun).chain([now]);
        let spans = steps.iter().zip(ends);
        spans
            .map(|((stage, begun), end)| Span { stage: *stage, from: at(*begun), to: at(end) })
            .collect()
    }
}

/// One step of a call, in time since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) stage: CallStage,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
}

impl UnderWay<'_> {
    /// The call goes on to another stage.
    pub(crate) fn at(&self, stage: CallStage) {
        let mut steps = self.course.steps.lock().unwrap_or_else(PoisonError::into_inner);
        if steps.len() == STEPS {
            steps.pop();
        }
        steps.push((stage, Instant::now()));
    }

    /// The way so far.
    pub(crate) fn course(&self) -> &Course {
        &self.course
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut all = self.courses.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&self.course.call_id);
    }
}
