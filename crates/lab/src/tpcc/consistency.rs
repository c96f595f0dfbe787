//! The conditions that hold between TPC-C's tables (clause 3.3.2), each as a query that counts what breaks it.

use super::TpccSize;
use crate::client::Client;

/// By their numbers in the specification. The eleventh holds at the beginning only.
const CONDITIONS: [(u32, &str); 11] = [
    (1, "select count(*) from warehouse where w_ytd <> (select sum(d_ytd) from district where d_w_id = w_id)"),
    (
        2,
        "select count(*) from district
         left join (select o_w_id, o_d_id, max(o_id) as o_last from orders group by o_w_id, o_d_id) o
             on o_w_id = d_w_id and o_d_id = d_id
         left join (select no_w_id, no_d_id, max(no_o_id) as no_last from new_order group by no_w_id, no_d_id) n
             on no_w_id = d_w_id and no_d_id = d_id
         where d_next_o_id - 1 is distinct from o_last or d_next_o_id - 1 <> no_last",
    ),
    (
        3,
        "select count(*) from (select from new_order group by no_w_id, no_d_id
                               having max(no_o_id) - min(no_o_id) + 1 <> count(*)) g",
    ),
    (
        4,
        "select count(*) from (select o_w_id, o_d_id, sum(o_ol_cnt) as expected from orders group by o_w_id, o_d_id) o
         full join (select ol_w_id, ol_d_id, count(*) as found from order_line group by ol_w_id, ol_d_id) l
             on ol_w_id = o_w_id and ol_d_id = o_d_id
         where expected is distinct from found",
    ),
    (
        5,
        "select count(*) from orders full join new_order on no_w_id = o_w_id and no_d_id = o_d_id and no_o_id = o_id
         where o_id is null or (o_carrier_id is null) <> (no_o_id is not null)",
    ),
    (
        6,
        "select count(*) from orders
         full join (select ol_w_id, ol_d_id, ol_o_id, count(*) as found from order_line
                    group by ol_w_id, ol_d_id, ol_o_id) l
             on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
         where o_ol_cnt is distinct from found",
    ),
    (
        7,
        "select count(*) from order_line join orders on o_w_id = ol_w_id and o_d_id = ol_d_id and o_id = ol_o_id
         where (ol_delivery_d is null) <> (o_carrier_id is null)",
    ),
    (8, "select count(*) from warehouse where w_ytd <> (select sum(h_amount) from history where h_w_id = w_id)"),
    (
        9,
        "select count(*) from district
         left join (select h_w_id, h_d_id, sum(h_amount) as paid from history group by h_w_id, h_d_id) h
             on h_w_id = d_w_id and h_d_id = d_id
         where d_ytd is distinct from paid",
    ),
    (
        10,
        "select count(*) from customer
         left join (select o_w_id, o_d_id, o_c_id, sum(ol_amount) as delivered from orders
                    join order_line on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
                    where ol_delivery_d is not null group by o_w_id, o_d_id, o_c_id) o
             on o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id
         left join (select h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) as paid from history
                    group by h_c_w_id, h_c_d_id, h_c_id) h
             on h_c_w_id = c_w_id and h_c_d_id = c_d_id and h_c_id = c_id
         where c_balance <> coalesce(delivered, 0) - coalesce(paid, 0)",
    ),
    (
        12,
        "select count(*) from customer
         left join (select o_w_id, o_d_id, o_c_id, sum(ol_amount) as delivered from orders
                    join order_line on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
                    where ol_delivery_d is not null group by o_w_id, o_d_id, o_c_id) o
             on o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id
         where c_balance + c_ytd_payment <> coalesce(delivered, 0)",
    ),
];

/// How many breaches of each condition there are, for those that are broken at all: number and count. Nobody must change
/// anything meanwhile.
pub fn breaches(client: &mut Client) -> Result<Vec<(u32, i64)>, String> {
    let mut found = Vec::new();
    for (number, sql) in CONDITIONS {
        match client.integer(sql).map_err(|e| format!("condition {number}: {e}"))? {
            0 => {}
            count => found.push((number, count)),
        }
    }
    Ok(found)
}

/// How the rows differ in number from those that are loaded (clause 4.3.3.1), the eleventh condition among them: the
/// districts that have not their orders, and those that have not their undelivered ones. None: they do not.
pub fn misloaded(client: &mut Client, size: &TpccSize) -> Result<Option<String>, String> {
    let (customers, undelivered) = (size.customers, size.undelivered());
    let districts = size.warehouses * super::DISTRICTS;
    for (sql, expected) in [
        ("select count(*) from item".to_string(), size.items),
        ("select count(*) from stock".to_string(), size.items * size.warehouses),
        ("select count(*) from customer".to_string(), districts * customers),
        ("select count(*) from history".to_string(), districts * customers),
        (
            format!(
                "select count(*) from (select from orders group by o_w_id, o_d_id having count(*) = {customers}) g"
            ),
            districts,
        ),
        (
            format!(
                "select count(*) from (select from new_order group by no_w_id, no_d_id
                                       having count(*) = {undelivered}) g"
            ),
            districts,
        ),
    ] {
        let found = client.integer(&sql).map_err(|e| format!("{sql}: {e}"))?;
        if found != i64::from(expected) {
            return Ok(Some(format!("{sql}: {found} and not {expected}")));
        }
    }
    Ok(None)
}
