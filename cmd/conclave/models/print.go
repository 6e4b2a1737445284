package models

import (
	"fmt"
	"strconv"
	"strings"

	"conclave/cmd/conclave/hall"
	"conclave/engine/config"
	"conclave/engine/text"
	"conclave/worker"
)

// Report is the outcome of a check, and its JSON output.
type Report struct {
	OK     bool     `json:"ok"`
	Models []*model `json:"models"`
}

// Faults returns the problems of the models that cannot take part, with their remedies. If ok
// is set, it returns the restrictions of those that can.
func (r Report) Faults(ok bool) []string {
	var faults []string
	for _, m := range r.Models {
		if m.OK == ok && m.Detail != "" {
			faults = append(faults, m.fault())
		}
	}
	return faults
}

// fault returns the model's detail after the names of its agents and the model.
func (m *model) fault() string {
	agents := strings.Join(m.Agents, ", ")
	return strings.TrimPrefix(agents+": ", ": ") + m.String() + ": " + strings.TrimPrefix(m.Detail, m.String()+": ")
}

// show prints a table on stdout and the faults with their remedies below it, or JSON.
func show(c *hall.CLI, r Report) error {
	if c.Scripted() {
		return c.PrintJSON(r)
	}
	rows := []string{"MODEL\tSERVER\tAGENTS\tCALLS\tWINDOW\tTOKENS (CACHED)\tTOKENS/S"}
	for _, m := range r.Models {
		rows = append(rows, m.row())
	}
	notes := notes(r)
	out := hall.Table(strings.Join(rows, "\n") + "\n")
	if len(notes) > 0 {
		out += "\n" + strings.Join(notes, "\n") + "\n"
	}
	return c.Print(text.Terminal(out))
}

const unknown = "?"

// windowSources are the sources of a context window, as named in the table.
var windowSources = map[string]string{worker.Configured: "configured", worker.Tabled: "assumed"}

// row returns the line of a model in the table.
func (m *model) row() string {
	calls, window, tokens, speed := string(m.Calls), unknown, unknown, unknown
	if m.Calls == "" {
		calls = "–"
	}
	if m.ContextWindow != nil {
		window = strconv.Itoa(*m.ContextWindow) + " (" + windowSources[*m.WindowSource] + ")"
	}
	if m.ServedWindow != nil && m.ContextWindow == nil {
		window = strconv.Itoa(*m.ServedWindow) + " (server)"
	}
	if m.Usage {
		tokens = fmt.Sprintf("%d (%d) + %d", m.InputTokens, m.CachedInputTokens, m.OutputTokens)
	}
	if m.TokensPerSecond != nil {
		speed = strconv.FormatFloat(*m.TokensPerSecond, 'f', 1, 64)
	}
	if m.Type == config.Offline || !m.Reachable {
		window, tokens, speed = "–", "–", "–"
	}
	cells := []string{m.Model, m.Server, strings.Join(m.Agents, ", "), calls, window, tokens, speed}
	for i, cell := range cells {
		cells[i] = strings.NewReplacer("\t", " ", "\n", " ").Replace(cell)
		if cell == "" {
			cells[i] = "–"
		}
	}
	return strings.Join(cells, "\t")
}

// notes returns the fault or restriction of each model, then the agents whose
// models lack optional information.
func notes(r Report) []string {
	var faults, windowless, uncounted []string
	for _, fault := range r.Faults(false) {
		faults = append(faults, "✗ "+fault)
	}
	for _, restriction := range r.Faults(true) {
		faults = append(faults, "· "+restriction)
	}
	for _, m := range r.Models {
		agents := strings.Join(m.Agents, ", ")
		if m.Calls == "" || m.Type == config.Offline {
			continue
		}
		if note := m.windowNote(); note != "" {
			faults = append(faults, "· "+strings.TrimPrefix(agents+": ", ": ")+note)
		} else if m.ContextWindow == nil {
			windowless = append(windowless, agents)
		}
		if !m.Usage {
			uncounted = append(uncounted, agents)
		}
	}
	if len(windowless) > 0 {
		faults = append(faults, "· unknown context window: "+strings.Join(windowless, ", ")+
			"; set context_window of the backend so that a long conversation is shortened in time")
	}
	if len(uncounted) > 0 {
		faults = append(faults, "· tokens not counted by the server: "+strings.Join(uncounted, ", ")+"; the cost stays unknown, and no budget can limit it")
	}
	return faults
}

// windowNote returns the remedy if sessions assume a context window other than the
// server's.
func (m *model) windowNote() string {
	switch {
	case m.ServedWindow == nil:
		return ""
	case m.ContextWindow == nil:
		return fmt.Sprintf("the server states a context window of %d tokens; set context_window: %[1]d of the backend, since sessions do not ask", *m.ServedWindow)
	case *m.ContextWindow > *m.ServedWindow:
		return fmt.Sprintf("its context window of %d tokens is %s, but the server states %d; set context_window: %[3]d of the backend",
			*m.ContextWindow, windowSources[*m.WindowSource], *m.ServedWindow)
	}
	return ""
}

// String names a model in the same way as errors of its calls.
func (m *model) String() string {
	if m.Server == "" {
		return "model " + m.Model
	}
	return "model " + m.Model + " at " + m.Server
}
