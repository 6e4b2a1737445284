package step_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/tools"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// browsing provides file tools, the tools of an MCP server with pages, and a shell. A command that
// names /tmp leaves a temporary file there; one that contains rm removes it.
type browsing struct {
	*tools.Opened
	browser string
	shell   *string
}

func (b browsing) Tools() []llm.Tool {
	return append(b.Opened.Tools(), llm.Tool{Name: "mcp__browser__open", State: b.browser}, llm.Tool{Name: "run_command", State: *b.shell})
}

func (b browsing) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	switch {
	case call.Name == "mcp__browser__open":
		return loop.Output{Text: "opened"}, nil
	case call.Name != "run_command":
		return b.Opened.Run(ctx, call)
	case strings.Contains(call.Arguments, "rm "):
		*b.shell = ""
	case strings.Contains(call.Arguments, "/tmp"):
		*b.shell = rand.Text()
	}
	return loop.Output{Text: "done"}, nil
}

func open() llm.Message { return call("mcp__browser__open", map[string]string{"url": "http://shop"}) }

// browser returns a bench whose MCP server belongs to each attempt, or is shared.
func browser(t *testing.T, shared string) *bench {
	b := newBench(t, &rules{})
	b.open = func(ctx context.Context, dir string) (step.Tools, error) {
		opened, err := tools.Open(ctx, dir, tools.Set{Files: true})
		return browsing{opened, cmp.Or(shared, rand.Text()), new(string)}, err
	}
	return b
}

// told returns the messages that inform the agent of losses.
func told(r *rules) []string {
	var all []string
	for _, e := range r.learned {
		for _, m := range e.Messages {
			if strings.Contains(m.Content, "interrupted") {
				all = append(all, m.Content)
			}
		}
	}
	return all
}

// "An agent whose MCP servers were started anew is told so before its next tool call": once, and
// only if it had used one.
func TestLostTools_areTold(t *testing.T) {
	t.Parallel()
	temp := call("run_command", map[string]string{"command": "make > /tmp/log"})
	rm := call("run_command", map[string]string{"command": "rm /tmp/log"})
	for name, tt := range map[string]struct {
		shared string
		used   []llm.Message
		says   []string // one for the second attempt; nil for nothing
	}{
		"a server":              {"", []llm.Message{open(), open()}, []string{"mcp__browser tools was started again", "pages and logins"}},
		"a server that runs on": {"s1", []llm.Message{open(), open()}, nil},
		"/tmp":                  {"", []llm.Message{temp}, []string{"Temporary files in $TMPDIR (/tmp) are gone."}},
		"both":                  {"", []llm.Message{temp, open()}, []string{"mcp__browser", "Temporary files in $TMPDIR (/tmp) are gone."}},
		"/tmp alone":            {"s1", []llm.Message{temp, open()}, []string{"You were interrupted. Temporary files"}},
		"an empty /tmp":         {"", []llm.Message{temp, rm}, nil},
		"files":                 {"", []llm.Message{writeCall("plan", "x")}, nil},
		"a command":             {"", []llm.Message{call("run_command", map[string]string{"command": "make"})}, nil},
		"nothing at all":        {"", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := browser(t, tt.shared)
			_, err := b.run(tt.used...)
			require.ErrorIs(t, err, errScriptOver)
			r := &rules{}
			b.spec.Open = opening(r)
			b.spec.Attempt.Number++
			_, err = b.run(read("plan"))
			require.ErrorIs(t, err, errScriptOver)
			last := &rules{}
			result := again(t, b, last, done("Two."))
			require.Equal(t, 1, result.Step)
			all := told(last)
			if tt.says == nil {
				require.Empty(t, all)
				return
			}
			require.Len(t, all, 1, "the third attempt has lost nothing more")
			for _, text := range tt.says {
				require.Contains(t, all[0], text)
			}
			require.Equal(t, loop.Updated, r.learned[len(r.learned)-3].Kind, "before the next call")
		})
	}
}

func opening(r *rules) func(step.Access) (loop.Rules, []llm.Message, error) {
	return func(step.Access) (loop.Rules, []llm.Message, error) {
		return r, []llm.Message{{Role: llm.User, Content: "Open the shop."}}, nil
	}
}

// A resumed step is also told.
func TestLostTools_ofAResumedStep(t *testing.T) {
	t.Parallel()
	b := browser(t, "")
	_, err := b.run(open())
	require.ErrorIs(t, err, errScriptOver)
	r := &rules{}
	b.spec.Token, b.spec.After, b.spec.Attempt, b.spec.Open = "run-l2", 1, step.Attempt{ResumeFrom: "run-l1"}, opening(r)
	_, err = b.run(done("Two."))
	require.NoError(t, err)
	require.Len(t, told(r), 1)
}

// A step that starts again has only its opening and is not told, because its conversation does not
// contain the earlier calls; these still count. After three times it is told instead.
func TestLostTools_beginAgain(t *testing.T) {
	t.Parallel()
	b := browser(t, "")
	b.spec.BeginAgain = true
	_, err := b.run(open())
	require.ErrorIs(t, err, errScriptOver)
	for n := range 4 {
		r := &rules{}
		b.spec.Open = opening(r)
		b.spec.Attempt.Number++
		model := &script{bench: b, replies: []llm.Message{open()}}
		ports := b.ports()
		ports.Model = requesting{model, func(req llm.Request) {
			if model.requests > 0 {
				return
			}
			first := req.Messages[0].Content
			if n < 3 {
				require.Equal(t, "Open the shop.", first)
				require.Contains(t, req.Messages[1].Content, "begins again")
			} else {
				require.Contains(t, req.Messages[len(req.Messages)-1].Content, "You were interrupted.")
			}
		}}
		result, err := step.Run(t.Context(), ports, b.spec)
		require.ErrorIs(t, err, errScriptOver)
		require.EqualValues(t, n+2, result.Usage.ModelCalls)
	}
}

// requesting is a model that records its requests.
type requesting struct {
	loop.Model
	look func(llm.Request)
}

func (m requesting) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	m.look(req)
	return m.Model.Generate(ctx, req)
}
