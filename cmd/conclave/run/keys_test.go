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
	"golang.org/x/sys/unix"

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
	run := &stage.Execution{ID: "s1", Type: session.Workflow, Started: time.Now(), State: acts.State{Status: workflows.Running, View: coordination.View{Leader: "agent2.1"}}, Memo: map[string]any{}}
	server := &stage.Server{Updates: func(id, name string, payload any) (any, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		said, _ := payload.(workflows.Request)
		d.sent = append(d.sent, strings.TrimSpace(id+" "+name+" "+said.Text))
		if d.paused = name == workflows.PauseSignal; d.paused {
			run.Memo[workflows.MemoStatus] = workflows.Paused
		}
		if said.Text == "refuse" {
			return nil, refused("Refused", "it takes no further step")
		}
		return acts.State{}, nil
	}}
	server.Add(run)
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
			return cli.Snapshot{State: acts.State{SessionID: "s1", Status: workflows.Running, View: coordination.View{Paused: d.paused, Round: 1}}}, nil
		}, func(ctx context.Context) (any, error) { <-ctx.Done(); return nil, ctx.Err() })
	}()
	t.Cleanup(func() {
		end()
		<-ended
	})
	require.Eventually(t, func() bool { return strings.Contains(d.Shown(), "round 1") }, time.Minute, 5*time.Millisecond)
	return d
}

// readsLines reports whether the terminal waits for a line and not for a key.
func (d *desk) readsLines(t *testing.T) bool {
	now, err := unix.IoctlGetTermios(int(d.TTY.Fd()), unix.TCGETS)
	require.NoError(t, err)
	return now.Lflag&unix.ICANON != 0
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
		{"q", "", ""},
		{"git push\n", "", ""}, // pasted
		{"f", "decide now for agent2.1? Running steps are ended. [y/N] ", ""},
		{"\n", "", ""},
		{"s", "say to all agents: ", ""},
		{"hallo wë\x7felt!\n", "", "s1 say hallo welt!"},
		{"s", "say to all agents: ", ""},
		{"refuse\n", "say something to session s1: it takes no further step", "s1 say refuse"},
		{"p", "mpaused", "s1 pause"},
		{"p", "", "s1 resume"},
		{"f", "decide now for agent2.1? Running steps are ended. [y/N] ", ""},
		{"y\n", "", "s1 finish"},
	} {
		seen := len(d.Shown())
		d.Type("", tt.keys)
		require.Eventually(t, func() bool { return strings.Contains(d.Shown()[seen:], tt.shows) }, time.Minute, 5*time.Millisecond, "%q", tt.shows)
		require.Eventually(t, func() bool { return tt.sends == "" || slices.Contains(d.requests(), tt.sends) }, time.Minute, time.Millisecond, "%q", tt.sends)
		asks := strings.HasSuffix(tt.shows, " ")
		require.Eventually(t, func() bool { return d.readsLines(t) == asks }, time.Minute, time.Millisecond)
	}
	require.Len(t, d.requests(), 5)
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
