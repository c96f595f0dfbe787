//! The settings of the log that are the server's, ready for use.

use super::prefix::LinePrefix;
use kilndb_context::log::LogLevel;
use kilndb_context::settings::ServerSettings;
use kilndb_types::datetime::zone::Zone;
use std::path::{Path, PathBuf};

#[derive(Clone)]
pub struct LogConfig {
    pub prefix: LinePrefix,
    pub zone: Zone,
    pub has_text: bool,
    pub has_json: bool,
    pub min_messages: LogLevel,
    /// logging_collector: None writes to standard error.
    pub files: Option<LogFileSettings>,
}

/// Where log files are, and when another one begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogFileSettings {
    pub data_dir: PathBuf,
    pub directory: PathBuf,
    /// The name of a log file, with strftime's escapes.
    pub name_pattern: String,
    pub mode: u32,
    /// 0: never.
    pub rotation_age_minutes: u64,
    /// 0: never.
    pub rotation_size_bytes: u64,
    pub truncates_on_rotation: bool,
}

impl LogConfig {
    /// Before settings are known, and in the process that reads none.
    pub fn unconfigured() -> LogConfig {
        LogConfig {
            prefix: LinePrefix::parse("%m [%p] "),
            zone: Zone::utc(),
            has_text: true,
            has_json: false,
            min_messages: LogLevel::Warning,
            files: None,
        }
    }

    pub fn new(settings: &ServerSettings, data_dir: &Path) -> LogConfig {
        let destinations = settings.get("log_destination").to_ascii_lowercase();
        let mut destinations = destinations.split(',').map(|word| word.trim().trim_matches('"'));
        let has_json = destinations.clone().any(|word| word == "jsonlog");
        LogConfig {
            prefix: LinePrefix::parse(settings.get("log_line_prefix")),
            zone: Zone::find(settings.get("log_timezone")).unwrap_or_else(Zone::utc),
            // Destinations that are not served (docs/compatibility.md) leave nobody without a log.
            has_text: !has_json || destinations.any(|word| word == "stderr"),
            has_json,
            min_messages: LogLevel::of_setting(settings.get("log_min_messages")),
            files: settings.flag("logging_collector").then(|| LogFileSettings {
                data_dir: data_dir.to_path_buf(),
                directory: data_dir.join(settings.get("log_directory")),
                name_pattern: settings.get("log_filename").to_string(),
                mode: settings.number("log_file_mode") as u32,
                rotation_age_minutes: settings.number("log_rotation_age").max(0) as u64,
                rotation_size_bytes: (settings.number("log_rotation_size").max(0) as u64) << 10,
                truncates_on_rotation: settings.flag("log_truncate_on_rotation"),
            }),
        }
    }
}
