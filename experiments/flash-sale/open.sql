-- The sale begins anew: the stock lies in one row, or in :parts of them.
truncate purchase;
update item set stock = :stock / :parts, sold = 0;
vacuum analyze item;
