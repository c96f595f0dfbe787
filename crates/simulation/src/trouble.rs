//! What befalls a machine beside the death of its processes: a disk that is full or fails, a medium that forgets, and
//! what may come of each. docs/simulation.md has the table.

use crate::machine::{Mischief, PlannedMischief};
use kilndb_sim::disk::DiskFault;
use kilndb_sim::random::Chooser;
use std::path::PathBuf;

const NO_SPACE: i32 = 28;
const INPUT_OUTPUT: i32 = 5;

/// Something fails and says so, in one round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    Nothing,
    FullDisk,
    FailingWrites,
    FailingSync,
}

impl Trouble {
    pub fn choose(choice: &mut impl Chooser) -> Trouble {
        match choice.below(12) {
            0 => Trouble::FullDisk,
            1 => Trouble::FailingWrites,
            2 => Trouble::FailingSync,
            _ => Trouble::Nothing,
        }
    }

    /// What the disk does, and after how many of its operations.
    pub fn fault(self, choice: &mut impl Chooser) -> Option<(i64, DiskFault)> {
        let fault = match self {
            Trouble::Nothing => return None,
            Trouble::FullDisk => DiskFault::Full(NO_SPACE),
            Trouble::FailingWrites => DiskFault::Write(INPUT_OUTPUT, 1 + choice.below(3) as u32),
            Trouble::FailingSync => DiskFault::Sync,
        };
        Some((choice.below(400) as i64, fault))
    }

    /// SQLSTATEs that clients may be answered: disk_full, io_error.
    pub fn codes(self) -> &'static [&'static str] {
        match self {
            Trouble::Nothing => &[],
            Trouble::FullDisk => &["53100"],
            Trouble::FailingWrites | Trouble::FailingSync => &["58030"],
        }
    }
}

/// What the medium does wrong without a word, after so many writes or syncs: nothing may be as it was told afterwards.
pub(crate) fn choose_mischief(choice: &mut impl Chooser) -> PlannedMischief {
    let mischief = [Mischief::LostWrite, Mischief::StrayWrite, Mischief::LyingSyncs][choice.below(3) as usize];
    PlannedMischief { mischief, of_log: choice.below(3) == 0, after: choice.below(100) }
}

/// A file in which a bit may rot, of those that there are: not the log, where what was flushed last looks like a torn end
/// when it rots.
pub(crate) fn rotting_file(names: Vec<String>, choice: &mut impl Chooser) -> Option<PathBuf> {
    one_outside(&["wal/", "tmp/"], names, choice)
}

/// A file whose loss is found out: not that of an image, without which a relation begins empty, nor that of the log's end.
pub(crate) fn losable_file(names: Vec<String>, choice: &mut impl Chooser) -> Option<PathBuf> {
    one_outside(&["wal/", "tmp/", "images/"], names, choice)
}

fn one_outside(folders: &[&str], names: Vec<String>, choice: &mut impl Chooser) -> Option<PathBuf> {
    let stays = |name: &String| !folders.iter().any(|folder| name.starts_with(folder));
    let names: Vec<String> = names.into_iter().filter(|name| stays(name) && !name.ends_with(".pid")).collect();
    let most = names.len() as u64;
    (most > 0).then(|| PathBuf::from(&names[choice.below(most) as usize]))
}
