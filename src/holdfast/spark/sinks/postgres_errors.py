"""What PostgreSQL says, as an error that says what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from holdfast.errors import SinkError, SinkRefused, SinkUnavailable

if TYPE_CHECKING:
    from psycopg import Error

# By the class of the SQLSTATE, its first two characters, or by all five.
_LATER: Final = {
    "": "Check that the server runs and that the sink's url is right.",
    "08": "Check that the server runs and that the sink's url is right.",
    "25": "The server takes no writes: it may be a standby. Point the sink's url at the primary.",
    "28": "The server refused the login: check the user and the password in the sink's url.",
    "3D000": "Create the database, or correct its name in the sink's url.",
    "40": "Another transaction was in the way; trying again usually helps.",
    "42501": "Grant the user of the sink's url what is missing.",
    "53": "The server is short of something: disk, memory or connections.",
    "53100": "The server's disk is full: free some space there.",
    "53300": "Raise max_connections, or let fewer clients connect at a time.",
    "55": "Somebody holds a lock on the table, or the server is busy with it: see pg_locks.",
    "57": "The server is starting, stopping, or was told to cancel.",
    "58": "The server has trouble with its own files or system: see its log.",
    "XX": "The server met an error of its own: see its log.",
}
_CHARACTER: Final = (
    "Remove the character before the sink; a NUL, for example, with replace(column, char(0), '')."
)
_NEVER: Final = {
    "22": "PostgreSQL can never take this value: correct it, or leave the row out, before the "
    "sink, or change the type of the column.",
    "23": "The rows break a rule of the table: correct them before the sink, or change the rule.",
    "22021": _CHARACTER,
    "22P05": _CHARACTER,
}
_LOGIN_WORDS: Final = (
    # A refused connection comes without a SQLSTATE; only its words tell what to do. The first
    # that fit count: several of these messages speak of a database or a role.
    ("password authentication failed", _LATER["28"]),
    ("no pg_hba.conf entry", "Let this user connect from here: pg_hba.conf on the server."),
    ("too many c", _LATER["53300"]),
    ("remaining connection slots", _LATER["53300"]),
    ("database system", _LATER["57"]),
    ("permission denied", _LATER["42501"]),
    ("not permitted to log in", "Let the user of the sink's url log in: ALTER ROLE ... LOGIN"),
    ("role ", "Create the user, or correct it in the sink's url."),
    ("database ", _LATER["3D000"]),
)
_BY_CLIENT: Final = "client"
_COLUMN: Final = re.compile(r"COPY [^\n]*?, line \d+, column (.+?)(?:: |$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Failure:
    """One error of PostgreSQL, small enough to travel from an executor to the driver."""

    sqlstate: str
    """Empty if the server gave none: it could not be reached, or did not let us in."""
    message: str
    column: str = ""

    @classmethod
    def of(cls, error: Error) -> Failure:
        """Take what matters from an error of psycopg."""
        from psycopg import InterfaceError, OperationalError

        diagnosis = error.diag
        column = diagnosis.column_name or ""
        if not column and (match := _COLUMN.search(diagnosis.context or "")):
            column = match[1]
        message = diagnosis.message_primary or str(error).strip() or type(error).__name__
        if diagnosis.message_detail:
            message = f"{message}. {diagnosis.message_detail}"
        no_answer = isinstance(error, OperationalError | InterfaceError)
        state = error.sqlstate or ("" if no_answer else _BY_CLIENT)
        return cls(state, " ".join(message.split()), column)

    def to_json(self) -> str:
        """Write it down for `from_json`."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Failure:
        """Read what `to_json` wrote."""
        return cls(**json.loads(text))

    def explain(self, what: str) -> SinkError:
        """Name it: something to wait for, or something that stays refused."""
        said = self.message.rstrip(".")
        where = f" (column {self.column})" if self.column else ""
        message = f"{what}: PostgreSQL says: {said}{where}."
        if not self.sqlstate:
            return SinkUnavailable(message, hint=self._hint_without_state())
        for code in (self.sqlstate, self.sqlstate[:2]):
            if code in _LATER:
                return SinkUnavailable(message, hint=_LATER[code])
            if code in _NEVER:
                return SinkRefused(message, hint=_NEVER[code])
        return SinkRefused(message, hint="Change the table, or the sink's settings, to fit.")

    def _hint_without_state(self) -> str:
        fatal = self.message.rpartition("FATAL:")[2] if "FATAL:" in self.message else ""
        for words, hint in _LOGIN_WORDS:
            if words in fatal:
                return hint
        return _LATER[""]


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn what psycopg raises inside into a `SinkUnavailable` or a `SinkRefused`."""
    from psycopg import Error

    try:
        yield
    except Error as error:
        # Without the cause: its text, or that of a connection in it, is not ours to show.
        raise Failure.of(error).explain(what) from None
