package files

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
	"conclave/engine/text"
)

// The parts of a trajectory.
type (
	trajectory struct {
		Schema  string           `json:"schema_version"`
		Session string           `json:"session_id"`
		Agent   trajectoryAgent  `json:"agent"`
		Steps   []trajectoryStep `json:"steps"`
		Notes   string           `json:"notes,omitempty"`
		Final   finalMetrics     `json:"final_metrics"`
		Extra   map[string]any   `json:"extra,omitempty"`
	}
	trajectoryAgent struct {
		Name    string         `json:"name"`
		Version string         `json:"version"`
		Model   string         `json:"model_name,omitempty"`
		Extra   map[string]any `json:"extra,omitempty"`
	}
	trajectoryStep struct {
		ID          int              `json:"step_id"`
		Time        string           `json:"timestamp"`
		Source      string           `json:"source"` // system, user or agent
		Model       string           `json:"model_name,omitempty"`
		Message     string           `json:"message"`
		Reasoning   string           `json:"reasoning_content,omitempty"`
		Calls       []trajectoryCall `json:"tool_calls,omitempty"`
		Observation *observation     `json:"observation,omitempty"`
		Metrics     *metrics         `json:"metrics,omitempty"`
		Extra       map[string]any   `json:"extra,omitempty"`
	}
	trajectoryCall struct {
		ID        string          `json:"tool_call_id"`
		Name      string          `json:"function_name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	observation struct {
		Results []observed `json:"results"`
	}
	observed struct {
		Call    string `json:"source_call_id,omitempty"`
		Content string `json:"content"`
	}
	metrics struct {
		Prompt     int64    `json:"prompt_tokens"`
		Completion int64    `json:"completion_tokens"`
		Cached     int64    `json:"cached_tokens"`
		USD        *float64 `json:"cost_usd,omitempty"`
	}
	finalMetrics struct {
		Prompt     int64    `json:"total_prompt_tokens"`
		Completion int64    `json:"total_completion_tokens"`
		Cached     int64    `json:"total_cached_tokens"`
		USD        *float64 `json:"total_cost_usd,omitempty"`
		Steps      int      `json:"total_steps"`
	}
)

// writeATIF writes a session as one trajectory, in which the conversations of its steps
// follow each other. The extra fields of a trajectory step name the agent and its step.
func writeATIF(w io.Writer, r recorded) error {
	u := r.State.Cost
	t := trajectory{
		Schema: "ATIF-v1.4", Session: r.ID, Agent: trajectoryAgent{Name: "conclave", Version: "1", Extra: map[string]any{"agents": r.agentModels()}},
		Notes: "a session of several agents: extra.agent and extra.step of each step name the conversation that it belongs to",
		Final: finalMetrics{Prompt: u.InputTokens, Completion: u.OutputTokens, Cached: u.CachedInputTokens, USD: u.TotalUSD},
		Extra: map[string]any{"query": r.Query, "status": r.State.Status, "winner": r.State.Winner},
		Steps: []trajectoryStep{},
	}
	for _, p := range r.Steps {
		t.addConversation(r, p)
	}
	t.Final.Steps = len(t.Steps)
	return writeJSON(w, t)
}

func (r recorded) agentModels() map[string]string {
	all := map[string]string{}
	for _, a := range r.Agents {
		all[a.ID] = a.Model
	}
	return all
}

func (t *trajectory) addConversation(r recorded, p *record.Step) {
	agent := r.Agent(p.Agent)
	reply := -1 // index of the reply whose calls are answered
	add := func(l step.Line, source, message string) *trajectoryStep {
		t.Steps = append(t.Steps, trajectoryStep{
			ID: len(t.Steps) + 1, Time: l.Time.UTC().Format(time.RFC3339Nano), Source: source, Message: message,
			Extra: map[string]any{"agent": p.Agent, "step": p.Number, "entry": string(l.Kind)},
		})
		return &t.Steps[len(t.Steps)-1]
	}
	for _, l := range r.transcripts[p].Lines {
		if l.Kind == loop.Wasted || l.Kind == loop.Compacted {
			add(l, "agent", "").Metrics = metricsOf(l.Usage)
		}
		for _, m := range l.Messages {
			switch m.Role {
			case llm.Assistant:
				one := add(l, "agent", m.Content)
				one.Model, one.Metrics, one.Reasoning, one.Calls = agent.Model, metricsOf(l.Usage), record.ReasoningOf(m), callsOf(m)
				reply = len(t.Steps) - 1
			case llm.ToolRole:
				if reply >= 0 {
					t.Steps[reply].addObservation(m)
				}
			case llm.System:
				add(l, "system", m.Content)
			default:
				add(l, "user", m.Content)
			}
		}
		if l.Reason != "" && l.Kind == loop.Rejection && len(t.Steps) > 0 {
			t.Steps[len(t.Steps)-1].Extra["rejected"] = l.Reason
		}
	}
}

func (s *trajectoryStep) addObservation(m llm.Message) {
	if s.Observation == nil {
		s.Observation = &observation{}
	}
	result := observed{Content: m.Content}
	for _, call := range s.Calls {
		if call.ID == m.ToolCallID {
			result.Call = call.ID
		}
	}
	s.Observation.Results = append(s.Observation.Results, result)
}

func metricsOf(u *llm.Usage) *metrics {
	if u == nil || u.ModelCalls == 0 {
		return nil
	}
	return &metrics{u.InputTokens, u.OutputTokens, u.CachedInputTokens, u.TotalUSD}
}

// callsOf returns the calls of a reply. It wraps arguments that are not a JSON object in one.
func callsOf(m llm.Message) []trajectoryCall {
	var all []trajectoryCall
	for _, call := range m.ToolCalls {
		var object map[string]json.RawMessage
		arguments := json.RawMessage(cmp.Or(call.Arguments, "{}"))
		if json.Unmarshal(arguments, &object) != nil {
			arguments, _ = json.Marshal(map[string]string{"text": call.Arguments}) // strings always have a JSON form
		}
		all = append(all, trajectoryCall{call.ID, call.Name, arguments})
	}
	return all
}

// formats are the values of --format with their writers.
var formats = []struct {
	name  string
	write func(io.Writer, recorded) error
}{{"otel", writeOTel}, {"atif", writeATIF}, {"jsonl", writeLines}}

// recorded is a run with the transcripts of its steps.
type recorded struct {
	*record.Session
	kind        *record.Kind
	transcripts map[*record.Step]step.Transcript
}

// ExportCommand returns `conclave export`.
func ExportCommand(c *cli.CLI) *cobra.Command {
	format := ""
	cmd := &cobra.Command{
		Use:   "export ID --format otel|atif|jsonl",
		Short: "Translate a run into the form that other tools read",
		Long: `Print a run for other tools, on stdout:

  otel   OpenTelemetry traces as OTLP JSON, with the GenAI conventions: a span for the
         session, each step of an agent, each model call and each tool call
  atif   one trajectory in the agent trajectory interchange format, version 1.4
  jsonl  plain lines: the session, its events, its steps and their transcripts

The agents of a pipeline's or a scenario's run are the steps of its graph or scenario;
the steps of a scenario are numbered by their starts. ID may also be a directory that
pull has copied, or one of step mode. Identifiers of spans are the same each time. Times
of model calls are measured, those of single tool calls are shares of the time that all
tools of a reply took.

Without an address the session is looked for in the local stack; of a cluster, name
its bucket with --bucket. It never runs a step.`,
		Example: `  conclave export 20261121-153012-k3f9 --format otel > spans.json
  curl -H 'Content-Type: application/json' --data @spans.json http://127.0.0.1:4318/v1/traces
  conclave export 20261121-153012-k3f9 --format atif > trajectory.json
  conclave export ./session --format jsonl | jq -c 'select(.type == "event")'`,
		Args: cli.Arguments("ID|DIR"),
		RunE: func(cmd *cobra.Command, args []string) error { return runExport(cmd.Context(), c, args[0], format) },
	}
	cmd.Flags().StringVar(&format, "format", "", "`FORMAT`: otel, atif or jsonl")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formatNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func formatNames() []string {
	var all []string
	for _, f := range formats {
		all = append(all, f.name)
	}
	return all
}

func formatWriter(format string) (func(io.Writer, recorded) error, error) {
	for _, f := range formats {
		if f.name == format {
			return f.write, nil
		}
	}
	if format == "" {
		return nil, fmt.Errorf("export needs --format; it takes %s", strings.Join(formatNames(), ", "))
	}
	hint := "it takes " + strings.Join(formatNames(), ", ")
	if near, ok := text.Nearest(format, formatNames()); ok {
		hint = "did you mean " + near + "?"
	}
	return nil, fmt.Errorf("--format: there is no format %q; %s", text.Truncate(format, cli.MaxEcho), hint)
}

func runExport(ctx context.Context, c *cli.CLI, of, format string) error {
	write, err := formatWriter(format)
	if err != nil {
		return err
	}
	if info, err := os.Stat(of); err == nil && info.IsDir() {
		return exportDir(ctx, c, of, write)
	}
	if err := record.CheckID(of); err != nil {
		return err
	}
	conn, err := c.ConnectStore(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	run, err := record.Find(ctx, conn.Store, of)
	if err == nil {
		err = exportRun(ctx, c, run.Reader(), write)
	}
	if errors.Is(err, record.ErrNone) {
		return conn.NoRun(ctx, of)
	}
	return err
}

func exportDir(ctx context.Context, c *cli.CLI, dir string, write func(io.Writer, recorded) error) error {
	run, closeIt, err := record.OpenDirectory(dir)
	if err == nil {
		defer closeIt()
		err = exportRun(ctx, c, run.Reader(), write)
	}
	if err != nil {
		return fmt.Errorf("export %s: %w", dir, err)
	}
	return nil
}

func exportRun(ctx context.Context, c *cli.CLI, reader *record.Reader, write func(io.Writer, recorded) error) error {
	s, err := reader.Read(ctx)
	if err != nil {
		return err
	}
	r := recorded{Session: s, kind: reader.Kind, transcripts: map[*record.Step]step.Transcript{}}
	for _, p := range s.Steps {
		t, err := reader.Transcript(ctx, p)
		if err != nil && !errors.Is(err, artifact.ErrNotFound) {
			return err
		}
		r.transcripts[p] = t
	}
	for _, problem := range s.Problems {
		c.Warnf("%s", problem)
	}
	return write(c.Stdout, r)
}

func writeJSON(w io.Writer, document any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
}
