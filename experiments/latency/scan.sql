select sum(balance), count(distinct filler) from account;
