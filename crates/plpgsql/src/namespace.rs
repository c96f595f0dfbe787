//! Which names mean which slots at which place of a routine.
//!
//! Invariants
//! 1. Items are only added; a [`NamespacePosition`] keeps meaning what it meant when the parser was there.
//! 2. Each level begins with its label, named or not.

use crate::tree::Slot;

/// The innermost item at a place of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespacePosition(usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelKind {
    Block,
    Loop,
    /// A cursor's arguments.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceItemKind {
    Label(LabelKind),
    Scalar(Slot),
    Record(Slot),
}

#[derive(Clone, Debug)]
struct NamespaceItem {
    kind: NamespaceItemKind,
    name: Option<String>,
    /// The item before it on the way outward.
    outer: Option<usize>,
}

#[derive(Clone, Debug, Default)]
pub struct Namespace {
    items: Vec<NamespaceItem>,
    top: Option<usize>,
}

impl Namespace {
    fn add(&mut self, kind: NamespaceItemKind, name: Option<&str>) {
        self.items.push(NamespaceItem { kind, name: name.map(str::to_string), outer: self.top });
        self.top = Some(self.items.len() - 1);
    }
    pub fn push(&mut self, label: Option<&str>, kind: LabelKind) {
        self.add(NamespaceItemKind::Label(kind), label);
    }
    /// Leaves the innermost level.
    pub fn pop(&mut self) {
        while let Some(item) = self.top.and_then(|i| self.items.get(i)) {
            let is_label = matches!(item.kind, NamespaceItemKind::Label(_));
            self.top = item.outer;
            if is_label {
                return;
            }
        }
    }
    pub fn add_scalar(&mut self, slot: Slot, name: &str) {
        self.add(NamespaceItemKind::Scalar(slot), Some(name));
    }
    pub fn add_record(&mut self, slot: Slot, name: &str) {
        self.add(NamespaceItemKind::Record(slot), Some(name));
    }
    pub fn place(&self) -> NamespacePosition {
        NamespacePosition(self.top.unwrap_or(0))
    }

    fn chain(&self, from: Option<usize>) -> impl Iterator<Item = &NamespaceItem> {
        let mut at = from;
        std::iter::from_fn(move || {
            let item = self.items.get(at?)?;
            at = item.outer;
            Some(item)
        })
    }

    /// What `names` (one to three) mean at `place`, and how many of them that took.
    pub fn find_at(&self, place: NamespacePosition, names: &[&str]) -> Option<(NamespaceItemKind, usize)> {
        self.find_from(Some(place.0), names, false)
    }
    pub fn find(&self, names: &[&str]) -> Option<(NamespaceItemKind, usize)> {
        self.find_from(self.top, names, false)
    }
    /// On the innermost level only.
    pub fn find_local(&self, name: &str) -> Option<NamespaceItemKind> {
        self.find_from(self.top, &[name], true).map(|(kind, _)| kind)
    }

    fn find_from(&self, from: Option<usize>, names: &[&str], local: bool) -> Option<(NamespaceItemKind, usize)> {
        let first = *names.first()?;
        let mut level: Vec<&NamespaceItem> = Vec::new();
        for item in self.chain(from) {
            if !matches!(item.kind, NamespaceItemKind::Label(_)) {
                // A scalar variable has nothing inside it.
                let fits = names.len() == 1 || !matches!(item.kind, NamespaceItemKind::Scalar(_));
                if fits && item.name.as_deref() == Some(first) {
                    return Some((item.kind, 1));
                }
                level.push(item);
                continue;
            }
            if item.name.as_deref() == Some(first)
                && let Some(second) = names.get(1)
            {
                let fits = |i: &&&NamespaceItem| {
                    i.name.as_deref() == Some(*second)
                        && (names.len() == 2 || !matches!(i.kind, NamespaceItemKind::Scalar(_)))
                };
                if let Some(found) = level.iter().find(fits) {
                    return Some((found.kind, 2));
                }
            }
            if local {
                return None;
            }
            level.clear();
        }
        None
    }

    /// The label of that name around this place.
    pub fn find_label(&self, name: &str) -> Option<LabelKind> {
        self.chain(self.top).find_map(|item| match item.kind {
            NamespaceItemKind::Label(kind) if item.name.as_deref() == Some(name) => Some(kind),
            _ => None,
        })
    }
    pub fn is_in_loop(&self) -> bool {
        self.chain(self.top).any(|item| item.kind == NamespaceItemKind::Label(LabelKind::Loop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_names_hide_outer_ones_and_labels_reach_them() {
        let mut ns = Namespace::default();
        ns.push(Some("f"), LabelKind::Block);
        ns.add_scalar(0, "a");
        ns.add_record(1, "r");
        ns.push(None, LabelKind::Block);
        ns.add_scalar(2, "a");
        assert_eq!(ns.find(&["a"]), Some((NamespaceItemKind::Scalar(2), 1)));
        assert_eq!(ns.find(&["f", "a"]), Some((NamespaceItemKind::Scalar(0), 2)));
        assert_eq!(ns.find(&["r", "x"]), Some((NamespaceItemKind::Record(1), 1)));
        assert_eq!(ns.find(&["f", "r", "x"]), Some((NamespaceItemKind::Record(1), 2)));
        assert_eq!(ns.find(&["a", "x"]), None);
        assert_eq!(ns.find_local("r"), None);
        let inside = ns.place();
        ns.pop();
        assert_eq!(ns.find(&["a"]), Some((NamespaceItemKind::Scalar(0), 1)));
        assert_eq!(ns.find_at(inside, &["a"]), Some((NamespaceItemKind::Scalar(2), 1)));
        assert!(!ns.is_in_loop());
        assert_eq!(ns.find_label("f"), Some(LabelKind::Block));
    }
}
