package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"conclave/cmd/conclave/cli"
	"conclave/engine/config"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/text"
	"conclave/worker"
)

// calls describes how a model calls tools.
type calls string

// The values of calls.
const (
	native calls = "native" // made by the API's tool_calls
	asText calls = "text"   // the reply's text is the call
	none   calls = "none"
)

// model is a model of a team, with the results of its check.
type model struct {
	Agents []string `json:"agents"`
	Type   string   `json:"type"`
	Model  string   `json:"model"`
	Server string   `json:"server"` // host of the server

	OK        bool  `json:"ok"`        // its agents can take part
	Reachable bool  `json:"reachable"` // the server has replied
	Calls     calls `json:"calls,omitempty"`

	ContextWindow *int    `json:"context_window"`        // context window in tokens, as conclave assumes it; null if it is unknown
	WindowSource  *string `json:"context_window_source"` // configuration or table; null if it is unknown

	ServedWindow *int `json:"served_window"` // context window in tokens, as the server states it; null if it does not

	Usage             bool     `json:"usage"` // the server counts tokens
	InputTokens       int64    `json:"input_tokens"`
	CachedInputTokens int64    `json:"cached_input_tokens"`
	OutputTokens      int64    `json:"output_tokens"`
	TotalUSD          *float64 `json:"total_usd"` // null if the price is unknown
	Seconds           float64  `json:"seconds"`
	TokensPerSecond   *float64 `json:"tokens_per_second"` // output tokens per second; null if they are not counted

	Detail string `json:"detail"` // the fault or restriction, with its remedy; empty without one

	agent config.Agent
	text  bool // its agents can take part without calling tools
}

func distinctModels(t config.Team) []*model {
	var models []*model
	keys := map[string]*model{}
	for _, a := range t.Models() {
		key, _ := json.Marshal(a.Backend) // params were read from a file and can be marshalled
		m := keys[string(key)]
		if m == nil {
			m = &model{Type: a.Backend.Type, Model: a.Backend.Model, agent: a, text: true}
			if a.Backend.IsOffline() {
				m.Model = a.Backend.Type
			}
			keys[string(key)] = m
			models = append(models, m)
		}
		m.text = m.text && t.TakesText(a.ID)
		if a.ID != "" {
			m.Agents = append(m.Agents, a.ID)
		}
	}
	return models
}

// askModels asks all models. It asks the models of the same server in sequence, because a
// local server may handle only one call at a time.
func askModels(ctx context.Context, at worker.Models, models []*model, timeout time.Duration) {
	servers := map[string][]*model{}
	for _, m := range models {
		m.Server = at.Host(m.agent.Backend)
		servers[m.Server] = append(servers[m.Server], m)
	}
	var all sync.WaitGroup
	for _, here := range servers {
		all.Go(func() {
			for _, m := range here {
				m.askModel(ctx, at, timeout)
			}
		})
	}
	all.Wait()
}

// probeRequest returns the request of a check. It has the form of a step's prompt, because a
// small model may write its call as text after one prompt and make none after another. The
// requested sentence is long enough to measure the model's speed.
func probeRequest() llm.Request {
	return llm.Request{
		Messages: []llm.Message{
			{Role: llm.System, Content: "# How your turn ends\n\nMake exactly one call of the tool `report`. Text outside that call reaches nobody."},
			{Role: llm.User, Content: "# Task\n\nSay in one sentence of about twenty words why the sky is blue.\n\n# Your turn\n\nSubmit the sentence with `report`."},
		},
		Tools: []llm.Tool{llm.NewTool("report", "Hand in a report.", map[string]llm.Property{
			"sentence": {Type: "string", Description: "The sentence."},
		}, "sentence")},
	}
}

// askModel puts every failure into the model's Detail, so that the other models are still asked.
func (m *model) askModel(ctx context.Context, at worker.Models, timeout time.Duration) {
	if window, source := at.WindowFrom(m.agent); window > 0 {
		m.ContextWindow, m.WindowSource = &window, &source
	}
	if m.agent.Backend.IsOffline() {
		m.OK, m.Reachable, m.Calls = true, true, native
		return
	}
	for variable := range at.MissingKeys(config.Team{Agents: []config.Agent{m.agent}}) {
		m.Detail = "the environment variable " + variable + ", which holds the key, is not set; set it, or name another one as api_key_env"
		return
	}
	asked, err := at.Model(m.agent)
	if err != nil {
		m.Detail = err.Error()
		return
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, began := probeRequest(), time.Now()
	reply, err := asked.Generate(limited, request)
	m.Seconds = max(time.Millisecond, time.Since(began).Round(time.Millisecond)).Seconds() // a rate needs a time
	m.addUsage(reply.Usage)
	switch failed, ok := errors.AsType[*llm.Error](err); {
	case errors.Is(err, context.DeadlineExceeded):
		m.Detail = "no reply within " + timeout.String() + "; raise --timeout, or use a faster model or server"
	case err != nil:
		m.Reachable = ok && failed.Status != 0
		m.Detail = err.Error()
	default:
		m.Reachable = true
		m.judgeReply(at, request, reply)
		if window := at.ServedWindow(limited, m.agent); window > 0 {
			m.ServedWindow = &window
		}
	}
}

func (m *model) addUsage(u llm.Usage) {
	m.InputTokens, m.CachedInputTokens, m.OutputTokens, m.TotalUSD = u.InputTokens, u.CachedInputTokens, u.OutputTokens, u.TotalUSD
	m.Usage = u.InputTokens+u.OutputTokens > 0
	if u.OutputTokens > 0 && m.Seconds > 0 {
		speed := math.Round(10*float64(u.OutputTokens)/m.Seconds) / 10
		m.TokensPerSecond = &speed
	}
}

func (m *model) judgeReply(at worker.Models, request llm.Request, reply llm.Reply) {
	message, written := loop.Salvage(reply.Message, request.Tools)
	offered := request.Tools[0].Name
	switch {
	case len(message.ToolCalls) == 0 && loop.LooksLikeCall(text.WithoutThoughts(message.Content)):
		m.Calls, m.OK = none, m.text
		m.Detail = "it tried to call a tool in text" + quoteInstead(message.Content) + fmt.Sprintf(
			", which cannot be read as a call of %s; check again, since the replies of a small model vary, or choose a larger model", offered)
	case len(message.ToolCalls) == 0:
		m.Calls, m.OK = none, m.text
		m.Detail = "it called no tool" + quoteInstead(message.Content) + m.withoutCalls() + "; " + at.ToolsRemedy(m.agent.Backend)
	case !slices.ContainsFunc(message.ToolCalls, func(c llm.ToolCall) bool { return c.Name == offered }):
		m.Calls, m.OK = none, m.text
		m.Detail = fmt.Sprintf("it called the tool %.64q, but only %s was offered%s; choose a model that is trained to call tools",
			message.ToolCalls[0].Name, offered, m.withoutCalls())
	case written != "":
		m.Calls, m.OK = asText, true // sessions accept such calls
	default:
		m.Calls, m.OK = native, true
	}
}

// withoutCalls explains how the agents of a model that calls no tool can take part.
func (m *model) withoutCalls() string {
	if m.text {
		return ", so its agents can only answer and vote in plain text (orchestrator.text_answers)"
	}
	return ", and this team takes no plain text for an answer, a vote or a verdict"
}

// maxQuoted is the maximum size of a quoted reply, in bytes.
const maxQuoted = 100

func quoteInstead(said string) string {
	line := text.Terminal(text.OneLine(text.WithoutThoughts(said)))
	if line == "" {
		return ""
	}
	return fmt.Sprintf(" but wrote %q", text.Truncate(line, maxQuoted))
}

// ModelsReport is the outcome of a check, and its JSON output.
type ModelsReport struct {
	OK     bool     `json:"ok"`
	Models []*model `json:"models"`
}

// Faults returns the problems of the models that cannot take part, with their remedies. If ok
// is set, it returns the restrictions of those that can.
func (r ModelsReport) Faults(ok bool) []string {
	var faults []string
	for _, m := range r.Models {
		if m.OK == ok && m.Detail != "" {
			faults = append(faults, m.faultLine())
		}
	}
	return faults
}

func (m *model) faultLine() string {
	agents := strings.Join(m.Agents, ", ")
	return strings.TrimPrefix(agents+": ", ": ") + m.String() + ": " + strings.TrimPrefix(m.Detail, m.String()+": ")
}

// showModels prints a table on stdout and the faults with their remedies below it, or JSON.
func showModels(c *cli.CLI, r ModelsReport) error {
	if c.Scripted() {
		return c.PrintJSON(r)
	}
	rows := []string{"MODEL\tSERVER\tAGENTS\tCALLS\tWINDOW\tTOKENS (CACHED)\tTOKENS/S"}
	rows = append(rows, text.Each(r.Models, (*model).tableRow)...)
	notes := modelNotes(r)
	out := cli.Table(strings.Join(rows, "\n") + "\n")
	if len(notes) > 0 {
		out += "\n" + strings.Join(notes, "\n") + "\n"
	}
	return c.Print(text.Terminal(out))
}

const unknown = "?"

// windowSources are the sources of a context window, as named in the table.
var windowSources = map[string]string{worker.Configured: "configured", worker.Tabled: "assumed"}

func (m *model) tableRow() string {
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
	if m.agent.Backend.IsOffline() || !m.Reachable {
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

// modelNotes returns the fault or restriction of each model, then the agents whose
// models lack optional information.
func modelNotes(r ModelsReport) []string {
	var faults, windowless, uncounted []string
	for _, fault := range r.Faults(false) {
		faults = append(faults, "✗ "+fault)
	}
	for _, restriction := range r.Faults(true) {
		faults = append(faults, "· "+restriction)
	}
	for _, m := range r.Models {
		agents := strings.Join(m.Agents, ", ")
		if m.Calls == "" || m.agent.Backend.IsOffline() {
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
