//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

// served is a running `conclave serve`.
type served struct {
	*background
	t    *testing.T
	base string
}

var apiLine = regexp.MustCompile(`OpenAI API +(http://\S+)/v1`)

// serve starts a server on any port and waits until it serves.
func (c *e2eCLI) serve(args ...string) served {
	c.t.Helper()
	return c.serveOn("127.0.0.1:0", args...)
}

func (c *e2eCLI) serveOn(listen string, args ...string) served {
	c.t.Helper()
	b := c.start(append([]string{"serve", "--listen", listen}, args...)...)
	b.prints(c.t, "Ctrl-C stops")
	found := apiLine.FindStringSubmatch(b.log.String())
	require.NotNil(c.t, found, b.log.String())
	return served{background: b, t: c.t, base: found[1]}
}

// address is the address on which another server can follow.
func (s served) address() string { return strings.TrimPrefix(s.base, "http://") }

// post sends a chat completion request; headers are names and values.
func (s served) post(body string, headers ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.base+"/v1/chat/completions", strings.NewReader(body))
	require.NoError(s.t, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return http.DefaultClient.Do(req)
}

// completion is a reply, or an error.
type completion struct {
	ID      string `json:"id"`
	Choices []struct {
		Message struct {
			Content   *string    `json:"content"`
			ToolCalls []toolCall `json:"tool_calls"`
		} `json:"message"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		PromptTokens     int64 `json:"prompt_tokens"`
		CompletionTokens int64 `json:"completion_tokens"`
	} `json:"usage"`
	Error struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Code    string `json:"code"`
	} `json:"error"`

	status  int
	session string // of the header
}

type toolCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func (c completion) text() string {
	if len(c.Choices) == 0 || c.Choices[0].Message.Content == nil {
		return ""
	}
	return *c.Choices[0].Message.Content
}

// ask sends a request and reads the reply.
func (s served) ask(body string, headers ...string) completion {
	s.t.Helper()
	res, err := s.post(body, headers...)
	require.NoError(s.t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	out := completion{status: res.StatusCode, session: res.Header.Get("X-Conclave-Session")}
	require.NoError(s.t, json.Unmarshal(data, &out), string(data))
	return out
}

// streamed is the content of a stream.
type streamed struct {
	reasoning, content, finish string
	tokens                     int64
	done                       bool
	failure                    string // message of an error in the stream
}

// readStream reads a stream to its end or until the connection breaks.
func readStream(t *testing.T, r io.Reader) streamed {
	t.Helper()
	var out streamed
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if data == "[DONE]" {
			out.done = true
		}
		if !ok || out.done {
			continue
		}
		var c struct {
			Choices []struct {
				Delta struct {
					Content   string `json:"content"`
					Reasoning string `json:"reasoning_content"`
				} `json:"delta"`
				FinishReason string `json:"finish_reason"`
			} `json:"choices"`
			Usage *struct {
				TotalTokens int64 `json:"total_tokens"`
			} `json:"usage"`
			Error *struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		require.NoError(t, json.Unmarshal([]byte(data), &c), data)
		if c.Error != nil {
			out.failure = c.Error.Message
		}
		for _, choice := range c.Choices {
			out.reasoning += choice.Delta.Reasoning
			out.content += choice.Delta.Content
			out.finish += choice.FinishReason
		}
		if c.Usage != nil {
			out.tokens = c.Usage.TotalTokens
		}
	}
	return out
}

func question(text string, more ...string) string {
	body := map[string]any{"model": "conclave", "messages": []any{
		map[string]string{"role": "system", "content": "Answer in one word."}, map[string]string{"role": "user", "content": text},
	}}
	for i := 0; i+1 < len(more); i += 2 {
		body[more[i]] = json.RawMessage(more[i+1])
	}
	data, _ := json.Marshal(body) // strings
	return string(data)
}

// A team is a model: its answer is the reply, its usage is the sum of its agents' usage, and
// repeating a request with its key costs nothing.
func TestServe(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, threeRounds())
	c := newCLI(t)
	s := c.serve("--config", c.file("team.json", model.team("agent_a", "agent_b", "agent_c")))

	first := s.ask(question("Tabs or spaces?"), "Idempotency-Key", "k1")
	require.Equal(t, http.StatusOK, first.status, first.Error.Message)
	require.NotEmpty(t, first.text())
	require.Equal(t, "stop", first.Choices[0].FinishReason)
	require.Equal(t, "conclave-"+first.session, first.ID)
	require.Positive(t, first.Usage.PromptTokens)
	require.Contains(t, model.prompts(), "Answer in one word.")
	asked := model.allCalls()

	again := s.ask(question("Tabs or spaces?"), "Idempotency-Key", "k1")
	require.Equal(t, first.text(), again.text())
	require.Equal(t, first.session, again.session)
	require.Equal(t, first.Usage, again.Usage)

	res, err := s.post(question("Tabs or spaces?", "stream", "true"), "Idempotency-Key", "k1")
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	require.Contains(t, res.Header.Get("Link"), first.session)
	stream := readStream(t, res.Body)
	require.True(t, stream.done)
	require.Equal(t, first.text(), stream.content)
	require.Equal(t, "stop", stream.finish)
	require.Contains(t, stream.reasoning, "agent_a answered agent1.1\n")
	require.NotContains(t, stream.reasoning, first.text(), "progress has no texts of agents")
	require.Equal(t, first.Usage.PromptTokens+first.Usage.CompletionTokens, stream.tokens)

	other := s.ask(question("Vi or emacs?"), "Idempotency-Key", "k1")
	require.Equal(t, http.StatusConflict, other.status)
	require.Equal(t, "idempotency_conflict", other.Error.Code)
	require.Equal(t, asked, model.allCalls(), "nothing is paid twice")

	var saved artifact.Session
	out := c.conclave("pull", first.session, "tree")
	require.Zero(t, out.code)
	data, err := http.Get(s.base + "/v1/models")
	require.NoError(t, err)
	defer data.Body.Close()
	var models struct {
		Data []struct{ ID string } `json:"data"`
	}
	require.NoError(t, json.NewDecoder(data.Body).Decode(&models))
	require.Equal(t, "conclave", models.Data[0].ID)
	readFile(t, c.home+"/tree/session.json", &saved)
	require.Equal(t, "Answer in one word.", saved.Instructions)
}

// streamOf is a request for a stream of one session.
func (s served) streamOf(t *testing.T) *http.Response {
	t.Helper()
	res, err := s.post(question("Tabs or spaces?", "stream", "true"), "Idempotency-Key", "the one")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	return res
}

// broken opens streams, breaks them by kill, and waits until all have ended.
func (s served) broken(t *testing.T, streams int, kill func(first io.Reader)) {
	t.Helper()
	var open []*http.Response
	for range streams {
		open = append(open, s.streamOf(t))
	}
	kill(open[0].Body)
	for _, res := range open {
		require.False(t, readStream(t, res.Body).done)
		_ = res.Body.Close()
	}
}

// reads reads a stream until all texts have arrived.
func reads(t *testing.T, r io.Reader, texts ...string) {
	t.Helper()
	lines, read := bufio.NewReader(r), ""
	for slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(read, text) }) {
		line, err := lines.ReadString('\n')
		require.NoError(t, err, read)
		read += line
	}
}

// repeated sends the requests again, and returns the answers with their numbers.
func (s served) repeated(t *testing.T, streams int) map[string]int {
	t.Helper()
	answers := make(chan string, streams)
	for range streams {
		go func() {
			res, err := s.post(question("Tabs or spaces?", "stream", "true"), "Idempotency-Key", "the one")
			if err != nil {
				answers <- err.Error()
				return
			}
			defer res.Body.Close()
			if res.StatusCode != http.StatusOK {
				body, _ := io.ReadAll(res.Body)
				answers <- string(body)
				return
			}
			got := readStream(t, res.Body)
			answers <- fmt.Sprintf("%s%s (complete: %t)", got.content, got.failure, got.done)
		}()
	}
	got := map[string]int{}
	for range streams {
		got[<-answers]++
	}
	return got
}

// oneAnswer is a session of three agents that agree on the answer of agent_a, whose first call is
// held until release is closed. It makes six calls.
func oneAnswer(t *testing.T, replies int) (model *modelServer, asked <-chan struct{}, release chan struct{}) {
	t.Helper()
	began, release := make(chan struct{}), make(chan struct{})
	first := answer("Answer A.").during(func() { close(began); <-release })
	a := append([]reply{first}, slices.Repeat([]reply{answer("Answer A.")}, replies-1)...)
	return newModelServer(t, map[string][]reply{
		"model-a": append(a, vote("agent1", "It is right.")),
		"model-b": {answer("Answer B."), vote("agent1", "It is right.")},
		"model-c": {answer("Answer C."), vote("agent1", "It is right.")},
	}), began, release
}

const streams = 50

// A killed server loses no stream: callers that repeat their requests get the same answer. If
// another process runs the steps, no model call is repeated.
func TestServeKilledInTheMiddleOfStreams(t *testing.T) {
	t.Parallel()
	model, asked, release := oneAnswer(t, 1)
	s := newSite(t)
	defer s.work(model, "agent_a", "agent_b", "agent_c")()
	c := newCLI(t, "AWS_ENDPOINT_URL_S3="+s.stack.S3Endpoint, "AWS_REGION="+s.stack.S3Region,
		"AWS_ACCESS_KEY_ID="+s.stack.S3AccessKey, "AWS_SECRET_ACCESS_KEY="+s.stack.S3SecretKey)
	serving := []string{"--address", s.stack.TemporalAddress, "--bucket", s.stack.Bucket}
	first := c.serve(serving...)
	first.broken(t, streams, func(io.Reader) {
		<-asked
		require.NoError(t, first.Process.Kill())
	})
	close(release)
	again := c.serveOn(first.address(), serving...)
	require.Equal(t, map[string]int{"Answer A. (complete: true)": streams}, again.repeated(t, streams))
	require.Equal(t, 6, model.allCalls(), "no model is asked twice")
}

// A server on the local stack runs the steps itself, so only the call whose reply the killed
// process awaited is repeated.
func TestServeKilledWithItsWorker(t *testing.T) {
	t.Parallel()
	for name, keeps := range map[string]bool{"the stack goes on": true, "the stack is killed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model, asked, release := oneAnswer(t, 2)
			c := newCLI(t)
			team := c.file("team.json", model.team("agent_a", "agent_b", "agent_c"))
			s := c.serve("--config", team)
			if keeps {
				c.start("dev", "--offline").prints(t, "Ctrl-C stops")
			}
			s.broken(t, streams, func(first io.Reader) {
				<-asked
				reads(t, first, "agent_b answered", "agent_c answered") // these replies have arrived
				if keeps {
					require.NoError(t, s.Process.Kill())
				} else {
					c.killAll()
					c.gone()
				}
				<-s.done
			})
			close(release)
			s = c.serveOn(s.address(), "--config", team)
			require.Equal(t, map[string]int{"Answer A. (complete: true)": streams}, s.repeated(t, streams))
			require.Equal(t, 6+1, model.allCalls(), "the call that was under way is made again, and no other")
		})
	}
}

// Official clients repeat a request without a key and mark it as repeated.
func TestServeRepeatedWithoutAKey(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	model := newModelServer(t, map[string][]reply{
		"model-a": {answer("Answer A.").during(func() { <-release }), vote("agent1", "It is right."), answer("Again."), vote("agent1", "It is right.")},
	})
	c := newCLI(t)
	s := c.serve("--config", c.file("team.json", model.team("agent_a")))
	body := question("Tabs or spaces?")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/v1/chat/completions", bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	impatient := http.Client{Timeout: 2 * time.Second}
	_, err = impatient.Do(req)
	require.Error(t, err, "the model takes longer than the client's patience")
	time.AfterFunc(time.Second, func() { close(release) })
	first := s.ask(body, "X-Stainless-Retry-Count", "1")
	require.Equal(t, "Answer A.", first.text(), first.Error.Message)
	require.Equal(t, 2, model.allCalls())
	fresh := s.ask(body)
	require.Equal(t, "Again.", fresh.text())
	require.NotEqual(t, first.session, fresh.session, "an equal body alone is a new question")
	out := c.conclave("list", "--json")
	require.Equal(t, 2, strings.Count(out.stdout, `"session_id"`))
}

// An address other than loopback requires keys, and a key is limited to its teams.
func TestServeWithKeys(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	made := c.conclave("serve", "key", "--json", "alice", "--requests-per-minute", "3")
	var key struct{ Key, Line string }
	require.NoError(t, json.Unmarshal([]byte(made.stdout), &key))
	s := c.serve("--offline", "--keys", c.file("keys", key.Line+"\n"))
	require.Contains(t, s.log.String(), "the keys of alice")

	body := question("Tabs or spaces?")
	refused := s.ask(body)
	require.Equal(t, http.StatusUnauthorized, refused.status)
	require.Equal(t, "invalid_api_key", refused.Error.Code)
	bearer := []string{"Authorization", "Bearer " + key.Key}
	require.Equal(t, http.StatusOK, s.ask(body, bearer...).status)
	require.Equal(t, http.StatusForbidden, s.ask(body, append(bearer, "Origin", "https://evil.example")...).status)
	unknown := s.ask(strings.Replace(body, `"conclave"`, `"gpt-5.2"`, 1), bearer...)
	require.Equal(t, http.StatusNotFound, unknown.status)
	require.Equal(t, "model_not_found", unknown.Error.Code)
	require.Eventually(t, func() bool { return s.ask(body, bearer...).status == http.StatusTooManyRequests }, 20*time.Second, 10*time.Millisecond)
	c.file("keys", "")
	require.Equal(t, http.StatusUnauthorized, s.ask(body, bearer...).status, "the last line is gone")
	require.Eventually(t, func() bool { return strings.Contains(s.log.String(), "admitted now: nobody") }, 20*time.Second, 10*time.Millisecond)
	require.NotContains(t, s.log.String(), key.Key, "a key is never logged")
}

// A key with dollars a day is served while another session of it runs, and refused when they are
// spent.
func TestServeKeyWithDollars(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	made := c.conclave("serve", "key", "--json", "carol", "--usd-per-day", "0.004")
	var key struct{ Key, Line string }
	require.NoError(t, json.Unmarshal([]byte(made.stdout), &key))
	var s served
	var beside completion
	ask := func(query string) completion { return s.ask(question(query), "Authorization", "Bearer "+key.Key) }
	model := newModelServer(t, map[string][]reply{"model-a": {
		answer("First.").during(func() { beside = ask("And beside it?") }), answer("Second."), vote("agent1", "It is right."), vote("agent1", "It is right."),
	}})
	team := strings.Replace(model.team("agent_a"), `"base_url"`, `"price_per_million": {"input": 10, "output": 10}, "base_url"`, 1)
	s = c.serve("--config", c.file("team.json", team), "--keys", c.file("keys", key.Line+"\n"))
	first := ask("Tabs or spaces?")
	require.Equal(t, "First.", first.text(), first.Error.Message)
	require.Equal(t, "Second.", beside.text(), beside.Error.Message)
	refused := ask("Once more?")
	require.Equal(t, http.StatusTooManyRequests, refused.status)
	require.Regexp(t, `^carol has spent \$0\.0048 of \$0\.004 for today`, refused.Error.Message)
}

// allCalls returns the number of requests to all models.
func (m *modelServer) allCalls() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, bodies := range m.asked {
		n += len(bodies)
	}
	return n
}

// callsOf is a reply with calls of tools, each a name and its arguments.
func callsOf(named ...string) reply {
	var list []map[string]any
	for i := 0; i+1 < len(named); i += 2 {
		list = append(list, map[string]any{
			"id": fmt.Sprintf("call%d", i), "type": "function", "function": map[string]any{"name": named[i], "arguments": named[i+1]},
		})
	}
	data, _ := json.Marshal(map[string]any{ // strings
		"id": "r", "object": "chat.completion", "usage": map[string]int{"prompt_tokens": 100, "completion_tokens": 20},
		"choices": []any{map[string]any{"index": 0, "finish_reason": "tool_calls", "message": map[string]any{"role": "assistant", "tool_calls": list}}},
	})
	return reply{body: string(data)}
}

// The caller runs its own tools: the reply has the calls of all agents, equal ones once. The
// request with their results continues the same steps, even after the server, the worker and the
// stack were killed. No call was in flight, so none is repeated.
func TestServeCallersTools(t *testing.T) {
	t.Parallel()
	look := callsOf("client__look", `{"at": "door"}`)
	model := newModelServer(t, map[string][]reply{
		"model-a": {callsOf("write_file", `{"path": "a.txt", "content": "A"}`, "client__look", `{"at":"door"}`, "client__read", `{"path":"x"}`), answer("Answer A."), vote("agent1", "Yes.")},
		"model-b": {look, answer("Answer B."), vote("agent1", "Yes.")},
	})
	c := newCLI(t)
	team := c.file("team.json", model.team("agent_a", "agent_b"))
	s := c.serve("--config", team)
	tools := `[{"type":"function","function":{"name":"look","description":"Looks.","parameters":{"type":"object","properties":{"at":{"type":"string"}}}}},{"type":"function","function":{"name":"read"}}]`
	asked := s.ask(question("What is at the door?", "tools", tools))
	require.Equal(t, http.StatusOK, asked.status, asked.Error.Message)
	require.Equal(t, "tool_calls", asked.Choices[0].FinishReason)
	require.Nil(t, asked.Choices[0].Message.Content)
	require.EqualValues(t, 240, asked.Usage.PromptTokens+asked.Usage.CompletionTokens)
	made := asked.Choices[0].Message.ToolCalls
	require.Len(t, made, 2, "two agents made an equal call")
	require.Equal(t, []string{"look", "read"}, []string{made[0].Function.Name, made[1].Function.Name})
	require.Contains(t, model.request("model-a", 1), `"client__look"`)
	status := c.conclave("status", asked.session, "--json")
	require.Contains(t, status.stdout, `"phase": "waiting_for_tools"`)

	c.killAll()
	c.gone()
	<-s.done
	s = c.serve("--config", team)
	returns := func(results ...string) string {
		messages := []any{map[string]string{"role": "user", "content": "What is at the door?"}, map[string]any{"role": "assistant", "content": nil, "tool_calls": made}}
		for i := 0; i+1 < len(results); i += 2 {
			messages = append(messages, map[string]string{"role": "tool", "tool_call_id": results[i], "content": results[i+1]})
		}
		data, _ := json.Marshal(map[string]any{"model": "conclave", "messages": messages, "tools": json.RawMessage(tools)}) // strings
		return string(data)
	}
	missing := s.ask(returns(made[0].ID, "a cat"))
	require.Equal(t, http.StatusBadRequest, missing.status)
	require.Contains(t, missing.Error.Message, made[1].ID)
	unknown := s.ask(returns("call_1", "a cat"))
	require.Equal(t, http.StatusBadRequest, unknown.status)
	require.Equal(t, 2, model.allCalls(), "a refused request applies nothing")

	whole := returns(made[0].ID, "a cat", made[1].ID, "nothing")
	done := s.ask(whole)
	require.Equal(t, "Answer A.", done.text(), done.Error.Message)
	require.Equal(t, asked.session, done.session)
	require.EqualValues(t, 480, done.Usage.PromptTokens+done.Usage.CompletionTokens, "the usage since the last reply")
	require.Contains(t, model.request("model-a", 2), "a cat")
	require.Contains(t, model.request("model-b", 2), "a cat")
	require.Equal(t, done.text(), s.ask(whole).text(), "a repeated request has the same answer")
	require.Equal(t, 6, model.allCalls())
}

// A stock client of Temporal runs the tools, too.
func TestCallersToolsByTemporal(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, map[string][]reply{"model-a": {callsOf("client__look", `{}`), answer("Answer A."), vote("agent1", "Yes.")}})
	c := newCLI(t)
	dev := c.start("dev", "--config", c.file("team.json", model.team("agent_a")))
	dev.prints(t, "Ctrl-C stops")
	at := address(t, dev)
	input := `{"query":"What?","client_tools":[{"type":"function","function":{"name":"look"}}],"instructions":"Be brief."}`
	require.Zero(t, c.temporal("workflow", "start", "--address", at, "--task-queue", "conclave", "--type", "Session", "--workflow-id", "s1", "--input", input).code)
	var state struct {
		Phase string `json:"phase"`
		Calls []struct {
			ID, Name, Arguments string
		} `json:"calls"`
	}
	require.Eventually(t, func() bool {
		return json.Unmarshal([]byte(c.conclave("status", "s1", "--json").stdout), &state) == nil && state.Phase == "waiting_for_tools"
	}, time.Minute, 100*time.Millisecond)
	require.Equal(t, "look", state.Calls[0].Name)
	results := `{"results":[{"id":"` + state.Calls[0].ID + `","content":"a cat"}]}`
	out := c.temporal("workflow", "update", "execute", "--address", at, "--workflow-id", "s1", "--name", "tool_results", "--input", results)
	require.Zero(t, out.code, out.stderr)
	require.Contains(t, c.conclave("result", "s1", "--wait").stdout, "Answer A.")
	require.Contains(t, model.request("model-a", 2), "a cat")
}
