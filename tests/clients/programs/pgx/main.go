// pgx: what every program here does. See ../../connections.py for what it prints.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	connection, err := pgx.Connect(ctx, "") // All is in the environment.
	if err != nil {
		state := ""
		var told *pgconn.PgError
		if errors.As(err, &told) {
			state = told.Code
		}
		fmt.Println("refused", state, strings.ReplaceAll(err.Error(), "\n", " "))
		os.Exit(3)
	}
	defer connection.Close(ctx)
	if err := work(ctx, connection); err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
}

func work(ctx context.Context, connection *pgx.Conn) error {
	var user, text string
	var ssl bool
	row := connection.QueryRow(ctx, "select current_user, ssl from pg_stat_ssl where pid = pg_backend_pid()")
	if err := row.Scan(&user, &ssl); err != nil {
		return err
	}
	fmt.Println("session", user, ssl)
	if _, err := connection.Prepare(ctx, "named", "select $1::int + 1, $2::text || '!'"); err != nil {
		return err
	}
	var sum int
	for number := 0; number < 8; number++ {
		if err := connection.QueryRow(ctx, "named", number, "käse").Scan(&sum, &text); err != nil {
			return err
		}
	}
	fmt.Println("prepared", sum, text)
	if _, err := connection.Exec(ctx, "create temporary table t (a int primary key, b text)"); err != nil {
		return err
	}
	for number, word := range []string{"one", "two"} {
		transaction, err := connection.Begin(ctx)
		if err != nil {
			return err
		}
		if _, err := transaction.Exec(ctx, "insert into t values ($1, $2)", number+1, word); err != nil {
			return err
		}
		end := transaction.Commit
		if word == "two" {
			end = transaction.Rollback
		}
		if err := end(ctx); err != nil {
			return err
		}
	}
	var count int
	if err := connection.QueryRow(ctx, "select count(*), min(b) from t").Scan(&count, &text); err != nil {
		return err
	}
	fmt.Println("transaction", count, text)
	return nil
}
