//! What tests of pages share: the browser, how wide and in which colours a page is looked at, and what a look finds.
//!
//! Runs where there is a Chromium: `chromium` on the search path, or the program that KILNDB_CHROMIUM names. KILNDB_SCREENSHOTS names a
//! folder that pictures of all pages are written into, for whoever wants to look at them.
//!
//! Must not know: what is on a page.

use serde::Deserialize;
use std::path::{Path, PathBuf};

pub const DESK_PX: u32 = 1280;
pub const PHONE_PX: u32 = 390;

/// What looks at a page: functions of JavaScript, of which `look()` gives a [`Look`] and `colours(element)` a [`PageColours`].
pub const LOOK_SCRIPT: &str = include_str!("look.js");

/// What keeps Chromium from doing anything but showing a page.
pub const CHROMIUM_FLAGS: [&str; 9] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
];

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scheme {
    Light,
    Dark,
}

impl Scheme {
    /// As CSS names it.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Light => "light",
            Scheme::Dark => "dark",
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Look {
    inner_width: f64,
    scroll_width: f64,
    pub texts: usize,
    cut_off: Vec<String>,
    overlaps: Vec<String>,
    outside: Vec<String>,
    small: Vec<String>,
    shapes_under_labels: Vec<String>,
}

/// How bright the paper and the ink are, from 0 to 1.
#[derive(Deserialize)]
pub struct PageColours {
    paper: f64,
    ink: f64,
}

/// None: there is none, and nothing to be tested.
pub fn chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("KILNDB_CHROMIUM") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("chromium")).find(|program| program.is_file())
}

/// Where the picture of a page goes; None: nobody wants one.
pub fn picture_path(name: &str, width_px: u32, scheme: Scheme) -> Option<PathBuf> {
    let into = std::env::var_os("KILNDB_SCREENSHOTS")?;
    Some(Path::new(&into).join(format!("{name}-{width_px}-{}.png", scheme.name())))
}

impl Look {
    pub fn assert_readable(&self, width_px: u32, of: &str) {
        assert_eq!(self.inner_width, f64::from(width_px), "{of}");
        assert!(self.texts > 20, "{of}: {} texts", self.texts);
        assert!(self.scroll_width <= self.inner_width, "{of}: {} px wide", self.scroll_width);
        for (what, found) in [
            ("cut off", &self.cut_off),
            ("over each other", &self.overlaps),
            ("outside", &self.outside),
            ("too small", &self.small),
            ("over a drawing", &self.shapes_under_labels),
        ] {
            assert!(found.is_empty(), "{of}: {what}: {found:#?}");
        }
    }
}

impl PageColours {
    pub fn assert_contrast(&self, scheme: Scheme, of: &str) {
        assert_eq!(self.paper < 0.5, scheme == Scheme::Dark, "{of}: paper {}", self.paper);
        assert!((self.paper - self.ink).abs() > 0.7, "{of}: {} on {}", self.ink, self.paper);
    }
}
