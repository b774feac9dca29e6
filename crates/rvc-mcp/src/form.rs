use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    InputRequest,
};
use rvc_tasks::{Map, Question};
use serde_json::Value;

/// A form for the user, which a body asks with [`TaskContext::ask`](rvc_tasks::TaskContext::ask).
///
/// It is an elicitation of the protocol. The answer is the user's: accepted with the content
/// that the schema asks for, declined, or dismissed. One that does not fit the schema is refused
/// and the question stays open.
///
/// # Examples
///
/// ```
/// use rmcp::model::{ElicitResult, ElicitationAction, ElicitationSchema, EnumSchema};
/// use rvc_mcp::form;
/// use rvc_tasks::{Map, TaskContext, TaskError};
///
/// async fn pass_door(task: &TaskContext) -> Result<Map, TaskError> {
///     let ways = ["wait", "detour", "give_up"].map(String::from).to_vec();
///     let schema = ElicitationSchema::builder()
///         .required_enum_schema("way", EnumSchema::builder(ways).build())
///         .build_unchecked();
///     let give_up = ElicitResult::new(ElicitationAction::Decline);
///     let question = form("The door to the lab is closed. What now?", schema).or(give_up);
///
///     let answer = task.ask("door", question).await?;
///
///     match answer.content.as_ref().and_then(|content| content["way"].as_str()) {
///         Some("wait") => Ok(Map::new()),
///         _ => Err(TaskError::new("DOOR_CLOSED", "The door to the lab is closed.")),
///     }
/// }
/// ```
pub fn form(message: impl Into<String>, schema: ElicitationSchema) -> Question<ElicitResult> {
    let fields = object(&schema);
    let params = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.into(),
        requested_schema: schema,
    };
    let request = InputRequest::Elicitation(ElicitRequest::new(params));
    Question::with_check(object(&request), move |answer| check(&fields, answer))
}

fn object(value: &impl serde::Serialize) -> Map {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        _ => unreachable!("it is written as an object"),
    }
}

/// Says what is wrong with an answer: the fields that are missing, or of another type.
fn check(schema: &Map, answer: &ElicitResult) -> Result<(), String> {
    if answer.action != ElicitationAction::Accept {
        return Ok(());
    }
    let empty = Map::new();
    let content = match &answer.content {
        Some(Value::Object(content)) => content,
        None => &empty,
        Some(_) => return Err("content must be an object".to_owned()),
    };
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !content.contains_key(name) {
            return Err(format!("{name} is missing"));
        }
    }
    let Some(Value::Object(properties)) = schema.get("properties") else {
        return Ok(());
    };
    for (name, value) in content {
        if let Some(property) = properties.get(name) {
            check_field(property, value).map_err(|wrong| format!("{name} {wrong}"))?;
        }
    }
    Ok(())
}

fn check_field(property: &Value, value: &Value) -> Result<(), String> {
    if let Some(kind) = property["type"].as_str() {
        let fits = match kind {
            "string" => value.is_string(),
            "number" => value.is_number(),
            "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            _ => true,
        };
        if !fits {
            return Err(format!("must be of type {kind}"));
        }
    }
    if let Some(choices) = choices(property)
        && !choices.contains(&value)
    {
        return Err("is none of the choices".to_owned());
    }
    match (value, &property["items"]) {
        (Value::Array(chosen), items @ Value::Object(_)) => chosen
            .iter()
            .try_for_each(|value| check_field(items, value)),
        _ => Ok(()),
    }
}

/// The values that a choice leaves, in any of the forms in which a schema may list them.
fn choices(property: &Value) -> Option<Vec<&Value>> {
    if let Some(choices) = property["enum"].as_array() {
        return Some(choices.iter().collect());
    }
    let titled = property["oneOf"]
        .as_array()
        .or_else(|| property["anyOf"].as_array())?;
    Some(
        titled
            .iter()
            .filter_map(|choice| choice.get("const"))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use rmcp::model::EnumSchema;
    use serde_json::json;

    use super::*;

    fn answer(content: Value) -> ElicitResult {
        ElicitResult::new(ElicitationAction::Accept).with_content(content)
    }

    #[test]
    fn an_accepted_answer_must_fit_the_form() {
        let ways = || vec!["wait".to_owned(), "detour".to_owned()];
        let schema = ElicitationSchema::builder()
            .required_enum_schema("way", EnumSchema::builder(ways()).build())
            .optional_bool("beep", false)
            .optional_enum_schema("also", EnumSchema::builder(ways()).multiselect().build())
            .required_integer("seconds", 0, 60)
            .build_unchecked();
        let schema = object(&schema);
        for (content, wrong) in [
            (json!({"way": "wait", "seconds": 5}), None),
            (json!({"way": "wait", "seconds": 5.0, "beep": true}), None),
            (
                json!({"way": "wait", "seconds": 5, "also": ["detour"], "more": 1}),
                None,
            ),
            (json!({"seconds": 5}), Some("way is missing")),
            (
                json!({"way": "fly", "seconds": 5}),
                Some("way is none of the choices"),
            ),
            (
                json!({"way": 7, "seconds": 5}),
                Some("way must be of type string"),
            ),
            (
                json!({"way": "wait", "seconds": "5"}),
                Some("seconds must be of type integer"),
            ),
            (
                json!({"way": "wait", "seconds": 5.5}),
                Some("seconds must be of type integer"),
            ),
            (
                json!({"way": "wait", "seconds": 5, "also": ["fly"]}),
                Some("also is none of the choices"),
            ),
            (json!(["wait"]), Some("content must be an object")),
        ] {
            let is = check(&schema, &answer(content.clone())).err();
            assert_eq!(is.as_deref(), wrong, "{content}");
        }
    }

    #[test]
    fn who_declines_need_not_fill_in_the_form() {
        let schema = ElicitationSchema::builder()
            .required_bool("confirm")
            .build_unchecked();
        for action in [ElicitationAction::Decline, ElicitationAction::Cancel] {
            assert_eq!(check(&object(&schema), &ElicitResult::new(action)), Ok(()));
        }
        let accepted = ElicitResult::new(ElicitationAction::Accept);
        assert!(check(&object(&schema), &accepted).is_err());
    }
}
