//go:build bench

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/tools"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
	"conclave/engine/llm"
	team "conclave/engine/session"
	"conclave/engine/step"
)

// The size of the workspace that other steps start from.
const (
	files     = 1000
	fileBytes = 50 << 10
)

// desk runs steps of one session: agent_a has answered with files, and the steps of
// agent_b are measured.
type desk struct {
	stack  *stack
	proxy  *countingProxy
	layout artifact.Layout
	filled artifact.Store  // through a cache that has all content
	lender *snapshot.Trees // of the worker with that cache
	home   string          // of its workspaces
	steps  int             // of agent_b
}

func newDesk(b *testing.B, s *stack) *desk {
	b.Helper()
	d := &desk{stack: s, proxy: newCountingProxy(b, s.S3Endpoint), layout: artifact.InBucket("desk"), home: b.TempDir()}
	d.filled = d.cache(b)
	d.lender = snapshot.NewTrees(d.filled, b.TempDir(), 1<<30)
	first := coordination.Launch{
		ID: "l1", Agent: "agent_a", Number: 1, Round: 1, Offered: []coordination.Action{coordination.NewAnswer},
	}
	result := d.step(b, first, d.filled, replies("It is all in the files."), fill)
	require.Equal(b, files, result.Files)
	return d
}

// cached is the store of a worker with a warm cache.
func (d *desk) cached() artifact.Store { return d.filled }

// cache is the store of a worker with an empty cache.
func (d *desk) cache(b *testing.B) artifact.Store {
	b.Helper()
	const room = 1 << 30
	cache, err := artifact.NewCache(d.stack.store(b, d.proxy.URL), b.TempDir(), room)
	require.NoError(b, err)
	return cache
}

// launch is the next step of agent_b.
func (d *desk) launch(shown bool) coordination.Launch {
	l := coordination.Launch{
		ID: coordination.LaunchID(fmt.Sprintf("l%d", d.steps+2)), Agent: "agent_b", Number: 2, Round: d.steps + 2,
		After: d.steps, Answers: d.steps, Offered: []coordination.Action{coordination.NewAnswer},
	}
	if shown {
		l.Shown = []coordination.Shown{{Agent: "agent_a", Number: 1, Label: "agent1.1", Step: 1}}
	}
	d.steps++
	return l
}

// step reads the prompt of a launch and runs the step, as a worker does. Prepare may
// change the workspace before.
func (d *desk) step(b *testing.B, l coordination.Launch, store artifact.Store, replies []llm.Message, prepare func(dir string) error) step.Result {
	b.Helper()
	spec, err := team.Step{
		Layout: d.layout, Launch: l, Token: "desk-" + string(l.ID), Attempt: 1,
		Agents: []string{"agent_a", "agent_b"}, Query: "What is in the files?", Files: true,
	}.Spec(b.Context(), store)
	require.NoError(b, err)
	var lender *snapshot.Trees // of a worker without a cache
	if store == d.filled {
		lender = d.lender
	}
	result, err := step.Run(b.Context(), step.Ports{
		Store: store, Trees: lender, Model: &recital{replies: replies}, Now: time.Now, Scratch: d.home,
		Tools: step.OpenFunc(func(ctx context.Context, dir string) (step.Tools, error) {
			if prepare != nil {
				if err := prepare(dir); err != nil {
					return nil, err
				}
			}
			return tools.Open(ctx, dir, tools.Set{Files: true})
		}),
	}, spec)
	require.NoError(b, err)
	return result
}

// fill writes files with different texts.
func fill(dir string) error {
	random := rand.NewChaCha8([32]byte{})
	content := make([]byte, fileBytes/2)
	for n := range files {
		_, _ = random.Read(content)
		text := fmt.Sprintf("%s %x", mark(n), content)[:fileBytes]
		path := filepath.Join(dir, fileName(n))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// mark is the beginning of a file.
func mark(n int) string { return fmt.Sprintf("file %03d", n) }

func fileName(n int) string { return fmt.Sprintf("part%02d/%03d.dat", n%20, n) }

// recital is a model that replies without delay, in order.
type recital struct {
	replies []llm.Message
	given   int
}

func (r *recital) Generate(context.Context, llm.Request) (llm.Reply, error) {
	if r.given == len(r.replies) {
		return llm.Reply{}, errors.New("there are no more replies")
	}
	r.given++
	return llm.Reply{Message: r.replies[r.given-1], Usage: llm.Usage{InputTokens: 100, ModelCalls: 1}}, nil
}

// replies returns the replies of a step: one for each batch of tool calls, then an answer.
func replies(answer string, batches ...[]llm.ToolCall) []llm.Message {
	var all []llm.Message
	for _, calls := range append(batches, toolCall("new_answer", map[string]string{"content": answer})) {
		all = append(all, llm.Message{Role: llm.Assistant, ToolCalls: calls})
	}
	return all
}

func toolCall(name string, arguments map[string]string) []llm.ToolCall {
	data, _ := json.Marshal(arguments)
	return []llm.ToolCall{{ID: name, Name: name, Arguments: string(data)}}
}

// copyAll copies the other answer's files into the workspace.
func copyAll() []llm.ToolCall {
	return toolCall("copy_path", map[string]string{"from": "peers/agent1", "to": "."})
}

// edit changes a word in some of the files, to a different one in every step.
func (d *desk) edit(some int) []llm.ToolCall {
	var calls []llm.ToolCall
	for n := range some {
		one := toolCall("edit_file", map[string]string{
			"path": fileName(n), "old_string": mark(n), "new_string": fmt.Sprintf("%s after %d", mark(n), d.steps),
		})[0]
		one.ID = fmt.Sprintf("edit%d", n)
		calls = append(calls, one)
	}
	return calls
}
