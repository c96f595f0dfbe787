//! The states of the default parser, and what each does with the next character.

use super::token::*;

/// What is asked of the next character (or of what follows it).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CharacterTest {
    Any,
    End,
    Is(u8),
    AsciiLetter,
    Letter,
    Digit,
    LetterOrDigit,
    NeitherLetterNorDigit,
    HexDigit,
    Space,
    Mark,
    UrlCharacter,
    Ignored,
    HostWanted,
    HostAhead,
    UrlPathAhead,
}

#[derive(Clone, Copy)]
pub(super) enum ParserAction {
    /// The character belongs to the token; the next state.
    Go(ParserState),
    Stay,
    /// A try: if it fails, the alternatives that follow are next.
    Try(ParserState),
    /// The try has succeeded; there is no way back to its beginning.
    Commit(ParserState),
    /// The present try has failed.
    Back,
    /// Back to the state of the try's beginning, with what has been read.
    Merge,
    /// Another state looks at the same character.
    Again(ParserState),
    /// A token ends before this character.
    Token(u8, ParserState),
}

#[derive(Clone, Copy)]
pub(super) enum ParserEffect {
    None,
    NoteTag,
    TakeAhead,
    /// The whole token is given now, its parts afterwards.
    TakeAheadAndReread,
    Reread,
    Restart,
}

#[derive(Clone, Copy)]
pub(super) struct ParserRule {
    pub test: CharacterTest,
    pub action: ParserAction,
    pub effect: ParserEffect,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ParserState {
    Base,
    NumWord,
    AsciiWord,
    Word,
    Unsigned,
    SignedFirst,
    Signed,
    Blank,
    UnsignedDecimalFirst,
    UnsignedDecimal,
    DecimalFirst,
    Decimal,
    SignedVersion,
    SignedVersionSign,
    VersionFirst,
    Version,
    ExponentFirst,
    ExponentSign,
    Exponent,
    EntityFirst,
    Entity,
    EntityNumberFirst,
    EntityNumber,
    EntityHexFirst,
    EntityHex,
    EntityEnd,
    TagFirst,
    XmlFirst,
    TagCloseFirst,
    TagName,
    TagEmptyEnd,
    Tag,
    TagQuote,
    TagDoubleQuote,
    TagBackslash,
    TagEnd,
    CommentFirst,
    CommentLast,
    Comment,
    CloseCommentFirst,
    CloseCommentLast,
    CommentEnd,
    DomainFirst,
    DomainSecond,
    Domain,
    PortFirst,
    Port,
    HostFirst,
    Host,
    Email,
    FileFirst,
    FileTilde,
    PathFirst,
    PathFirstDot,
    PathSecond,
    File,
    FileNext,
    UrlPathFirst,
    UrlPathStart,
    UrlPath,
    Url,
    ProtocolFirst,
    ProtocolSecond,
    ProtocolEnd,
    HyphenAsciiFirst,
    HyphenAscii,
    HyphenWordFirst,
    HyphenWord,
    HyphenNumFirst,
    HyphenNum,
    HyphenDigits,
    Parts,
    PartsHyphen,
    WordPart,
    AsciiPart,
    NumPart,
    PartDigits,
}

const fn go(test: CharacterTest, next: ParserState) -> ParserRule {
    ParserRule { test, action: ParserAction::Go(next), effect: ParserEffect::None }
}
const fn stay(test: CharacterTest) -> ParserRule {
    ParserRule { test, action: ParserAction::Stay, effect: ParserEffect::None }
}
const fn attempt(test: CharacterTest, next: ParserState) -> ParserRule {
    ParserRule { test, action: ParserAction::Try(next), effect: ParserEffect::None }
}
const fn commit(test: CharacterTest, next: ParserState) -> ParserRule {
    ParserRule { test, action: ParserAction::Commit(next), effect: ParserEffect::None }
}
const fn back(test: CharacterTest) -> ParserRule {
    ParserRule { test, action: ParserAction::Back, effect: ParserEffect::None }
}
const fn found(test: CharacterTest, kind: u8, next: ParserState) -> ParserRule {
    ParserRule { test, action: ParserAction::Token(kind, next), effect: ParserEffect::None }
}
const fn with(rule: ParserRule, effect: ParserEffect) -> ParserRule {
    ParserRule { effect, ..rule }
}
const fn is(c: char) -> CharacterTest {
    CharacterTest::Is(c as u8)
}

/// A hyphenated word is given whole; then its parts are read.
const fn whole(kind: u8) -> ParserRule {
    ParserRule {
        test: CharacterTest::End,
        action: ParserAction::Token(kind, ParserState::Parts),
        effect: ParserEffect::Reread,
    }
}
/// Gives a hyphenated word as [`whole`] does, before a character that no other rule is for.
const fn whole_before_other(kind: u8) -> ParserRule {
    ParserRule {
        test: CharacterTest::Any,
        action: ParserAction::Token(kind, ParserState::Parts),
        effect: ParserEffect::Reread,
    }
}

/// The alternatives in their order, and what happens where none fits.
pub(super) fn alternatives(state: ParserState) -> (&'static [ParserRule], ParserAction) {
    if let Some(found) = words(state) {
        return found;
    }
    if let Some(found) = numbers(state) {
        return found;
    }
    if let Some(found) = markup(state) {
        return found;
    }
    names(state)
}

fn words(state: ParserState) -> Option<(&'static [ParserRule], ParserAction)> {
    use CharacterTest::*;
    use ParserAction::{Again, Back, Token};
    use ParserState::*;
    Some(match state {
        Base => (
            const {
                &[
                    stay(End),
                    attempt(is('<'), TagFirst),
                    go(Ignored, Blank),
                    go(AsciiLetter, AsciiWord),
                    go(Letter, ParserState::Word),
                    go(Digit, Unsigned),
                    attempt(is('-'), SignedFirst),
                    attempt(is('+'), SignedFirst),
                    attempt(is('&'), EntityFirst),
                    attempt(is('~'), FileTilde),
                    attempt(is('/'), FileFirst),
                    attempt(is('.'), PathFirstDot),
                ]
            },
            ParserAction::Go(Blank),
        ),
        NumWord => (
            const {
                &[
                    stay(LetterOrDigit),
                    stay(Mark),
                    attempt(is('@'), Email),
                    attempt(is('/'), FileFirst),
                    attempt(is('.'), FileNext),
                    attempt(is('-'), HyphenNumFirst),
                ]
            },
            Token(NUM_WORD, Base),
        ),
        AsciiWord => (
            const {
                &[
                    stay(AsciiLetter),
                    attempt(is('.'), DomainFirst),
                    attempt(is('.'), FileNext),
                    attempt(is('-'), HostFirst),
                    attempt(is('-'), HyphenAsciiFirst),
                    attempt(is('_'), HostFirst),
                    attempt(is('@'), Email),
                    attempt(is(':'), ProtocolFirst),
                    attempt(is('/'), FileFirst),
                    attempt(Digit, Host),
                    go(Digit, NumWord),
                    go(Letter, ParserState::Word),
                    go(Mark, ParserState::Word),
                ]
            },
            Token(ASCII_WORD, Base),
        ),
        ParserState::Word => (
            const { &[stay(Letter), stay(Mark), go(Digit, NumWord), attempt(is('-'), HyphenWordFirst)] },
            Token(WORD, Base),
        ),
        Blank => (
            const {
                &[
                    found(End, BLANK, Base),
                    found(is('<'), BLANK, Base),
                    stay(Ignored),
                    found(is('-'), BLANK, Base),
                    found(is('+'), BLANK, Base),
                    found(is('&'), BLANK, Base),
                    found(is('/'), BLANK, Base),
                    stay(NeitherLetterNorDigit),
                ]
            },
            Token(BLANK, Base),
        ),
        HyphenAsciiFirst => {
            (const { &[go(AsciiLetter, HyphenAscii), go(Letter, HyphenWord), go(Digit, HyphenDigits)] }, Back)
        }
        HyphenAscii => (
            const {
                &[
                    whole(ASCII_COMPOUND),
                    stay(AsciiLetter),
                    go(Letter, HyphenWord),
                    go(Mark, HyphenWord),
                    go(Digit, HyphenNum),
                    attempt(is('-'), HyphenAsciiFirst),
                    whole_before_other(ASCII_COMPOUND),
                ]
            },
            Token(ASCII_COMPOUND, Parts),
        ),
        HyphenWordFirst => (const { &[go(Letter, HyphenWord), go(Digit, HyphenDigits)] }, Back),
        HyphenWord => (
            const {
                &[
                    whole(COMPOUND),
                    stay(Letter),
                    stay(Mark),
                    go(Digit, HyphenNum),
                    attempt(is('-'), HyphenWordFirst),
                    whole_before_other(COMPOUND),
                ]
            },
            Token(COMPOUND, Parts),
        ),
        HyphenNumFirst => (const { &[go(Letter, HyphenNum), go(Digit, HyphenDigits)] }, Back),
        HyphenNum => (
            const {
                &[
                    whole(NUM_COMPOUND),
                    stay(LetterOrDigit),
                    stay(Mark),
                    attempt(is('-'), HyphenNumFirst),
                    whole_before_other(NUM_COMPOUND),
                ]
            },
            Token(NUM_COMPOUND, Parts),
        ),
        HyphenDigits => (const { &[stay(Digit), go(Letter, HyphenNum), go(Mark, HyphenNum)] }, Back),
        Parts => (
            const {
                &[
                    go(AsciiLetter, AsciiPart),
                    go(Letter, WordPart),
                    attempt(Digit, PartDigits),
                    attempt(is('-'), PartsHyphen),
                ]
            },
            Again(Base),
        ),
        PartsHyphen => (const { &[found(LetterOrDigit, BLANK, Parts), found(Mark, BLANK, Parts)] }, Back),
        WordPart => {
            (const { &[found(End, PART, Base), stay(Letter), stay(Mark), go(Digit, NumPart)] }, Token(PART, Parts))
        }
        AsciiPart => (
            const {
                &[
                    found(End, ASCII_PART, Base),
                    stay(AsciiLetter),
                    go(Letter, WordPart),
                    go(Mark, WordPart),
                    go(Digit, NumPart),
                ]
            },
            Token(ASCII_PART, Parts),
        ),
        NumPart => (const { &[found(End, NUM_PART, Base), stay(LetterOrDigit), stay(Mark)] }, Token(NUM_PART, Parts)),
        PartDigits => (const { &[stay(Digit), commit(Letter, NumPart), commit(Mark, NumPart)] }, Back),
        _ => return None,
    })
}

fn numbers(state: ParserState) -> Option<(&'static [ParserRule], ParserAction)> {
    use CharacterTest::*;
    use ParserAction::{Back, Stay, Token};
    use ParserState::*;
    Some(match state {
        Unsigned => (
            const {
                &[
                    stay(Digit),
                    attempt(is('.'), DomainFirst),
                    attempt(is('.'), UnsignedDecimalFirst),
                    attempt(is('e'), ExponentFirst),
                    attempt(is('E'), ExponentFirst),
                    attempt(is('-'), HostFirst),
                    attempt(is('_'), HostFirst),
                    attempt(is('@'), Email),
                    attempt(AsciiLetter, Host),
                    go(Letter, NumWord),
                    go(Mark, NumWord),
                    attempt(is('/'), FileFirst),
                ]
            },
            Token(UNSIGNED, Base),
        ),
        SignedFirst => (const { &[commit(Digit, Signed)] }, Back),
        Signed => (
            const {
                &[
                    stay(Digit),
                    attempt(is('.'), DecimalFirst),
                    attempt(is('e'), ExponentFirst),
                    attempt(is('E'), ExponentFirst),
                ]
            },
            Token(SIGNED, Base),
        ),
        UnsignedDecimalFirst => (const { &[commit(Digit, UnsignedDecimal)] }, Back),
        UnsignedDecimal => (
            const {
                &[
                    stay(Digit),
                    attempt(is('.'), VersionFirst),
                    attempt(is('e'), ExponentFirst),
                    attempt(is('E'), ExponentFirst),
                ]
            },
            Token(DECIMAL, Base),
        ),
        DecimalFirst => (const { &[commit(Digit, Decimal)] }, Back),
        Decimal => (
            const {
                &[
                    stay(Digit),
                    attempt(is('.'), SignedVersion),
                    attempt(is('e'), ExponentFirst),
                    attempt(is('E'), ExponentFirst),
                ]
            },
            Token(DECIMAL, Base),
        ),
        // -1.2.3 is no number: the sign is given alone.
        SignedVersion => (
            const {
                &[ParserRule {
                    test: Digit,
                    action: ParserAction::Again(SignedVersionSign),
                    effect: ParserEffect::Restart,
                }]
            },
            Back,
        ),
        SignedVersionSign => (const { &[back(End), found(Digit, BLANK, Unsigned)] }, Stay),
        VersionFirst => (const { &[commit(Digit, ParserState::Version)] }, Back),
        ParserState::Version => (const { &[stay(Digit), attempt(is('.'), VersionFirst)] }, Token(VERSION, Base)),
        ExponentFirst => {
            (const { &[commit(Digit, Exponent), go(is('+'), ExponentSign), go(is('-'), ExponentSign)] }, Back)
        }
        ExponentSign => (const { &[commit(Digit, Exponent)] }, Back),
        Exponent => (const { &[stay(Digit)] }, Token(SCIENTIFIC, Base)),
        _ => return None,
    })
}

fn markup(state: ParserState) -> Option<(&'static [ParserRule], ParserAction)> {
    use CharacterTest::*;
    use ParserAction::{Back, Merge, Stay, Token};
    use ParserState::*;
    Some(match state {
        EntityFirst => (
            const { &[go(is('#'), EntityNumberFirst), go(AsciiLetter, Entity), go(is(':'), Entity), go(is('_'), Entity)] },
            Back,
        ),
        Entity => (
            const {
                &[
                    stay(LetterOrDigit),
                    stay(is(':')),
                    stay(is('_')),
                    stay(is('.')),
                    stay(is('-')),
                    go(is(';'), EntityEnd),
                ]
            },
            Back,
        ),
        EntityNumberFirst => {
            (const { &[go(is('x'), EntityHexFirst), go(is('X'), EntityHexFirst), go(Digit, EntityNumber)] }, Back)
        }
        EntityNumber => (const { &[stay(Digit), go(is(';'), EntityEnd)] }, Back),
        EntityHexFirst => (const { &[go(HexDigit, EntityHex)] }, Back),
        EntityHex => (const { &[stay(HexDigit), go(is(';'), EntityEnd)] }, Back),
        EntityEnd => (&[], Token(ENTITY, Base)),
        TagFirst => (
            const {
                &[
                    attempt(is('/'), TagCloseFirst),
                    attempt(is('!'), CommentFirst),
                    attempt(is('?'), XmlFirst),
                    attempt(AsciiLetter, TagName),
                    attempt(is(':'), TagName),
                    attempt(is('_'), TagName),
                ]
            },
            Back,
        ),
        XmlFirst => (const { &[go(is('x'), Tag)] }, Back),
        TagCloseFirst => (const { &[go(AsciiLetter, TagName)] }, Back),
        TagName => (
            const {
                &[
                    go(is('/'), TagEmptyEnd),
                    with(go(is('>'), TagEnd), ParserEffect::NoteTag),
                    with(go(Space, Tag), ParserEffect::NoteTag),
                    stay(LetterOrDigit),
                    stay(is(':')),
                    stay(is('_')),
                    stay(is('.')),
                    stay(is('-')),
                ]
            },
            Back,
        ),
        TagEmptyEnd => (const { &[go(is('>'), TagEnd)] }, Back),
        Tag => (
            const {
                &[
                    with(go(is('>'), TagEnd), ParserEffect::NoteTag),
                    go(is('\''), TagQuote),
                    go(is('"'), TagDoubleQuote),
                    stay(AsciiLetter),
                    stay(Digit),
                    stay(is('=')),
                    stay(is('-')),
                    stay(is('_')),
                    stay(is('#')),
                    stay(is('/')),
                    stay(is(':')),
                    stay(is('.')),
                    stay(is('&')),
                    stay(is('?')),
                    stay(is('%')),
                    stay(is('~')),
                    with(stay(Space), ParserEffect::NoteTag),
                ]
            },
            Back,
        ),
        TagQuote => (const { &[back(End), attempt(is('\\'), TagBackslash), go(is('\''), Tag)] }, Stay),
        TagDoubleQuote => (const { &[back(End), attempt(is('\\'), TagBackslash), go(is('"'), Tag)] }, Stay),
        TagBackslash => (const { &[back(End)] }, Merge),
        TagEnd | CommentEnd => (&[], Token(TAG, Base)),
        CommentFirst => (const { &[go(is('-'), CommentLast), go(is('D'), Tag), go(is('d'), Tag)] }, Back),
        CommentLast => (const { &[go(is('-'), Comment)] }, Back),
        Comment => (const { &[back(End), go(is('-'), CloseCommentFirst)] }, Stay),
        CloseCommentFirst => (const { &[back(End), go(is('-'), CloseCommentLast)] }, ParserAction::Go(Comment)),
        CloseCommentLast => (const { &[back(End), stay(is('-')), go(is('>'), CommentEnd)] }, ParserAction::Go(Comment)),
        _ => return None,
    })
}

/// Hosts, addresses, URLs, files.
fn names(state: ParserState) -> (&'static [ParserRule], ParserAction) {
    use CharacterTest::*;
    use ParserAction::{Back, Token};
    use ParserState::*;
    match state {
        DomainFirst => (const { &[go(AsciiLetter, DomainSecond), go(Digit, Host)] }, Back),
        DomainSecond => (
            const {
                &[
                    go(AsciiLetter, Domain),
                    attempt(Digit, Host),
                    attempt(is('-'), HostFirst),
                    attempt(is('_'), HostFirst),
                    attempt(is('.'), DomainFirst),
                    attempt(is('@'), Email),
                ]
            },
            Back,
        ),
        Domain => (
            const {
                &[
                    found(End, HOST, Base),
                    stay(AsciiLetter),
                    attempt(Digit, Host),
                    attempt(is(':'), PortFirst),
                    attempt(is('-'), HostFirst),
                    attempt(is('_'), HostFirst),
                    attempt(is('.'), DomainFirst),
                    attempt(is('@'), Email),
                    back(Digit),
                    found(HostWanted, HOST, UrlPathStart),
                    attempt(is('/'), Url),
                ]
            },
            Token(HOST, Base),
        ),
        PortFirst => (const { &[go(Digit, Port)] }, Back),
        Port => (
            const { &[found(End, HOST, Base), stay(Digit), found(HostWanted, HOST, UrlPathStart), attempt(is('/'), Url)] },
            Token(HOST, Base),
        ),
        HostFirst => (const { &[go(Digit, Host), go(AsciiLetter, Host)] }, Back),
        Host => (
            const {
                &[
                    stay(Digit),
                    stay(AsciiLetter),
                    attempt(is('@'), Email),
                    attempt(is('.'), DomainFirst),
                    attempt(is('-'), HostFirst),
                    attempt(is('_'), HostFirst),
                ]
            },
            Back,
        ),
        Email => (const { &[back(HostWanted), with(found(HostAhead, EMAIL, Base), ParserEffect::TakeAhead)] }, Back),
        FileFirst => (
            const {
                &[
                    go(AsciiLetter, File),
                    go(Digit, File),
                    go(is('.'), PathFirst),
                    go(is('_'), File),
                    attempt(is('~'), FileTilde),
                ]
            },
            Back,
        ),
        FileTilde => {
            (const { &[go(AsciiLetter, File), go(Digit, File), go(is('_'), File), go(is('/'), FileFirst)] }, Back)
        }
        PathFirst => (
            const {
                &[
                    go(AsciiLetter, File),
                    go(Digit, File),
                    go(is('_'), File),
                    go(is('.'), PathSecond),
                    go(is('/'), FileFirst),
                ]
            },
            Back,
        ),
        PathFirstDot => (const { &[go(is('.'), PathSecond), go(is('/'), FileFirst)] }, Back),
        PathSecond => (
            const {
                &[
                    found(End, FILE, Base),
                    attempt(is('/'), FileFirst),
                    found(is('/'), FILE, Base),
                    found(Space, FILE, Base),
                ]
            },
            Back,
        ),
        File => (
            const {
                &[
                    stay(AsciiLetter),
                    stay(Digit),
                    attempt(is('.'), FileNext),
                    stay(is('_')),
                    stay(is('-')),
                    attempt(is('/'), FileFirst),
                ]
            },
            Token(FILE, Base),
        ),
        FileNext => (const { &[commit(AsciiLetter, File), commit(Digit, File), commit(is('_'), File)] }, Back),
        UrlPathFirst => (const { &[go(UrlCharacter, ParserState::UrlPath)] }, Back),
        UrlPathStart => (&[], ParserAction::Go(ParserState::UrlPath)),
        ParserState::UrlPath => (const { &[stay(UrlCharacter)] }, Token(URL_PATH, Base)),
        Url => (const { &[back(End), with(found(UrlPathAhead, URL, Base), ParserEffect::TakeAheadAndReread)] }, Back),
        ProtocolFirst => (const { &[go(is('/'), ProtocolSecond)] }, Back),
        ProtocolSecond => (const { &[go(is('/'), ProtocolEnd)] }, Back),
        ProtocolEnd => (&[], Token(PROTOCOL, Base)),
        // Every other state has been answered before.
        _ => (&[], Back),
    }
}
