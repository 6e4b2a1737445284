package stagetest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"conclave/engine/llm"
)

// Player is a model with scripted replies.
type Player struct {
	Replies []any                           // llm.Message, error or Block
	Asked   int                             // number of calls so far
	Saw     func(call int, req llm.Request) // called with the number of the model call, from 1; may be nil

	mu sync.Mutex
}

// Generate plays the next reply.
func (p *Player) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Asked++
	if p.Saw != nil {
		p.Saw(p.Asked, req)
	}
	if p.Asked > len(p.Replies) {
		return llm.Reply{}, &llm.Error{Kind: llm.BadRequest, Message: fmt.Sprintf("the script ends before call %d", p.Asked)}
	}
	switch r := p.Replies[p.Asked-1].(type) {
	case error:
		return llm.Reply{}, r
	case Block:
		r.Reached()
		p.mu.Unlock() // steps launched meanwhile get the replies after this one
		<-ctx.Done()
		p.mu.Lock()
		return llm.Reply{}, context.Cause(ctx)
	default:
		return llm.Reply{Message: r.(llm.Message), Usage: llm.Usage{InputTokens: 10, OutputTokens: 1, ModelCalls: 1}}, nil
	}
}

// Block is a model call that never returns. It calls Reached when it starts.
type Block struct{ Reached func() }

// Never returns a Block that does nothing when it starts.
func Never() Block { return Block{Reached: func() {}} }

// Call returns a reply with one tool call.
func Call(name string, arguments map[string]string) llm.Message {
	data, _ := json.Marshal(arguments)
	return llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "c", Name: name, Arguments: string(data)}}}
}

// Answer returns a call of new_answer.
func Answer(text string) llm.Message {
	return Call("new_answer", map[string]string{"content": text})
}

// Vote returns a vote for a label.
func Vote(label string) llm.Message {
	return Call("vote", map[string]string{"agent_id": label, "reason": "because"})
}

// Seed returns the scripts for a session of three agents that reaches a decision in three rounds.
func Seed() map[string][]any {
	return map[string][]any{
		"agent_a": {Answer("A."), Vote("agent2"), Vote("agent3")},
		"agent_b": {Answer("B."), Vote("agent2"), Vote("agent3")},
		"agent_c": {Answer("C."), Answer("C, improved."), Vote("agent3")},
	}
}

// Text returns a reply without tool calls.
func Text(content string) llm.Message { return llm.Message{Role: llm.Assistant, Content: content} }

// Prompts collects a player's requests. The returned function returns the request of a call,
// counted from 1.
func (p *Player) Prompts() func(n int) llm.Request {
	all := map[int]llm.Request{}
	p.Saw = func(n int, req llm.Request) { all[n] = req }
	return func(n int) llm.Request { return all[n] }
}

// User returns the first user message of a request.
func User(r llm.Request) string {
	for _, m := range r.Messages {
		if m.Role == llm.User {
			return m.Content
		}
	}
	return ""
}

// Limited is a rate limit error for which a step waits between two attempts.
var Limited = &llm.Error{Kind: llm.RateLimited, Message: "slow down", RetryAfter: time.Hour}

// BeforeLimit returns three paid replies, the rate limit error, and the replies after it.
func BeforeLimit(after ...any) []any {
	look := Call("list_files", nil)
	return append([]any{Call("write_file", map[string]string{"path": "draft.md", "content": "a frog"}), look, look, Limited}, after...)
}

// RefusedKey is an error that a retry cannot fix.
var RefusedKey = &llm.Error{Kind: llm.AuthFailed, Message: "the key was refused"}

// WriteFile returns a call of write_file.
func WriteFile(content string) llm.Message {
	return Call("write_file", map[string]string{"path": "x", "content": content})
}
