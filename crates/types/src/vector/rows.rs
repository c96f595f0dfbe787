//! Which positions of vectors are computed.

/// The positions of one step, in ascending order.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a> {
    /// All below this number.
    All(usize),
    /// The listed ones, all of which are below the number behind the list.
    Listed(&'a [u32], usize),
}

impl<'a> Rows<'a> {
    /// The positions of a list, of so many.
    pub fn of(list: &'a [u32], positions: usize) -> Rows<'a> {
        if list.len() == positions { Rows::All(positions) } else { Rows::Listed(list, positions) }
    }
    /// How many positions a vector has that holds these.
    pub fn positions(self) -> usize {
        match self {
            Rows::All(positions) | Rows::Listed(_, positions) => positions,
        }
    }
    pub fn len(self) -> usize {
        match self {
            Rows::All(positions) => positions,
            Rows::Listed(list, _) => list.len(),
        }
    }
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
    #[inline]
    pub fn each(self, mut f: impl FnMut(usize)) {
        match self {
            Rows::All(positions) => (0..positions).for_each(f),
            Rows::Listed(list, _) => list.iter().for_each(|row| f(*row as usize)),
        }
    }
    /// Calls `f` until it fails, whose failure is returned.
    #[inline]
    pub fn try_each<E>(self, mut f: impl FnMut(usize) -> Result<(), E>) -> Result<(), E> {
        match self {
            Rows::All(positions) => (0..positions).try_for_each(f),
            Rows::Listed(list, _) => list.iter().try_for_each(|row| f(*row as usize)),
        }
    }
    /// Is `f` true for all? It is not asked about those after the first for which it is not.
    #[inline]
    pub fn all(self, mut f: impl FnMut(usize) -> bool) -> bool {
        match self {
            Rows::All(positions) => (0..positions).all(f),
            Rows::Listed(list, _) => list.iter().all(|row| f(*row as usize)),
        }
    }
    /// Lists those for which `f` is true.
    #[inline]
    pub fn list_where(self, list: &mut Vec<u32>, mut f: impl FnMut(usize) -> bool) {
        list.clear();
        list.resize(self.len(), 0);
        let mut found = 0;
        // Each position is written, and counted only if it is wanted: there is no branch to be guessed wrong.
        self.each(|row| {
            list[found] = row as u32;
            found += usize::from(f(row));
        });
        list.truncate(found);
    }
}

#[cfg(test)]
mod tests {
    use super::Rows;

    #[test]
    fn listed_rows_stay_in_order() {
        let mut list = Vec::new();
        Rows::All(10).list_where(&mut list, |row| row % 3 == 0);
        assert_eq!(list, [0, 3, 6, 9]);
        let mut fewer = Vec::new();
        Rows::Listed(&list, 10).list_where(&mut fewer, |row| row > 3);
        assert_eq!(fewer, [6, 9]);
        assert_eq!(Rows::Listed(&fewer, 10).positions(), 10);
        assert!(Rows::Listed(&fewer, 10).all(|row| row > 3) && !Rows::All(2).all(|row| row > 0));
        assert_eq!(Rows::All(5).try_each(|row| if row == 3 { Err(row) } else { Ok(()) }), Err(3));
    }
}
