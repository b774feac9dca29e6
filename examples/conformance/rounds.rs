//! Tools that need something of the client before they can answer: they say what, and the client
//! calls again with it.

use std::time::SystemTime;

use rmcp::handler::server::tool::{InputResponses, RequestState};
use rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, InputRequest, InputRequiredResult,
    RequestMetaObject,
};
use rmcp::{ErrorData, tool, tool_router};
use rvc_sign::{Secret, SecretError, SignedHeaders, Verifier};
use serde_json::{Value, json};

use crate::Fixtures;

#[tool_router(router = rounds, vis = "pub(crate)")]
impl Fixtures {
    /// Ask the user for a name.
    #[tool]
    async fn test_input_required_result_elicitation(
        &self,
        responses: InputResponses,
    ) -> CallToolResponse {
        match field(&responses, "user_name", "name") {
            Some(name) => text(format!("Hello, {name}!")),
            None => ask([("user_name", filled_in("What is your name?", NAME))], None),
        }
    }

    /// Ask the client's model.
    #[tool]
    async fn test_input_required_result_sampling(
        &self,
        responses: InputResponses,
    ) -> CallToolResponse {
        match answer(&responses, "capital_question") {
            Some(answer) => text(format!("The model says: {}", answer["content"]["text"])),
            None => ask(
                [(
                    "capital_question",
                    sampled("What is the capital of France?"),
                )],
                None,
            ),
        }
    }

    /// Ask for the client's roots.
    #[tool]
    async fn test_input_required_result_list_roots(
        &self,
        responses: InputResponses,
    ) -> CallToolResponse {
        match answer(&responses, "client_roots") {
            Some(answer) => text(format!("The roots: {}", answer["roots"])),
            None => ask([("client_roots", roots())], None),
        }
    }

    /// Let the client carry this server's state.
    #[tool]
    async fn test_input_required_result_request_state(
        &self,
        RequestState(state): RequestState,
    ) -> Result<CallToolResponse, ErrorData> {
        self.confirm(state)
    }

    /// Refuse a state that is not this server's.
    #[tool]
    async fn test_input_required_result_tampered_state(
        &self,
        RequestState(state): RequestState,
    ) -> Result<CallToolResponse, ErrorData> {
        self.confirm(state)
    }

    /// Ask for three things at once.
    #[tool]
    async fn test_input_required_result_multiple_inputs(
        &self,
        responses: InputResponses,
        RequestState(state): RequestState,
    ) -> Result<CallToolResponse, ErrorData> {
        let questions = [
            ("user_name", filled_in("What is your name?", NAME)),
            ("greeting", sampled("Write a greeting")),
            ("client_roots", roots()),
        ];
        let is_answered = questions
            .iter()
            .all(|(key, _)| answer(&responses, key).is_some());
        match state.map(|state| self.seal.open(&state)).transpose()? {
            Some(_) if is_answered => Ok(text("All three are here")),
            _ => Ok(ask(questions, Some(self.seal.seal("gather")))),
        }
    }

    /// Ask for one thing after the other.
    #[tool]
    async fn test_input_required_result_multi_round(
        &self,
        RequestState(state): RequestState,
    ) -> Result<CallToolResponse, ErrorData> {
        let state = state.map(|state| self.seal.open(&state)).transpose()?;
        let (key, question, next) = match state.as_deref() {
            None => ("step1", filled_in("What is your name?", NAME), "one"),
            Some("one") => ("step2", filled_in("Your favourite colour?", COLOUR), "two"),
            Some(_) => return Ok(text("Both rounds are done")),
        };
        Ok(ask([(key, question)], Some(self.seal.seal(next))))
    }

    /// Ask only for what the client can give.
    #[tool]
    async fn test_input_required_result_capabilities(
        &self,
        responses: InputResponses,
        meta: RequestMetaObject,
    ) -> CallToolResponse {
        let client = meta.client_capabilities().unwrap_or_default();
        let questions = [
            client
                .elicitation
                .map(|_| ("user_name", filled_in("What is your name?", NAME))),
            client
                .sampling
                .map(|_| ("greeting", sampled("Write a greeting"))),
            client.roots.map(|_| ("client_roots", roots())),
        ];
        let questions: Vec<_> = questions.into_iter().flatten().collect();
        if responses.0.is_some() || questions.is_empty() {
            return text("Nothing is left to ask");
        }
        ask(questions, None)
    }

    /// Ask the user for a value.
    #[tool]
    async fn test_streaming_elicitation(&self) -> CallToolResponse {
        ask([("value", filled_in("Which value?", VALUE))], None)
    }
}

impl Fixtures {
    fn confirm(&self, state: Option<String>) -> Result<CallToolResponse, ErrorData> {
        let Some(state) = state else {
            let question = [("confirm", filled_in("Please confirm", OK))];
            return Ok(ask(question, Some(self.seal.seal("confirm"))));
        };
        self.seal.open(&state)?;
        Ok(text("Confirmed: state-ok"))
    }
}

/// Signs what a client carries for this server, so that it comes back as it was given away.
pub(crate) struct Seal {
    secret: Secret,
    verifier: Verifier<[Secret; 1]>,
}

impl Seal {
    pub(crate) fn new() -> Result<Self, SecretError> {
        // No secret at all, and enough for a server that only tests talk to.
        let secret = Secret::new(b"not for production")?;
        let verifier = Verifier::new([secret.clone()]);
        Ok(Self { secret, verifier })
    }

    fn seal(&self, text: &str) -> String {
        let signed = SignedHeaders::new(&self.secret, now(), text.as_bytes());
        format!("{} {} {text}", signed.timestamp(), signed.signature())
    }

    fn open(&self, sealed: &str) -> Result<String, ErrorData> {
        let mut parts = sealed.splitn(3, ' ');
        let mut part = || parts.next().unwrap_or_default();
        let (timestamp, signature, text) = (part(), part(), part());
        let verified = self
            .verifier
            .verify_values(timestamp, signature, text.as_bytes(), now());
        match verified {
            Ok(_) => Ok(text.to_owned()),
            Err(error) => Err(ErrorData::invalid_params(
                format!("requestState: {error}"),
                None,
            )),
        }
    }
}

fn now() -> i64 {
    let since_epoch = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX)
}

/// A field of a form, and its type.
pub(crate) type Field = (&'static str, &'static str);

pub(crate) const NAME: Field = ("name", "string");
pub(crate) const CONTEXT: Field = ("context", "string");
const COLOUR: Field = ("color", "string");
const VALUE: Field = ("value", "string");
const OK: Field = ("ok", "boolean");

/// A form with one field.
pub(crate) fn filled_in(message: &str, (name, kind): Field) -> InputRequest {
    request(json!({"method": "elicitation/create", "params": {
        "mode": "form",
        "message": message,
        "requestedSchema": {
            "type": "object", "properties": {name: {"type": kind}}, "required": [name],
        },
    }}))
}

fn sampled(prompt: &str) -> InputRequest {
    request(json!({"method": "sampling/createMessage", "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": prompt}}],
        "maxTokens": 100,
    }}))
}

fn roots() -> InputRequest {
    request(json!({"method": "roots/list"}))
}

fn request(request: Value) -> InputRequest {
    serde_json::from_value(request).expect("it is written as the protocol has it")
}

/// What a client gave for `key`. Anything but an object counts as nothing, and is asked again.
fn answer<'r>(InputResponses(responses): &'r InputResponses, key: &str) -> Option<&'r Value> {
    responses
        .as_ref()?
        .get(key)
        .filter(|answer| answer.is_object())
}

/// A text in a form that was filled in.
pub(crate) fn field(responses: &InputResponses, key: &str, name: &str) -> Option<String> {
    answer(responses, key).map(|answer| text_in(answer, name))
}

pub(crate) fn text_in(answer: &Value, name: &str) -> String {
    answer["content"][name].as_str().unwrap_or("you").to_owned()
}

pub(crate) fn ask(
    questions: impl IntoIterator<Item = (&'static str, InputRequest)>,
    state: Option<String>,
) -> CallToolResponse {
    let questions = questions
        .into_iter()
        .map(|(key, question)| (key.to_owned(), question));
    InputRequiredResult::new(Some(questions.collect()), state).into()
}

fn text(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}
