package step

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// losses are the states of tools that ended with an earlier attempt of the step.
type losses struct {
	servers []string // MCP servers that the agent has used
	temp    bool     // a command named the directory for temporary files
	begun   int      // how often the step has begun again
}

// lostNote is the note of the update that tells the agent of its losses.
type lostNote struct {
	Lost bool `json:"lost_tools"`
}

// lossesOf returns the losses that restored entries do not tell the agent yet.
func lossesOf(entries []loop.Entry) losses {
	var l losses
	for _, e := range entries {
		switch {
		case e.Kind == loop.BegunAgain:
			l = losses{begun: l.begun + 1}
		case isLostNote(e):
			l = losses{begun: l.begun}
		case e.Kind == loop.Reply:
			for _, m := range e.Messages {
				l.add(m.ToolCalls)
			}
		}
	}
	return l
}

func isLostNote(e loop.Entry) bool {
	var n lostNote
	return e.Kind == loop.Updated && len(e.Note) > 0 && json.Unmarshal(e.Note, &n) == nil && n.Lost
}

func (l *losses) add(calls []llm.ToolCall) {
	for _, call := range calls {
		if named, ok := strings.CutPrefix(call.Name, "mcp__"); ok {
			if server, _, _ := strings.Cut(named, "__"); !slices.Contains(l.servers, server) {
				l.servers = append(l.servers, server)
			}
		}
		l.temp = l.temp || call.Name == "run_command" && (strings.Contains(call.Arguments, "/tmp") || strings.Contains(call.Arguments, "TMPDIR"))
	}
}

// String describes the losses to the agent; empty without any.
func (l losses) String() string {
	var lost []string
	switch n := len(l.servers); {
	case n == 1:
		lost = append(lost, "The server of the mcp__"+l.servers[0]+" tools was started again: its state, such as open pages and logins, is gone.")
	case n > 1:
		lost = append(lost, "The servers of these tools were started again: mcp__"+strings.Join(l.servers, ", mcp__")+". Their state, such as open pages and logins, is gone.")
	}
	if l.temp {
		lost = append(lost, "Files in /tmp are gone.")
	}
	return strings.Join(lost, " ")
}

// informed wraps rules, and tells the agent its losses before the next model call.
type informed struct {
	loop.Rules
	lost string // empty once it was told
}

// Updates implements loop.Rules.
func (r *informed) Updates(ctx context.Context) (loop.Update, error) {
	if r.lost == "" {
		return r.Rules.Updates(ctx)
	}
	text := "You were interrupted. " + r.lost + " Your workspace and this conversation are as they were."
	r.lost = ""
	note, err := json.Marshal(lostNote{Lost: true})
	return loop.Update{Messages: []llm.Message{{Role: llm.User, Content: text}}, Note: note}, err
}

// Learn implements loop.Rules. Notes of its own do not reach the wrapped rules.
func (r *informed) Learn(ctx context.Context, e loop.Entry) error {
	if isLostNote(e) {
		e.Note = nil
	}
	return r.Rules.Learn(ctx, e)
}

// maxBegun bounds how often a step begins again: after that its agent is told its losses.
const maxBegun = 3

// beginAgain returns the restored entries, and with losses those by which the step begins
// again from its opening.
func (a *attempt) beginAgain(ctx context.Context, entries []loop.Entry, opening []llm.Message, lost losses) ([]loop.Entry, error) {
	text := "This step was interrupted and begins again. " + lost.String() + " Evidence and files from before are kept under their names."
	opening = append(slices.Clone(opening), llm.Message{Role: llm.User, Content: text})
	for _, e := range []loop.Entry{{Kind: loop.BegunAgain}, {Kind: loop.Opening, Messages: opening}} {
		if err := a.journal.append(ctx, e); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}
