//! The word lists of the specification (4.2.2.13 and 4.2.2.14).

pub(super) const REGIONS: [&str; 5] = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"];

/// Nations with their regions.
pub(super) const NATIONS: [(&str, usize); 25] = [
    ("ALGERIA", 0),
    ("ARGENTINA", 1),
    ("BRAZIL", 1),
    ("CANADA", 1),
    ("EGYPT", 4),
    ("ETHIOPIA", 0),
    ("FRANCE", 3),
    ("GERMANY", 3),
    ("INDIA", 2),
    ("INDONESIA", 2),
    ("IRAN", 4),
    ("IRAQ", 4),
    ("JAPAN", 2),
    ("JORDAN", 4),
    ("KENYA", 0),
    ("MOROCCO", 0),
    ("MOZAMBIQUE", 0),
    ("PERU", 1),
    ("CHINA", 2),
    ("ROMANIA", 3),
    ("SAUDI ARABIA", 4),
    ("VIETNAM", 2),
    ("RUSSIA", 3),
    ("UNITED KINGDOM", 3),
    ("UNITED STATES", 1),
];

pub(super) const SEGMENTS: [&str; 5] = ["AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"];
pub(super) const PRIORITIES: [&str; 5] = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"];
pub(super) const INSTRUCTIONS: [&str; 4] = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"];
pub(super) const MODES: [&str; 7] = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];
pub(super) const TYPES: [&[&str]; 3] = [
    &["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"],
    &["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"],
    &["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"],
];
pub(super) const CONTAINERS: [&[&str]; 2] =
    [&["SM", "LG", "MED", "JUMBO", "WRAP"], &["CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"]];

/// The words of the names of parts.
pub(super) const COLOURS: &str = "almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood \
    burnished chartreuse chiffon chocolate coral cornflower cornsilk cream cyan dark deep dim dodger drab firebrick \
    floral forest frosted gainsboro ghost goldenrod green grey honeydew hot indian ivory khaki lace lavender lawn lemon \
    light lime linen magenta maroon medium metallic midnight mint misty moccasin navajo navy olive orange orchid pale \
    papaya peach peru pink plum powder puff purple red rose rosy royal saddle salmon sandy seashell sienna sky slate \
    smoke snow spring steel tan thistle tomato turquoise violet wheat white yellow";

/// Words of the texts with how frequent they are among their kind; a `_` stands for a space.
pub(super) type WeightedWords = &'static [(usize, &'static str)];

pub(super) const NOUNS: WeightedWords = &[
    (40, "packages requests accounts deposits"),
    (20, "foxes ideas theodolites pinto_beans instructions"),
    (10, "dependencies excuses platelets asymptotes"),
    (
        5,
        "courts dolphins multipliers sauternes warthogs frets dinos attainments somas Tiresias' patterns forges braids",
    ),
    (1, "frays warhorses dugouts notornis epitaphs pearls tithes waters orbits gifts sheaves depths sentiments decoys"),
    (1, "hockey_players realms pains grouches escapades"),
];
pub(super) const VERBS: WeightedWords = &[
    (20, "sleep wake are cajole haggle"),
    (10, "nag use boost"),
    (5, "affix detect integrate"),
    (1, "maintain nod was lose sublate solve thrash promise engage hinder print x-ray breach eat grow impress mold"),
    (1, "poach serve run dazzle snooze doze unwind kindle play hang believe doubt"),
];
pub(super) const ADJECTIVES: WeightedWords = &[
    (50, "regular"),
    (40, "final ironic"),
    (30, "even"),
    (20, "special pending unusual express bold"),
    (10, "silent"),
    (
        1,
        "furious sly careful blithe quick fluffy slow quiet ruthless thin close dogged daring brave stealthy permanent",
    ),
    (1, "enticing idle busy"),
];
pub(super) const ADVERBS: WeightedWords = &[
    (50, "furiously slyly carefully"),
    (40, "blithely"),
    (30, "quickly"),
    (20, "fluffily"),
    (1, "sometimes always never slowly quietly ruthlessly thinly closely doggedly daringly bravely stealthily"),
    (1, "permanently enticingly idly busily regularly finally ironically evenly boldly silently"),
];
pub(super) const PREPOSITIONS: WeightedWords = &[
    (50, "about above according_to across after"),
    (40, "against along"),
    (30, "alongside_of among"),
    (20, "around"),
    (10, "at"),
    (
        1,
        "atop before behind beneath beside besides between beyond by despite during except for from in_place_of inside",
    ),
    (1, "instead_of into near of on outside over past since through throughout to toward under until up upon without"),
    (1, "with within"),
];
pub(super) const AUXILIARIES: WeightedWords = &[
    (1, "do may might shall will would can could should ought_to must will_have_to shall_have_to could_have_to"),
    (1, "should_have_to must_have_to need_to try_to"),
];
pub(super) const TERMINATORS: WeightedWords = &[(50, "."), (1, "; : ? ! --")];
