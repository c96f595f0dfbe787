//! The registry of index methods. A method is a folder with an implementation of [`super::IndexMethod`], and a row here.
//!
//! Must not know: what the methods do. It is text that others make tables of.

/// Rows: the relation kind and its number in the directory and in the log; the kind of its pages; whether a background
/// thread works on its indexes; the implementation.
macro_rules! index_methods {
    ($make:ident) => {
        $make! {
            /// Keys in the order of their bytes, a row for each entry.
            BTree = 2, pages: KIND_TREE, has_background_work: false, btree::method::TreeMethod;
            /// Hash codes of keys, a row for each entry.
            Hash = 5, pages: KIND_TREE, has_background_work: false, hash::method::Hash;
            /// Many terms for a row, many rows for a term.
            Inverted = 4, pages: KIND_TREE, has_background_work: true, inverted::method::Inverted;
        }
    };
}
