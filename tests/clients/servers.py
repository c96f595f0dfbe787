"""Servers to try clients on: KilnDB and PostgreSQL 18, each with a cluster of its own in a temporary folder.

Invariants:
1. A server listens on 127.0.0.1 alone, on a port that was free, and is stopped and its folder removed by `stop`.
2. With `tls=True` its certificate is for the name "localhost" alone, and only TLS with SCRAM-SHA-256 is let in."""
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PASSWORD = "Käse & \"Brot\" 1"


def command(*words, **options):
    """Runs a command and returns what it prints; what it complains about ends this program."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stdout[-2000:]}")
    return done.stdout


class Certificates:
    """An authority with a certificate for localhost, and another authority that has signed nothing."""

    def __init__(self, folder):
        self.ca, self.other_ca = os.path.join(folder, "ca.crt"), os.path.join(folder, "other-ca.crt")
        self.certificate, self.key = os.path.join(folder, "server.crt"), os.path.join(folder, "server.key")
        ca_key = os.path.join(folder, "ca.key")
        for certificate, key in [(self.ca, ca_key), (self.other_ca, os.path.join(folder, "other-ca.key"))]:
            command("openssl", "req", "-new", "-x509", "-days", "2", "-nodes", "-newkey", "rsa:2048", "-subj", "/CN=test authority",
                    "-addext", "basicConstraints=critical,CA:TRUE", "-out", certificate, "-keyout", key)
        request, extensions = os.path.join(folder, "server.csr"), os.path.join(folder, "server.ext")
        command("openssl", "req", "-new", "-nodes", "-newkey", "rsa:2048", "-subj", "/CN=localhost", "-out", request, "-keyout", self.key)
        with open(extensions, "w") as f:
            f.write("subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n")
        command("openssl", "x509", "-req", "-days", "2", "-in", request, "-CA", self.ca, "-CAkey", ca_key, "-CAcreateserial",
                "-extfile", extensions, "-out", self.certificate)


class Server:
    """What both servers share. A subclass names its programs and how a cluster is made."""

    name = ""
    configuration = "postgresql.conf"

    def __init__(self, tls=None, settings=()):
        self.folder = tempfile.mkdtemp(prefix=f"kilndb-clients-{self.name.lower()}-")
        os.chmod(self.folder, 0o755)
        self.data = os.path.join(self.folder, "data")
        self.child, self.log = None, os.path.join(self.folder, "server.log")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.user = self.unprivileged()
        if self.user:
            os.chown(self.folder, self.user["user"], self.user["group"])
        self.tls = tls
        try:
            self.make(tls, settings)
        except BaseException:
            self.stop()
            raise

    def unprivileged(self):
        """Whom the server runs as, if not as the user of this program."""

    def make(self, tls, settings):
        words = list(settings)
        if tls:
            password_file = os.path.join(self.folder, "password")
            with open(password_file, "w") as f:
                f.write(PASSWORD + "\n")
            os.chmod(password_file, 0o644)
            self.initialize("scram-sha-256", password_file)
            for source, name in [(tls.certificate, "server.crt"), (tls.key, "server.key")]:
                self.write(name, open(source).read())
            self.write("pg_hba.conf", "hostssl all all 127.0.0.1/32 scram-sha-256\n")
            words += ["ssl = on"]
        else:
            self.initialize("trust", None)
        with open(os.path.join(self.data, self.configuration), "a") as f:
            f.write("\n" + "\n".join(words) + "\n")

    def write(self, name, text):
        """A file of the data folder that its owner alone may read."""
        path = os.path.join(self.data, name)
        with open(path, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(text)
        if self.user:
            os.chown(path, self.user["user"], self.user["group"])

    def start(self):
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(self.serve(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                                          start_new_session=True, **(self.user or {}))
        end = time.time() + 60
        while time.time() < end and self.child.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                time.sleep(0.1)
        text = open(self.log, errors="replace").read()[-2000:]
        self.stop()
        raise SystemExit(f"{self.name} does not start:\n{text}")

    def alive(self):
        return self.child is not None and self.child.poll() is None

    def stop(self):
        if self.alive():
            self.child.send_signal(signal.SIGINT)
            try:
                self.child.wait(30)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


class Kilndb(Server):
    name = "KilnDB"
    configuration = "kilndb.conf"
    program = None

    def initialize(self, auth, password_file):
        words = [self.program, "init", "-D", self.data, "--username", "postgres", "--auth", auth]
        command(*words, *(["--pwfile", password_file] if password_file else []))

    def serve(self):
        return [self.program, "serve", "-D", self.data, "-h", "127.0.0.1", "-p", str(self.port), "-k", ""]


class Postgres(Server):
    name = "PostgreSQL"
    programs = None

    def unprivileged(self):
        """PostgreSQL refuses to run as root."""
        if os.geteuid():
            return None
        for name in ("postgres", "nobody"):
            try:
                entry = pwd.getpwnam(name)
                return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
            except KeyError:
                continue
        raise SystemExit("there is no user to run PostgreSQL as")

    def initialize(self, auth, password_file):
        words = [os.path.join(self.programs, "initdb"), "-U", "postgres", "-A", auth, "-E", "UTF8", "--locale=C.UTF-8", "-D", self.data]
        command(*words, *(["--pwfile", password_file] if password_file else []), cwd=self.folder, **(self.user or {}))

    def serve(self):
        return [os.path.join(self.programs, "postgres"), "-D", self.data, "-h", "127.0.0.1", "-p", str(self.port), "-k", ""]
