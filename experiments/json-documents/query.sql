-- name: jsonb, filter and aggregate over two fields of documents of 1 kB
-- must: 0.7
-- aim: 0.4
select doc ->> 'kind', count(*), sum((doc ->> 'amount')::numeric) from documents
where doc ->> 'kind' <> 'kind 3' and (doc ->> 'amount')::numeric > 100 group by 1 order by 1;
