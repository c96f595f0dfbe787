select nextval('numbers');
