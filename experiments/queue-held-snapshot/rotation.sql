-- One client is the consumer, which ticks and rotates too; all others put events.
\if :client_id = 0
select make_tick();
select number, payload from next_batch();
select finish_batch();
\set count :count + 1
\if :count % 10 = 0
select rotate();
\endif
\sleep 10 ms
\else
select put_event('job');
\endif
