update other set n = n + 1;
