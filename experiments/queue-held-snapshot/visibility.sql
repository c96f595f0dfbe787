select send_message('{"kind": "job"}');
select coalesce((select message_id from read_messages(30, 1)), 0) as message_id \gset
select archive_message(:message_id);
