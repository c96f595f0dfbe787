//! tokio-postgres: what every program here does. See ../../../connections.py for what it prints.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::config::{ChannelBinding, SslMode};
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(connect())
}

async fn connect() -> Result<(), Failure> {
    let of = |name: &str| std::env::var(name).map_err(|e| format!("{name}: {e}"));
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(of("PGSSLROOTCERT")?)? {
        roots.add(certificate?)?;
    }
    // rustls always checks the chain and the name: that is verify-full.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut config = Config::new();
    config
        .host(of("PGHOST")?)
        .port(of("PGPORT")?.parse()?)
        .user(of("PGUSER")?)
        .password(of("PGPASSWORD")?)
        .dbname(of("PGDATABASE")?)
        .ssl_mode(SslMode::Require)
        .connect_timeout(Duration::from_secs(20));
    if of("PGCHANNELBINDING").is_ok_and(|v| v == "require") {
        config.channel_binding(ChannelBinding::Require);
    }
    let (mut client, connection) = match config.connect(MakeRustlsConnect::new(tls)).await {
        Ok(connected) => connected,
        Err(e) => {
            let cause = e.source().map(ToString::to_string).unwrap_or_default();
            println!("refused {} {e} {cause}", e.code().map_or("", |state| state.code()));
            std::process::exit(3);
        }
    };
    let runner = tokio::task::spawn(connection);
    work(&mut client).await?;
    drop(client);
    runner.await??;
    Ok(())
}

async fn work(client: &mut Client) -> Result<(), Failure> {
    let session = "select current_user::text, ssl from pg_stat_ssl where pid = pg_backend_pid()";
    let row = client.query_one(session, &[]).await?;
    println!("session {} {}", row.get::<_, &str>(0), row.get::<_, bool>(1));
    let statement = client.prepare("select $1::int + 1, $2::text || '!'").await?;
    for number in 0..8_i32 {
        let row = client.query_one(&statement, &[&number, &"käse"]).await?;
        if number == 7 {
            println!("prepared {} {}", row.get::<_, i32>(0), row.get::<_, &str>(1));
        }
    }
    client.batch_execute("create temporary table t (a int primary key, b text)").await?;
    for (number, word) in [(1, "one"), (2, "two")] {
        let transaction = client.transaction().await?;
        transaction.execute("insert into t values ($1, $2)", &[&number, &word]).await?;
        if word == "one" { transaction.commit().await? } else { transaction.rollback().await? }
    }
    let row = client.query_one("select count(*), min(b) from t", &[]).await?;
    println!("transaction {} {}", row.get::<_, i64>(0), row.get::<_, &str>(1));
    Ok(())
}
