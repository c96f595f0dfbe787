//! Whether a page read from the disk is the one that belongs there.
//!
//! A write that went astray, or never happened, leaves a page whose checksum is right in a place that is not its own. The
//! header names the place: block of a relation, or page of an undo chunk.
//!
//! Invariants
//! 1. Only a read from the disk is judged, never an access to a page in memory.
//! 2. A page without an owner is not judged: a reader may come for a page whose relation is just being dropped.
//!
//! Must not know: what is in the pages.

use crate::buffer::PageVerdict;
use crate::core::Core;
use crate::directory::{block_at, extent_pages};
use crate::page::{KIND_UNDO, PageBytes, at, get32};
use crate::undo::record::CHUNK_PAGES;
use std::fmt;
use std::sync::Arc;

/// The place that a page belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PageOwner {
    Block {
        rel: u32,
        block: u32,
    },
    /// A page of an undo chunk, of whose number the header has the low half.
    Undo {
        chunk: u32,
        page: u32,
    },
}
impl fmt::Display for PageOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PageOwner::Block { rel, block } => write!(f, "block {block} of storage relation {rel}"),
            PageOwner::Undo { chunk, page } => write!(f, "page {page} of undo chunk {chunk}"),
        }
    }
}

/// The place that the page's header names. None: the page was never written.
fn named(page: &PageBytes) -> Option<PageOwner> {
    let (owner, part) = (get32(page, at::REL), get32(page, at::BLOCK));
    match page[at::KIND] {
        0 => None,
        KIND_UNDO => Some(PageOwner::Undo { chunk: owner, page: part }),
        _ => Some(PageOwner::Block { rel: owner, block: part }),
    }
}

impl Core {
    /// Makes the pool check each page that it reads from now on.
    pub(crate) fn judge_pages(self: &Arc<Core>) {
        let core = Arc::downgrade(self);
        self.pool.judge_with(Box::new(move |pid, page| match core.upgrade() {
            Some(core) => core.judge_page(pid, page),
            None => PageVerdict::Right,
        }));
    }
    fn judge_page(&self, pid: u32, page: &PageBytes) -> PageVerdict {
        let named = named(page);
        if named.is_some_and(|place| self.page_at(place) == Some(pid)) {
            return PageVerdict::Right;
        }
        match self.owner_of(pid) {
            None => PageVerdict::Right,
            Some(PageOwner::Undo { .. }) => PageVerdict::Unreached,
            Some(expected) => PageVerdict::Wrong(match named {
                Some(place) => format!("{expected} is expected there, and {place} is found"),
                None => format!("{expected} is expected there, and nothing is found"),
            }),
        }
    }
    fn page_at(&self, place: PageOwner) -> Option<u32> {
        match place {
            PageOwner::Block { rel, block } => self.directory.get(rel)?.pid_raw(block),
            PageOwner::Undo { chunk, page } if page < CHUNK_PAGES => Some(self.undo.page_of_low(chunk)? + page),
            PageOwner::Undo { .. } => None,
        }
    }
    /// Looks at everything: only for a page that does not name its place.
    fn owner_of(&self, pid: u32) -> Option<PageOwner> {
        for r in self.directory.list() {
            for (index, first) in r.extent_list().into_iter().enumerate() {
                if (first..first + extent_pages(index)).contains(&pid) {
                    let block = block_at(index, pid - first);
                    // Pages beyond the last block are not written yet.
                    return (block < r.pages()).then_some(PageOwner::Block { rel: r.id, block });
                }
            }
        }
        let live = self.undo.live().into_iter();
        live.filter(|(_, first, _)| (*first..*first + CHUNK_PAGES).contains(&pid))
            .map(|(number, first, _)| PageOwner::Undo { chunk: number as u32, page: pid - first })
            .next()
    }
}
