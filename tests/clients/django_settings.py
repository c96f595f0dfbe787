"""Settings for Django's own test suite: the server of KILNDB_PORT, and a runner that appends each test's outcome to the file that
KILNDB_OUTCOMES names, as outcomes.py does for pytest."""
import os
import unittest

from django.test.runner import DiscoverRunner


class Result(unittest.TextTestResult):
    """A test with parts that fail is said to fail once for each; whoever reads the lines takes the worst."""

    def tell(self, outcome, test, reason=""):
        with open(os.environ["KILNDB_OUTCOMES"], "a") as f:
            f.write(f"{outcome}\t{test.id()}\t{' '.join(reason.split())[-300:]}\n")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.tell("passed", test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.tell("failed", test, self._exc_info_to_string(err, test))

    def addError(self, test, err):
        super().addError(test, err)
        self.tell("failed", test, self._exc_info_to_string(err, test))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.tell("failed", test, self._exc_info_to_string(err, test))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.tell("skipped", test, reason)

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.tell("skipped", test, "is expected to fail")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.tell("failed", test, "is expected to fail, but does not")


class Runner(DiscoverRunner):
    def get_resultclass(self):
        return Result


def database(name):
    return {"ENGINE": "django.db.backends.postgresql", "HOST": "127.0.0.1", "PORT": os.environ["KILNDB_PORT"], "USER": "postgres",
            "NAME": name}


DATABASES = {"default": database("django"), "other": database("django_other")}
TEST_RUNNER = "django_settings.Runner"
SECRET_KEY = "django_tests_secret_key"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
