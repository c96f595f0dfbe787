-- The pieces that earlier runs have retired come back.
select fill_pieces();
vacuum analyze metric;
