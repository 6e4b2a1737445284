//go:build linux

package runs

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/session"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/coordination"
	"conclave/workflows"
)

// desk is a person at a terminal that shows a running session.
type desk struct {
	*stage.Terminal
	mu     sync.Mutex
	paused bool
	sent   []string
}

// openDesk follows a session on a terminal until the test ends.
func openDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{Terminal: stage.NewTerminal(t)}
	server := &stage.Server{Updates: func(id, name string, payload any) (any, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		said, _ := payload.(workflows.Request)
		d.sent = append(d.sent, strings.TrimSpace(id+" "+name+" "+said.Text))
		d.paused = name == workflows.PauseSignal
		if said.Text == "refuse" {
			return nil, refused("Refused", "it takes no further step")
		}
		return acts.State{}, nil
	}}
	server.Add(&stage.Execution{ID: "s1", Type: session.Workflow, Started: time.Now(), State: acts.State{Status: workflows.Running}})
	conn, _, _ := server.Connect(nil)
	conn.Stdin, conn.Stderr, conn.Pages = d.TTY, d.TTY, "http://127.0.0.1:1"
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	kind := *session
	go func() {
		defer close(ended)
		run := Run{Kind: &kind, ID: "s1", Workflow: "s1", Status: workflows.Running, Started: time.Now()}
		_, _ = Follow(ctx, conn, run, cli.NewDisplay(d.TTY), func(context.Context, *Follower) (cli.Snapshot, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			return cli.Snapshot{State: acts.State{SessionID: "s1", Status: workflows.Running, View: coordination.View{Paused: d.paused, Round: 1, Leader: "agent2.1"}}}, nil
		}, func(ctx context.Context) (any, error) { <-ctx.Done(); return nil, ctx.Err() })
	}()
	t.Cleanup(func() {
		end()
		<-ended
	})
	require.Eventually(t, func() bool { return strings.Contains(d.Shown(), "? keys") }, time.Minute, 5*time.Millisecond)
	return d
}

func (d *desk) requests() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string{}, d.sent...)
}

// Each key has its effect, on the screen and on the session.
func TestFollow_keys(t *testing.T) {
	d := openDesk(t)
	for _, tt := range []struct{ keys, shows, sends string }{
		{"?", "Ctrl-C stop watching", ""},
		{"p", "mpaused", "s1 pause"},
		{"s", "say to all agents (Enter sends, Esc drops it): ▏", ""},
		{"hallo wë\x7felt", ": hallo welt▏", ""},
		{"!\r", "said to all agents: hallo welt!", "s1 say hallo welt!"},
		{"srefuse\r", "say something to session s1: it takes no further step", "s1 say refuse"},
		{"f", "decide now, for agent2.1? Running steps are ended. [y/N]", ""},
		{"y", "? keys", "s1 finish"},
	} {
		seen := len(d.Shown())
		d.Type("", tt.keys)
		require.Eventually(t, func() bool { return strings.Contains(d.Shown()[seen:], tt.shows) }, time.Minute, 5*time.Millisecond, "%q", tt.shows)
		if tt.sends != "" {
			require.Eventually(t, func() bool { return slices.Contains(d.requests(), tt.sends) }, time.Minute, time.Millisecond, "%q", tt.sends)
		}
	}
	require.Len(t, d.requests(), 4)
}

// What is pasted sends nothing by its keys, and a question is answered by one key.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	say := func(text string) []Request { return []Request{{Verb: workflows.SaySignal, Text: text}} }
	for name, tt := range map[string]struct {
		typed []string
		asks  []Request
	}{
		"a pasted command":            {[]string{"git push\n", "conclave list\n"}, nil},
		"an arrow, a letter":          {[]string{"\x1b[A", "q", "\n", "Y"}, nil},
		"pause":                       {[]string{"p"}, []Request{{Verb: workflows.PauseSignal}}},
		"the page":                    {[]string{"o"}, []Request{{Verb: openVerb}}},
		"finish":                      {[]string{"f", "Y"}, []Request{{Verb: workflows.FinishSignal}}},
		"no finish":                   {[]string{"f", "\n", "y", "f", "n", "f", "\x1b", "y", "f", "yes\n"}, nil},
		"a message in pieces":         {[]string{"s", "a", "b", " ", "\xc3", "\xa9", "\n"}, say("ab é")},
		"a pasted message":            {[]string{"s", "two\r\nlines\tp\r"}, say("two  lines p")},
		"a message corrected":         {[]string{"s", "away\x15here\x7f\x7f\b\b\b\bthere\x07\n"}, say("there")},
		"no message":                  {[]string{"s", "  \n", "s", "never\x1b", "\n", "s", "\x1b", "\n"}, nil},
		"bytes that are no character": {[]string{"s", "a\xff\n"}, say("a")},
	} {
		k := &keyboard{}
		var asked []Request
		for _, typed := range tt.typed {
			if r := k.take(typed); r.Verb != "" {
				asked = append(asked, r)
			}
		}
		require.Equal(t, tt.asks, asked, name)
	}
	paused := &keyboard{last: &cli.Snapshot{State: acts.State{View: coordination.View{Paused: true}}}}
	require.Equal(t, workflows.ResumeSignal, paused.take("p").Verb)
}

// A call is allowed only after it was shown whole, by Enter, and as it was shown.
func TestKeyboard_approvals(t *testing.T) {
	t.Parallel()
	call := func(id, arguments string) Question {
		return Question{Question: coordination.Question{
			QuestionID: id, QuestionKind: coordination.AskApproval, Agent: "agent_a", Tool: "run_command", Arguments: arguments, Text: "May this call of run_command run?",
		}}
	}
	command := `{"command": "git push origin main --force-with-lease ` + "\x1b[2K\u202e" + `# harmless"}`
	k := &keyboard{asked: []Question{call("q1", command)}}
	require.Empty(t, k.take("a").Verb)
	shown := k.callLines(40)
	require.Equal(t, "agent_a asks to call run_command with {\"command\": \"git push origin main --force-with-lease # harmless\"}", strings.Join(strings.Fields(strings.Join(shown[:len(shown)-1], " ")), " "))
	require.Equal(t, "  Enter allows this call, any other key leaves it open", shown[len(shown)-1])
	for _, line := range shown[:len(shown)-1] {
		require.LessOrEqual(t, len(line), 40)
	}
	k.asked = []Question{call("q2", `{"command": "rm -r /"}`)} // another one comes while the person reads
	require.Equal(t, Request{Verb: workflows.ApproveSignal, Question: "q1"}, k.take("\r"))
	for _, other := range []string{"y", "\x1b", "a", "git push\n"} {
		require.Empty(t, k.take("a").Verb)
		require.Empty(t, k.take(other).Verb, other)
		require.Equal(t, keyEntry, k.entry, other)
	}
	require.Empty(t, k.take("d").Verb)
	require.Equal(t, Request{Verb: denyVerb, Question: "q2"}, k.take("\n"))

	long := call("q3", `{"command": "…"}`)
	long.Path = "sessions/s1/questions/q3.json"
	k.asked = []Question{long}
	require.Empty(t, k.take("a").Verb)
	require.Contains(t, k.callLines(80)[0], "conclave inbox --full")
	require.Empty(t, k.take("\r").Verb, "what is not shown is not allowed")
}

func TestFollow_opensThePage(t *testing.T) {
	browser := filepath.Join(t.TempDir(), "browser")
	require.NoError(t, os.WriteFile(browser, []byte("#!/bin/sh\necho \"$1\" > \"$0.new\" && mv \"$0.new\" \"$0.seen\"\n"), 0o755))
	t.Setenv("BROWSER", browser)
	d := openDesk(t)
	d.Type("", "o")
	require.Eventually(t, func() bool { _, err := os.Stat(browser + ".seen"); return err == nil }, time.Minute, 5*time.Millisecond)
	address, err := os.ReadFile(browser + ".seen")
	require.NoError(t, err)
	require.Equal(t, "http://127.0.0.1:1/sessions/s1\n", string(address))
}
