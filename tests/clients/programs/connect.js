// node-postgres: what every program here does. See ../connections.py for what it prints. Its first argument is the folder of the package.
const { readFileSync } = require("fs");
const { createRequire } = require("module");
const { Client } = createRequire(process.argv[2] + "/")("pg");

async function main() {
  const env = process.env;
  // Without sslrootcert and sslmode in a connection string node-postgres wants TLS's options itself: these are verify-full's.
  const client = new Client({
    ssl: { ca: readFileSync(env.PGSSLROOTCERT, "utf8"), rejectUnauthorized: true },
    enableChannelBinding: env.PGCHANNELBINDING === "require",
    connectionTimeoutMillis: 20000,
  });
  try {
    await client.connect();
  } catch (e) {
    console.log("refused", /^[0-9A-Z]{5}$/.test(e.code) ? e.code : "", `${e.code} ${e.message}`.replaceAll("\n", " "));
    process.exit(3);
  }
  const one = async (query) => Object.values((await client.query(query)).rows[0]);
  console.log("session", ...(await one("select current_user, ssl from pg_stat_ssl where pid = pg_backend_pid()")));
  let row;
  for (let number = 0; number < 8; number++) {
    row = await one({ name: "named", text: "select $1::int + 1 as a, $2::text || '!' as b", values: [number, "käse"] });
  }
  console.log("prepared", ...row);
  await client.query("create temporary table t (a int primary key, b text)");
  for (const [number, word, end] of [[1, "one", "commit"], [2, "two", "rollback"]]) {
    await client.query("begin");
    await client.query("insert into t values ($1, $2)", [number, word]);
    await client.query(end);
  }
  console.log("transaction", ...(await one("select count(*), min(b) from t")));
  await client.end();
}

main().catch((e) => {
  console.log("failed", e.message);
  process.exit(1);
});
