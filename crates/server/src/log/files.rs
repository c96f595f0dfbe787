//! Log files: named by the moment at which they begin, followed by another one when they are old or long.
//!
//! Invariants
//! 1. What cannot be written to a file goes to standard error, with the reason: nothing is lost for want of a folder.

use super::config::LogFileSettings;
use super::moment::LogMoment;
use super::queue::LogFormat;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The writer's files: one of text, one of JSON.
#[derive(Default)]
pub struct LogFiles {
    text: Option<OpenLogFile>,
    json: Option<OpenLogFile>,
    settings: Option<LogFileSettings>,
    /// Unix seconds at which the next files begin; None: no such time.
    rotation: Option<i64>,
}

struct OpenLogFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl LogFiles {
    /// Settings may have changed, or the time for other files come.
    pub fn follow(&mut self, settings: &LogFileSettings, now: &LogMoment) {
        let is_new = self.settings.as_ref() != Some(settings);
        let is_due = self.rotation.is_some_and(|at| now.unix_seconds() >= at);
        if is_new {
            (self.text, self.json) = (None, None);
        } else if is_due {
            self.rotate(now, settings.truncates_on_rotation);
        }
        if is_new || is_due {
            self.settings = Some(settings.clone());
            let age = settings.rotation_age_minutes as i64 * 60;
            self.rotation = (age > 0).then(|| now.unix_seconds().div_euclid(age) * age + age);
        }
    }

    fn rotate(&mut self, now: &LogMoment, truncates: bool) {
        let Some(settings) = &self.settings else { return };
        for (format, slot) in [(LogFormat::Text, &mut self.text), (LogFormat::Json, &mut self.json)] {
            let Some(open) = slot else { continue };
            let path = path_of(settings, format, now);
            if path != open.path
                && let Ok(next) = open_at(&path, settings, truncates)
            {
                *slot = Some(next);
            }
        }
        self.note_current();
    }

    pub fn write(&mut self, format: LogFormat, bytes: &[u8], now: &LogMoment) -> io::Result<()> {
        let Some(settings) = &self.settings else { return Err(io::ErrorKind::NotFound.into()) };
        let slot = match format {
            LogFormat::Text => &mut self.text,
            LogFormat::Json => &mut self.json,
        };
        let is_full =
            |open: &OpenLogFile| settings.rotation_size_bytes > 0 && open.bytes >= settings.rotation_size_bytes;
        let mut has_moved = false;
        if slot.as_ref().is_none_or(is_full) {
            let path = path_of(settings, format, now);
            // A name that is the same again is the same file, which grows on.
            if slot.as_ref().is_none_or(|open| open.path != path) {
                *slot = Some(open_at(&path, settings, false)?);
                has_moved = true;
            }
        }
        let done = slot.as_mut().map_or(Ok(()), |open| {
            open.bytes += bytes.len() as u64;
            open.file.write_all(bytes)
        });
        if has_moved {
            self.note_current();
        }
        done
    }

    /// `current_logfiles` in the data folder tells which they are.
    fn note_current(&self) {
        let Some(folder) = self.settings.as_ref().map(|s| &s.data_dir) else { return };
        let line = |kind: &str, open: &Option<OpenLogFile>| {
            let open = open.as_ref().map(|open| open.path.strip_prefix(folder).unwrap_or(&open.path).display());
            open.map_or(String::new(), |path| format!("{kind} {path}\n"))
        };
        let text = line("stderr", &self.text) + &line("jsonlog", &self.json);
        let temporary = folder.join("current_logfiles.tmp");
        // It is a convenience: whoever misses it looks into the folder.
        let _ = std::fs::write(&temporary, text)
            .and_then(|()| std::fs::rename(&temporary, folder.join("current_logfiles")));
    }
}

fn path_of(settings: &LogFileSettings, format: LogFormat, now: &LogMoment) -> PathBuf {
    let name = now.name(&settings.name_pattern);
    let name = match format {
        LogFormat::Text => name,
        LogFormat::Json => format!("{}.json", name.strip_suffix(".log").unwrap_or(&name)),
    };
    settings.directory.join(name)
}

fn open_at(path: &Path, settings: &LogFileSettings, truncates: bool) -> io::Result<OpenLogFile> {
    std::fs::create_dir_all(&settings.directory)?;
    let mut options = OpenOptions::new();
    options.create(true).mode(settings.mode);
    let file = match truncates {
        true => options.write(true).truncate(true).open(path)?,
        false => options.append(true).open(path)?,
    };
    let bytes = file.metadata()?.len();
    Ok(OpenLogFile { path: path.to_path_buf(), file, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_types::datetime::zone::Zone;

    fn at(seconds: i64) -> LogMoment {
        LogMoment::new(seconds * 1_000_000, &Zone::utc())
    }

    #[test]
    fn files_follow_one_another_by_age_and_by_size() {
        let folder = std::env::temp_dir().join(format!("kilndb-logfiles-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let settings = LogFileSettings {
            data_dir: folder.clone(),
            directory: folder.join("log"),
            name_pattern: "k-%s.log".into(),
            mode: 0o600,
            rotation_age_minutes: 1,
            rotation_size_bytes: 100,
            truncates_on_rotation: false,
        };
        let mut files = LogFiles::default();
        let mut write = |seconds: i64, text: &str| {
            files.follow(&settings, &at(seconds));
            files.write(LogFormat::Text, text.as_bytes(), &at(seconds)).unwrap();
        };
        write(30, "first\n");
        write(31, &"x".repeat(100));
        write(32, "after the size\n");
        write(61, "after the age\n");
        files.write(LogFormat::Json, b"{}\n", &at(61)).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.join("log").join(name)).unwrap();
        assert_eq!(read("k-30.log").len(), 106);
        assert_eq!((read("k-32.log").as_str(), read("k-61.log").as_str()), ("after the size\n", "after the age\n"));
        assert_eq!(read("k-61.json"), "{}\n");
        let current = std::fs::read_to_string(folder.join("current_logfiles")).unwrap();
        assert_eq!(current, "stderr log/k-61.log\njsonlog log/k-61.json\n");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
