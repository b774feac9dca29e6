/// A [`Map`](crate::Map) written as a JSON object.
///
/// Values are what `serde_json::json!` takes; a number that is not finite becomes `null`.
///
/// # Examples
///
/// ```
/// use rvc_tasks::payload;
///
/// let report = payload! { "eta_s": 22.4, "percent": 60, "speed": f64::NAN };
/// assert_eq!(serde_json::to_string(&report)?, r#"{"eta_s":22.4,"percent":60,"speed":null}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[macro_export]
macro_rules! payload {
    ($($fields:tt)*) => {
        match $crate::__private::json!({ $($fields)* }) {
            $crate::Value::Object(map) => map,
            _ => ::core::unreachable!("braces make an object"),
        }
    };
}
