update tbl set cnt=cnt-1, ts=now() where id=1;
