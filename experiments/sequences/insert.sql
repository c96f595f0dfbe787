insert into entry (client) values (:client_id) returning id;
