//! The error that travels through every layer up to the client.

use std::fmt;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Five characters, as in PostgreSQL's appendix A.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState(pub [u8; 5]);

impl SqlState {
    pub const fn new(code: &str) -> SqlState {
        let b = code.as_bytes();
        assert!(b.len() == 5);
        SqlState([b[0], b[1], b[2], b[3], b[4]])
    }
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("XX000")
    }
}
impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The SQLSTATEs in use, by PostgreSQL's condition names. Add what is missing.
pub mod sqlstate {
    use super::SqlState;
    macro_rules! codes { ($($name:ident = $code:literal;)*) => { $(pub const $name: SqlState = SqlState::new($code);)* } }
    codes! {
        SUCCESSFUL_COMPLETION = "00000";
        WARNING = "01000";
        PRIVILEGE_NOT_REVOKED = "01006";
        PRIVILEGE_NOT_GRANTED = "01007";
        WARNING_DEPRECATED_FEATURE = "01P01";
        CONNECTION_FAILURE = "08006";
        PROTOCOL_VIOLATION = "08P01";
        FEATURE_NOT_SUPPORTED = "0A000";
        CARDINALITY_VIOLATION = "21000";
        INVALID_GRANTOR = "0L000";
        INVALID_GRANT_OPERATION = "0LP01";
        INVALID_ROLE_SPECIFICATION = "0P000";
        DATA_EXCEPTION = "22000";
        STRING_DATA_RIGHT_TRUNCATION = "22001";
        NULL_VALUE_NOT_ALLOWED = "22004";
        NUMERIC_VALUE_OUT_OF_RANGE = "22003";
        INVALID_DATETIME_FORMAT = "22007";
        DATETIME_FIELD_OVERFLOW = "22008";
        INVALID_TIME_ZONE_DISPLACEMENT_VALUE = "22009";
        SUBSTRING_ERROR = "22011";
        DIVISION_BY_ZERO = "22012";
        INVALID_ARGUMENT_FOR_LOG = "2201E";
        INVALID_ARGUMENT_FOR_POWER_FUNCTION = "2201F";
        INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION = "2201G";
        INVALID_REGULAR_EXPRESSION = "2201B";
        INVALID_ROW_COUNT_IN_LIMIT_CLAUSE = "2201W";
        INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE = "2201X";
        CHARACTER_NOT_IN_REPERTOIRE = "22021";
        INVALID_PARAMETER_VALUE = "22023";
        INVALID_ESCAPE_SEQUENCE = "22025";
        ZERO_LENGTH_CHARACTER_STRING = "2200F";
        ARRAY_SUBSCRIPT_ERROR = "2202E";
        INVALID_TEXT_REPRESENTATION = "22P02";
        INVALID_BINARY_REPRESENTATION = "22P03";
        BAD_COPY_FILE_FORMAT = "22P04";
        DUPLICATE_JSON_OBJECT_KEY_VALUE = "22030";
        INVALID_ARGUMENT_FOR_SQL_JSON_DATETIME_FUNCTION = "22031";
        INVALID_JSON_TEXT = "22032";
        INVALID_SQL_JSON_SUBSCRIPT = "22033";
        MORE_THAN_ONE_SQL_JSON_ITEM = "22034";
        NO_SQL_JSON_ITEM = "22035";
        NON_NUMERIC_SQL_JSON_ITEM = "22036";
        NON_UNIQUE_KEYS_IN_A_JSON_OBJECT = "22037";
        SINGLETON_SQL_JSON_ITEM_REQUIRED = "22038";
        SQL_JSON_ARRAY_NOT_FOUND = "22039";
        SQL_JSON_MEMBER_NOT_FOUND = "2203A";
        SQL_JSON_NUMBER_NOT_FOUND = "2203B";
        SQL_JSON_OBJECT_NOT_FOUND = "2203C";
        SQL_JSON_SCALAR_REQUIRED = "2203F";
        SQL_JSON_ITEM_CANNOT_BE_CAST_TO_TARGET_TYPE = "2203G";
        UNTRANSLATABLE_CHARACTER = "22P05";
        SEQUENCE_GENERATOR_LIMIT_EXCEEDED = "2200H";
        RESTRICT_VIOLATION = "23001";
        NOT_NULL_VIOLATION = "23502";
        FOREIGN_KEY_VIOLATION = "23503";
        UNIQUE_VIOLATION = "23505";
        CHECK_VIOLATION = "23514";
        INVALID_CURSOR_STATE = "24000";
        TRIGGERED_DATA_CHANGE_VIOLATION = "27000";
        INVALID_TRANSACTION_TERMINATION = "2D000";
        MODIFYING_SQL_DATA_NOT_PERMITTED = "2F002";
        PROHIBITED_SQL_STATEMENT_ATTEMPTED = "2F003";
        FUNCTION_EXECUTED_NO_RETURN_STATEMENT = "2F005";
        EXTERNAL_ROUTINE_INVOCATION_EXCEPTION = "39000";
        E_R_I_E_TRIGGER_PROTOCOL_VIOLATED = "39P01";
        NULL_VALUE_NOT_ALLOWED_EXTERNAL = "39004";
        SAVEPOINT_EXCEPTION = "3B000";
        INVALID_TRANSACTION_STATE = "25000";
        ACTIVE_SQL_TRANSACTION = "25001";
        READ_ONLY_SQL_TRANSACTION = "25006";
        NO_ACTIVE_SQL_TRANSACTION = "25P01";
        IN_FAILED_SQL_TRANSACTION = "25P02";
        IDLE_IN_TRANSACTION_SESSION_TIMEOUT = "25P03";
        TRANSACTION_TIMEOUT = "25P04";
        INVALID_SQL_STATEMENT_NAME = "26000";
        INVALID_AUTHORIZATION_SPECIFICATION = "28000";
        INVALID_PASSWORD = "28P01";
        DEPENDENT_OBJECTS_STILL_EXIST = "2BP01";
        INVALID_CURSOR_NAME = "34000";
        INVALID_CATALOG_NAME = "3D000";
        INVALID_SAVEPOINT_SPECIFICATION = "3B001";
        INVALID_SCHEMA_NAME = "3F000";
        SERIALIZATION_FAILURE = "40001";
        DEADLOCK_DETECTED = "40P01";
        SYNTAX_ERROR = "42601";
        INVALID_NAME = "42602";
        INVALID_COLUMN_DEFINITION = "42611";
        NAME_TOO_LONG = "42622";
        DUPLICATE_COLUMN = "42701";
        AMBIGUOUS_COLUMN = "42702";
        UNDEFINED_COLUMN = "42703";
        UNDEFINED_OBJECT = "42704";
        DUPLICATE_OBJECT = "42710";
        DUPLICATE_ALIAS = "42712";
        DUPLICATE_FUNCTION = "42723";
        AMBIGUOUS_FUNCTION = "42725";
        GROUPING_ERROR = "42803";
        DATATYPE_MISMATCH = "42804";
        WRONG_OBJECT_TYPE = "42809";
        INVALID_FOREIGN_KEY = "42830";
        CANNOT_COERCE = "42846";
        UNDEFINED_FUNCTION = "42883";
        RESERVED_NAME = "42939";
        UNDEFINED_TABLE = "42P01";
        UNDEFINED_PARAMETER = "42P02";
        DUPLICATE_CURSOR = "42P03";
        DUPLICATE_DATABASE = "42P04";
        DUPLICATE_PSTATEMENT = "42P05";
        DUPLICATE_SCHEMA = "42P06";
        DUPLICATE_TABLE = "42P07";
        AMBIGUOUS_PARAMETER = "42P08";
        AMBIGUOUS_ALIAS = "42P09";
        INVALID_COLUMN_REFERENCE = "42P10";
        INVALID_CURSOR_DEFINITION = "42P11";
        INVALID_DATABASE_DEFINITION = "42P12";
        INVALID_FUNCTION_DEFINITION = "42P13";
        INVALID_PSTATEMENT_DEFINITION = "42P14";
        INVALID_SCHEMA_DEFINITION = "42P15";
        INVALID_TABLE_DEFINITION = "42P16";
        INVALID_OBJECT_DEFINITION = "42P17";
        INDETERMINATE_DATATYPE = "42P18";
        INVALID_RECURSION = "42P19";
        WINDOWING_ERROR = "42P20";
        COLLATION_MISMATCH = "42P21";
        INDETERMINATE_COLLATION = "42P22";
        GENERATED_ALWAYS = "428C9";
        INSUFFICIENT_PRIVILEGE = "42501";
        WITH_CHECK_OPTION_VIOLATION = "44000";
        INSUFFICIENT_RESOURCES = "53000";
        DISK_FULL = "53100";
        OUT_OF_MEMORY = "53200";
        TOO_MANY_CONNECTIONS = "53300";
        PROGRAM_LIMIT_EXCEEDED = "54000";
        STATEMENT_TOO_COMPLEX = "54001";
        TOO_MANY_COLUMNS = "54011";
        TOO_MANY_ARGUMENTS = "54023";
        OBJECT_NOT_IN_PREREQUISITE_STATE = "55000";
        OBJECT_IN_USE = "55006";
        CANT_CHANGE_RUNTIME_PARAM = "55P02";
        LOCK_NOT_AVAILABLE = "55P03";
        QUERY_CANCELED = "57014";
        ADMIN_SHUTDOWN = "57P01";
        CRASH_SHUTDOWN = "57P02";
        CANNOT_CONNECT_NOW = "57P03";
        IDLE_SESSION_TIMEOUT = "57P05";
        IO_ERROR = "58030";
        UNDEFINED_FILE = "58P01";
        DUPLICATE_FILE = "58P02";
        CONFIG_FILE_ERROR = "F0000";
        INTERNAL_ERROR = "XX000";
        DATA_CORRUPTED = "XX001";
        INDEX_CORRUPTED = "XX002";
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Severity {
    Debug,
    Log,
    Info,
    Notice,
    Warning,
    Error,
    Fatal,
    Panic,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Debug => "DEBUG",
            Severity::Log => "LOG",
            Severity::Info => "INFO",
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
            Severity::Panic => "PANIC",
        }
    }
}

/// What PostgreSQL's ErrorResponse and NoticeResponse carry.
#[derive(Clone, PartialEq, Eq)]
pub struct ErrorFields {
    pub severity: Severity,
    pub sqlstate: SqlState,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// 1-based, in characters of the statement's text.
    pub position: Option<u32>,
    /// 1-based, in characters of `internal_query`: a statement that a routine has run.
    pub internal_position: Option<u32>,
    pub internal_query: Option<String>,
    pub context: Option<String>,
    pub schema: Option<String>,
    pub table: Option<String>,
    pub column: Option<String>,
    pub data_type: Option<String>,
    pub constraint: Option<String>,
}

/// An error or a notice. One word wide, so that `Result<T>` stays small.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(pub Box<ErrorFields>);

impl Error {
    #[cold]
    pub fn new(sqlstate: SqlState, message: impl Into<String>) -> Error {
        Error(Box::new(ErrorFields {
            severity: Severity::Error,
            sqlstate,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            internal_position: None,
            internal_query: None,
            context: None,
            schema: None,
            table: None,
            column: None,
            data_type: None,
            constraint: None,
        }))
    }
    /// 0A000.
    #[cold]
    pub fn unsupported(message: impl Into<String>) -> Error {
        Error::new(sqlstate::FEATURE_NOT_SUPPORTED, message)
    }
    /// XX000: a broken invariant of ours.
    #[cold]
    pub fn internal(message: impl Into<String>) -> Error {
        Error::new(sqlstate::INTERNAL_ERROR, message)
    }
    /// XX001: what the disk returned is not what was written.
    #[cold]
    pub fn corrupted(message: impl Into<String>) -> Error {
        Error::new(sqlstate::DATA_CORRUPTED, message)
    }
    pub fn notice(sqlstate: SqlState, severity: Severity, message: impl Into<String>) -> Error {
        Error::new(sqlstate, message).with_severity(severity)
    }
    pub fn with_severity(mut self, severity: Severity) -> Error {
        self.0.severity = severity;
        self
    }
    pub fn with_detail(mut self, detail: impl Into<String>) -> Error {
        self.0.detail = Some(detail.into());
        self
    }
    pub fn with_hint(mut self, hint: impl Into<String>) -> Error {
        self.0.hint = Some(hint.into());
        self
    }
    pub fn with_context(mut self, context: impl Into<String>) -> Error {
        self.0.context = Some(context.into());
        self
    }
    /// A further line of context, of what was running outside of the lines that are there.
    pub fn add_context(&mut self, line: &str) {
        match &mut self.0.context {
            Some(context) => {
                context.push('\n');
                context.push_str(line);
            }
            none => *none = Some(line.to_string()),
        }
    }
    /// The error is in a text that a routine has run: so is its position.
    pub fn in_internal_query(mut self, query: &str) -> Error {
        if let Some(position) = self.0.position.take() {
            self.0.internal_position = Some(position);
            self.0.internal_query = Some(query.to_string());
        }
        self
    }
    /// `position`: 1-based, in characters.
    pub fn with_position(mut self, position: u32) -> Error {
        self.0.position = Some(position);
        self
    }
    /// Sets the position unless one is set already.
    pub fn or_position(mut self, position: Option<u32>) -> Error {
        if self.0.position.is_none() {
            self.0.position = position;
        }
        self
    }
    pub fn with_table(mut self, schema: impl Into<String>, table: impl Into<String>) -> Error {
        self.0.schema = Some(schema.into());
        self.0.table = Some(table.into());
        self
    }
    pub fn with_column(mut self, column: impl Into<String>) -> Error {
        self.0.column = Some(column.into());
        self
    }
    pub fn with_constraint(mut self, constraint: impl Into<String>) -> Error {
        self.0.constraint = Some(constraint.into());
        self
    }
    /// Somebody or something has ended the statement, whatever it was doing: no fault of the part that met it. Who tries
    /// one way first and then another hands such an error on. A cancel request is told once.
    pub fn is_interruption(&self) -> bool {
        use sqlstate::{ADMIN_SHUTDOWN, OUT_OF_MEMORY, QUERY_CANCELED};
        self.0.severity >= Severity::Fatal || [QUERY_CANCELED, OUT_OF_MEMORY, ADMIN_SHUTDOWN].contains(&self.sqlstate())
    }
    /// A value that cannot be computed with (class 22).
    pub fn is_data_exception(&self) -> bool {
        self.0.sqlstate.0.starts_with(b"22")
    }
    pub fn sqlstate(&self) -> SqlState {
        self.0.sqlstate
    }
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({:?})", self.0.severity.as_str(), self.0.message, self.0.sqlstate)?;
        if let Some(detail) = &self.0.detail {
            write!(f, " DETAIL: {detail}")?;
        }
        Ok(())
    }
}
impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Error {
        let state = match e.raw_os_error() {
            // No space, a quota, a limit of the file's size: another try may succeed once there is room.
            Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => sqlstate::DISK_FULL,
            _ => sqlstate::IO_ERROR,
        };
        Error::new(state, e.to_string())
    }
}
