package step

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// losses are states of tools that were lost with an earlier attempt of the step.
type losses struct {
	servers []string // MCP servers that the agent has used
	temp    bool     // commands had left temporary files
	begun   int      // how often the step has begun again
}

// lostNote is the note of the update that tells the agent about its losses.
type lostNote struct {
	Lost bool `json:"lost_tools"`
}

// lossesOf returns the losses that the agent has not been told of: states that the restored
// entries mention last and that the tools no longer have.
func lossesOf(entries []loop.Entry, tools []llm.Tool) losses {
	var l losses
	states, order := map[string]string{}, []string{}
	for _, e := range entries {
		switch {
		case e.Kind == loop.BegunAgain:
			l.begun++
			clear(states)
		case isLostNote(e):
			clear(states)
		}
		for _, holder := range slices.Sorted(maps.Keys(e.States)) {
			states[holder] = e.States[holder]
			if !slices.Contains(order, holder) {
				order = append(order, holder)
			}
		}
	}
	now := statesOf(tools)
	for _, holder := range order {
		switch state, used := states[holder]; {
		case !used || state == now[holder]:
		case holder == llm.RunCommand:
			l.temp = true
		default:
			l.servers = append(l.servers, holder)
		}
	}
	return l
}

// statesOf returns the states of tools by their holders, which are MCP servers and run_command.
func statesOf(tools []llm.Tool) map[string]string {
	states := map[string]string{}
	for _, t := range tools {
		if t.State != "" {
			states[holderOf(t.Name)] = t.State
		}
	}
	return states
}

// holderOf returns the holder of a tool's state: its MCP server, or the tool itself.
func holderOf(tool string) string {
	named, ok := strings.CutPrefix(tool, "mcp__")
	if !ok {
		return tool
	}
	server, _, _ := strings.Cut(named, "__")
	return server
}

// withStates adds the states of the called MCP servers to a reply. To results it adds the
// state of the shell if that has changed.
func withStates(e loop.Entry, tools []llm.Tool, shell *string) loop.Entry {
	now, noted := statesOf(tools), map[string]string{}
	switch e.Kind {
	case loop.Reply:
		for _, m := range e.Messages {
			for _, call := range m.ToolCalls {
				if server := holderOf(call.Name); server != call.Name && now[server] != "" {
					noted[server] = now[server]
				}
			}
		}
	case loop.Results:
		if state := now[llm.RunCommand]; state != *shell {
			*shell, noted[llm.RunCommand] = state, state
		}
	}
	if len(noted) > 0 {
		e.States = noted
	}
	return e
}

func isLostNote(e loop.Entry) bool {
	var n lostNote
	return e.Kind == loop.Updated && len(e.Note) > 0 && json.Unmarshal(e.Note, &n) == nil && n.Lost
}

// String describes the losses to the agent. It returns "" if nothing was lost.
func (l losses) String() string {
	var lost []string
	switch n := len(l.servers); {
	case n == 1:
		lost = append(lost, "The server of the mcp__"+l.servers[0]+" tools was started again: its state, such as open pages and logins, is gone.")
	case n > 1:
		lost = append(lost, "The servers of these tools were started again: mcp__"+strings.Join(l.servers, ", mcp__")+". Their state, such as open pages and logins, is gone.")
	}
	if l.temp {
		lost = append(lost, "Temporary files in $TMPDIR (/tmp) are gone.")
	}
	return strings.Join(lost, " ")
}

// informed wraps rules and reports the losses to the agent before the next model call.
type informed struct {
	loop.Rules
	lost string // empty once it was told
}

func (r *informed) Updates(ctx context.Context) (loop.Update, error) {
	if r.lost == "" {
		return r.Rules.Updates(ctx)
	}
	text := "You were interrupted. " + r.lost + " Your workspace and this conversation are as they were."
	r.lost = ""
	note, err := json.Marshal(lostNote{Lost: true})
	return loop.Update{Messages: []llm.Message{{Role: llm.User, Content: text}}, Note: note}, err
}

// Learn implements loop.Rules. It does not pass its own notes to the wrapped rules.
func (r *informed) Learn(ctx context.Context, e loop.Entry) error {
	if isLostNote(e) {
		e.Note = nil
	}
	return r.Rules.Learn(ctx, e)
}

// maxBegun bounds how often a step begins again. After that its agent is told about its losses instead.
const maxBegun = 3

// beginAgain journals that the step begins again, with an opening that names the losses, and
// returns entries with both appended.
func (a *attempt) beginAgain(ctx context.Context, entries []loop.Entry, opening []llm.Message, lost losses) ([]loop.Entry, error) {
	text := "This step was interrupted and begins again. " + lost.String() + " Evidence and files from before are kept under their names."
	opening = append(slices.Clone(opening), llm.Message{Role: llm.User, Content: text})
	for _, e := range []loop.Entry{{Kind: loop.BegunAgain}, {Kind: loop.Opening, Messages: opening}} {
		if err := a.journal.appendEntry(ctx, e); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}
