#!/usr/bin/env bash
# Says how to get a client where there is none. A server needs none, so this never fails.
command -v psql >/dev/null 2>&1 && exit 0
fetched=$("$(dirname "$0")/tools-folder.sh")/postgres-18/bin/psql
if [ -x "$fetched" ]; then
    echo "psql is not on the search path; there is one at $fetched"
else
    echo "There is no psql here: \`apt-get install postgresql-client\` installs one, \`scripts/setup.sh test\` fetches $fetched"
fi
exit 0
