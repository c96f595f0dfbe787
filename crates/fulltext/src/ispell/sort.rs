//! Bentley and McIlroy's quicksort. Which of several equal affixes comes first decides the order of a word's lexemes,
//! and PostgreSQL leaves that to this way of sorting, which is not stable.

use std::cmp::Ordering;

pub(super) fn sort<T>(list: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) {
    let mut rest = list;
    loop {
        if rest.is_sorted_by(|a, b| compare(a, b).is_le()) {
            return;
        }
        if rest.len() < 7 {
            return insert(rest, compare);
        }
        let (less, greater) = partition(rest, compare);
        let (len, done) = (rest.len(), std::mem::take(&mut rest));
        let (left, right) = done.split_at_mut(len - greater);
        let Some(left) = left.get_mut(..less) else { return };
        // The smaller part by recursion.
        let (small, large) = if less <= greater { (left, right) } else { (right, left) };
        if small.len() > 1 {
            sort(small, compare);
        }
        if large.len() <= 1 {
            return;
        }
        rest = large;
    }
}

fn insert<T>(list: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) {
    for end in 1..list.len() {
        let mut at = end;
        while at > 0 && compare(&list[at - 1], &list[at]).is_gt() {
            list.swap(at - 1, at);
            at -= 1;
        }
    }
}

/// The place of the middle one of three.
fn median<T>(list: &[T], [a, b, c]: [usize; 3], compare: &impl Fn(&T, &T) -> Ordering) -> usize {
    let order = |x: usize, y: usize| compare(&list[x], &list[y]);
    if order(a, b).is_lt() {
        match () {
            () if order(b, c).is_lt() => b,
            () if order(a, c).is_lt() => c,
            () => a,
        }
    } else {
        match () {
            () if order(b, c).is_gt() => b,
            () if order(a, c).is_lt() => a,
            () => c,
        }
    }
}

fn pivot<T>(list: &[T], compare: &impl Fn(&T, &T) -> Ordering) -> usize {
    let (mut low, mut middle, mut high) = (0, list.len() / 2, list.len() - 1);
    if list.len() == 7 {
        return middle;
    }
    if list.len() > 40 {
        let d = list.len() / 8;
        low = median(list, [low, low + d, low + 2 * d], compare);
        middle = median(list, [middle - d, middle, middle + d], compare);
        high = median(list, [high - 2 * d, high - d, high], compare);
    }
    median(list, [low, middle, high], compare)
}

/// Three parts: what is less than one of them, its equals, what is greater; the lengths of the first and the last.
fn partition<T>(list: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) -> (usize, usize) {
    let len = list.len();
    list.swap(0, pivot(list, compare));
    // Equals gather at both ends; `right` and `equal_right` are one behind.
    let (mut equal_left, mut left, mut right, mut equal_right) = (1, 1, len, len);
    loop {
        while left < right && compare(&list[left], &list[0]).is_le() {
            if compare(&list[left], &list[0]).is_eq() {
                list.swap(equal_left, left);
                equal_left += 1;
            }
            left += 1;
        }
        while left < right && compare(&list[right - 1], &list[0]).is_ge() {
            if compare(&list[right - 1], &list[0]).is_eq() {
                list.swap(right - 1, equal_right - 1);
                equal_right -= 1;
            }
            right -= 1;
        }
        if left >= right {
            break;
        }
        list.swap(left, right - 1);
        left += 1;
        right -= 1;
    }
    let (less, greater) = (left - equal_left, equal_right - right);
    let moved = equal_left.min(less);
    (0..moved).for_each(|i| list.swap(i, left - moved + i));
    let moved = greater.min(len - equal_right);
    (0..moved).for_each(|i| list.swap(left + i, len - moved + i));
    (less, greater)
}

#[cfg(test)]
mod tests {
    use super::sort;

    #[test]
    fn everything_is_sorted() {
        let mut state = 1u64;
        for len in (0..200).chain([1000, 5000]) {
            let mut next = || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 33) % (len as u64 / 3 + 1)
            };
            let mut list: Vec<u64> = (0..len).map(|_| next()).collect();
            let mut expected = list.clone();
            expected.sort_unstable();
            sort(&mut list, &|a, b| a.cmp(b));
            assert_eq!(list, expected);
        }
    }
}
