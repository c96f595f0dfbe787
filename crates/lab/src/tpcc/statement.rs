//! The statements of the five transactions (clauses 2.4 to 2.8).

pub(super) struct PreparedStatement {
    pub name: &'static str,
    pub sql: &'static str,
}

macro_rules! statements {
    ($($constant:ident: $name:literal, $sql:expr;)*) => {
        $(pub(super) const $constant: PreparedStatement = PreparedStatement { name: $name, sql: $sql };)*
        pub(super) const ALL: &[PreparedStatement] = &[$($constant),*];
    };
}

statements! {
    BEGIN: "b", "begin";
    COMMIT: "c", "commit";
    ROLLBACK: "r", "rollback";

    // New-Order.
    CUSTOMER_AND_TAX: "n1",
        "select c_discount, c_last, c_credit, w_tax from customer, warehouse
         where w_id = $1 and c_w_id = w_id and c_d_id = $2 and c_id = $3";
    LOCK_DISTRICT: "n2", "select d_next_o_id, d_tax from district where d_w_id = $1 and d_id = $2 for update";
    COUNT_ORDER: "n3", "update district set d_next_o_id = d_next_o_id + 1 where d_w_id = $1 and d_id = $2";
    INSERT_ORDER: "n4",
        "insert into orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)
         values ($1, $2, $3, $4, now(), null, $5, $6)";
    INSERT_NEW_ORDER: "n5", "insert into new_order (no_w_id, no_d_id, no_o_id) values ($1, $2, $3)";
    ITEM: "n6", "select i_price, i_name, i_data from item where i_id = $1";
    LOCK_STOCK: "n7",
        "select s_quantity, s_data, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07,
             s_dist_08, s_dist_09, s_dist_10
         from stock where s_w_id = $1 and s_i_id = $2 for update";
    UPDATE_STOCK: "n8",
        "update stock set s_quantity = $3, s_ytd = s_ytd + $4, s_order_cnt = s_order_cnt + 1,
             s_remote_cnt = s_remote_cnt + $5
         where s_w_id = $1 and s_i_id = $2";
    INSERT_ORDER_LINE: "n9",
        "insert into order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d,
             ol_quantity, ol_amount, ol_dist_info)
         values ($1, $2, $3, $4, $5, $6, null, $7, $8, $9)";

    // Payment.
    PAY_WAREHOUSE: "p1", "update warehouse set w_ytd = w_ytd + $2 where w_id = $1";
    WAREHOUSE: "p2",
        "select w_name, w_street_1, w_street_2, w_city, w_state, w_zip from warehouse where w_id = $1";
    PAY_DISTRICT: "p3", "update district set d_ytd = d_ytd + $3 where d_w_id = $1 and d_id = $2";
    DISTRICT: "p4",
        "select d_name, d_street_1, d_street_2, d_city, d_state, d_zip from district where d_w_id = $1 and d_id = $2";
    LOCK_CUSTOMER: "p5",
        "select c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_credit,
             c_credit_lim, c_discount, c_balance, c_since
         from customer where c_w_id = $1 and c_d_id = $2 and c_id = $3 for update";
    CUSTOMER_DATA: "p6", "select c_data from customer where c_w_id = $1 and c_d_id = $2 and c_id = $3";
    PAY: "p7",
        "update customer set c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4,
             c_payment_cnt = c_payment_cnt + 1
         where c_w_id = $1 and c_d_id = $2 and c_id = $3";
    PAY_WITH_DATA: "p8",
        "update customer set c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4,
             c_payment_cnt = c_payment_cnt + 1, c_data = $5
         where c_w_id = $1 and c_d_id = $2 and c_id = $3";
    INSERT_HISTORY: "p9",
        "insert into history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
         values ($1, $2, $3, $4, $5, now(), $6, $7)";

    // Payment and Order-Status: customers by their last names.
    CUSTOMERS_BY_NAME: "s1",
        "select c_id from customer where c_w_id = $1 and c_d_id = $2 and c_last = $3 order by c_first";

    // Order-Status.
    CUSTOMER: "s2",
        "select c_balance, c_first, c_middle, c_last from customer where c_w_id = $1 and c_d_id = $2 and c_id = $3";
    LAST_ORDER: "s3",
        "select o_id, o_carrier_id, o_entry_d from orders where o_w_id = $1 and o_d_id = $2 and o_c_id = $3
         order by o_id desc limit 1";
    ORDER_LINES: "s4",
        "select ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d from order_line
         where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3";

    // Delivery.
    OLDEST_NEW_ORDER: "d1",
        "select no_o_id from new_order where no_w_id = $1 and no_d_id = $2 order by no_o_id limit 1 for update";
    DELETE_NEW_ORDER: "d2", "delete from new_order where no_w_id = $1 and no_d_id = $2 and no_o_id = $3";
    CUSTOMER_OF_ORDER: "d3", "select o_c_id from orders where o_w_id = $1 and o_d_id = $2 and o_id = $3";
    GIVE_TO_CARRIER: "d4", "update orders set o_carrier_id = $4 where o_w_id = $1 and o_d_id = $2 and o_id = $3";
    DELIVER_LINES: "d5",
        "update order_line set ol_delivery_d = now() where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3";
    AMOUNT_OF_ORDER: "d6",
        "select sum(ol_amount) from order_line where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3";
    CHARGE: "d7",
        "update customer set c_balance = c_balance + $4, c_delivery_cnt = c_delivery_cnt + 1
         where c_w_id = $1 and c_d_id = $2 and c_id = $3";

    // Stock-Level.
    NEXT_ORDER: "l1", "select d_next_o_id from district where d_w_id = $1 and d_id = $2";
    LOW_STOCK: "l2",
        "select count(distinct s_i_id) from order_line, stock
         where ol_w_id = $1 and ol_d_id = $2 and ol_o_id < $3 and ol_o_id >= $3 - 20
             and s_w_id = ol_w_id and s_i_id = ol_i_id and s_quantity < $4";
}
