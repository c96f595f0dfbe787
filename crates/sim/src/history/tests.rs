//! Histories by hand: what each level forbids is found, what it allows is accepted.

use super::notation::history;
use super::{AnomalyKind, check};

#[track_caller]
fn finds(kind: AnomalyKind, text: &str) {
    let found = check(&history(text));
    assert!(found.iter().any(|a| a.kind == kind), "no {kind:?} but {found:#?}");
}

#[track_caller]
fn accepts(text: &str) {
    let found = check(&history(text));
    assert!(found.is_empty(), "{}", found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
}

/// The text of a history with its transactions at this level.
fn at(level: &str, text: &str) -> String {
    text.replace('?', level)
}

const LEVELS: [&str; 3] = ["rc", "rr", "ser"];

#[test]
fn one_after_the_other_is_fine_at_all_levels() {
    for level in LEVELS {
        accepts(&at(
            level,
            "T1 ?
             T2 ?
             T3 ?
             T1 r x[] y[]
             T1 w x 1
             T1 w x[1] 2
             T1 r x[1 2]
             T1 commit
             T2 l x[1 2]
             T2 w x y 3
             T2 m y[3] 4
             T2 commit
             T3 r x[1 2 3] y[3 4]
             T3 commit
             last x[1 2 3] y[3 4]",
        ));
    }
}

#[test]
fn dirty_write_g0() {
    for level in LEVELS {
        finds(
            AnomalyKind::DirtyWrite,
            &at(
                level,
                "T1 ?
                 T2 ?
                 T1 w x 1
                 T2 w x 2
                 T2 w y 2
                 T1 w y 1
                 T1 commit
                 T2 commit
                 last x[1 2] y[2 1]",
            ),
        );
    }
    finds(AnomalyKind::DirtyWrite, "T1 rc\nT2 rc\nT1 w x 1\nT2 w x 2\nT1 w x 3\nT1 commit\nT2 commit\nlast x[1 2 3]");
}

#[test]
fn aborted_read_g1a() {
    for level in LEVELS {
        finds(AnomalyKind::AbortedRead, &at(level, "T1 ?\nT2 ?\nT1 w x 1\nT2 r x[1]\nT1 abort\nT2 commit\nlast x[]"));
        // A savepoint's part, seen by others and by the transaction itself.
        finds(
            AnomalyKind::AbortedRead,
            &at(
                level,
                "T1 ?\nT2 ?\nT1 w x 1\nT1 savepoint\nT1 w x 2\nT2 r x[1 2]\nT1 back\nT1 commit\nT2 commit\nlast x[1]",
            ),
        );
        finds(
            AnomalyKind::NotOwnWrites,
            &at(level, "T1 ?\nT1 w x 1\nT1 savepoint\nT1 w x 2\nT1 back\nT1 r x[1 2]\nT1 commit\nlast x[1]"),
        );
        accepts(&at(
            level,
            "T1 ?\nT1 w x 1\nT1 savepoint\nT1 w x 2\nT1 r x[1 2]\nT1 back\nT1 r x[1]\nT1 w x 3\nT1 commit\nlast x[1 3]",
        ));
        let nested = "T1 ?\nT1 savepoint\nT1 w x 1\nT1 savepoint\nT1 w x 2\nT1 release\nT1 r x[1 2]\nT1 back\nT1 r x[]\nT1 commit\n";
        accepts(&at(level, &format!("{nested}last x[]")));
        finds(AnomalyKind::AbortedRead, &at(level, &format!("{nested}last x[2]")));
        // What was rolled back stays.
        finds(AnomalyKind::AbortedRead, &at(level, "T1 ?\nT1 w x 1\nT1 abort\nlast x[1]"));
    }
}

#[test]
fn also_who_aborts_has_seen_only_what_was_committed() {
    finds(AnomalyKind::AbortedRead, "T1 rc\nT2 rc\nT1 w x 1\nT2 r x[1]\nT1 abort\nT2 abort\nlast x[]");
    finds(AnomalyKind::ReadSkew, "T1 rr\nT2 rr\nT1 r x[]\nT2 w x y 1\nT2 commit\nT1 r y[1]\nT1 abort\nlast x[1] y[1]");
    // A transaction that was rolled back needs no place in the serial order.
    accepts("T1 ser\nT2 ser\nT1 r x[] y[]\nT2 r x[] y[]\nT1 w x 1\nT2 w y 2\nT1 commit\nT2 abort\nlast x[1] y[]");
}

#[test]
fn intermediate_read_g1b() {
    for level in LEVELS {
        finds(
            AnomalyKind::IntermediateRead,
            &at(level, "T1 ?\nT2 ?\nT1 w x 1\nT2 r x[1]\nT1 w x 2\nT1 commit\nT2 commit\nlast x[1 2]"),
        );
    }
}

#[test]
fn circular_information_g1c() {
    for level in LEVELS {
        finds(
            AnomalyKind::CircularInformation,
            &at(level, "T1 ?\nT2 ?\nT1 w x 1\nT2 w y 2\nT1 r y[2]\nT2 r x[1]\nT1 commit\nT2 commit\nlast x[1] y[2]"),
        );
    }
}

const NON_REPEATABLE: &str = "T1 ?\nT2 ?\nT1 r x[]\nT2 w x 1\nT2 commit\nT1 r x[1]\nT1 commit\nlast x[1]";

#[test]
fn non_repeatable_read() {
    accepts(&at("rc", NON_REPEATABLE));
    finds(AnomalyKind::ReadSkew, &at("rr", NON_REPEATABLE));
    finds(AnomalyKind::ReadSkew, &at("ser", NON_REPEATABLE));
}

#[test]
fn a_statement_shows_one_moment() {
    for level in LEVELS {
        finds(
            AnomalyKind::ReadSkew,
            &at(
                level,
                "T1 ?\nT2 ?\nT2 w x y 1\nT2> w z 2\nT1 r x[1] y[]\nT2<\nT2 commit\nT1 commit\nlast x[1] y[1] z[2]",
            ),
        );
    }
    // Over two statements, or between rows that are locked or written, READ COMMITTED allows it.
    accepts("T1 rc\nT2 rc\nT1 r x[]\nT2 w x y 1\nT2 commit\nT1 r y[1]\nT1 commit\nlast x[1] y[1]");
    let waits = "T1 ?\nT2 ?\nT2 w x 2\nT1> l y[] x[2]\nT2 commit\nT1<\nT1 commit\nlast x[2] y[]";
    accepts(&at("rc", waits));
    accepts("T1 rc\nT2 rc\nT2 w y 2\nT2 w x 2\nT1> w x[2] y[2] 3\nT2 commit\nT1<\nT1 commit\nlast x[2 3] y[2 3]");
}

const LOST_UPDATE: &str = "T1 ?\nT2 ?\nT1 r x[]\nT2 r x[]\nT2 w x[] 2\nT2 commit\nT1 w x 1\nT1 commit\nlast x[2 1]";

#[test]
fn lost_update() {
    // An append loses nothing, so READ COMMITTED may do this.
    accepts(&at("rc", LOST_UPDATE));
    finds(AnomalyKind::LostUpdate, &at("rr", LOST_UPDATE));
    finds(AnomalyKind::LostUpdate, &at("ser", LOST_UPDATE));
    // The value itself is gone.
    for level in LEVELS {
        let gone = "T1 ?\nT2 ?\nT1 w x 1\nT1 commit\nT2 w x[] 2\nT2 commit\nlast x[2]";
        finds(AnomalyKind::LostCommit, &at(level, gone));
    }
}

#[test]
fn long_fork() {
    let fork = "T1 ?\nT2 ?\nT3 ?\nT4 ?\nT1> w x 1\nT2> w y 2\nT3> r x[1] y[]\nT4> r x[] y[2]\nT3<\nT4<\nT1<\nT2<\n\
                T1 commit\nT2 commit\nT3 commit\nT4 commit\nlast x[1] y[2]";
    for level in LEVELS {
        finds(AnomalyKind::LongFork, &at(level, fork));
    }
}

const WRITE_SKEW: &str =
    "T1 ?\nT2 ?\nT1 r x[] y[]\nT2 r x[] y[]\nT1 w x 1\nT2 w y 2\nT1 commit\nT2 commit\nlast x[1] y[2]";

#[test]
fn write_skew_g2() {
    accepts(&at("rc", WRITE_SKEW));
    accepts(&at("rr", WRITE_SKEW));
    finds(AnomalyKind::NotSerializable, &at("ser", WRITE_SKEW));
    // It takes two: nothing is promised to one alone.
    accepts(&WRITE_SKEW.replacen('?', "rr", 1).replace('?', "ser"));
}

#[test]
fn what_was_rolled_back_was_read() {
    let undone = "T1 ser\nT2 ser\nT1 w x[] 1\nT2 r x[] y[]\nT1 savepoint\nT1 w y[] 3\nT1 back\nT2 w y 2\nT1 commit\nT2 commit\nlast x[1] y[2]";
    finds(AnomalyKind::NotSerializable, undone);
    accepts(&undone.replace("w y[]", "u y[]"));
    accepts(&undone.replace("w y[] 3", "u y[] 3\nT1 l y[3]\nT1 m y[3] 4"));
    finds(AnomalyKind::NotSerializable, &undone.replace("w y[] 3", "w y[] 3\nT1 l y[3]\nT1 w y[3] 4"));
}

#[test]
fn a_reader_makes_an_order_impossible() {
    // Fekete, O'Neil and O'Neil's example: the reader sees T2 but not T1, which did not see T2.
    let reader = "T1 ?\nT2 ?\nT3 ?\nT1 r x[] y[]\nT2 w y 2\nT2 commit\nT3 r x[] y[2]\nT3 commit\nT1 w x 1\nT1 commit\nlast x[1] y[2]";
    accepts(&at("rr", reader));
    finds(AnomalyKind::NotSerializable, &at("ser", reader));
    // Without having seen it, it began after it.
    let blind = reader.replace("r x[] y[2]", "r x[]");
    accepts(&at("rr", &blind));
    finds(AnomalyKind::NotStrict, &at("ser", &blind));
}

#[test]
fn a_row_that_was_not_there_was_read_too() {
    let phantom = "T1 ?\nT2 ?\nT1 r x[]\nT2 r y[]\nT1 miss y 3\nT2 miss x 4\nT1 m y[] 1\nT2 m x[] 2\nT1 commit\nT2 commit\nlast x[2] y[1]";
    accepts(&at("rr", phantom));
    finds(AnomalyKind::NotSerializable, &at("ser", phantom));
}

#[test]
fn what_was_acknowledged_is_seen_by_who_comes_later() {
    for level in LEVELS {
        finds(AnomalyKind::Stale, &at(level, "T1 ?\nT2 ?\nT1 w x 1\nT1 commit\nT2 r x[]\nT2 commit\nlast x[1]"));
        // Also over others: what T2 saw, T3 must see.
        let others = "T1 ?\nT2 ?\nT3 ?\nT1 w x 1\nT2 r x[1]\nT2 commit\nT3 r x[]\nT3 commit\nT1 commit\nlast x[1]";
        finds(AnomalyKind::Stale, &at(level, others));
    }
    // A snapshot may be older than its transaction's later statements.
    accepts("T1 rr\nT2 rr\nT2 r y[]\nT1 w x 1\nT1 commit\nT2 r x[]\nT2 commit\nlast x[1] y[]");
    finds(AnomalyKind::Stale, "T1 rc\nT2 rc\nT2 r y[]\nT1 w x 1\nT1 commit\nT2 r x[]\nT2 commit\nlast x[1] y[]");
    // While the commit is under way, both are right.
    for seen in ["", "1"] {
        accepts(&format!("T1 rc\nT2 rc\nT1 w x 1\nT1> commit\nT2 r x[{seen}]\nT2 commit\nT1<\nlast x[1]"));
    }
}

#[test]
fn a_lock_is_kept() {
    finds(
        AnomalyKind::LockBroken,
        "T1 rc\nT2 rc\nT1 l x[]\nT2> w x 2\nT1 r x[2]\nT1 commit\nT2<\nT2 commit\nlast x[2]",
    );
    for level in LEVELS {
        finds(AnomalyKind::LockBroken, &at(level, "T1 ?\nT2 ?\nT1 l x[]\nT2 w x 2\nT2 commit\nT1 commit\nlast x[2]"));
        // Rolled back with its savepoint, it is nobody's.
        accepts(&at(level, "T1 ?\nT2 ?\nT1 savepoint\nT1 l x[]\nT1 back\nT2 w x 2\nT2 commit\nT1 commit\nlast x[2]"));
        accepts(&at(level, "T1 ?\nT2 ?\nT1 l x[]\nT2> w x 2\nT1 commit\nT2<\nT2 commit\nlast x[2]"));
    }
}

#[test]
fn a_crash_takes_nothing_that_was_acknowledged_or_seen() {
    for level in LEVELS {
        finds(AnomalyKind::LostCommit, &at(level, "T1 ?\nT1 w x 1\nT1 commit\nlast x[]"));
        // Whoever has no answer has committed, or has not, but not by half.
        accepts(&at(level, "T1 ?\nT1 w x y 1\nT1 lost\nlast x[] y[]"));
        accepts(&at(level, "T1 ?\nT1 w x y 1\nT1 lost\nlast x[1] y[1]"));
        finds(AnomalyKind::TornCommit, &at(level, "T1 ?\nT1 w x y 1\nT1 lost\nlast x[1] y[]"));
        finds(AnomalyKind::AbortedRead, &at(level, "T1 ?\nT2 ?\nT1 w x 1\nT1> lost\nT2 r x[1]\nT2 commit\nlast x[]"));
        finds(
            AnomalyKind::AbortedRead,
            &at(level, "T1 ?\nT2 ?\nT1 w x 1\nT1> lost\nT2 w x[1] 2\nT2 w y 2\nT2 lost\nlast x[] y[2]"),
        );
        for end in ["abort", "lost"] {
            finds(
                AnomalyKind::UnconfirmedRead,
                &at(level, &format!("T1 ?\nT2 ?\nT1 w x 1\nT1> lost\nT2 r x[1]\nT2 {end}\nlast x[]")),
            );
        }
        finds(AnomalyKind::Stale, &at(level, "T1 ?\nT2 ?\nT1 w x 1\nT1 lost\nT2 r x[]\nT2 commit\nlast x[1]"));
    }
}

#[test]
fn what_is_no_state_of_the_list() {
    for level in LEVELS {
        finds(AnomalyKind::Garbage, &at(level, "T1 ?\nT1 r x[7]\nT1 commit\nlast x[]"));
        finds(AnomalyKind::Garbage, &at(level, "T1 ?\nT1 w x 1\nT1 commit\nlast x[1 1]"));
        finds(
            AnomalyKind::Disorder,
            &at(
                level,
                "T1 ?\nT2 ?\nT1 w x 1\nT1 commit\nT2 w x 2\nT2 commit\nT3 ?\nT3 r x[2 1]\nT3 commit\nlast x[1 2]",
            ),
        );
        finds(AnomalyKind::NotOwnWrites, &at(level, "T1 ?\nT1 w x 1\nT1 r x[]\nT1 commit\nlast x[1]"));
        finds(AnomalyKind::NotOwnWrites, &at(level, "T1 ?\nT1 w x 1\nT1 miss x 2\nT1 commit\nlast x[1]"));
    }
}

#[test]
fn a_row_is_missed_only_while_it_is_moved() {
    finds(AnomalyKind::MissedRow, "T1 rc\nT2 rc\nT1 w x 1\nT1 commit\nT2 miss x 2\nT2 commit\nlast x[1]");
    accepts(
        "T1 rc\nT2 rc\nT3 rc\nT1 w x 1\nT1 commit\nT3 m x[1] 3\nT2> miss x 2\nT3 commit\nT2<\nT2 commit\nlast x[1 3]",
    );
    let lost =
        "T1 rc\nT2 rc\nT3 rc\nT1 w x 1\nT1 commit\nT3 m x[1] 3\nT2> miss x 2\nT3> lost\nT2<\nT2 commit\nT3<\nlast x[1]";
    finds(AnomalyKind::MissedRow, lost);
    finds(AnomalyKind::UnconfirmedRead, &lost.replace("T2 commit", "T2 abort"));
    finds(AnomalyKind::Stale, "T1 rr\nT2 rr\nT1 w x 1\nT1 commit\nT2 miss x 2\nT2 commit\nlast x[1]");
}

#[test]
fn a_message_has_the_circle_and_its_transactions() {
    let found = check(&history(&at("ser", WRITE_SKEW)));
    let [skew] = &found[..] else { panic!("{found:#?}") };
    let text = skew.to_string();
    assert!(text.contains("T0 -rw-> T1: in key 121, T0 did not see T1's 2"), "{text}");
    assert!(text.contains("T1 -rw-> T0: in key 120, T1 did not see T0's 1"), "{text}");
    assert!(text.contains("T1: session 2, serializable; select 120=[] 121=[] @"), "{text}");
}
