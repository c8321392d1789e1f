//! What an agent asks of the model: one request of the Responses protocol.

use serde_json::Value;

/// One request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its place among all requests to this stand-in, from 0.
    pub number: usize,
    /// Its body.
    pub body: Value,
}

impl Request {
    /// How often tools have answered in this conversation. The agent sends all of it with each request, so the
    /// stand-in need not remember anything; answers to calls of one turn are one round.
    pub fn round(&self) -> usize {
        let input = self.body["input"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_answer =
            |item: &Value| item["type"].as_str().is_some_and(|kind| kind.ends_with("call_output"));
        let first_of_round = |at: &usize| is_answer(&input[*at]) && (*at == 0 || !is_answer(&input[*at - 1]));
        (0..input.len()).filter(first_of_round).count()
    }

    /// Whether a text stands anywhere in it.
    pub fn holds(&self, text: &str) -> bool {
        found(&self.body, text)
    }

    /// Every text that the user said, joined; the prompt is among it.
    pub fn said(&self) -> String {
        let mut texts = Vec::new();
        for item in self.body["input"].as_array().into_iter().flatten() {
            for content in item["content"].as_array().into_iter().flatten() {
                texts.extend(content["text"].as_str());
            }
        }
        texts.join("\n")
    }

    /// Whether a reviewer asks.
    pub fn is_review(&self) -> bool {
        self.said().contains("===REVIEW-REPORT===")
    }

    /// The commit that a reviewer is asked about.
    pub fn commit(&self) -> String {
        let said = self.said();
        let line = said.lines().find_map(|line| line.trim().strip_prefix("commit: "));
        line.unwrap_or_default().trim().to_owned()
    }

    /// Whether a card with this name is what is worked on.
    pub fn is_of(&self, card: &str) -> bool {
        self.said().contains(&format!("docs/intent/{card}.md"))
    }

    /// The tools on offer: name and kind.
    pub fn tools(&self) -> Vec<(String, String)> {
        let text = |tool: &Value, key: &str| tool[key].as_str().map(str::to_owned);
        let tools = self.body["tools"].as_array().into_iter().flatten();
        tools
            .filter_map(|tool| {
                let kind = text(tool, "type")?;
                Some((text(tool, "name").unwrap_or_else(|| kind.clone()), kind))
            })
            .collect()
    }

    /// What the tools have answered, in order.
    pub fn outputs(&self) -> Vec<String> {
        let input = self.body["input"].as_array().into_iter().flatten();
        let outputs = input.filter(|item| item["type"].as_str().is_some_and(|k| k.ends_with("call_output")));
        outputs
            .map(|item| item["output"].as_str().map_or_else(|| item["output"].to_string(), str::to_owned))
            .collect()
    }
}

fn found(value: &Value, text: &str) -> bool {
    match value {
        Value::String(whole) => whole.contains(text),
        Value::Array(list) => list.iter().any(|value| found(value, text)),
        Value::Object(map) => map.iter().any(|(key, value)| key.contains(text) || found(value, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rounds_are_counted_and_answers_of_one_turn_are_one() {
        let answer = json!({"type": "function_call_output", "output": "x"});
        let call = json!({"type": "function_call"});
        let of = |input: &[&Value]| Request { number: 0, body: json!({ "input": input }) }.round();
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[&call, &answer]), 1);
        assert_eq!(of(&[&call, &call, &answer, &answer, &call, &answer]), 2);
    }
}
