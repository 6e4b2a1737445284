package teams

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"conclave/cmd/conclave/cli"
	"conclave/engine/approval"
	"conclave/engine/config"
	"conclave/engine/llm"
	"conclave/engine/text"
	"conclave/worker"
)

// Command returns `conclave config`.
func Command(c *cli.CLI) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Write and check team configurations: init, validate, trust, import, schema, criteria, approvals",
		Long: "Write a commented starter file, check team files, trust one, import one from MassGen, print the JSON Schema of team " +
			"configurations, list the built-in evaluation criteria, or try a rule for tool calls.",
		Example: `  conclave config init
  conclave config validate conclave.yaml
  conclave config trust conclave.yaml
  conclave config import massgen.yaml > conclave.yaml
  conclave config schema > conclave.schema.json
  conclave config approvals conclave.yaml --try 'git push'
  conclave config criteria`,
		RunE: cli.Group,
	}
	cmd.AddCommand(
		initCommand(c),
		&cobra.Command{
			Use:   "validate [FILE...]",
			Short: "Check team and worker configurations",
			Long: "Check the given files and that of --config, else ./" + ProjectFile + ", as `run` would,\n" +
				"without starting anything. All problems of all files are printed.\n\n" +
				"A file with providers, teams or limits, but without agents, is checked as a worker\n" +
				"configuration of `worker` and `dev`.",
			Example: `  conclave config validate
  conclave config validate conclave.yaml teams/*.yaml
  conclave config validate worker.yaml`,
			RunE: func(_ *cobra.Command, args []string) error { return validateFiles(c, args) },
		},
		trustCommand(c),
		importCommand(c),
		schemaCommand(c),
		criteriaCommand(c),
		approvalsCommand(c),
	)
	return cmd
}

func schemaCommand(c *cli.CLI) *cobra.Command {
	pipeline := false
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema",
		Long:  "Print the JSON Schema of team configurations, or of pipelines, for editors and other programs.",
		Example: `  conclave config schema > conclave.schema.json
  conclave config schema --pipeline > pipeline.schema.json`,
		Args: cli.Arguments(),
		RunE: func(*cobra.Command, []string) error {
			if pipeline {
				return printSchema(c, config.PipelineSchema)
			}
			return printSchema(c, config.Schema)
		},
	}
	cmd.Flags().BoolVar(&pipeline, "pipeline", false, "print the schema of pipelines")
	return cmd
}

func approvalsCommand(c *cli.CLI) *cobra.Command {
	var command, tool, arguments string
	readOnly := false
	cmd := &cobra.Command{
		Use:   "approvals FILE",
		Short: "Say which rule of approvals decides about a call",
		Long: "Say what the approvals in a team or worker configuration make of a command or another tool call, and which rule\n" +
			"decides. Nothing is run.",
		Example: `  conclave config approvals conclave.yaml --try 'git push origin main'
  conclave config approvals worker.yaml --tool mcp__github__create_issue --args '{"title": "x"}'`,
		Args: cli.Arguments("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			call := approval.Call{Tool: tool, Arguments: arguments, ReadOnly: readOnly}
			switch {
			case (command == "") == (tool == ""):
				return errors.New("give either --try COMMAND, or --tool NAME with --args JSON")
			case command != "":
				encoded, _ := json.Marshal(map[string]string{"command": command}) // a text
				call = approval.Call{Tool: llm.RunCommand, Arguments: string(encoded)}
			case !json.Valid([]byte(arguments)):
				return errors.New(`--args is not JSON: give an object such as {"path": "a.md"}`)
			}
			return tryRules(c, args[0], call)
		},
	}
	cmd.Flags().StringVar(&command, "try", "", "a `COMMAND` of run_command")
	cmd.Flags().StringVar(&tool, "tool", "", "the `NAME` of a tool")
	cmd.Flags().StringVar(&arguments, "args", "{}", "the arguments of --tool, as `JSON`")
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "the server marks --tool read-only")
	return cmd
}

// tryRules prints the decision of the rules of a file about a call.
func tryRules(c *cli.CLI, file string, call approval.Call) error {
	t, data, err := validateFile(file)
	if err != nil {
		return err
	}
	gate := approval.NewGate(nil, t.Orchestrator.Approvals, false)
	if worker.RecognizeSettings(data) {
		s, err := worker.LoadSettings(file)
		if err != nil {
			return err
		}
		gate = approval.NewGate(s.Approvals, nil, s.Sandbox.Level == "off")
	}
	d := gate.Decide(call)
	if c.Scripted() {
		return c.PrintJSON(d)
	}
	line := fmt.Sprintf("%s: %s", d.Do, d.Place)
	if d.Rule != nil && d.Rule.Reason != "" {
		line += " (" + d.Rule.Reason + ")"
	}
	if d.Command != "" {
		line += ", for the command " + d.Command
	}
	if d.Unclear {
		line += "; a word in it that names a program is not literal, so the strictest rule holds"
	}
	_, err = fmt.Fprintln(c.Stdout, text.Terminal(line))
	return err
}

// idleRules returns a sentence for each rule of a file that can never fit.
func idleRules(file string, data []byte, t config.Team) []string {
	if !worker.RecognizeSettings(data) {
		return t.IdleRules()
	}
	s, err := worker.LoadSettings(file)
	if err != nil {
		return nil
	}
	return approval.Idle("approvals", s.Approvals, nil, nil)
}

// Checked is the result of checking a file.
type Checked struct {
	File      string    `json:"file"`
	Valid     bool      `json:"valid"`
	Problems  []Problem `json:"problems"`
	Programs  []string  `json:"programs,omitempty"`  // the programs that it starts outside the sandbox, as sentences
	Untrusted bool      `json:"untrusted,omitempty"` // commands that find it refuse it
}

// Problem is an error in a file. Line is 0 if the error has no position.
type Problem struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Key     string `json:"key"`
	Message string `json:"message"`
}

// validateFiles reports every file before it fails, so that one run shows all problems.
func validateFiles(c *cli.CLI, files []string) error {
	if c.Config != "" && !slices.Contains(files, c.Config) {
		files = append([]string{c.Config}, files...)
	}
	if len(files) == 0 {
		files = []string{ProjectFile}
	}
	results, code := make([]Checked, 0, len(files)), cli.ExitOK
	for _, file := range files {
		checked, data, err := validateFile(file)
		programs, untrusted := StartedPrograms(checked), (*UntrustedError)(nil)
		if filepath.Base(file) == ProjectFile && file != c.Config {
			untrusted = checkTrust(TrustedFile{Name: file, Content: data, Team: checked}, TrustDemands(checked))
		}
		results = append(results, Checked{File: file, Valid: err == nil, Problems: Problems(err), Programs: programs, Untrusted: untrusted != nil})
		if err != nil {
			code = cli.ExitUsage
		}
		switch {
		case c.Scripted():
		case err != nil:
			c.Infof("%v", err)
		default:
			if _, err := fmt.Fprintf(c.Stdout, "%s: OK\n", file); err != nil {
				return err
			}
			for _, p := range programs {
				c.Infof("note: %s would %s", file, p)
			}
			noteNames(c, file, checked)
			for _, key := range checked.Idle() {
				c.Infof("note: %s sets orchestrator.coordination.%s, which has no effect without round_evaluator_before_checklist and orchestrator_managed_round_evaluator", file, key)
			}
			for _, idle := range idleRules(file, data, checked) {
				c.Infof("warning: %s: %s", file, idle)
			}
			if s := checked.AnswerSchema; s != nil && len(s.Unchecked) > 0 {
				c.Infof("note: %s has in its answer_schema, for models to see, what is not checked: %s", file, strings.Join(s.Unchecked, ", "))
			}
			if untrusted != nil {
				c.Infof("note: commands refuse it where they find it: %v", untrusted)
			}
		}
	}
	if c.Scripted() {
		if err := c.PrintJSON(results); err != nil {
			return err
		}
	}
	return cli.Exit(code)
}

// validateFile checks a worker configuration or a team. It returns the team, which for a worker
// configuration has the MCP servers only, and the bytes that were parsed.
func validateFile(file string) (t config.Team, data []byte, err error) {
	data, err = ReadFile(file)
	if err == nil && isPipeline(data) {
		return t, nil, fmt.Errorf("%s is a pipeline: check it with `conclave pipeline validate %s`", file, text.ShellQuote(file))
	}
	if err == nil && worker.RecognizeSettings(data) {
		s, err := worker.LoadSettings(file)
		for _, name := range slices.Sorted(maps.Keys(s.MCPServers)) {
			t.Agents = append(t.Agents, config.Agent{ID: "agents that name it", MCPServers: []config.MCPServer{s.MCPServers[name].Definition(name)}})
		}
		return t, data, err
	}
	t, _, data, err = readTeam(file, config.Local)
	return t, data, err
}

func isPipeline(data []byte) bool {
	var file struct{ Start, Steps any }
	return yaml.Unmarshal(data, &file) == nil && file.Start != nil && file.Steps != nil
}

func noteNames(c *cli.CLI, file string, t config.Team) {
	var names []string
	for _, a := range t.Models() {
		if p := a.Backend.Provider; p != "" {
			names = append(names, "the provider "+p)
		}
		for _, s := range a.MCPServers {
			if !s.Defines() {
				names = append(names, "the MCP server "+s.Name)
			}
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > 0 {
		c.Infof("note: %s names %s, which the file of --worker-config has to define", file, strings.Join(names, ", "))
	}
}

// Problems returns the errors in a configuration, each with its position.
func Problems(err error) []Problem {
	list := []Problem{}
	found, ok := errors.AsType[config.Problems](err)
	switch {
	case ok:
		for _, p := range found {
			list = append(list, Problem{Line: p.Line, Column: p.Column, Key: p.Key, Message: p.Message})
		}
	case err != nil:
		list = append(list, Problem{Message: err.Error()})
	}
	return list
}

func printSchema(c *cli.CLI, of func() ([]byte, error)) error {
	schema, err := of()
	if err != nil {
		return fmt.Errorf("make the schema: %w", err)
	}
	_, err = fmt.Fprintln(c.Stdout, string(schema))
	return err
}

func criteriaCommand(c *cli.CLI) *cobra.Command {
	return &cobra.Command{
		Use:   "criteria [NAME]",
		Short: "List the built-in evaluation criteria, or print one set",
		Long: "List the built-in sets of evaluation criteria, or print the set NAME. " +
			"A team uses a set with orchestrator.coordination.criteria_preset. " +
			"With --json a set has the form of --eval-criteria, to be changed and given back.",
		Example: `  conclave config criteria
  conclave config criteria code
  conclave config criteria code --json > criteria.json && conclave run --eval-criteria criteria.json "Write a parser"`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listPresets(c)
			}
			return printPreset(c, args[0])
		},
	}
}

func listPresets(c *cli.CLI) error {
	presets := config.Presets()
	if c.Scripted() {
		return c.PrintJSON(presets)
	}
	w := tabwriter.NewWriter(c.Stdout, 0, 0, 2, ' ', 0)
	for _, p := range presets {
		if _, err := fmt.Fprintf(w, "%s\t%d criteria\t%s\n", p.Name, len(p.Criteria), p.About); err != nil {
			return err
		}
	}
	return w.Flush()
}

func printPreset(c *cli.CLI, name string) error {
	p, ok := config.PresetNamed(name)
	if !ok {
		names := text.Each(config.Presets(), func(p config.Preset) string { return p.Name })
		hint := ""
		if near, ok := text.Nearest(name, names); ok {
			hint = "did you mean " + near + "? "
		}
		return fmt.Errorf("%q is not a built-in set of criteria; %sthere are %s", name, hint, strings.Join(names, ", "))
	}
	if c.Scripted() {
		return c.PrintJSON(p)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", p.Name, p.About)
	for i, criterion := range p.Criteria {
		printCriterion(&b, i+1, criterion)
	}
	return c.Print(b.String())
}

func printCriterion(b *strings.Builder, number int, criterion config.Criterion) {
	fmt.Fprintf(b, "\nE%d [%s] %s\n", number, criterion.Category, criterion.Text)
	fmt.Fprintf(b, "   verify  %s\n", criterion.VerifyBy)
	for _, pattern := range criterion.AntiPatterns {
		fmt.Fprintf(b, "   avoid   %s\n", pattern)
	}
	scores := slices.SortedFunc(maps.Keys(criterion.ScoreAnchors), func(x, y string) int {
		a, _ := strconv.Atoi(x)
		b, _ := strconv.Atoi(y)
		return cmp.Compare(a, b)
	})
	for _, score := range scores {
		fmt.Fprintf(b, "   %4s    %v\n", score, criterion.ScoreAnchors[score])
	}
}
