use super::{golden, sample};
use pipeprof::result::{Document, JSON_SCHEMA, SCHEMA};
use std::path::Path;

fn schema() -> serde_json::Value {
    serde_json::from_str(JSON_SCHEMA).unwrap()
}

#[test]
fn the_schema_in_docs_is_the_program_s() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let mut schema = schemars::schema_for!(Document);
    schema.insert("title".to_owned(), "pipeprof result.json".into());
    schema.insert("$id".to_owned(), SCHEMA.into());
    let text = serde_json::to_string_pretty(&schema).unwrap();
    golden(&docs.join("result.schema.json"), &format!("{text}\n"));
}

#[test]
fn documents_validate_and_broken_ones_do_not() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    for outcome in [sample::sampled_run(), sample::counted_run()] {
        let mut document = serde_json::to_value(&outcome.document).unwrap();
        let errors: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        document["executed_on"] = "paper".into();
        assert!(!validator.is_valid(&document));
    }
}

#[test]
fn every_part_of_the_schema_that_the_issue_names_is_there() {
    let schema = schema();
    for field in [
        "schema",
        "mode",
        "target",
        "kernel",
        "executed_on",
        "throughput",
        "processes",
        "attribution",
        "collectors",
        "warnings",
    ] {
        assert!(schema["properties"][field].is_object(), "{field}");
        assert!(schema["required"].as_array().unwrap().contains(&field.into()), "{field}");
    }
}
