//! ParameterStatus: what clients are told of the session's settings, at the start and before each ReadyForQuery after
//! which they would know wrong values.

use super::Session;
use crate::client::Client;
use crate::settings::{definition, reported};

impl Session {
    /// What the client is told at the start.
    pub fn reported_parameters(&mut self) -> Vec<(String, String)> {
        self.context.settings.take_untold();
        reported().map(|name| (name.to_string(), self.context.shown(name))).collect()
    }

    /// Tells of the settings that have changed since the client was told last.
    pub fn report_settings(&mut self, client: &mut dyn Client) {
        if !self.context.settings.has_untold() {
            return;
        }
        for (name, known) in self.context.settings.take_untold() {
            let is_live = definition(name).is_some_and(|d| d.descriptor.live.is_some());
            let changed = if is_live {
                self.context.shown(name) != known
            } else {
                self.context.settings.get(name) != Some(&known)
            };
            if changed {
                client.parameter_status(name, &self.context.shown(name));
            }
        }
    }
}
