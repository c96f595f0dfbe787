-- Statistics as of now, and the map of visible pages, as they would be soon anyway.
vacuum analyze regions, customers, categories, departments, products, orders, order_lines, tags, product_tags, days, stores,
  promotions, sales, events, kinds, nodes, bookings, bands, documents, readings, sensors;
checkpoint;
