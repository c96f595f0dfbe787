//! to_char, to_date, to_timestamp, to_number. Not built yet.
