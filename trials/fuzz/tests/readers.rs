//! A few hundred texts for each reader, as a property. The same targets run under a fuzzer that looks at coverage:
//! `cargo bolero test -p servanda-fuzz sql_postgresql`.

use std::panic::AssertUnwindSafe;

use bolero::check;
use servanda_fuzz::{
    Texts, on_a_small_stack,
    readers::{Reader, named},
};

fn read(reader: &AssertUnwindSafe<Reader>, text: &[u8]) {
    (reader.read)(text);
}

macro_rules! readers {
    ($($name:ident)*) => { $(
        #[test]
        fn $name() {
            let reader = AssertUnwindSafe(named(stringify!($name)).unwrap());
            on_a_small_stack(|| {
                let texts = Texts(&reader.grammar);
                check!().with_iterations(300).with_generator(texts).for_each(|text| read(&reader, text));
            })
            .unwrap();
        }
    )* };
}

readers! {
    sql_postgresql sql_mysql sql_sqlite sql_any shell http path url cel_rules cel_values schema_texts schema_values policy_texts policy_values json
    envelope legibility redaction_json redaction_text document
}
