//! The texts that the films' rows are made of.

pub(super) const KINDS: [&str; 7] =
    ["movie", "tv series", "tv movie", "video movie", "tv mini series", "video game", "episode"];
pub(super) const COMPANY_TYPES: [&str; 4] =
    ["distributors", "production companies", "special effects companies", "miscellaneous companies"];
pub(super) const ROLES: [&str; 12] = [
    "actor",
    "actress",
    "director",
    "producer",
    "writer",
    "cinematographer",
    "composer",
    "costume designer",
    "editor",
    "miscellaneous crew",
    "production designer",
    "guest",
];
pub(super) const LINKS: [&str; 10] = [
    "follows",
    "followed by",
    "remake of",
    "references",
    "featured in",
    "spoofs",
    "version of",
    "similar to",
    "edited into",
    "spin off",
];
pub(super) const CAST_TYPES: [&str; 4] = ["cast", "crew", "complete", "complete+verified"];
/// A country's code, its name, its language.
pub(super) const COUNTRIES: [(&str, &str, &str); 20] = [
    ("[us]", "USA", "English"),
    ("[gb]", "UK", "English"),
    ("[de]", "Germany", "German"),
    ("[fr]", "France", "French"),
    ("[jp]", "Japan", "Japanese"),
    ("[ca]", "Canada", "English"),
    ("[it]", "Italy", "Italian"),
    ("[in]", "India", "Hindi"),
    ("[es]", "Spain", "Spanish"),
    ("[se]", "Sweden", "Swedish"),
    ("[dk]", "Denmark", "Danish"),
    ("[nl]", "Netherlands", "Dutch"),
    ("[pl]", "Poland", "Polish"),
    ("[mx]", "Mexico", "Spanish"),
    ("[br]", "Brazil", "Portuguese"),
    ("[no]", "Norway", "Norwegian"),
    ("[fi]", "Finland", "Finnish"),
    ("[au]", "Australia", "English"),
    ("[tr]", "Turkey", "Turkish"),
    ("[bg]", "Bulgaria", "Bulgarian"),
];
pub(super) const GENRES: [&str; 16] = [
    "Drama",
    "Comedy",
    "Short",
    "Documentary",
    "Action",
    "Thriller",
    "Horror",
    "Crime",
    "Romance",
    "Family",
    "Animation",
    "Adventure",
    "Sci-Fi",
    "War",
    "Western",
    "Musical",
];
/// The most frequent keywords.
pub(super) const KEYWORDS: [&str; 16] = [
    "character-name-in-title",
    "murder",
    "sequel",
    "love",
    "blood",
    "violence",
    "superhero",
    "based-on-novel",
    "revenge",
    "magnet",
    "marvel-cinematic-universe",
    "computer-animation",
    "hero",
    "gore",
    "female-nudity",
    "web",
];
pub(super) const SYLLABLES: [&str; 24] = [
    "an", "be", "champ", "do", "el", "fri", "gor", "hu", "in", "jo", "kung", "la", "mar", "no", "or", "pan", "quin",
    "ro", "sa", "tim", "ur", "vo", "wil", "yz",
];

/// Kinds of information by their numbers, which the rows name.
pub(super) const INFO_TYPES: [&str; 113] = info_types();

const fn info_types() -> [&'static str; 113] {
    let mut types = ["other"; 113];
    let named = [
        (1, "runtimes"),
        (2, "color info"),
        (3, "genres"),
        (4, "languages"),
        (8, "countries"),
        (15, "mini biography"),
        (16, "release dates"),
        (17, "trivia"),
        (22, "birth notes"),
        (100, "votes"),
        (101, "rating"),
        (105, "budget"),
        (112, "top 250 rank"),
    ];
    let mut at = 0;
    while at < named.len() {
        types[named[at].0 - 1] = named[at].1;
        at += 1;
    }
    types
}
