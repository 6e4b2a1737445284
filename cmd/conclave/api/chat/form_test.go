package chat

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/gateway"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	sessionflow "conclave/workflows/session"
)

// Requests with the tools look and count, in each protocol; REST is what follows.
const (
	choiceSchema = `{"type":"object","properties":{"choice":{"enum":["tabs","spaces"]}},"required":["choice"]}`
	lookSchema   = `{"type":"object","properties":{"at":{"$ref":"#/$defs/place"}},"$defs":{"place":{"type":"string"}}}`

	inChat = `{"model":"conclave","messages":[{"role":"user","content":"q"}],"tools":[{"type":"function","function":{"name":"look","description":"Looks.","parameters":` +
		lookSchema + `}},{"type":"function","function":{"name":"count"}}]REST}`
	inResponses = `{"model":"conclave","input":"q","tools":[{"type":"function","name":"look","description":"Looks.","parameters":` + lookSchema +
		`},{"type":"custom","name":"count"},{"type":"web_search"}]REST}`
	inMessages = `{"model":"conclave","max_tokens":9,"messages":[{"role":"user","content":"q"}],"tools":[{"name":"look","description":"Looks.","input_schema":` +
		lookSchema + `},{"name":"count","input_schema":{"type":"object"}}]REST}`
)

func readForm(t *testing.T, p protocol, body, rest string) (request, sessionflow.Input) {
	t.Helper()
	in, err := p.decode([]byte(strings.Replace(body, "REST", ","+rest, 1)))
	require.NoError(t, err, rest)
	input, err := sessionInput(httptest.NewRequest(http.MethodPost, "/", nil), in)
	require.NoError(t, err, rest)
	return in, input
}

// Each protocol asks for data in its own words.
func TestForm_ofText(t *testing.T) {
	t.Parallel()
	for rest, tc := range map[string]struct {
		protocol
		body, schema string
	}{
		`"response_format":{"type":"json_schema","json_schema":{"name":"n","description":"Decide.","strict":true,"schema":` + choiceSchema + `}}`: {completions{}, inChat, choiceSchema},
		`"response_format":{"type":"json_object"}`:                                                       {completions{}, inChat, `{"type":"object"}`},
		`"text":{"format":{"type":"json_schema","name":"n","schema":` + choiceSchema + `}}`:              {responses{}, inResponses, choiceSchema},
		`"text":{"format":{"type":"json_object"}}`:                                                       {responses{}, inResponses, `{"type":"object"}`},
		`"output_format":{"type":"json_schema","schema":` + choiceSchema + `}`:                           {messages{}, inMessages, choiceSchema},
		`"output_config":{"effort":"low","format":{"type":"json_schema","schema":` + choiceSchema + `}}`: {messages{}, inMessages, choiceSchema},
	} {
		in, input := readForm(t, tc.protocol, tc.body, rest)
		require.Equal(t, form{asData: true}, in.form)
		require.JSONEq(t, tc.schema, string(input.AnswerSchema))
		require.NotEmpty(t, input.ClientTools, "the caller's tools are offered beside it")
		require.Equal(t, in.form, formOf(input.AnswerSchema))
	}
	in, input := readForm(t, completions{}, inChat, `"response_format":{"type":"text"},"tool_choice":"auto"`)
	require.Equal(t, form{}, in.form)
	require.Empty(t, input.AnswerSchema)
	require.Equal(t, form{}, formOf(nil))
	in, _ = readForm(t, completions{}, inChat, `"response_format":{"type":"json_schema","json_schema":{"schema":{"properties":{"h":{"format":"hostname"},"é":{"pattern":"(?=é\n)"}}}}}`)
	require.Equal(t, []string{`response_format "format hostname"`, `response_format "pattern (?=\u00e9\n)"`}, in.ignored)
}

// A call that is required is the answer, so the tools are not offered.
func TestForm_ofACall(t *testing.T) {
	t.Parallel()
	const any = `{"anyOf":[{"type":"object","properties":{"name":{"enum":["look"]},"arguments":{"type":"object","properties":{"at":{"$ref":"#/anyOf/0/properties/arguments/$defs/place"}},"$defs":{"place":{"type":"string"}}}},
		"required":["name","arguments"],"additionalProperties":false},{"type":"object","properties":{"name":{"enum":["count"]},"arguments":COUNT},"required":["name","arguments"],"additionalProperties":false}],"x-conclave-call":"*"}`
	named := strings.TrimSuffix(lookSchema, "}") + `,"x-conclave-call":"look"}`
	for rest, tc := range map[string]struct {
		protocol
		body, schema, call string
	}{
		`"tool_choice":{"type":"function","function":{"name":"look"}}`:                                                                        {completions{}, inChat, named, "look"},
		`"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"look"}}]}}`: {completions{}, inChat, named, "look"},
		`"tool_choice":"required"`:                        {completions{}, inChat, strings.Replace(any, "COUNT", `{"type":"object","properties":{}}`, 1), "*"},
		`"tool_choice":{"type":"function","name":"look"}`: {responses{}, inResponses, named, "look"},
		`"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"look"}]}`: {responses{}, inResponses, named, "look"},
		`"tool_choice":{"type":"tool","name":"look","disable_parallel_tool_use":true}`:                         {messages{}, inMessages, named, "look"},
		`"tool_choice":{"type":"any"}`: {messages{}, inMessages, strings.Replace(any, "COUNT", `{"type":"object"}`, 1), "*"},
	} {
		in, input := readForm(t, tc.protocol, tc.body, rest)
		require.Equal(t, form{asData: true, call: tc.call}, in.form, rest)
		require.JSONEq(t, tc.schema, string(input.AnswerSchema), rest)
		require.Empty(t, input.ClientTools)
		require.Contains(t, input.Instructions, "Looks.")
		require.Equal(t, in.form, formOf(input.AnswerSchema))
		s, err := llm.ReadDataSchema(input.AnswerSchema)
		require.NoError(t, err)
		require.NotContains(t, s.Sent(""), "x-conclave")
	}
	_, input := readForm(t, completions{}, inChat, `"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"count"}}]}}`)
	require.NotContains(t, string(input.ClientTools), "look")
	require.Contains(t, string(input.ClientTools), "count")
}

func TestForm_refuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"not":`, 40) + `{}` + strings.Repeat(`}`, 40)
	of := func(schema string) string {
		return `"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":` + schema + `}}`
	}
	for rest, want := range map[string]string{
		`"response_format":{"type":"xml"}`:         `response_format has the type "xml"; give text, json_object, or json_schema`,
		`"response_format":{"type":"json_schema"}`: "json_schema with a schema",
		`"response_format":"json"`:                 "the value of response_format is not understood",
		of(`{"type":"strng"}`):                     "it is not a JSON Schema: at /type",
		of(`{"$ref":"http://example.com/s.json"}`): "it refers to another document",
		of(deep): "nested more than 32 levels deep",
		of(`{"description":"` + strings.Repeat("x", 64<<10) + `"}`): "at most 65536 are accepted",
		of(`{"enum":[1e999]}`):                                        "the number is too large",
		of(`{"enum":[` + strings.Repeat(`0,`, 10_001) + `0]}`):        "more than 10000 values",
		of(`{"type":"object","type":"string"}`):                       "twice",
		of(`{"const":"\ud800"}`):                                      "half of a surrogate pair",
		`"tool_choice":"always"`:                                      "give auto, none, required, or a function of tools",
		`"tool_choice":3`:                                             "neither a text nor an object",
		`"tool_choice":{"type":"function","function":{"name":"fly"}}`: `needs tools that the request does not have: ["fly"]`,
		`"tool_choice":{"type":"web_search","name":"look"}`:           "give auto, none, required, or a function of tools",
		`"tools":[],"tool_choice":"required"`:                         "needs tools that the request does not have",
		`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"x"}}}],"tool_choice":"required"`: "the schema in tools: it is not a JSON Schema",
		`"n":2`: "a session has one answer",
	} {
		_, err := completions{}.decode([]byte(strings.Replace(inChat, "REST", ","+rest, 1)))
		require.ErrorContains(t, err, want, rest)
	}
}

// The reply has the data alone, as text or as a call; stop texts and limits cut neither.
func TestForm_reply(t *testing.T) {
	t.Parallel()
	data := json.RawMessage(`{"name":"count","arguments":{"STOP":1}}`)
	answered := gateway.Reply{Session: "s1", Answer: "Words.\n\n```json\n{}\n```", Result: sessionflow.Result{Data: data}}
	want := wish{limit: 1, stops: []string{"STOP"}, form: form{asData: true}}
	require.Equal(t, reply{answer: string(data)}, newReply(want, answered))
	id := "call_" + artifact.SessionHash("s1")
	want.call = "look"
	require.Equal(t, reply{calls: []coordination.Call{{ID: id, Name: "look", Arguments: string(data)}}, ending: endedWithCalls}, newReply(want, answered))
	want.call = anyCall
	require.Equal(t, []coordination.Call{{ID: id, Name: "count", Arguments: `{"STOP":1}`}}, newReply(want, answered).calls)
	require.True(t, endedCall.MatchString(id))
	answered.Result.Data = nil
	require.Equal(t, "Word", newReply(want, answered).answer, "a session that was started without the schema")
}

// A call that is the answer ends its session; its result asks a new one, with all that was said.
func TestForm_resultOfTheAnswer(t *testing.T) {
	t.Parallel()
	const earlier = `{"role":"user","content":"Where?"},{"role":"assistant","content":"","tool_calls":[{"id":"call_0123456789abcdef","type":"function","function":{"name":"look","arguments":"{\"at\":\"door\"}"}}]},` +
		`{"role":"tool","tool_call_id":"call_0123456789abcdef","content":"a cat"}`
	const called = "call: look {\"at\":\"door\"}\nresult: a cat"
	ask := func(p protocol, body string) asked { return readAsked(t, p, body) }
	got := ask(completions{}, `{"model":"conclave","messages":[`+earlier+`]}`)
	require.Equal(t, "Where?\n\nThe program that asks has run these functions for you since:\n"+called, got.query)
	got = ask(completions{}, `{"model":"conclave","messages":[`+earlier+`,{"role":"user","content":"And now?"}]}`)
	require.Equal(t, asked{query: "And now?", history: []artifact.Turn{{Query: "Where?", Answer: strings.Replace(called, "\n", "\n\n", 1)}}}, got)
	got = ask(responses{}, `{"model":"conclave","previous_response_id":"resp_s1","input":[{"type":"function_call_output","call_id":"call_0123456789abcdef","output":"a cat"}]}`)
	require.Equal(t, "The program that asks has run these functions for you since:\nresult: a cat", got.query)
	got = ask(messages{}, `{"model":"conclave","max_tokens":9,"messages":[{"role":"user","content":"Where?"},{"role":"assistant","content":[{"type":"tool_use","id":"call_0123456789abcdef","name":"look","input":{"at":"door"}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_0123456789abcdef","content":"a cat"}]}]}`)
	require.Contains(t, got.query, called)
	_, err := resultsOf(decoded(t, earlier+`,{"role":"tool","tool_call_id":"c1","content":"1"}`))
	require.ErrorContains(t, err, `message 3 has the role "tool" and is next to tool results`, "results for two sessions")
}

// A response of the background is a call, too, when it is fetched.
func TestForm_fetched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, access.Caller{Name: "bob"}, false)
		body := strings.Replace(inResponses, "REST", `,"background":true,"tool_choice":{"type":"function","name":"look"}`, 1)
		require.Equal(t, http.StatusOK, s.send(t.Context(), http.MethodPost, "/v1/responses", body).Code)
		begun := s.played.Begun(t)
		recorded := artifact.Session{Caller: artifact.Caller{AnswerSchema: json.RawMessage(`{"x-conclave-call":"look"}`)}}
		require.NoError(t, artifact.CreateJSON(t.Context(), s.played.Store, artifact.InBucket(begun.ID).File("session.json"), recorded))
		begun.End(sessionflow.Result{Status: "consensus", Winner: "agent_a", Answer: "{}", Data: json.RawMessage(`{"at":"door"}`)})
		fetched := s.send(t.Context(), http.MethodGet, "/v1/responses/resp_"+begun.ID, "")
		require.Contains(t, fetched.Body.String(), `"type":"function_call"`)
		require.Contains(t, fetched.Body.String(), `"name":"look","arguments":"{\"at\":\"door\"}"`)
	})
}
