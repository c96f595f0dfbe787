with tmp as ( select id from tbl where id=1 for update skip locked ) update tbl set cnt=cnt-1, ts=now() from tmp where tbl.id=tmp.id returning tbl.id;
