import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;

/** pgjdbc: what every program here does. See ../connections.py for what it prints. */
public class Connect {
    public static void main(String[] args) throws Exception {
        var environment = System.getenv();
        var properties = new Properties();
        properties.setProperty("user", environment.get("PGUSER"));
        properties.setProperty("password", environment.get("PGPASSWORD"));
        properties.setProperty("sslmode", environment.get("PGSSLMODE"));
        properties.setProperty("sslrootcert", environment.get("PGSSLROOTCERT"));
        properties.setProperty("loginTimeout", "20");
        properties.setProperty("channelBinding", environment.getOrDefault("PGCHANNELBINDING", "prefer"));
        // Named statements from the first execution on.
        properties.setProperty("prepareThreshold", "1");
        var url = "jdbc:postgresql://" + environment.get("PGHOST") + ":" + environment.get("PGPORT") + "/" + environment.get("PGDATABASE");
        Connection connection;
        try {
            connection = DriverManager.getConnection(url, properties);
        } catch (SQLException e) {
            var text = new StringBuilder();
            for (Throwable cause = e; cause != null; cause = cause.getCause()) {
                text.append(cause.getMessage()).append(' ');
            }
            System.out.println("refused " + e.getSQLState() + " " + text.toString().replace('\n', ' '));
            System.exit(3);
            return;
        }
        try (connection; Statement statement = connection.createStatement()) {
            try (ResultSet row = statement.executeQuery("select current_user, ssl from pg_stat_ssl where pid = pg_backend_pid()")) {
                row.next();
                System.out.println("session " + row.getString(1) + " " + row.getBoolean(2));
            }
            try (PreparedStatement prepared = connection.prepareStatement("select ?::int + 1, ?::text || '!'")) {
                var last = "";
                for (int number = 0; number < 8; number++) {
                    prepared.setInt(1, number);
                    prepared.setString(2, "käse");
                    try (ResultSet row = prepared.executeQuery()) {
                        row.next();
                        last = row.getInt(1) + " " + row.getString(2);
                    }
                }
                System.out.println("prepared " + last);
            }
            statement.execute("create temporary table t (a int primary key, b text)");
            connection.setAutoCommit(false);
            statement.execute("insert into t values (1, 'one')");
            connection.commit();
            statement.execute("insert into t values (2, 'two')");
            connection.rollback();
            try (ResultSet row = statement.executeQuery("select count(*), min(b) from t")) {
                row.next();
                System.out.println("transaction " + row.getLong(1) + " " + row.getString(2));
            }
            connection.commit();
        }
    }
}
